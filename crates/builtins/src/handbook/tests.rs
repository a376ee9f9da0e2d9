//! Tests of the tools' results.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::*;
use super::*;
use crate::hostile::fits;
use protocol::error::code;

#[tokio::test(start_paused = true)]
async fn ping_answers_before_anything_is_read() {
    let fixture = Fixture::with(&[]).await;
    assert_eq!(fixture.ask("ping", json!({})).await, json!({"status": "ok", "message": "pong"}));
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_the_section_and_says_where_it_stands() {
    let fixture = Fixture::with(COMPANY).await;
    let answer =
        fixture.ask("search_handbook", json!({"query": "What happens when a server is down?"})).await;
    let hit = &answer["hits"][0];
    assert!(hit["content"].as_str().expect("text").starts_with("## Escalation\nCall the lead"));
    let metadata = &hit["metadata"];
    assert_eq!(metadata["file_path"], "engineering/on-call.md");
    assert_eq!(metadata["path"], "engineering/on-call#escalation");
    assert_eq!(metadata["section"], "On call > Escalation");
    assert_eq!((&metadata["title"], &metadata["truncated"]), (&json!("On call"), &json!(false)));
    assert!(metadata["score"].as_f64().expect("a score") > 0.0);
    assert!(metadata["modified"].as_str().expect("a time").ends_with('Z'));
    let whole = fixture.ask("get_handbook_section", json!({"path": metadata["path"]})).await;
    assert_eq!(whole["content"], hit["content"], "the path of a hit leads to it");
}

#[tokio::test(start_paused = true)]
async fn words_are_found_however_they_are_written() {
    let fixture = Fixture::with(COMPANY).await;
    for (query, path) in [
        ("deploy_keys", "engineering/onboarding#first-week"),
        ("DeployKeys", "engineering/onboarding#first-week"),
        ("keys", "engineering/onboarding#first-week"),
        ("kubectl rollout", "engineering/on-call#escalation"),
        ("escalating", "engineering/on-call#escalation"),
        ("esclation", "engineering/on-call#escalation"),
        ("escal", "engineering/on-call#escalation"),
        ("requesting leaves", "people/holidays#request-leave"),
        ("on-call", "engineering/on-call"),
        ("oncall", "engineering/on-call"),
        ("onboarding", "engineering/onboarding"),
        ("how do I", "README"),
    ] {
        assert_eq!(fixture.paths(query).await.first().map(String::as_str), Some(path), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn words_that_stand_together_and_pages_that_explain_come_first() {
    let fixture = Fixture::with(&[
        ("a.md", "# A\nA restart of one, then of all: it is never rolling back here.\n"),
        ("b.md", "# B\nA rolling restart of all: it is never one, then back here of.\n"),
        ("README.md", "# Index\nThe lighthouse is explained.\n"),
        ("c.md", "# C\nThe lighthouse is explained here.\n"),
    ])
    .await;
    assert_eq!(fixture.paths("rolling restart").await, ["b", "a"]);
    assert_eq!(fixture.paths("lighthouse").await, ["c", "README"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_found_is_an_answer_with_advice() {
    let fixture = Fixture::with(COMPANY).await;
    for query in ["zzzzzzzzzz", "???", "\u{0}\u{1}", "🦀🦀"] {
        let answer = fixture.ask("search_handbook", json!({"query": query})).await;
        assert_eq!(
            (&answer["count"], answer["hits"].as_array().map(Vec::len)),
            (&json!(0), Some(0)),
            "{query}"
        );
        assert!(answer["suggestion"].as_str().expect("advice").contains("list_handbook_topics"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_stays_in_the_section_it_is_told() {
    let fixture = Fixture::with(COMPANY).await;
    for (section, expected) in [
        ("people", "people/holidays"),
        ("people/", "people/holidays"),
        ("People/Holidays.md", "people/holidays"),
        ("Holidays", "people/holidays"),
        ("engineering/onboarding", "engineering/onboarding"),
        ("engineering/onboarding#first-week", "engineering/onboarding#first-week"),
        ("Onboarding > Welcome > First week", "engineering/onboarding#first-week"),
        ("engineering/onboarding#accounts", "engineering/onboarding#accounts"),
    ] {
        let arguments = json!({"query": "ask team days start help", "section": section, "n_results": 20});
        let answer = fixture.ask("search_handbook", arguments).await;
        let hits = answer["hits"].as_array().expect("hits");
        let inside = |hit: &Value| hit["metadata"]["path"].as_str().expect("a path").starts_with(expected);
        assert!(
            !hits.is_empty() && hits.iter().all(|hit| inside(hit) || expected.ends_with("first-week")),
            "{section}: {answer}"
        );
    }
    let first_week = json!({"query": "ask", "section": "engineering/onboarding#first-week"});
    assert_eq!(fixture.ask("search_handbook", first_week).await["count"], 2, "and what is below it");
    let refusal = fixture.refused("search_handbook", json!({"query": "x", "section": "enginering"})).await;
    assert_eq!(refusal["field"], "section");
    assert!(refusal["suggestion"].as_str().expect("text").contains("engineering"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn documents_and_sections_are_got_by_path() {
    let fixture = Fixture::with(COMPANY).await;
    for (path, begins) in [
        ("engineering/onboarding", "---\ntitle"),
        ("engineering/onboarding.md", "---\ntitle"),
        ("Engineering/Onboarding", "---\ntitle"),
        ("engineering/onboarding#first-week", "## First week\nGet"),
        ("engineering", "# Engineering"),
        ("engineering/", "# Engineering"),
        ("engineering/README", "# Engineering"),
        ("README", "# Our handbook"),
    ] {
        let answer = fixture.ask("get_handbook_section", json!({"path": path})).await;
        let content = answer["content"].as_str().expect("text");
        assert!(
            content.starts_with(begins) || content.starts_with("# Welcome") && begins.starts_with("---"),
            "{path}: {content}"
        );
    }
    let section =
        fixture.ask("get_handbook_section", json!({"path": "engineering/onboarding#first-week"})).await;
    assert!(section["content"].as_str().expect("text").contains("Ask the help desk."));
    assert_eq!(section["metadata"]["section"], "Onboarding > Welcome > First week");
    assert_eq!(
        section["metadata"]["subsections"],
        json!([{"path": "engineering/onboarding#accounts", "section": "Accounts"}])
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_is_answered_with_the_nearest() {
    let fixture = Fixture::with(COMPANY).await;
    for (path, nearest) in [
        ("engineering/onbording", "engineering/onboarding"),
        ("onboarding", "engineering/onboarding"),
        ("engineering/onboarding#frist-week", "engineering/onboarding#first-week"),
        ("people", "people/holidays"),
    ] {
        let refusal = fixture.refused("get_handbook_section", json!({"path": path})).await;
        assert_eq!((&refusal["error"], &refusal["rejected_value"]), (&json!("not_found"), &json!(path)));
        assert!(refusal["suggestion"].as_str().expect("text").contains(nearest), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn topics_are_a_tree_of_folders_documents_and_sections() {
    let fixture = Fixture::with(COMPANY).await;
    let answer = fixture.ask("list_handbook_topics", json!({})).await;
    let titles: Vec<_> =
        answer["topics"].as_array().expect("topics").iter().map(|topic| &topic["path"]).collect();
    assert_eq!(titles, ["README", "engineering", "people"]);
    let engineering = &answer["topics"][1];
    assert_eq!((&engineering["title"], &engineering["kind"]), (&json!("Engineering"), &json!("folder")));
    let onboarding = &engineering["subtopics"][2];
    assert_eq!(onboarding["title"], "Onboarding");
    assert_eq!(onboarding["subtopics"][1]["path"], "engineering/onboarding#second-week");
    assert_eq!((&answer["documents"], &answer["truncated"]), (&json!(5), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn a_tree_too_long_to_read_loses_its_deepest_levels() {
    let names: Vec<String> = (0..400).map(|n| format!("f{}/d{n:03}.md", n % 20)).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "# T\n## A\n## B\n")).collect();
    let fixture = Fixture::with(&files).await;
    let answer = fixture.ask("list_handbook_topics", json!({})).await;
    assert_eq!((&answer["documents"], &answer["truncated"]), (&json!(400), &json!(true)));
    let folder = &answer["topics"][0];
    assert_eq!(folder["subtopics"].as_array().map(Vec::len), Some(20));
    assert!(folder["subtopics"][0].get("subtopics").is_none(), "sections did not fit");
    let flat: Vec<String> = (0..topics::MOST_TOPICS + 9).map(|n| format!("{n}.md")).collect();
    let files: Vec<(&str, &str)> = flat.iter().map(|name| (name.as_str(), "x")).collect();
    let answer = Fixture::with(&files).await.ask("list_handbook_topics", json!({})).await;
    assert_eq!(answer["topics"].as_array().map(Vec::len), Some(topics::MOST_TOPICS));
    assert_eq!(answer["truncated"], true);
}

#[tokio::test(start_paused = true)]
async fn recent_updates_are_listed_newest_first() {
    let fixture = Fixture::with(COMPANY).await;
    let now = SystemTime::now();
    for (file, hours) in [("README.md", 30 * 24), ("people/holidays.md", 1), ("engineering/on-call.md", 50)] {
        let file = fs::File::open(fixture.folder.path().join(file)).expect("there");
        file.set_modified(now - Duration::from_secs(hours * 3_600)).expect("set");
    }
    fixture.walked().await;
    let answer = fixture.ask("get_recent_updates", json!({})).await;
    let paths: Vec<_> = answer["updates"].as_array().expect("updates").iter().map(|u| &u["path"]).collect();
    assert_eq!((paths.len(), &answer["days"]), (4, &json!(7)));
    assert_eq!(paths[2..], ["people/holidays", "engineering/on-call"]);
    assert_eq!(fixture.ask("get_recent_updates", json!({"days": 1})).await["count"], 3);
    assert_eq!(fixture.ask("get_recent_updates", json!({"days": 31})).await["count"], 5);
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_explained() {
    let fixture = Fixture::with(COMPANY).await;
    for (tool, arguments, field, suggestion) in [
        ("search_handbook", json!({}), "query", "example"),
        ("search_handbook", json!({"query": "  "}), "query", "example"),
        ("search_handbook", json!({"query": null}), "query", "example"),
        ("search_handbook", json!({"query": 5}), "query", "quotation"),
        ("search_handbook", json!({"query": "a", "n_results": 0}), "n_results", "Use 1"),
        ("search_handbook", json!({"query": "a", "n_results": 21}), "n_results", "Use 20"),
        ("search_handbook", json!({"query": "a", "n_results": 1.5}), "n_results", "Use 1"),
        ("search_handbook", json!({"query": "a", "n_results": "5"}), "n_results", "Use 5"),
        ("search_handbook", json!({"query": "a", "section": []}), "section", "quotation"),
        ("search_handbook", json!({"query": "a", "limit": 5}), "limit", "Leave it out."),
        ("search_handbook", json!({"query": "a", "n_result": 5}), "n_result", "n_results"),
        ("get_handbook_section", json!({"path": ""}), "path", "example"),
        ("get_handbook_section", json!({"path": {"x": "y".repeat(5_000)}}), "path", "quotation"),
        ("list_handbook_topics", json!({"depth": 2}), "depth", "Leave it out"),
        ("get_recent_updates", json!({"days": 0}), "days", "Use 1"),
        ("get_recent_updates", json!({"days": 1e300}), "days", "Use 3650"),
        ("ping", json!([]), "arguments", "{}"),
    ] {
        let refusal = fixture.refused(tool, arguments.clone()).await;
        assert_eq!(refusal["field"], field, "{arguments}");
        assert!(refusal["suggestion"].as_str().expect("text").contains(suggestion), "{arguments}: {refusal}");
        assert!(refusal.to_string().len() < 1_000, "a large value is not sent back");
    }
    let fine = json!({"query": "a", "n_results": 5.0, "section": null});
    assert_eq!(fixture.ask("search_handbook", fine).await["query"], "a");
    let unknown = reply(&fixture.handbook, "search", &json!({})).await.expect("reached");
    assert_eq!(unknown.expect_err("unknown").code(), code::INVALID_PARAMS);
}

#[tokio::test(start_paused = true)]
async fn answers_have_the_members_their_schemas_promise() {
    let fixture = Fixture::with(COMPANY).await;
    for definition in fixture.handbook.tools() {
        let definition: Value = definition.read().expect("JSON");
        let name = definition["name"].as_str().expect("a name");
        let arguments = match name {
            "search_handbook" => json!({"query": "week"}),
            "get_handbook_section" => json!({"path": "engineering/onboarding"}),
            _ => json!({}),
        };
        fits(&definition["outputSchema"], &fixture.ask(name, arguments).await, name);
        assert_eq!(definition["annotations"]["readOnlyHint"], true);
        assert!(definition["description"].as_str().is_some_and(|text| text.len() > 20));
    }
    let names: Vec<_> = fixture.handbook.tools().iter().map(|tool| tool.get_as::<String>("name")).collect();
    let expected =
        ["ping", "search_handbook", "get_handbook_section", "list_handbook_topics", "get_recent_updates"];
    assert_eq!(names, expected.map(|name| Some(name.to_owned())));
}

#[tokio::test]
async fn abandoned_work_keeps_its_permit_until_it_ends() {
    use futures_util::FutureExt;
    let permits = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let work = super::on_a_thread(&permits, move || finished.recv().is_err());
    assert!(work.now_or_never().is_none(), "begun, and nobody waits for it");
    assert_eq!(permits.available_permits(), 0);
    drop(finish);
    assert!(permits.acquire().await.is_ok(), "its end makes room");
}
