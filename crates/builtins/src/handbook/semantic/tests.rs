//! Tests of the search by meaning, with a provider that knows a few concepts and fails on demand.

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::fixture::*;
use super::indexer::PAUSES;
use super::outage::REST;
use super::*;
use crate::embedding::{EmbeddingFuture, Error, Window};
use upstream::error::Error as Failure;

/// Words with equal meaning. Every other word has its own meaning.
const CONCEPTS: &[&[&str]] = &[
    &["laptop", "notebook", "computer"],
    &["leave", "vacation", "holidays"],
    &["night", "dark", "nocturnal"],
];
pub(super) const DIMENSION: usize = 257;

/// Behavior of the provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) enum Mode {
    Works,
    Hangs,
    Fails(u16),
    /// Refuses every request that contains this word.
    Refuses(&'static str),
    /// Fails if a request contains this word.
    FailsWith(&'static str),
    /// Makes other vectors, as a different model would.
    Mirrored,
}

/// A deterministic provider that counts concepts.
pub(in super::super) struct Concepts {
    mode: Mutex<Mode>,
    requested: Mutex<Vec<Vec<String>>>,
}

impl Concepts {
    pub(in super::super) fn working() -> Arc<Self> {
        Self::new(Mode::Works)
    }

    pub(in super::super) fn new(mode: Mode) -> Arc<Self> {
        Arc::new(Self { mode: Mutex::new(mode), requested: Mutex::default() })
    }

    pub(in super::super) fn set(&self, mode: Mode) {
        *self.mode.lock().expect("lock") = mode;
    }

    fn mode(&self) -> Mode {
        *self.mode.lock().expect("lock")
    }

    /// Returns the texts of all requests since the last call.
    pub(in super::super) fn requested(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.requested.lock().expect("lock"))
    }

    pub(in super::super) fn vector(text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; DIMENSION];
        for word in text.to_lowercase().split(|letter: char| !letter.is_alphanumeric()) {
            let concept = CONCEPTS.iter().position(|words| words.contains(&word));
            let hash = word.bytes().fold(7_usize, |hash, byte| (hash * 31 + usize::from(byte)) % 9_973);
            vector[concept.unwrap_or(CONCEPTS.len() + hash % (DIMENSION - CONCEPTS.len()))] += 1.0;
        }
        vector
    }
}

impl Embedding for Concepts {
    fn embed<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
        Box::pin(async move {
            self.requested.lock().expect("lock").push(texts.to_vec());
            let failed = |failure| Err(Error::Failed { provider: "openai", model: "m".into(), failure });
            let backend = |status| Failure::backend(status, "no");
            match self.mode() {
                Mode::Hangs => {
                    tokio::time::sleep_until(deadline).await;
                    failed(Failure::TimedOut { after: WAIT })
                }
                Mode::Fails(status) => failed(backend(status)),
                Mode::Refuses(word) if texts.iter().any(|text| text.contains(word)) => failed(backend(400)),
                Mode::FailsWith(word) if texts.iter().any(|text| text.contains(word)) => failed(backend(503)),
                Mode::Mirrored => {
                    let mirrored = |mut vector: Vec<f32>| {
                        vector.reverse();
                        vector
                    };
                    Ok(texts.iter().map(|text| mirrored(Self::vector(text))).collect())
                }
                Mode::Works | Mode::Refuses(_) | Mode::FailsWith(_) => {
                    Ok(texts.iter().map(|text| Self::vector(text)).collect())
                }
            }
        })
    }

    fn provider(&self) -> &'static str {
        "openai"
    }

    fn model(&self) -> &'static str {
        "m"
    }

    fn dimension(&self) -> Option<usize> {
        Some(DIMENSION)
    }

    fn window(&self) -> Window {
        Window::of_tokens(100)
    }
}

pub(in super::super) async fn company(model: &Arc<Concepts>) -> Fixture {
    let mut fixture = Fixture::with(COMPANY).await;
    let model: Arc<dyn Embedding> = Arc::<Concepts>::clone(model);
    fixture.handbook = fixture.handbook.with(Box::pin(async { Ok(model) }), VectorCache::new(None, ""), None);
    fixture
}

pub(in super::super) async fn ready(fixture: &Fixture) -> EmbeddingProgress {
    let semantic = fixture.handbook.semantic.as_ref().expect("a provider");
    let is_done = |state: &State| state.embedded.is_ready && state.embedded.documents == state.embedded.of;
    let mut state = semantic.state.clone();
    state.wait_for(is_done).await.expect("the task runs");
    state.borrow().embedded
}

/// Returns the progress of the embedding.
pub(super) fn embedded(fixture: &Fixture) -> EmbeddingProgress {
    fixture.handbook.semantic.as_ref().expect("a provider").state().embedded
}

pub(in super::super) async fn search(fixture: &Fixture, query: &str) -> (String, Vec<String>) {
    let answer = fixture.ask("search_handbook", json!({"query": query})).await;
    let path = |hit: &Value| hit["metadata"]["path"].as_str().expect("a path").to_owned();
    let hits = answer["hits"].as_array().expect("hits").iter().map(path).collect();
    (answer["ranking"].as_str().expect("a ranking").to_owned(), hits)
}

#[tokio::test(start_paused = true)]
async fn other_words_for_the_same_find_it() {
    let model = Concepts::new(Mode::Works);
    let fixture = company(&model).await;
    let embedded = ready(&fixture).await;
    assert_eq!((embedded.documents, embedded.of), (5, 5));
    assert!(embedded.passages >= 9, "{embedded:?}");
    assert_eq!(self::embedded(&fixture), embedded);
    let (ranking, hits) = search(&fixture, "vacation").await;
    assert_eq!((ranking.as_str(), hits[0].as_str()), ("hybrid", "people/holidays"));
    let (_, hits) = search(&fixture, "notebook").await;
    assert_eq!(hits[0], "engineering/onboarding#first-week");
    let answer = fixture.ask("search_handbook", json!({"query": "vacation", "section": "engineering"})).await;
    for hit in answer["hits"].as_array().expect("hits") {
        assert!(hit["metadata"]["path"].as_str().expect("a path").starts_with("engineering"), "{hit}");
        let score = hit["metadata"]["score"].as_f64().expect("a score");
        assert!((0.0..=1.0).contains(&score), "{hit}");
    }
}

/// A document whose only section ends with `end`.
pub(super) fn long_with(end: &str) -> String {
    format!("# Long\n\n{}\n\n{end}\n", "Words about nothing at all. ".repeat(200))
}

/// Returns the excerpt of that document.
pub(super) async fn shown_of_long(fixture: &Fixture, query: &str) -> String {
    let answer = fixture.ask("search_handbook", json!({"query": query, "section": "long"})).await;
    answer["hits"][0]["content"].as_str().expect("a hit").to_owned()
}

#[tokio::test(start_paused = true)]
async fn nearest_passage_of_a_long_section_is_shown() {
    let model = Concepts::new(Mode::Works);
    let fixture = company(&model).await;
    fixture.write("long.md", &long_with("The nocturnal nocturnal nocturnal otter."));
    fixture.walked().await;
    ready(&fixture).await;
    let shown = shown_of_long(&fixture, "dark").await;
    assert!(shown.starts_with("# Long\n…\n") && shown.ends_with("nocturnal otter."), "{shown}");
    let shown = shown_of_long(&fixture, "words about computers in the dark").await;
    assert!(shown.starts_with("# Long\n\nWords"), "words decide where there are some: {shown}");
}

#[tokio::test(start_paused = true)]
async fn until_all_have_vectors_words_alone_answer_at_once() {
    let model = Concepts::new(Mode::Hangs);
    let fixture = company(&model).await;
    fixture.walked().await;
    let started = Instant::now();
    assert_eq!(
        search(&fixture, "escalation").await,
        ("lexical".into(), vec!["engineering/on-call#escalation".into()])
    );
    assert_eq!(search(&fixture, "vacation").await, ("lexical".into(), vec![]));
    assert_eq!(started.elapsed(), Duration::ZERO);
    model.set(Mode::Works);
    ready(&fixture).await;
    let (ranking, hits) = search(&fixture, "vacation").await;
    assert_eq!(
        (ranking.as_str(), hits[0].as_str()),
        ("hybrid", "people/holidays"),
        "what was remembered is not given"
    );
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_documents_does_not_count_as_all() {
    let model = Concepts::new(Mode::Hangs);
    let fixture = company(&model).await;
    let long = "Words about nothing at all. ".repeat(2_000);
    fixture.write("a.md", &format!("# First\n\n{long}"));
    fixture.write("zebra.md", &format!("# Last\n\n{long} Zebra."));
    fixture.walked().await;
    model.set(Mode::FailsWith("Zebra"));
    sleep(PAUSES.1 * 4).await;
    let embedded = self::embedded(&fixture);
    assert!(embedded.documents > 0 && embedded.documents < embedded.of && !embedded.is_ready, "{embedded:?}");
    assert_eq!(search(&fixture, "laptop").await.0, "lexical");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_down_costs_one_caller_a_second_and_nobody_an_answer() {
    let model = Concepts::new(Mode::Works);
    let fixture = company(&model).await;
    ready(&fixture).await;
    model.set(Mode::Hangs);
    model.requested();
    let started = Instant::now();
    assert_eq!(search(&fixture, "escalation").await.0, "lexical");
    assert_eq!(started.elapsed(), WAIT);
    for query in ["laptop", "leave", "escalation"] {
        let (ranking, hits) = search(&fixture, query).await;
        assert!(ranking == "lexical" && !hits.is_empty(), "{query}");
    }
    assert_eq!((started.elapsed(), model.requested().len()), (WAIT, 1), "it is left alone");
    sleep(REST).await;
    let started = Instant::now();
    let (one, other) = tokio::join!(search(&fixture, "laptop"), search(&fixture, "leave"));
    assert_eq!((one.0.as_str(), other.0.as_str()), ("lexical", "lexical"));
    assert_eq!((started.elapsed(), model.requested().len()), (WAIT, 1), "one of them looks");
    model.set(Mode::Works);
    sleep(REST).await;
    assert_eq!(search(&fixture, "escalation").await.0, "hybrid", "the answer of the bad time was not kept");
    assert_eq!(search(&fixture, "leave").await.0, "hybrid");
}

#[tokio::test(start_paused = true)]
async fn only_what_changed_is_embedded_again() {
    let model = Concepts::new(Mode::Works);
    let fixture = company(&model).await;
    ready(&fixture).await;
    model.requested();
    fixture.write(
        "people/holidays.md",
        "# Holidays\nThirty days a year.\n\n## Pets\nA dog may come at night.\n",
    );
    fixture.write("people/new.md", "# Commuting\nBy bicycle.\n");
    std::fs::remove_file(fixture.folder.path().join("engineering/onboarding.md")).expect("removed");
    fixture.walked().await;
    ready(&fixture).await;
    let requested: Vec<String> = model.requested().concat();
    assert_eq!(
        requested,
        ["Holidays > Pets\n## Pets\nA dog may come at night.", "Commuting\n# Commuting\nBy bicycle."]
    );
    assert_eq!(search(&fixture, "nocturnal pets").await.1[0], "people/holidays#pets");
    let (_, hits) = search(&fixture, "notebook").await;
    assert!(hits.iter().all(|path| !path.contains("onboarding")), "{hits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_found_by_its_words_before_it_has_vectors() {
    let model = Concepts::new(Mode::Works);
    let fixture = company(&model).await;
    ready(&fixture).await;
    model.set(Mode::Fails(503));
    fixture.write("people/new.md", "# Commuting\nBy bicycle.\n");
    fixture.walked().await;
    assert_eq!(search(&fixture, "bicycle").await.1[0], "people/new");
    model.set(Mode::Works);
    sleep(PAUSES.1).await;
    assert_eq!(ready(&fixture).await.documents, 6);
    assert_eq!(search(&fixture, "vacation").await.0, "hybrid");
}

#[tokio::test(start_paused = true)]
async fn a_document_that_the_provider_refuses_is_left_out_alone() {
    let model = Concepts::new(Mode::Refuses("Thirty"));
    let fixture = company(&model).await;
    ready(&fixture).await;
    assert_eq!(search(&fixture, "notebook").await.1[0], "engineering/onboarding#first-week");
    assert_eq!(search(&fixture, "thirty days").await.1[0], "people/holidays");
    assert!(!search(&fixture, "vacation").await.1.contains(&"people/holidays".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_can_not_be_opened_leaves_the_words() {
    let mut fixture = Fixture::with(COMPANY).await;
    let unusable = Error::Unusable { reason: "no such folder".into() };
    fixture.handbook =
        fixture.handbook.with(Box::pin(async { Err(unusable) }), VectorCache::new(None, ""), None);
    fixture.walked().await;
    assert_eq!(search(&fixture, "laptop").await.0, "lexical");
    assert_eq!(embedded(&fixture), EmbeddingProgress::default());
}

#[tokio::test(start_paused = true)]
async fn a_long_document_is_embedded_in_pieces_that_the_model_reads_whole() {
    let model = Concepts::new(Mode::Works);
    let fixture = company(&model).await;
    let text =
        format!("# Long\n\n{}\n\nThe nocturnal otter.\n", "Words about nothing at all. ".repeat(2_000));
    fixture.write("long.md", &text);
    fixture.walked().await;
    ready(&fixture).await;
    let requested = model.requested();
    assert!(requested.iter().all(|texts| texts.len() <= 128) && requested.len() > 1);
    for text in requested.concat() {
        assert!(text.chars().count() <= Window::of_tokens(100).characters(&text), "{text}");
    }
    assert_eq!(search(&fixture, "otter in the dark").await.1[0], "long");
}
