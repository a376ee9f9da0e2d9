//! Concurrent edits, permissions, and what is not a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

fn file(content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mcp.json");
    fs::write(&path, content).expect("written");
    (folder, path)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_file_that_changed_after_it_was_read_keeps_the_change() {
    let (folder, path) = file("old");
    let snapshot = Snapshot::read(&path).expect("read");
    fs::write(&path, "theirs").expect("written");
    assert!(matches!(snapshot.replace("ours"), Err(Error::Changed)));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "theirs");
    assert_eq!(names(folder.path()), ["mcp.json"]);
    let absent = folder.path().join("new.json");
    let snapshot = Snapshot::read(&absent).expect("nothing");
    fs::write(&absent, "theirs").expect("written");
    assert!(matches!(snapshot.replace("ours"), Err(Error::Changed)));
    assert_eq!(fs::read_to_string(&absent).expect("a file"), "theirs");
}

#[test]
fn a_file_that_was_removed_or_changed_after_it_was_written_is_not_restored() {
    let (folder, path) = file("old");
    Snapshot::read(&path).expect("read").replace("ours").expect("written");
    fs::write(&path, "theirs").expect("written");
    let error = Snapshot::read(&path).expect("read").restore().expect_err("changed");
    assert!(
        matches!(&error, Error::ChangedSince(backup) if fs::read_to_string(backup).is_ok_and(|text| text == "old"))
    );
    assert_eq!(fs::read_to_string(&path).expect("a file"), "theirs");
    // It was changed between reading and restoring.
    fs::write(&path, "ours").expect("written");
    let snapshot = Snapshot::read(&path).expect("read");
    fs::write(&path, "theirs").expect("written");
    assert!(matches!(snapshot.restore(), Err(Error::Changed)));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "theirs");
    assert_eq!(names(folder.path()).len(), 2, "the backup is there");
}

#[test]
fn a_new_file_that_changed_after_it_was_read_is_not_removed() {
    let (folder, path) = file("");
    fs::remove_file(&path).expect("removed");
    Snapshot::read(&path).expect("nothing").replace("ours").expect("written");
    let snapshot = Snapshot::read(&path).expect("read");
    fs::write(&path, "theirs").expect("written");
    assert!(matches!(snapshot.restore(), Err(Error::Changed)));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "theirs");
    fs::write(&path, "ours").expect("written");
    assert!(!Snapshot::read(&path).expect("read").restore().expect("removed"));
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn a_change_is_seen_where_two_names_cannot_be_exchanged() {
    let (folder, path) = file("old");
    let snapshot = Snapshot::read(&path).expect("read");
    let (new, backup) = (folder.path().join("new"), folder.path().join("backup"));
    fs::write(&new, "ours").expect("written");
    fs::write(&path, "theirs").expect("written");
    assert!(matches!(snapshot.copy_and_rename(&new, backup.clone()), Err(Error::Changed)));
    assert_eq!((fs::read_to_string(&path).expect("a file").as_str(), backup.exists()), ("theirs", false));
    fs::write(&path, "old").expect("written");
    assert_eq!(snapshot.copy_and_rename(&new, backup.clone()).expect("written"), backup);
    let read = |path: &Path| fs::read_to_string(path).expect("a file");
    assert_eq!((read(&path), read(&backup)), ("ours".to_owned(), "old".to_owned()));
}

// Each write of the other program is by rename, as editors write. None may be lost: neither its last one, nor any that
// `replace` says it saw.
#[test]
fn no_edit_of_another_program_is_lost_while_files_are_replaced() {
    const EDITS: usize = 2_000;
    let (folder, path) = file("0");
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (path, folder, done) = (path.clone(), folder.path().to_owned(), Arc::clone(&done));
        thread::spawn(move || {
            for edit in 1..=EDITS {
                let new = folder.join("edit");
                fs::write(&new, edit.to_string()).expect("written");
                fs::rename(&new, &path).expect("renamed");
            }
            done.store(true, Ordering::SeqCst);
        })
    };
    let (mut written, mut refused) = (0, 0);
    while !done.load(Ordering::SeqCst) {
        let snapshot = Snapshot::read(&path).expect("read");
        let text = format!("{}+", snapshot.text().expect("text").trim_end_matches('+'));
        match snapshot.replace(&text) {
            Ok(_) => written += 1,
            Err(Error::Changed) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    writer.join().expect("it ends");
    let last = fs::read_to_string(&path).expect("a file");
    assert_eq!(last.trim_end_matches('+'), EDITS.to_string(), "{written} written, {refused} refused");
    let left: Vec<_> = names(folder.path()).into_iter().filter(|name| name.contains(NEW)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn at_most_two_backups_are_kept() {
    let (folder, path) = file("0");
    for number in 1..10 {
        Snapshot::read(&path).expect("read").replace(&number.to_string()).expect("written");
    }
    assert_eq!(names(folder.path()).len(), 3);
    for number in [8, 7] {
        assert!(Snapshot::read(&path).expect("read").restore().expect("restored"));
        assert_eq!(fs::read_to_string(&path).expect("a file"), number.to_string());
    }
    assert!(matches!(Snapshot::read(&path).expect("read").restore(), Err(Error::NoBackup)));
}

#[test]
fn read_only_files_are_not_replaced() {
    let (folder, path) = file("old");
    fs::set_permissions(&path, Permissions::from_mode(0o444)).expect("a mode");
    let snapshot = Snapshot::read(&path).expect("read");
    assert!(matches!(snapshot.replace("ours"), Err(Error::ReadOnly)));
    assert_eq!((fs::read_to_string(&path).expect("a file").as_str(), names(folder.path()).len()), ("old", 1));
}

#[test]
fn file_that_is_not_text_is_refused() {
    let (folder, path) = file("");
    let reason = |path: &Path| Snapshot::read(path).expect_err("refused").to_string();
    assert!(reason(folder.path()).contains("not a regular file"), "{}", reason(folder.path()));
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).expect("linked");
    assert_eq!(reason(&link), "it is a link to a file that does not exist");
    fs::write(&path, b"\xff").expect("written");
    assert!(matches!(Snapshot::read(&path).expect("read").text(), Err(Error::NotText)));
    let large = File::create(&path).expect("a file");
    large.set_len(MAX_BYTES + 1).expect("a length");
    assert!(reason(&path).contains("larger than"));
    // A part of the path is a file.
    assert!(Snapshot::read(&path.join("below")).is_err());
}
