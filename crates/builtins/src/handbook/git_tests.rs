//! Tests of document dates with real repositories.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::fixture::*;
use super::follow;

const DAY: u64 = 24 * 60 * 60;

/// Runs git in `folder`. A commit gets the time `at`.
fn git(folder: &Path, at: u64, arguments: &[&str]) {
    let time = format!("{at} +0000");
    let mut command = Command::new("git");
    command.args([
        "-c",
        "user.name=Ada",
        "-c",
        "user.email=ada@example.org",
        "-c",
        "init.defaultBranch=main",
    ]);
    command
        .env("GIT_AUTHOR_DATE", &time)
        .env("GIT_COMMITTER_DATE", &time)
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.args(arguments).current_dir(folder).output().expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn commit(folder: &Path, at: u64) {
    git(folder, at, &["add", "--all"]);
    git(folder, at, &["commit", "--quiet", "--message", "change"]);
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_secs()
}

/// Returns the changes of the last ten years: path, days ago, and source of the date.
async fn updates(handbook: &super::Handbook) -> Vec<(String, u64, String)> {
    let answer = call(handbook, "get_recent_updates", &json!({"days": 3_650})).await;
    let updates = answer["structuredContent"]["updates"].as_array().expect("updates").clone();
    let text = |update: &Value, member: &str| update[member].as_str().expect("text").to_owned();
    let day = |update: &Value| {
        let resources = handbook_time(&text(update, "modified"));
        now().saturating_sub(resources) / DAY
    };
    updates.iter().map(|update| (text(update, "path"), day(update), text(update, "dated_by"))).collect()
}

fn handbook_time(text: &str) -> u64 {
    let time =
        time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).expect("RFC 3339");
    u64::try_from(time.unix_timestamp()).expect("after 1970")
}

fn expected(updates: &[(&str, u64, &str)]) -> Vec<(String, u64, String)> {
    updates.iter().map(|(path, days, by)| ((*path).to_owned(), *days, (*by).to_owned())).collect()
}

/// Makes a repository with a folder of documents, whose commits are days old.
fn repository() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let day = |days: u64| now() - days * DAY - 60;
    git(root.path(), day(90), &["init", "--quiet"]);
    write(root.path(), "docs/old.md", "# Old\n");
    write(root.path(), "docs/sub/größer 1.md", "# One\n");
    write(root.path(), "docs/back.md", "# Back\n");
    write(root.path(), "README.md", "# Not in the handbook\n");
    commit(root.path(), day(90));
    write(root.path(), "docs/sub/größer 1.md", "# Two\n");
    write(root.path(), "docs/back.md", "# Forth\n");
    commit(root.path(), day(60));
    git(root.path(), day(50), &["checkout", "--quiet", "-b", "side"]);
    write(root.path(), "docs/merged.md", "# Merged\n");
    commit(root.path(), day(50));
    git(root.path(), day(40), &["checkout", "--quiet", "main"]);
    write(root.path(), "docs/back.md", "# Back\n");
    commit(root.path(), day(40));
    git(root.path(), day(30), &["merge", "--quiet", "--no-edit", "side"]);
    root
}

#[tokio::test]
async fn a_fresh_clone_says_when_documents_were_changed_and_not_when_it_was_cloned() {
    let origin = repository();
    let place = tempfile::tempdir().expect("a folder");
    let from = origin.path().display().to_string();
    git(place.path(), now(), &["clone", "--quiet", &from, "clone"]);
    let docs = place.path().join("clone/docs");
    write(&docs, "back.md", "# Edited\n");
    write(&docs, "new.md", "# New\n");
    // An older commit had this content, but the last commit does not.
    write(&docs, "sub/größer 1.md", "# One\n");
    let handbook = open(&docs, 1).await.expect("it opens");
    let all = expected(&[
        ("back", 0, "file"),
        ("new", 0, "file"),
        ("sub/größer 1", 0, "file"),
        ("merged", 50, "commit"),
        ("old", 90, "commit"),
    ]);
    let mut seen = updates(&handbook).await;
    seen[..3].sort();
    assert_eq!(seen, all);
    let hit = call(&handbook, "search_handbook", &json!({"query": "old"})).await;
    let days = (now()
        - handbook_time(
            hit["structuredContent"]["hits"][0]["metadata"]["modified"].as_str().expect("a time"),
        ))
        / DAY;
    assert_eq!(days, 90, "a hit says the same");
    let week = call(&handbook, "get_recent_updates", &json!({})).await;
    assert_eq!(week["structuredContent"]["count"], 3, "a clone is no change");
}

#[tokio::test]
async fn file_that_a_merge_made_has_the_date_of_the_merge() {
    let root = tempfile::tempdir().expect("a folder");
    let day = |days: u64| now() - days * DAY - 60;
    git(root.path(), day(90), &["init", "--quiet"]);
    git(root.path(), day(90), &["config", "log.showRoot", "false"]);
    let both = |first: &str, last: &str| format!("# Both\n\n{first}\n\n\n\n\n\n{last}\n");
    write(root.path(), "docs/both.md", &both("one", "two"));
    write(root.path(), "docs/first.md", "# First\n");
    commit(root.path(), day(90));
    git(root.path(), day(50), &["checkout", "--quiet", "-b", "side"]);
    write(root.path(), "docs/both.md", &both("1", "two"));
    commit(root.path(), day(50));
    git(root.path(), day(40), &["checkout", "--quiet", "main"]);
    write(root.path(), "docs/both.md", &both("one", "2"));
    commit(root.path(), day(40));
    git(root.path(), day(30), &["merge", "--quiet", "--no-edit", "side"]);
    let handbook = open(&root.path().join("docs"), 1).await.expect("it opens");
    assert_eq!(updates(&handbook).await, expected(&[("both", 30, "commit"), ("first", 90, "commit")]));
}

#[tokio::test]
async fn a_commit_is_noticed_though_no_file_changes() {
    let root = repository();
    let docs = root.path().join("docs");
    write(&docs, "old.md", "# Newer\n");
    let handbook = open(&docs, 1).await.expect("it opens");
    let first = updates(&handbook).await;
    assert_eq!(first[0], ("old".to_owned(), 0, "file".to_owned()));
    assert_eq!(first[1], ("back".to_owned(), 40, "commit".to_owned()), "a revert is a change");
    let mut phase = handbook.phase.clone();
    phase.mark_unchanged();
    commit(root.path(), now() - 3 * DAY);
    tokio::time::timeout(follow::PAUSE * 60, phase.changed()).await.expect("soon").expect("it goes on");
    assert_eq!(updates(&handbook).await[0], ("old".to_owned(), 3, "commit".to_owned()));
}

#[tokio::test]
async fn a_repository_that_git_refuses_leaves_the_times_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.md", "# A\n");
    fs::create_dir(folder.path().join(".git")).expect("made");
    let handbook = open(folder.path(), 1).await.expect("it opens");
    assert_eq!(updates(&handbook).await, expected(&[("a", 0, "file")]));
}

#[tokio::test]
async fn a_linked_work_tree_has_a_history_too() {
    let origin = repository();
    let place = tempfile::tempdir().expect("a folder");
    let tree = place.path().join("tree").display().to_string();
    git(origin.path(), now(), &["worktree", "add", "--quiet", &tree, "side"]);
    let handbook = open(&place.path().join("tree/docs"), 1).await.expect("it opens");
    let seen = updates(&handbook).await;
    assert_eq!(seen[0], ("merged".to_owned(), 50, "commit".to_owned()));
    assert!(seen.iter().all(|(_, _, by)| by == "commit"), "{seen:?}");
}

#[test]
fn the_settings_of_a_repository_run_no_program() {
    let root = repository();
    let proof = root.path().join("proof");
    let script = format!("touch {}", proof.display());
    for name in [
        "core.pager",
        "core.fsmonitor",
        "core.sshCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "gpg.program",
        "log.showSignature",
        "core.hooksPath",
    ] {
        let value = if name == "log.showSignature" { "true" } else { &script };
        git(root.path(), now(), &["config", name, value]);
    }
    fs::write(root.path().join(".git/info/attributes"), "*.md diff=evil filter=evil\n").expect("written");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handbook = runtime.block_on(open(&root.path().join("docs"), 1)).expect("it opens");
    let seen = runtime.block_on(updates(&handbook));
    assert_eq!(seen.iter().filter(|(_, _, by)| by == "commit").count(), 4, "{seen:?}");
    assert!(!proof.exists());
}
