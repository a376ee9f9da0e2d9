//! Tests of the ingestion tool together with the tools that find its documents.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::fixture::Fixture;
use super::resources::CONTEXT;
use crate::Report;

const TOOL: &str = "r2r_ingest_document";

/// A fixture with an allowed folder that contains `guide.md`.
async fn fixture() -> (Fixture, TempDir, String) {
    fixture_of(1000).await
}

/// A fixture with such a folder, for files of at most `bytes` bytes.
async fn fixture_of(bytes: u64) -> (Fixture, TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("guide.md");
    fs::write(&path, "The walrus sings at noon.").expect("written");
    let fixture = Fixture::with(|options| {
        options.ingest_roots = vec![folder.path().to_owned()];
        options.max_file_bytes = bytes;
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

#[tokio::test]
async fn a_promised_document_that_r2r_refuses_is_shown_as_failed_wherever_it_is_looked_for() {
    let (fixture, folder, path) = fixture_of(4 << 20).await;
    let long = folder.path().join("long.md").display().to_string();
    // More than R2R accepts for this type.
    fs::write(&long, "x".repeat(2_100_000)).expect("written");
    let promised = async |path: &str| {
        let promised = fixture.ask(TOOL, json!({"file_path": path})).await;
        assert_eq!(promised["status"], "pending");
        promised["document_id"].clone()
    };
    let ended = async |id: &Value| loop {
        let monitored = fixture.ask("r2r_monitor_task", json!({"document_id": id})).await;
        if !["pending", "storing"].contains(&monitored["ingestion_status"].as_str().expect("text")) {
            return monitored;
        }
        tokio::task::yield_now().await;
    };
    let failed = async || {
        let listed = fixture.ask("r2r_list_documents", json!({"status_filter": "failed"})).await;
        let counts = fixture.read(CONTEXT, &Report::none()).await;
        assert_eq!(listed["total"], counts["ingestion_status"]["failed"]);
        listed["documents"].clone()
    };
    assert_eq!(failed().await, json!([]));
    let id = promised(&long).await;
    let told = ended(&id).await;
    assert_eq!((&told["ingestion_status"], &told["title"]), (&json!("failed"), &json!("long.md")));
    assert!(told["failure"].as_str().is_some_and(|why| why.contains("size")), "{told}");
    let listed = failed().await;
    assert_eq!((&listed[0]["document_id"], &listed[0]["size_bytes"]), (&id, &json!(2_100_000)), "{listed}");
    let id = promised(&path).await;
    assert_eq!(ended(&id).await["ingestion_status"], "success");
    fs::write(&path, "y".repeat(2_100_000)).expect("written");
    promised(&path).await;
    let told = ended(&id).await;
    let is_told =
        told["failure"].as_str().is_some_and(|why| why.contains("the earlier version was put back"));
    assert!(told["ingestion_status"] == "failed" && is_told, "{told}");
    assert_eq!(failed().await.as_array().map(Vec::len), Some(2));
    let found = fixture.ask("r2r_search", json!({"query": "walrus"})).await;
    assert_eq!(found["count"], 1, "it is found as before");
}
