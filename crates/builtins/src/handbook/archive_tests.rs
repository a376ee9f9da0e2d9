//! Tests of the index on disk: what a second run uses of it, and how a run works without it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::super::corpus::{Corpus, Watcher};
use super::super::folder::Folder;
use super::super::resources::DocumentUris;
use super::super::snapshot::Snapshot;
use super::super::{query, words};
use super::*;

struct Continues;

impl Watcher for Continues {
    fn should_continue(&self, _done: usize, _total: usize) -> bool {
        true
    }
}

/// A folder of documents, and a folder for their index.
struct Place {
    docs: TempDir,
    state: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            docs: tempfile::tempdir().expect("a folder"),
            state: tempfile::tempdir().expect("a folder"),
        };
        place.write("a.md", "# Alpha\nzebra\n\n## More\nlion\n");
        place.write("b.md", "# Beta\nzebra\n");
        place.write("c.md", "# Gamma\nlion\n");
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.docs.path().join(name), text).expect("written");
    }

    fn archive(&self) -> Archive {
        Archive::new(self.file())
    }

    fn file(&self) -> std::path::PathBuf {
        self.state.path().join("docs.index")
    }

    /// Runs once, from the archive to the first state.
    fn run(&self) -> (Corpus, Snapshot) {
        run(self.docs.path(), self.archive().read())
    }

    /// Runs once and writes the index.
    fn kept(&self) -> BTreeMap<String, u64> {
        let (mut corpus, snapshot) = self.run();
        corpus.keep(&mut self.archive());
        assert!(corpus.is_kept());
        serials(&snapshot)
    }
}

fn run(docs: &Path, archived: Option<Archived>) -> (Corpus, Snapshot) {
    let mut corpus = Corpus::new(Folder::new(docs), DocumentUris::of("docs"), 0, archived).expect("an index");
    let snapshot = corpus.refresh(&Continues).expect("read").expect("the first state");
    (corpus, snapshot)
}

fn serials(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    snapshot.documents.iter().map(|(path, document)| (path.clone(), document.serial)).collect()
}

/// Returns the hits: file, section and score, to the last bit.
fn found(snapshot: &Snapshot, text: &str) -> Vec<(String, usize, u32)> {
    let query = query::build(&snapshot.state, &query::asked(text), None).expect("built");
    let matches = query.map_or_else(Vec::new, |query| snapshot.state.search(&query).expect("searched"));
    let place = |found: &super::super::index::Match| {
        let document = &snapshot.by_serial[&found.document];
        (document.file_path.clone(), found.section, found.score.to_bits())
    };
    let mut found: Vec<_> = matches.iter().map(place).collect();
    found.sort();
    found
}

#[test]
fn a_second_run_indexes_nothing_again_and_finds_the_same() {
    let place = Place::new();
    let before = place.kept();
    let (corpus, again) = place.run();
    assert!(corpus.is_kept(), "nothing was added or removed");
    assert_eq!(serials(&again), before);
    let (_, anew) = run(place.docs.path(), None);
    for question in ["zebra", "lion", "gamma lion", "alpha"] {
        let found = found(&again, question);
        assert!(!found.is_empty());
        assert_eq!(found, self::found(&anew, question), "{question}");
    }
}

#[test]
fn only_what_changed_meanwhile_is_indexed_again() {
    let place = Place::new();
    let before = place.kept();
    place.write("b.md", "# Beta\ngiraffe\n");
    place.write("d.md", "# Delta\nzebra\n");
    fs::remove_file(place.docs.path().join("c.md")).expect("removed");
    // An equal text in a file with another time is an unchanged document.
    place.write("a.md", "# Alpha\nzebra\n\n## More\nlion\n");
    let (mut corpus, after) = place.run();
    let now = serials(&after);
    assert_eq!(now["a.md"], before["a.md"]);
    assert!(now["b.md"] > before["c.md"] && now["d.md"] > before["c.md"], "numbers are never used again");
    let files = |question| found(&after, question).into_iter().map(|found| found.0).collect::<Vec<_>>();
    assert_eq!((files("zebra"), files("giraffe")), (vec!["a.md".into(), "d.md".into()], vec!["b.md".into()]));
    assert_eq!((files("lion"), files("gamma")), (vec!["a.md".to_owned()], vec![]));
    assert!(!corpus.is_kept());
    corpus.keep(&mut place.archive());
    let (third, again) = place.run();
    assert!(third.is_kept());
    assert_eq!(serials(&again), now);
}

#[test]
fn what_a_second_run_took_up_is_let_go_when_it_is_of_no_use_any_more() {
    let place = Place::new();
    place.kept();
    let (mut corpus, _) = place.run();
    for round in 0..30 {
        for name in ["a.md", "b.md", "c.md"] {
            place.write(name, &format!("# Alpha\nround {round}\n"));
        }
        corpus.refresh(&Continues).expect("read").expect("changed");
    }
    let files = corpus.index().files().expect("listed");
    let used: usize = files.iter().map(|(_, file)| file.len()).sum();
    assert_eq!(corpus.index().bytes(), used);
}

#[test]
fn a_document_with_more_sections_than_were_indexed_is_indexed_again() {
    let place = Place::new();
    place.kept();
    let mut archived = place.archive().read().expect("there");
    archived.documents.get_mut("a.md").expect("there").sections = 1;
    let (corpus, snapshot) = run(place.docs.path(), Some(archived));
    assert!(!corpus.is_kept());
    assert_eq!(found(&snapshot, "lion").len(), 2);
    assert_eq!(found(&snapshot, "alpha").len(), 2, "not twice");
}

#[test]
fn an_index_with_other_fields_and_one_that_is_none_are_made_anew() {
    let place = Place::new();
    let schema = tantivy::schema::Schema::builder().build();
    let index = tantivy::Index::create_in_ram(schema);
    let meta = serde_json::to_vec(&index.load_metas().expect("there")).expect("JSON");
    for files in [vec![("meta.json".into(), meta)], vec![("meta.json".into(), b"{}".to_vec())], vec![]] {
        assert!(SearchIndex::of(files).is_err());
    }
    fs::write(place.file(), "switchyard handbook index of tomorrow\n").expect("written");
    assert_eq!(place.kept().len(), 3);
    assert!(place.run().0.is_kept(), "it was written over");
}

#[test]
fn it_is_read_once() {
    let place = Place::new();
    place.kept();
    let mut archive = place.archive();
    assert!(archive.read().is_some());
    assert!(archive.read().is_none());
}

/// `FORMAT` stands for the way in which this text is indexed. If this test fails, documents are indexed
/// differently than before. Then raise `FORMAT`, so that an old index is not searched with new words, and
/// update the digest here.
#[test]
fn the_format_has_a_new_number_when_documents_are_indexed_in_another_way() {
    const SAMPLE: &str = "---\ntitle: Größe der Queues\n---\nIntro to `retry_attempts` and mcp-server-time 1.2.3.\n\n\
        # First heading\n\n* Lists, [links](https://example.test/a_b) and structuredContent\n\n| a | b |\n|---|---|\n\
        | cell | другая ячейка |\n\n## Überschrift\n\n```rust\nfn main() {}\n```\n\n> quoted, retries were tried\n";
    let blob = Blob::of(SAMPLE.as_bytes());
    let modified = std::time::SystemTime::UNIX_EPOCH;
    let origin =
        super::super::document::Origin { serial: 1, file_path: "Guide/read_me.md".into(), modified, blob };
    let (document, bodies) = Document::parse(origin, SAMPLE.to_owned());
    let mut text = String::new();
    for (number, body) in bodies.iter().enumerate() {
        let trail = document.trail(number).join("/");
        let words = words::words_of(body, usize::MAX);
        let words: Vec<_> =
            words.iter().map(|word| (word.text.as_str(), word.position, word.whole)).collect();
        writeln!(text, "{} {trail} {words:?}", document.section_of(&document.file_path, number))
            .expect("written");
    }
    let digest = Sha256::digest(&text);
    assert_eq!((FORMAT, &digest[..4]), (2, &[0x9c, 0x28, 0x42, 0x8e][..]), "{text}");
}
