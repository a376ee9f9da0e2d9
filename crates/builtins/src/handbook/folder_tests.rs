//! Tests of which files are listed and read.

use std::fs;
use std::os::unix::fs::symlink;

use flate2::Compression;
use flate2::read::GzEncoder;
use tempfile::TempDir;

use super::*;

fn folder() -> (TempDir, Folder) {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = Folder::new(dir.path());
    (dir, folder)
}

fn listed(folder: &Folder) -> (Vec<String>, usize) {
    let listing = folder.look().expect("readable").listing;
    (listing.files.into_keys().collect(), listing.left_out)
}

#[test]
fn markdown_files_are_listed_at_any_depth_and_others_are_not() {
    let (dir, folder) = folder();
    fs::create_dir_all(dir.path().join("a/b")).expect("made");
    fs::create_dir_all(dir.path().join(".git")).expect("made");
    for name in ["x.md", "a/y.MD", "a/b/z.markdown", "a/code.rs", ".git/no.md", ".hidden.md", "md"] {
        fs::write(dir.path().join(name), "text").expect("written");
    }
    assert_eq!(listed(&folder), (vec!["a/b/z.markdown".into(), "a/y.MD".into(), "x.md".into()], 0));
}

#[test]
fn links_pipes_and_large_files_are_left_out_and_counted() {
    let (dir, folder) = folder();
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("secret.md"), "secret").expect("written");
    fs::write(dir.path().join("real.md"), "real").expect("written");
    symlink(outside.path().join("secret.md"), dir.path().join("file.md")).expect("linked");
    symlink("real.md", dir.path().join("inside.md")).expect("linked");
    symlink("nowhere", dir.path().join("broken.md")).expect("linked");
    fs::create_dir(dir.path().join("dir.md")).expect("made");
    let large = usize::try_from(MAX_FILE_BYTES).expect("fits") + 1;
    fs::write(dir.path().join("large.md"), vec![b'x'; large]).expect("written");
    // A linked folder is not a Markdown file. It is skipped without being counted, and its content is not
    // listed.
    symlink(outside.path(), dir.path().join("folder")).expect("linked");
    assert_eq!(listed(&folder), (vec!["real.md".into()], 4));
}

#[test]
fn folders_beyond_the_depth_are_left_out() {
    let (dir, folder) = folder();
    let deep = dir.path().join(vec!["d"; MAX_DEPTH + 1].join("/"));
    fs::create_dir_all(&deep).expect("made");
    fs::write(deep.join("too-deep.md"), "x").expect("written");
    fs::write(deep.parent().expect("a parent").join("deep.md"), "x").expect("written");
    let (files, left_out) = listed(&folder);
    assert_eq!((files.len(), left_out), (1, 1));
    assert!(files[0].ends_with("deep.md"));
}

#[test]
fn a_file_swapped_for_a_link_after_the_look_is_not_read() {
    let (dir, folder) = folder();
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("secret.md"), "secret").expect("written");
    for name in ["a.md", "b.md"] {
        fs::write(dir.path().join(name), "text").expect("written");
    }
    let view = folder.look().expect("readable");
    let read = |name: &str| view.read(name, &view.listing.files["a.md"]);
    assert_eq!(read("a.md").expect("still there").map(|text| text.source).as_deref(), Some("text"));
    assert!(read("b.md").is_err(), "another file than the one listed");
    fs::remove_file(dir.path().join("a.md")).expect("removed");
    for target in [outside.path().join("secret.md"), dir.path().join("b.md")] {
        symlink(target, dir.path().join("a.md")).expect("linked");
        assert!(read("a.md").is_err());
        fs::remove_file(dir.path().join("a.md")).expect("removed");
    }
    let pipe = std::process::Command::new("mkfifo").arg(dir.path().join("a.md")).status();
    assert!(pipe.expect("mkfifo runs").success());
    assert!(read("a.md").is_err(), "and it does not hang");
}

#[test]
fn bytes_that_are_no_text_are_no_document() {
    assert_eq!(text_of(b"\xef\xbb\xbfbom").as_deref(), Some("bom"));
    assert_eq!(text_of(b"caf\xe9 ok").as_deref(), Some("caf\u{fffd} ok"));
    assert_eq!(text_of(b"\x7fELF\0\0"), None);
    assert_eq!(text_of(b"").as_deref(), Some(""));
}

#[test]
fn any_change_of_a_file_changes_its_stamp() {
    let (dir, folder) = folder();
    let path = dir.path().join("a.md");
    fs::write(&path, "one").expect("written");
    let before = folder.look().expect("readable").listing.files["a.md"];
    let modified = fs::metadata(&path).expect("there").modified().expect("known");
    // An equal length and time, as after a tool that restores times.
    fs::write(dir.path().join("b.tmp"), "two").expect("written");
    fs::File::open(dir.path().join("b.tmp")).expect("there").set_modified(modified).expect("set");
    fs::rename(dir.path().join("b.tmp"), &path).expect("moved");
    let after = folder.look().expect("readable").listing.files["a.md"];
    assert_eq!(before.len, after.len);
    assert_ne!(before, after);
}

#[test]
fn a_missing_folder_is_named() {
    let (dir, _) = folder();
    let error = Folder::new(&dir.path().join("no-such")).open().expect_err("missing");
    assert!(error.contains("no-such") && error.contains("No such file"), "{error}");
    fs::write(dir.path().join("file"), "x").expect("written");
    assert!(Folder::new(&dir.path().join("file")).open().expect_err("a file").contains("file"));
}

#[test]
fn excluded_files_and_folders_are_not_listed() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["a.md", "drafts/b.md", "drafts/deeper/c.md", "notes/old.md", "notes/drafts/d.md"] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, "# A\n").expect("written");
    }
    let excluded = ["drafts".to_owned(), "notes/old.md".to_owned()];
    let listing = Folder::new(dir.path()).without(&excluded).look().expect("readable").listing;
    assert_eq!(listing.files.keys().collect::<Vec<_>>(), ["a.md", "notes/drafts/d.md"]);
    assert_eq!(listing.left_out, 0, "an operator left them out");
}

#[test]
fn files_of_the_program_are_listed_and_read() {
    let compressed = |text: &[u8]| {
        let mut compressed = Vec::new();
        GzEncoder::new(text, Compression::fast()).read_to_end(&mut compressed).expect("in memory");
        &*compressed.leak()
    };
    let files = vec![("a.md", compressed(b"# A\n")), ("b/c.md", compressed(b"text"))];
    let folder = Folder::of(&Documents::Embedded(files.leak()));
    assert!(folder.root().is_none());
    let view = folder.look().expect("readable");
    let paths: Vec<&str> = view.listing.files.keys().map(String::as_str).collect();
    assert_eq!((paths, view.listing.left_out), (vec!["a.md", "b/c.md"], 0));
    let text = view.read("a.md", &view.listing.files["a.md"]).expect("readable").expect("a text");
    assert_eq!(text.source, "# A\n");
    assert!(view.read("none.md", &view.listing.files["a.md"]).is_err());
}
