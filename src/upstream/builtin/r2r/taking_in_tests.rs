//! The tool that takes files in, beside those that find what it took in.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::fixture::Fixture;

const TOOL: &str = "r2r_ingest_document";

/// With a folder that is allowed, and `guide.md` in it.
async fn fixture() -> (Fixture, TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("guide.md");
    fs::write(&path, "The walrus sings at noon.").expect("written");
    let fixture = Fixture::with(|options| {
        options.ingest_roots = vec![folder.path().to_owned()];
        options.max_file_bytes = 1000;
    });
    (fixture.await, folder, path.display().to_string())
}

#[tokio::test]
async fn a_promised_document_is_pending_until_it_is_there_and_then_it_is_found() {
    let (fixture, _folder, path) = fixture().await;
    let found = fixture.ask("r2r_search", json!({"query": "walrus"})).await;
    assert_eq!(found["count"], 0);
    fixture.r2r.delay("/v3/documents", Duration::from_millis(300));
    let promised = fixture.ask(TOOL, json!({"file_path": path})).await;
    assert_eq!((&promised["status"], &promised["file_name"]), (&json!("pending"), &json!("guide.md")));
    assert_eq!(promised["collection_id"], json!(fixture.own().await));
    let id = &promised["document_id"];
    let monitored = fixture.ask("r2r_monitor_task", json!({"document_id": id})).await;
    assert_eq!(
        (&monitored["ingestion_status"], &monitored["title"], &monitored["progress"]),
        (&json!("pending"), &json!("guide.md"), &json!(0.0))
    );
    fixture.r2r.delay("/v3/documents", Duration::ZERO);
    while fixture.ask("r2r_monitor_task", json!({"document_id": id})).await["ingestion_status"] != "success" {
        tokio::task::yield_now().await;
    }
    let found = fixture.ask("r2r_search", json!({"query": "walrus"})).await;
    assert_eq!((&found["count"], &found["cached"]), (&json!(1), &json!(false)));
    let again = fixture.ask(TOOL, json!({"file_path": path, "run_async": false})).await;
    assert_eq!((&again["status"], &again["document_id"]), (&json!("success"), id));
    assert_eq!(fixture.r2r.count("POST /v3/documents"), 1);
}

#[tokio::test]
async fn what_can_not_be_taken_in_is_refused_by_field() {
    let (fixture, folder, path) = fixture().await;
    fs::write(folder.path().join("long.md"), "x".repeat(1001)).expect("written");
    let long = folder.path().join("long.md").display().to_string();
    for (arguments, field) in [
        (json!({"file_path": "/etc/hostname"}), "file_path"),
        (json!({ "file_path": long }), "file_path"),
        (json!({"file_path": path, "ingestion_mode": "slow"}), "ingestion_mode"),
        (json!({"file_path": path, "metadata": {"collection_ids": []}}), "metadata.collection_ids"),
        (
            json!({"file_path": path, "collection_id": "00000000-0000-0000-0000-000000000001"}),
            "collection_id",
        ),
        (json!({"file_path": path, "collection_id": "x"}), "collection_id"),
        (json!({"file_path": path, "chunks": []}), "chunks"),
    ] {
        assert_eq!(fixture.refused(TOOL, arguments.clone()).await["field"], field, "{arguments}");
    }
    assert_eq!(fixture.r2r.count("POST /v3/documents"), 0);
}
