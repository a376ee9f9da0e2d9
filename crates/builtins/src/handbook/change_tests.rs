//! Tests of changes of the documents and of the folder.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::fixture::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn changes_are_seen_and_the_old_answer_is_forgotten() {
    let fixture = Fixture::with(&[("a.md", "# Alpha\nzebra\n"), ("b.md", "# Beta\ngiraffe\n")]).await;
    assert_eq!(fixture.paths("zebra").await, ["a"]);
    assert_eq!(fixture.paths("zebra").await, ["a"]);
    assert_eq!(fixture.handbook.cache.counts(), (1, 1));
    fixture.write("a.md", "# Alpha\nlion\n");
    fixture.write("sub/c.md", "# Gamma\nzebra\n");
    fs::remove_file(fixture.folder.path().join("b.md")).expect("removed");
    fixture.walked().await;
    assert_eq!(fixture.paths("zebra").await, ["sub/c"]);
    assert_eq!(fixture.paths("lion").await, ["a"]);
    assert!(fixture.paths("giraffe").await.is_empty());
    let topics = fixture.ask("list_handbook_topics", json!({})).await;
    assert_eq!(
        (&topics["documents"], &topics["sections"], &topics["skipped_files"]),
        (&json!(2), &json!(2), &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_goes_away_and_returns_costs_nothing() {
    let fixture = Fixture::with(COMPANY).await;
    assert!(!fixture.paths("onboarding").await.is_empty());
    let elsewhere = tempfile::tempdir().expect("a folder");
    fs::rename(fixture.folder.path(), elsewhere.path().join("moved")).expect("moved");
    fixture.walked().await;
    assert!(!fixture.paths("welcome").await.is_empty(), "the last state still answers");
    fixture.write("new.md", "# Armadillo\n");
    fixture.walked().await;
    assert_eq!(fixture.paths("armadillo").await, ["new"]);
    assert!(fixture.paths("welcome").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_missing_folder_is_a_connect_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = open(&folder.path().join("no-docs"), 1).await.err().expect("missing");
    assert!(matches!(&error, Error::Connect { reason } if reason.contains("no-docs")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_with_the_handbook_and_with_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path(), 1);
    let shutdown = Shutdown::new();
    let handbook = Handbook::open("docs", &config, &server_context(&shutdown), Events::channel().0)
        .await
        .expect("it opens");
    let tasks = handbook.tasks.clone();
    drop(handbook);
    assert!(tasks.wait(Duration::from_secs(1)).await);
    let handbook = Handbook::open("docs", &config, &server_context(&shutdown), Events::channel().0)
        .await
        .expect("it opens");
    shutdown.begin();
    assert!(handbook.tasks.wait(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn fifty_searches_at_once_are_all_answered_while_documents_change() {
    let fixture = Fixture::with(COMPANY).await;
    for round in 0..5 {
        fixture.write("people/holidays.md", &format!("# Holidays\n\n## Request leave\nround {round}\n"));
        let queries: Vec<String> = (0..50).map(|n| format!("request leave {}", n % 25)).collect();
        let searches = queries.iter().map(|query| fixture.paths(query));
        for paths in futures_util::future::join_all(searches).await {
            assert_eq!(paths.first().map(String::as_str), Some("people/holidays#request-leave"));
        }
        fixture.walked().await;
    }
}

const LANTERNS: usize = 30;
/// One for each edition. They differ enough that none is taken for a misspelling of another.
const ANIMALS: [&str; 7] = ["armadillo", "buffalo", "cheetah", "dolphin", "elephant", "flamingo", "gazelle"];

/// Replaces a file atomically, as editors do.
fn replace(fixture: &Fixture, name: &str, text: &str) {
    fixture.write("half-written.tmp", text);
    let folder = fixture.folder.path();
    fs::rename(folder.join("half-written.tmp"), folder.join(name)).expect("moved");
}

fn write_edition(fixture: &Fixture, animal: &str) {
    for number in 0..LANTERNS {
        let text = format!("# Lantern {number}\n\nThe lantern of the {animal}.\n");
        replace(fixture, &format!("{number}.md"), &text);
    }
}

/// Checks that the text of every hit has the searched word, and that no document is missing.
async fn sees_one_state(fixture: &Fixture, animals: &[&str]) {
    let arguments = json!({"query": "lantern", "n_results": 20});
    let answer = fixture.ask("search_handbook", arguments).await;
    assert_eq!(answer["count"], 20, "all of them have it at any time");
    for animal in animals {
        let answer = fixture.ask("search_handbook", json!({"query": animal})).await;
        for hit in answer["hits"].as_array().expect("hits") {
            let shown = hit["content"].as_str().expect("text");
            assert!(shown.contains(animal), "{animal}: {shown}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_search_during_changes_sees_one_whole_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let handbook = open(folder.path(), 0).await.expect("it opens");
    let fixture = Fixture { folder, handbook };
    write_edition(&fixture, ANIMALS[0]);
    fixture.walked().await;
    let mut phase = fixture.handbook.phase.clone();
    for animals in ANIMALS.windows(2) {
        phase.mark_unchanged();
        write_edition(&fixture, animals[1]);
        while !phase.has_changed().expect("it goes on") {
            tokio::time::sleep(follow::PAUSE / 16).await;
            futures_util::future::join_all((0..8).map(|_| sees_one_state(&fixture, animals))).await;
        }
        sees_one_state(&fixture, &animals[1..]).await;
    }
}
