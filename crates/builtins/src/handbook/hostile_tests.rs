//! Tests with paths that try to leave the folder, and with arbitrary queries.

use std::os::unix::fs::symlink;

use proptest::prelude::*;
use serde_json::json;

use super::fixture::*;
use super::semantic::tests::{Concepts, company, ready};

#[tokio::test(start_paused = true)]
async fn no_path_leads_out_of_the_folder() {
    let outside = tempfile::tempdir().expect("a folder");
    write(outside.path(), "secret.md", "canary");
    let fixture = Fixture::with(&[("in/a.md", "# A\ninside"), ("secret.md.txt", "canary")]).await;
    let root = fixture.folder.path();
    for link in ["link.md", "in/link.md"] {
        symlink(outside.path().join("secret.md"), root.join(link)).expect("linked");
    }
    symlink(outside.path(), root.join("out")).expect("linked");
    symlink("..", root.join("in/up")).expect("linked");
    fixture.walked().await;
    let absolute = outside.path().join("secret.md").display().to_string();
    let name = outside.path().file_name().expect("a name").to_string_lossy().into_owned();
    let mut paths: Vec<String> = [
        "..",
        "../",
        "../secret",
        "../../etc/passwd",
        "in/../../secret",
        "in/..",
        "./in/a",
        "in/./a",
        "in//a",
        "/etc/passwd",
        "/in/a",
        "//etc/passwd",
        "~/secret",
        "~root",
        "\\secret",
        "..\\secret",
        "in\\a",
        "C:\\secret",
        "C:/secret",
        "c:secret",
        "\\\\host\\share",
        "file:///etc/passwd",
        "http://localhost/secret",
        "secret\0",
        "in/a\0.md",
        "in\n/a",
        "%2e%2e/secret",
        "..%2fsecret",
        "%2fetc%2fpasswd",
        "....//secret",
        "..;/secret",
        "\u{2025}/secret",
        "\u{ff0e}\u{ff0e}/secret",
        "in/\u{202e}a",
        "link",
        "link.md",
        "in/link",
        "out/secret",
        "out",
        "in/up/secret",
        "in/up",
        ".",
        "",
        "/",
        "secret",
        "secret.md.txt",
        "#",
        "in/a#../../secret",
        "*",
        "in/*",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.extend([
        absolute.clone(),
        format!("../{name}/secret"),
        format!("in/../../{name}/secret"),
        "a/".repeat(5_000),
        format!("in/a#{}", "x".repeat(5_000)),
    ]);
    for path in &paths {
        let refusal = fixture.refused("get_handbook_section", json!({"path": path})).await;
        assert!(!refusal.to_string().contains("canary"), "{path}");
        let arguments = json!({"query": "canary", "section": path});
        let answer = call(&fixture.handbook, "search_handbook", &arguments).await.to_string();
        assert!(!answer.contains("file_path"), "{path}");
    }
    assert!(paths.len() >= 50);
    for end in ["x".repeat(5_000), "#x".repeat(2_000)] {
        let long = format!("in/a#{end}");
        for (tool, arguments) in [
            ("get_handbook_section", json!({"path": long})),
            ("search_handbook", json!({"query": "inside", "section": long})),
        ] {
            let refusal = fixture.refused(tool, arguments).await;
            assert_eq!(refusal["error"], "invalid_path", "{tool}: an anchor counts too");
            assert!(refusal.to_string().len() < 3_000, "{tool}");
        }
    }
    assert!(fixture.paths("canary").await.is_empty());
}

#[test]
fn any_text_can_be_searched_for() {
    search_for_anything("lexical", Fixture::with(COMPANY));
}

#[test]
fn any_text_can_be_searched_for_by_meaning() {
    search_for_anything("hybrid", async {
        let fixture = company(&Concepts::working()).await;
        ready(&fixture).await;
        fixture
    });
}

fn search_for_anything(ranking: &str, fixture: impl Future<Output = Fixture>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let fixture = runtime.block_on(fixture);
    let text = prop_oneof![
        any::<String>(),
        "[a-z\"'()*+:~^\\[\\]{}!?/\\\\ -]{1,60}",
        "((AND|OR|NOT|title:|\\^2|~1|server|down|week) ?){1,12}",
        "([a-z]{1,12}[_.-]?){1,80}",
    ];
    proptest!(ProptestConfig::with_cases(300), |(query in text, n_results in 1_u32..=20)| {
        let arguments = json!({"query": query, "n_results": n_results});
        let answer = runtime.block_on(call(&fixture.handbook, "search_handbook", &arguments));
        prop_assert_eq!(&answer["isError"], &json!(query.trim().is_empty()), "{}", answer);
        let found = &answer["structuredContent"]["ranking"];
        prop_assert!(found.is_null() || found == ranking, "{}", answer);
    });
}
