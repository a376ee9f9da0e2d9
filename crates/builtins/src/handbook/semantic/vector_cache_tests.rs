//! Tests of the vectors on disk between two runs.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::super::Handbook;
use super::super::super::fixture::{COMPANY, Fixture, config, server_context};
use super::super::tests::{Concepts, Mode, embedded, ready, search};
use super::*;
use runtime::shutdown::Shutdown;
use upstream::api::Events;

fn file(state: &TempDir) -> PathBuf {
    state.path().join("docs.vectors")
}

/// Opens the company's handbook with the vector file in `state` and the embedding provider `model`.
async fn opened(model: &Arc<Concepts>, state: &TempDir) -> Fixture {
    let mut fixture = Fixture::with(COMPANY).await;
    let model: Arc<dyn Embedding> = Arc::<Concepts>::clone(model);
    let cache = VectorCache::new(Some(file(state)), "m");
    fixture.handbook = fixture.handbook.with(Box::pin(async { Ok(model) }), cache, None);
    fixture
}

/// Ends the handbook as at the end of the program.
async fn ended(fixture: Fixture) {
    let tasks = fixture.handbook.tasks.clone();
    drop(fixture);
    assert!(tasks.wait(Duration::from_secs(1)).await);
}

/// Runs once to the end. Returns the texts that the model was asked for.
async fn first_run(state: &TempDir) -> Vec<String> {
    let model = Concepts::working();
    let fixture = opened(&model, state).await;
    ready(&fixture).await;
    ended(fixture).await;
    model.requested().concat()
}

#[tokio::test(start_paused = true)]
async fn a_second_run_asks_for_one_text_and_finds_the_same() {
    let state = tempfile::tempdir().expect("a folder");
    assert!(first_run(&state).await.len() > 5);
    let model = Concepts::working();
    let fixture = opened(&model, &state).await;
    ready(&fixture).await;
    assert_eq!(model.requested().concat().len(), 1, "the one that shows that the model is still the same");
    let (ranking, hits) = search(&fixture, "vacation").await;
    assert_eq!((ranking.as_str(), hits[0].as_str()), ("hybrid", "people/holidays"));
    fixture.write("people/new.md", "# Commuting\nBy bicycle.\n");
    fixture.walked().await;
    ready(&fixture).await;
    model.requested();
    ended(fixture).await;
    let model = Concepts::working();
    let fixture = opened(&model, &state).await;
    fixture.write("people/new.md", "# Commuting\nBy bicycle.\n");
    fixture.walked().await;
    ready(&fixture).await;
    assert_eq!(model.requested().concat().len(), 1, "what was new is kept too");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_program_waits_until_the_newest_are_kept() {
    let (docs, state) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    fs::write(docs.path().join("a.md"), "# First\nOne text.\n").expect("written");
    let (shutdown, model) = (Shutdown::new(), Concepts::working());
    let events = Events::channel().0;
    let handbook = Handbook::open("docs", &config(docs.path(), 0), &server_context(&shutdown), events).await;
    let working: Arc<dyn Embedding> = Arc::<Concepts>::clone(&model);
    let cache = VectorCache::new(Some(file(&state)), "m");
    let handbook = handbook.expect("it opens").with(Box::pin(async { Ok(working) }), cache, None);
    let fixture = Fixture { folder: docs, handbook };
    ready(&fixture).await;
    fixture.walked().await;
    let parts = (0..3_000).map(|number| format!("## Part {number}\nText {number}.\n"));
    fixture.write("b.md", &parts.collect::<Vec<_>>().join("\n"));
    let mut known = fixture.handbook.semantic.as_ref().expect("a provider").state.clone();
    let passages =
        known.wait_for(|state| state.embedded.documents == 2).await.expect("it runs").embedded.passages;
    assert!(passages > 1_000, "{passages}");
    shutdown.begin();
    assert!(shutdown.wait(Duration::from_secs(10)).await);
    assert_eq!(read(&file(&state)).expect("good").places.len(), passages);
}

#[tokio::test(start_paused = true)]
async fn another_model_under_the_same_name_makes_everything_anew() {
    let state = tempfile::tempdir().expect("a folder");
    let texts = first_run(&state).await.len();
    let model = Concepts::working();
    model.set(Mode::Mirrored);
    let fixture = opened(&model, &state).await;
    ready(&fixture).await;
    assert_eq!(model.requested().concat().len(), texts + 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_believed_before_the_model_has_answered() {
    let state = tempfile::tempdir().expect("a folder");
    first_run(&state).await;
    let model = Concepts::working();
    model.set(Mode::Fails(503));
    let fixture = opened(&model, &state).await;
    fixture.walked().await;
    assert_eq!(embedded(&fixture).documents, 0);
    model.set(Mode::Works);
    ready(&fixture).await;
    assert_eq!(search(&fixture, "vacation").await.0, "hybrid");
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods)] // the clock of the file system is not paused
async fn while_a_long_handbook_is_embedded_it_is_kept_once_a_minute() {
    let state = tempfile::tempdir().expect("a folder");
    let model = Concepts::working();
    let fixture = opened(&model, &state).await;
    ready(&fixture).await;
    fixture.walked().await;
    let written = |state: &TempDir| fs::metadata(file(state)).and_then(|metadata| metadata.modified()).ok();
    let first = written(&state).expect("the first ones are written at once");
    // The clock of the file system is coarser than this test is fast.
    std::thread::sleep(Duration::from_millis(20));
    fixture.write("people/new.md", "# Commuting\nBy bicycle.\n");
    fixture.walked().await;
    ready(&fixture).await;
    assert_eq!(written(&state), Some(first));
    tokio::time::sleep(WRITE_INTERVAL).await;
    fixture.walked().await;
    assert_ne!(written(&state), Some(first));
}

fn read(path: &Path) -> Option<CachedVectors> {
    VectorFile::new(path.to_owned(), "m").read()
}

/// Writes a file with a valid digest and these numbers before `rest`.
fn forge(path: &Path, count: u64, dimension: u64, rest: &[u8]) {
    let head = VectorFile::new(path.to_owned(), "m").head;
    let body = [head.as_bytes(), &count.to_le_bytes(), &dimension.to_le_bytes(), rest].concat();
    private_file::replace(path, &[&body, digest(&SHA256, &body).as_ref()].concat()).expect("written");
}

/// Vectors of documents, each with the digest of its only text.
fn vectors<const N: usize>(documents: [(u8, &[f32]); N]) -> Vectors {
    let of = |(number, numbers): (u8, &[f32])| {
        let digests = if numbers.is_empty() { Vec::new() } else { vec![[number; 16]] };
        let sections = vec![0; digests.len()];
        let of =
            DocumentVectors { sections, digests, numbers: numbers.to_vec(), ..DocumentVectors::default() };
        (u64::from(number), Arc::new(of))
    };
    Vectors { by_serial: documents.map(of).into() }
}

#[test]
fn file_with_wrong_numbers_or_for_another_model_is_ignored() {
    let state = tempfile::tempdir().expect("a folder");
    let path = file(&state);
    let one = [&[7_u8; 16][..], &1.0_f32.to_le_bytes(), &0.5_f32.to_le_bytes()].concat();
    forge(&path, 1, 2, &one);
    assert_eq!(read(&path).expect("good").find(&[7; 16]), Some(vec![1.0, 0.5]));
    assert_eq!(read(&path).expect("good").find(&[8; 16]), None);
    assert!(VectorFile::new(path.clone(), "other").read().is_none());
    for (count, dimension) in [
        (1, 3),
        (2, 2),
        (0, 0),
        (u64::MAX, 2),
        (1 << 40, 2),
        (1, u64::MAX),
        (u64::MAX, u64::MAX),
        (1, 65_537),
    ] {
        forge(&path, count, dimension, &one);
        assert!(read(&path).is_none(), "{count} of {dimension}");
    }
}

#[test]
fn damaged_file_is_ignored_wherever_the_damage_is() {
    let state = tempfile::tempdir().expect("a folder");
    let path = file(&state);
    assert!(VectorFile::new(path.clone(), "m").write(&vectors([(1, &[1.0])])));
    let whole = fs::read(&path).expect("there");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        for bytes in [&damaged[..], &whole[..at]] {
            fs::write(&path, bytes).expect("written");
            assert!(read(&path).is_none(), "byte {at}");
        }
    }
    fs::write(&path, [&whole[..], b"x"].concat()).expect("written");
    assert!(read(&path).is_none(), "longer");
    fs::write(&path, &whole).expect("written");
    assert!(read(&path).is_some());
}

#[test]
fn one_gateway_writes_and_another_reads() {
    let state = tempfile::tempdir().expect("a folder");
    let [mut one, mut other] = [(); 2].map(|()| VectorFile::new(file(&state), "m"));
    assert!(one.write(&vectors([(1, &[1.0])])));
    assert!(!other.write(&vectors([(2, &[1.0])])));
    assert!(other.read().expect("good").find(&[1; 16]).is_some());
    drop(one);
    assert!(other.write(&vectors([(2, &[1.0])])), "the lock went with its holder");
}

#[tokio::test(start_paused = true)]
async fn folder_that_cannot_be_written_costs_no_search() {
    let state = tempfile::tempdir().expect("a folder");
    fs::create_dir(file(&state)).expect("a folder in the place of the file");
    let model = Concepts::working();
    let fixture = opened(&model, &state).await;
    ready(&fixture).await;
    assert_eq!(search(&fixture, "vacation").await.0, "hybrid");
}

#[test]
fn documents_without_vectors_and_of_another_length_are_not_written() {
    let state = tempfile::tempdir().expect("a folder");
    let path = file(&state);
    let of = [(1, &[1.0, 0.0][..]), (2, &[]), (3, &[0.0, 1.0])];
    assert!(VectorFile::new(path.clone(), "m").write(&vectors(of)));
    let cached = read(&path).expect("good");
    assert_eq!(cached.find(&[1; 16]), Some(vec![1.0, 0.0]));
    assert_eq!(cached.find(&[3; 16]), Some(vec![0.0, 1.0]));
    assert_eq!((cached.find(&[2; 16]), cached.places.len()), (None, 2));
}
