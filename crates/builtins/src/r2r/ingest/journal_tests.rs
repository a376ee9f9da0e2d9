//! Tests of the journal.

use std::os::unix::fs::PermissionsExt;

use futures_util::future::join_all;

use super::*;

fn entry(path: &str) -> JournalEntry {
    let metadata = Map::from_iter([("tag".to_owned(), Value::from("x"))]);
    let (document, collection) = (Id(uuid::Uuid::nil()), Id(uuid::Uuid::max()));
    JournalEntry {
        document,
        path: path.into(),
        collection,
        mode: IngestMode::HiRes,
        metadata,
        resource: None,
        removed: None,
    }
}

fn paths(entries: &[(u64, JournalEntry)]) -> Vec<&str> {
    entries.iter().map(|(_, entry)| entry.path.as_str()).collect()
}

#[tokio::test]
async fn what_is_noted_is_found_by_the_next_life_and_what_is_struck_out_is_not() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = beside(&dir.path().join("state/mapping.json"), "r2r/x");
    assert_eq!(path.file_name().and_then(|name| name.to_str()), Some("r2r_ingest_r2r%2Fx.json"));
    let journal = Journal::new(path.clone());
    assert_eq!(journal.take_over().await, []);
    let all = join_all(["a", "b", "c"].map(|path| journal.add(entry(path)))).await;
    journal.remove(all[1]).await;
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    drop(journal);
    let next = Journal::new(path.clone());
    let left = next.take_over().await;
    assert_eq!((paths(&left), &left[0].1), (vec!["a", "c"], &entry("a")));
    for (number, _) in left {
        next.remove(number).await;
    }
    drop(next);
    assert_eq!(Journal::new(path).take_over().await, []);
}

#[tokio::test]
async fn two_at_a_time_do_not_share_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("j.json");
    let first = Journal::new(path.clone());
    first.take_over().await;
    let number = first.add(entry("a")).await;
    let second = Journal::new(path.clone());
    assert!(second.locked().await.expect("readable").is_none(), "the first one has it");
    second.0.tried.send_replace(true);
    second.add(entry("b")).await;
    let text = fs::read_to_string(&path).expect("there");
    assert!(text.contains("\"a\"") && !text.contains("\"b\""), "{text}");
    drop(first);
    assert_eq!(paths(&second.take_over().await), ["a"]);
    let text = fs::read_to_string(&path).expect("there");
    assert!(text.contains("\"a\"") && text.contains("\"b\"") && number == 1, "{text}");
}

#[tokio::test]
async fn a_file_that_says_nothing_is_kept_aside() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("j.json");
    for text in ["", "{", "[{\"path\": 3}]", "\u{0}"] {
        fs::write(&path, text).expect("written");
        assert_eq!(Journal::new(path.clone()).take_over().await, []);
        assert_eq!(fs::read_to_string(path.with_extension("unreadable")).expect("kept"), text);
    }
}

#[tokio::test]
async fn a_file_that_can_not_be_written_stops_nobody() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("file"), "").expect("written");
    let journal = Journal::new(dir.path().join("file/below/j.json"));
    assert_eq!(journal.take_over().await, []);
    let number = journal.add(entry("a")).await;
    journal.remove(number).await;
}

#[tokio::test]
async fn a_file_of_before_failures_were_noted_is_gone_on_with() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("j.json");
    fs::write(&path, serde_json::to_vec(&[entry("a"), entry("b")]).expect("JSON")).expect("written");
    let journal = Journal::new(path.clone());
    assert_eq!(paths(&journal.take_over().await), ["a", "b"]);
    assert!(!path.with_extension("unreadable").exists());
}
