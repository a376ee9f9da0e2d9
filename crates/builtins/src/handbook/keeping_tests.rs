//! Tests of the files that a handbook keeps between two runs, seen from its searches.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;
use tokio::time::sleep;

use super::fixture::*;
use super::follow::KEEPING;
use super::*;

/// Opens a handbook over `docs` with its index in `state`.
async fn opened(docs: &Path, state: &Path) -> Handbook {
    let config = config::HandbookOptions { index_dir: Some(state.join("deeper")), ..config(docs, 0) };
    let events = Events::channel().0;
    Handbook::open("on call", &config, &server_context(&Shutdown::new()), events).await.expect("it opens")
}

fn file(state: &Path) -> PathBuf {
    state.join("deeper/on%20call.index")
}

fn documents() -> TempDir {
    let docs = tempfile::tempdir().expect("a folder");
    for (name, text) in COMPANY {
        write(docs.path(), name, text);
    }
    docs
}

async fn paths(handbook: &Handbook, query: &str) -> Vec<String> {
    let answer = call(handbook, "search_handbook", &serde_json::json!({"query": query})).await;
    let hits = answer["structuredContent"]["hits"].as_array().expect("hits").iter();
    hits.map(|hit| hit["metadata"]["path"].as_str().expect("a path").to_owned()).collect()
}

/// Waits under paused time until the index was written. `before` is the time of the former file.
async fn kept_after(state: &Path, before: Option<SystemTime>) -> SystemTime {
    for _ in 0..200 {
        sleep(follow::PAUSE).await;
        let written = fs::metadata(file(state)).and_then(|metadata| metadata.modified()).ok();
        if let Some(written) = written.filter(|written| before != Some(*written)) {
            return written;
        }
    }
    panic!("it was not kept")
}

#[tokio::test(start_paused = true)]
async fn the_index_outlives_the_handbook() {
    let (docs, state) = (documents(), tempfile::tempdir().expect("a folder"));
    let first = opened(docs.path(), state.path()).await;
    let found = paths(&first, "request leave").await;
    assert_eq!(found[0], "people/holidays#request-leave");
    let written = kept_after(state.path(), None).await;
    drop(first);
    fs::remove_file(docs.path().join("engineering/on-call.md")).expect("removed");
    write(docs.path(), "people/parents.md", "# Parents\n\n## Leave\nHow to request it.\n");
    let second = opened(docs.path(), state.path()).await;
    assert!(paths(&second, "escalation").await.is_empty(), "it is gone");
    let found = paths(&second, "request leave").await;
    assert!(found.contains(&"people/holidays#request-leave".to_owned()), "{found:?}");
    assert!(found.contains(&"people/parents#leave".to_owned()), "{found:?}");
    kept_after(state.path(), Some(written)).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_written_once_a_minute_however_often_documents_change() {
    let (docs, state) = (documents(), tempfile::tempdir().expect("a folder"));
    let handbook = opened(docs.path(), state.path()).await;
    paths(&handbook, "leave").await;
    let first = kept_after(state.path(), None).await;
    let began = tokio::time::Instant::now();
    for round in 0..10 {
        write(docs.path(), "people/holidays.md", &format!("# Holidays\nround {round}\n"));
        sleep(follow::PAUSE * 2).await;
    }
    kept_after(state.path(), Some(first)).await;
    assert!(began.elapsed() + follow::PAUSE * 4 >= KEEPING, "after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_can_not_be_written_costs_no_search() {
    let (docs, state) = (documents(), tempfile::tempdir().expect("a folder"));
    fs::write(state.path().join("deeper"), "a file, and no folder").expect("written");
    let handbook = opened(docs.path(), state.path()).await;
    for _ in 0..3 {
        assert_eq!(paths(&handbook, "request leave").await[0], "people/holidays#request-leave");
        sleep(KEEPING).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_damaged_is_made_anew() {
    let (docs, state) = (documents(), tempfile::tempdir().expect("a folder"));
    let first = opened(docs.path(), state.path()).await;
    paths(&first, "leave").await;
    kept_after(state.path(), None).await;
    drop(first);
    let mut bytes = fs::read(file(state.path())).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file(state.path()), &bytes).expect("written");
    let second = opened(docs.path(), state.path()).await;
    assert_eq!(paths(&second, "request leave").await[0], "people/holidays#request-leave");
    sleep(follow::PAUSE * 2).await;
    assert_ne!(fs::read(file(state.path())).expect("there"), bytes, "it was written over");
}
