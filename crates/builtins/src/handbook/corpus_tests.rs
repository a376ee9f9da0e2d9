//! Tests of how the documents follow the folder, seen from the index.

use std::fs;

use super::super::query;
use super::*;

fn read_on(_: usize, _: usize) -> bool {
    true
}

/// Returns the serial numbers of the documents that the index finds.
fn found(snapshot: &Snapshot, text: &str) -> Vec<u64> {
    let matches = query::search(&snapshot.index, &query::requested(text), |_| true);
    matches.into_iter().map(|found| found.document).collect()
}

#[test]
fn the_index_holds_what_the_folder_holds_and_nothing_older() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    let mut corpus = Corpus::new(Folder::new(folder.path()), DocumentUris::of("docs"), 7);
    write("a.md", "# Alpha\nzebra");
    write("b.md", "# Beta\nzebra");
    write("binary.md", "zebra\0");
    let first = corpus.refresh(&read_on).expect("read").expect("new");
    assert_eq!((first.generation, first.documents.len(), first.left_out), (8, 2, 1));
    assert!(corpus.refresh(&read_on).expect("read").is_none(), "nothing changed");
    for round in 0..20 {
        write("a.md", &format!("# Alpha\nzebra {round}"));
        let next = corpus.refresh(&read_on).expect("read").expect("new");
        let mut live: Vec<u64> = next.documents.values().map(|document| document.serial).collect();
        let mut seen = found(&next, "zebra");
        seen.sort_unstable();
        live.sort_unstable();
        assert_eq!(seen, live, "round {round}: a changed document leaves nothing behind");
    }
    assert_eq!(found(&first, "zebra").len(), 2, "an old state stays what it was");
    fs::remove_file(folder.path().join("a.md")).expect("removed");
    fs::remove_file(folder.path().join("b.md")).expect("removed");
    let last = corpus.refresh(&read_on).expect("read").expect("new");
    assert_eq!((found(&last, "zebra").len(), last.sections), (0, 0));
}

#[test]
fn reading_stops_when_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.md"), "text").expect("written");
    let mut corpus = Corpus::new(Folder::new(folder.path()), DocumentUris::of("docs"), 0);
    assert!(matches!(corpus.refresh(&|_, _| false), Err(Error::Stopped)));
}

#[test]
fn an_empty_folder_is_a_handbook_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut corpus = Corpus::new(Folder::new(folder.path()), DocumentUris::of("docs"), 0);
    let snapshot = corpus.refresh(&read_on).expect("read").expect("new");
    assert!(snapshot.documents.is_empty() && found(&snapshot, "anything").is_empty());
}

/// Hides a folder after its files were listed and before one was read. The files stay unchanged. To the
/// reader they look unreadable, even in a test that runs as root.
struct Hides<'a>(&'a std::path::Path);

impl Hides<'_> {
    fn aside(&self) -> std::path::PathBuf {
        self.0.with_extension("aside")
    }

    fn hide(&self) -> bool {
        fs::rename(self.0, self.aside()).expect("it is gone");
        true
    }

    fn show(&self) {
        fs::rename(self.aside(), self.0).expect("it is back");
    }
}

#[test]
fn a_file_that_can_not_be_read_is_left_out_and_no_change_until_it_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("made");
    fs::write(inner.join("a.md"), "# Alpha\nzebra").expect("written");
    let mut corpus = Corpus::new(Folder::new(folder.path()), DocumentUris::of("docs"), 0);
    let hidden = Hides(&inner);
    let first = corpus.refresh(&|_, _| hidden.hide()).expect("read").expect("new");
    assert_eq!((first.documents.len(), first.left_out), (0, 1), "it is counted");
    // A file that is still unreadable at the next try is no change either.
    let view = Folder::new(folder.path());
    hidden.show();
    let view = view.look().expect("it can");
    hidden.hide();
    corpus.try_again(&view);
    hidden.show();
    for walk in 2..WALKS_PER_RETRY {
        assert!(corpus.refresh(&read_on).expect("read").is_none(), "walk {walk}: nothing changed");
    }
    let later = corpus.refresh(&read_on).expect("read").expect("it can be read by now");
    assert_eq!((found(&later, "zebra").len(), later.documents.len(), later.left_out), (1, 1, 0));
    assert!(corpus.refresh(&read_on).expect("read").is_none());
}

#[test]
fn a_file_that_could_not_be_read_and_is_another_one_is_read_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("made");
    fs::write(inner.join("a.md"), "# Alpha").expect("written");
    let mut corpus = Corpus::new(Folder::new(folder.path()), DocumentUris::of("docs"), 0);
    let hidden = Hides(&inner);
    corpus.refresh(&|_, _| hidden.hide()).expect("read").expect("new");
    hidden.show();
    fs::write(inner.join("a.md"), "# Alpha and Beta").expect("written");
    let next = corpus.refresh(&read_on).expect("read").expect("new");
    assert_eq!((next.documents.len(), next.left_out), (1, 0));
}
