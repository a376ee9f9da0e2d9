//! Tests of files that only their owner can read.

use std::os::unix::fs::symlink;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, chownat, mknodat};
use tempfile::TempDir;

use super::*;

fn scene() -> (TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let [path, victim] = ["x.json", "victim"].map(|name| place.path().join(name));
    fs::write(&victim, "theirs").expect("written");
    fs::set_permissions(&victim, Permissions::from_mode(0o644)).expect("set");
    (place, path, victim)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
}

/// Gives `path` to another user; false without the right to do so.
fn give_away(path: &Path) -> bool {
    chownat(CWD, path, Some(Uid::from_raw(65_534)), Some(Gid::from_raw(65_534)), AtFlags::SYMLINK_NOFOLLOW)
        .is_ok()
}

#[test]
fn it_is_replaced_for_its_owner_and_nothing_stays_beside_it() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("state/deeper/x.json");
    let lock = open_lock(&path).expect("its folder is made");
    lock.try_lock().expect("free");
    for text in ["one, which is longer", "two"] {
        replace(&path, text.as_bytes()).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), text);
    }
    assert_eq!((mode(&path), mode(&beside(&path, "lock")), mode(folder(&path))), (0o600, 0o600, 0o700));
    assert!(!beside(&path, "new").exists());
}

#[test]
fn files_that_others_can_read_do_not_give_their_mode_to_the_secret() {
    let (_place, path, _) = scene();
    for old in [path.clone(), beside(&path, "new"), beside(&path, "lock")] {
        fs::write(&old, "old").expect("written");
        fs::set_permissions(&old, Permissions::from_mode(0o666)).expect("set");
    }
    let readable = File::open(beside(&path, "new")).expect("a reader that waits");
    drop(open_lock(&path).expect("locked"));
    replace(&path, b"secret").expect("written");
    assert_eq!((mode(&path), mode(&beside(&path, "lock"))), (0o600, 0o600));
    assert_eq!(io::read_to_string(readable).expect("read"), "old");
}

#[test]
fn links_are_not_followed_for_writing() {
    type Link = fn(&Path, &Path) -> io::Result<()>;
    for link in [(|old, new| symlink(old, new)) as Link, |old, new| fs::hard_link(old, new)] {
        for ending in ["", "new", "lock"] {
            let (_place, path, victim) = scene();
            let at = if ending.is_empty() { path.clone() } else { beside(&path, ending) };
            link(&victim, &at).expect("linked");
            let locked = open_lock(&path);
            assert_eq!(locked.is_err(), ending == "lock", "{ending}: {locked:?}");
            replace(&path, b"secret").expect("written");
            assert_eq!(fs::read_to_string(&victim).expect("there"), "theirs", "{ending}");
            assert_eq!((mode(&victim), mode(&path)), (0o644, 0o600), "{ending}");
            assert!(
                fs::symlink_metadata(&path).expect("there").is_file()
                    && read(&path, 9).is_ok_and(|text| text == b"secret")
            );
        }
    }
}

#[test]
fn link_to_nothing_makes_no_file_elsewhere() {
    for ending in ["new", "lock"] {
        let (place, path, _) = scene();
        let elsewhere = place.path().join("elsewhere");
        symlink(&elsewhere, beside(&path, ending)).expect("linked");
        let _ = open_lock(&path);
        replace(&path, b"secret").expect("written");
        assert!(!elsewhere.exists(), "{ending}");
    }
}

#[test]
fn fifo_neither_blocks_nor_gets_the_secret() {
    for ending in ["", "new", "lock"] {
        let (_place, path, _) = scene();
        let at = if ending.is_empty() { path.clone() } else { beside(&path, ending) };
        fifo(&at);
        let _reader = options(OFlags::NONBLOCK).read(true).open(&at).expect("somebody reads it");
        assert_eq!(open_lock(&path).is_err(), ending == "lock", "{ending}");
        replace(&path, b"secret").expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"secret", "{ending}");
    }
    let (_place, path, _) = scene();
    fifo(&path);
    assert!(read(&path, 9).is_err());
}

#[test]
fn file_of_another_user_is_neither_read_nor_replaced() {
    for ending in ["", "lock"] {
        let (_place, path, _) = scene();
        let at = if ending.is_empty() { path.clone() } else { beside(&path, ending) };
        fs::write(&at, "planted").expect("written");
        if !give_away(&at) {
            return eprintln!("skipped: needs the right to give files away");
        }
        let failures = if ending.is_empty() {
            vec![read(&path, 9).map(drop), replace(&path, b"secret"), open(&path).map(drop)]
        } else {
            vec![open_lock(&path).map(drop)]
        };
        for failure in failures {
            let error = failure.expect_err("refused");
            assert!(error.to_string().contains("belongs to the user 65534"), "{error}");
        }
        assert_eq!(fs::read(&at).expect("there"), b"planted");
    }
}

#[test]
fn rest_of_another_user_at_the_temporary_name_is_replaced() {
    let (place, path, _) = scene();
    fs::set_permissions(place.path(), Permissions::from_mode(0o770)).expect("set");
    let new = beside(&path, "new");
    fs::write(&new, "planted").expect("written");
    let _ = give_away(&new);
    replace(&path, b"secret").expect("written");
    let found = fs::metadata(&path).expect("there");
    assert_eq!((found.uid(), mode(&path)), (geteuid().as_raw(), 0o600));
}

#[test]
fn failed_write_leaves_the_old_file_and_nothing_beside_it() {
    let (_place, path, _) = scene();
    replace(&path, b"old").expect("written");
    let failed = replace_with(&path, |file| {
        file.write_all(b"half")?;
        Err(io::Error::other("full"))
    });
    assert!(failed.is_err() && !beside(&path, "new").exists());
    assert_eq!(fs::read(&path).expect("there"), b"old");
}

#[test]
fn file_that_was_exchanged_while_it_was_written_is_reported() {
    let (_place, path, victim) = scene();
    let new = beside(&path, "new");
    let written = replace_with(&path, |file| {
        fs::remove_file(&new)?;
        symlink(&victim, &new)?;
        file.write_all(b"secret")
    });
    assert!(written.is_err());
    assert_eq!(fs::read_to_string(&victim).expect("there"), "theirs");
}

#[test]
fn a_bare_name_stands_in_the_folder_that_we_are_in() {
    assert_eq!(folder(Path::new("x.json")), Path::new("."));
    assert_eq!(folder(Path::new("a/x.json")), Path::new("a"));
    assert_eq!(folder(Path::new("/x.json")), Path::new("/"));
}
