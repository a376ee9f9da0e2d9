//! Tests of documents as resources.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::fixture::*;
use super::*;
use protocol::feature::List;
use protocol::sanitize;
use upstream::api::Event;

async fn read(handbook: &Handbook, uri: &str) -> Result<Value, Value> {
    let reply = handbook.read(uri, &Report::none()).await.expect("reached");
    reply.map(|result| result.read().expect("JSON")).map_err(|error| error.raw().read().expect("JSON"))
}

fn listed(handbook: &Handbook) -> Vec<Value> {
    let resources = handbook.resources().expect("it has resources");
    resources.iter().map(|resource| resource.read().expect("JSON")).collect()
}

/// Opens a handbook over `folder` that reports events to the receiver.
async fn reporting(folder: &std::path::Path) -> (Handbook, mpsc::Receiver<Event>) {
    let config = config(folder, 1);
    let (events, reported) = Events::channel();
    let handbook = Handbook::open("runbooks", &config, &server_context(&Shutdown::new()), events)
        .await
        .expect("it opens");
    (handbook, reported)
}

#[tokio::test(start_paused = true)]
async fn every_document_is_a_resource_and_its_uri_leads_to_its_text() {
    let fixture = Fixture::with(COMPANY).await;
    fixture.write("odd & names/50 % größer?#1.md", "# Odd\nÄ \u{1f980}\n");
    fixture.walked().await;
    let resources = listed(&fixture.handbook);
    assert_eq!(resources.len(), COMPANY.len() + 1);
    for resource in &resources {
        let uri = resource["uri"].as_str().expect("a URI");
        assert!(url::Url::parse(uri).is_ok_and(|parsed| parsed.as_str() == uri), "{uri}");
        let file = resource["name"].as_str().expect("a name");
        let text = fs::read_to_string(fixture.folder.path().join(file)).expect("there");
        let answer = read(&fixture.handbook, uri).await.expect("it is there");
        let contents = json!([{"uri": uri, "mimeType": "text/markdown", "text": text}]);
        assert_eq!(answer, json!({"contents": contents}));
        assert_eq!((&resource["size"], &resource["mimeType"]), (&json!(text.len()), &json!("text/markdown")));
        assert!(resource["annotations"]["lastModified"].as_str().expect("a time").ends_with('Z'));
    }
    let onboarding = resources.iter().find(|resource| resource["name"] == "engineering/onboarding.md");
    let onboarding = onboarding.expect("it is listed");
    assert_eq!(onboarding["uri"], "handbook://docs/engineering/onboarding.md");
    assert_eq!(onboarding["title"], "Onboarding");
}

#[tokio::test(start_paused = true)]
async fn uri_of_no_document_is_not_found_and_shows_nothing() {
    let outside = tempfile::tempdir().expect("a folder");
    write(outside.path(), "secret.md", "canary");
    let fixture =
        Fixture::with(&[("in/a.md", "# A\n"), ("plain.txt", "canary"), (".hidden.md", "canary")]).await;
    symlink(outside.path().join("secret.md"), fixture.folder.path().join("link.md")).expect("linked");
    symlink(outside.path(), fixture.folder.path().join("out")).expect("linked");
    fixture.walked().await;
    let secret = outside.path().join("secret.md").display().to_string();
    let name = outside.path().file_name().expect("a name").to_string_lossy().into_owned();
    let absolute = [format!("handbook://docs/{secret}"), format!("handbook://docs{secret}"), secret];
    let climbing =
        [format!("handbook://docs/../{name}/secret.md"), format!("handbook://docs/%2e%2e/{name}/secret.md")];
    let others = [
        "",
        "handbook:",
        "handbook://docs",
        "handbook://docs/",
        "handbook://docs/in",
        "handbook://docs/in/",
        "handbook://docs/in/a",
        "handbook://docs/in/a.md#a",
        "handbook://docs/in/a.md?x",
        "handbook://docs//in/a.md",
        "handbook://docs/./in/a.md",
        "handbook://docs/in/../in/a.md",
        "handbook://docs/in/%2e%2e/in/a.md",
        "handbook://docs/IN/A.md",
        "handbook://docs/in/a.md%00",
        "handbook://docs/%ff",
        "handbook://docs/%",
        "handbook://docs/in\\a.md",
        "handbook://other/in/a.md",
        "handbook:///in/a.md",
        "HANDBOOK://docs/in/a.md",
        "file:///etc/passwd",
        "in/a.md",
        "handbook://docs/plain.txt",
        "handbook://docs/.hidden.md",
        "handbook://docs/link.md",
        "handbook://docs/out/secret.md",
    ];
    let long = format!("handbook://docs/{}", "a/".repeat(100_000));
    for uri in others
        .iter()
        .copied()
        .chain([long.as_str()])
        .chain(absolute.iter().chain(&climbing).map(String::as_str))
    {
        let refusal = read(&fixture.handbook, uri).await.expect_err(uri);
        assert_eq!((&refusal["code"], &refusal["data"]["uri"]), (&json!(-32602), &json!(sanitize::uri(uri))));
        assert!(!refusal.to_string().contains("canary"));
    }
    assert_eq!(listed(&fixture.handbook).len(), 1);
    assert!(read(&fixture.handbook, "handbook://docs/in/a.md").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_documents_is_reported_once_and_of_nothing_else_never() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..50 {
        write(folder.path(), &format!("{number}.md"), "# One\n");
    }
    let (handbook, mut reported) = reporting(folder.path()).await;
    let pause = follow::PAUSE * 2;
    tokio::time::sleep(pause).await;
    assert!(matches!(reported.try_recv(), Ok(Event::Changed(List::Resources))), "they were read");
    assert_eq!(listed(&handbook)[0]["uri"], "handbook://runbooks/0.md");
    for number in 0..25 {
        write(folder.path(), &format!("{number}.md"), "# Another\n");
        fs::remove_file(folder.path().join(format!("{}.md", number + 25))).expect("removed");
    }
    tokio::time::sleep(pause).await;
    assert!(matches!(reported.try_recv(), Ok(Event::Changed(List::Resources))), "fifty changes");
    assert_eq!(listed(&handbook).len(), 25);
    // A file that is skipped changes the listing, but no resource.
    write(folder.path(), "no-text.md", "\0");
    tokio::time::sleep(pause).await;
    assert!(reported.try_recv().is_err(), "each is told once");
}
