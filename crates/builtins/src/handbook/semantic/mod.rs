//! Search by meaning, beside the search for words: vectors of all passages from an embedding provider.
//!
//! ```text
//!  none ──the provider is opened──▶ embedding ──all documents have vectors──▶ ready
//!                                       ▲──────fewer than half have──────────┘
//! ```
//!
//! Invariants: searches use words alone until the state is ready, and while the provider or the vector
//! storage fails. The result says so. A query waits at most [`WAIT`] for its vector, and as long again for
//! Chroma if vectors are stored there. After a failure only one call every `outage::REST` waits at all. A
//! [`State`] never changes; a new one replaces it.
//!
//! The provider has to answer in time, and has to give equal vectors for equal texts. [`is_made_by`] checks that.
//!
//! Not here: making the vectors (`indexer`), storing them (`storage`), and combining the rankings (`fusion`).

mod fusion;
mod indexer;
mod outage;
mod passages;
mod storage;
#[cfg(test)]
pub(super) mod tests;
mod vector_cache;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use self::indexer::Indexer;
use self::outage::Outage;
use self::passages::Passage;
use self::storage::{KnownVectors, StoredVectors};
use self::vectors::normalized;
use super::follow::Phase;
use super::index::Match;
use crate::embedding::{self, Embedding, is_same_direction};
use runtime::shutdown::Shutdown;
use upstream::api::Error;

pub(super) use self::fusion::{Sections, fused};
pub(super) use self::storage::{ChromaSearch, CollectionMaintenance, Link};
pub(super) use self::vectors::{SectionMatch, SectionMatches};
pub(super) use crate::handbook::semantic::vector_cache::VectorCache;

/// How long a query waits for its vector, and then for the vector storage.
const WAIT: Duration = Duration::from_secs(1);
/// Time limit of a request. The built-in model reads a full window in some tenths of a second.
pub(super) const LIMIT: Duration = Duration::from_mins(5);

/// Future of the provider, whose start may take a while.
pub(super) type ProviderFuture = BoxFuture<'static, Result<Arc<dyn Embedding>, embedding::Error>>;

/// Progress of the embedding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct EmbeddingProgress {
    /// Documents with vectors.
    pub documents: usize,
    /// All documents.
    pub of: usize,
    /// Vectors of these documents together.
    pub passages: usize,
    /// Whether searches use meaning too.
    pub is_ready: bool,
}

/// State of the search by meaning at one moment.
#[derive(Clone, Default)]
pub(super) struct State {
    /// The provider. `None` until it was opened.
    model: Option<Arc<dyn Embedding>>,
    known: KnownVectors,
    /// Access to vectors outside of memory.
    stored_vectors: Option<Arc<StoredVectors>>,
    /// Number of the state. It grows when equal queries may get another result.
    pub version: u32,
    /// Progress of the embedding.
    pub embedded: EmbeddingProgress,
}

/// The vectors of a handbook, kept up to date by a task.
pub(super) struct SemanticIndex {
    state: watch::Receiver<State>,
    outage: Outage,
}

/// A query vector, and the vectors to compare it with.
pub(super) struct Question {
    vector: Vec<f32>,
    known: KnownVectors,
    stored_vectors: Option<Arc<StoredVectors>>,
}

/// How a query can be answered.
pub(super) enum QueryPlan {
    /// By words alone, until the state changes.
    ByWords,
    /// By words alone, because the provider failed. That may change soon.
    NotNow,
    /// By words and meaning.
    ByMeaning(Question),
}

impl QueryPlan {
    /// Returns the query vector, if meaning counts.
    pub(super) fn question(self) -> Option<Question> {
        match self {
            Self::ByMeaning(question) => Some(question),
            Self::ByWords | Self::NotNow => None,
        }
    }
}

impl Question {
    /// Returns the cosines of all sections if the vectors are in memory. Otherwise Chroma must be asked.
    pub(super) fn near(&self) -> Option<SectionMatches> {
        self.stored_vectors.is_none().then(|| SectionMatches::of_all(self.known.vectors.near(&self.vector)))
    }

    /// Whether Chroma must be asked for the nearest sections.
    pub(super) fn is_asked_elsewhere(&self) -> bool {
        self.stored_vectors.is_some()
    }

    /// Returns what to request from Chroma for `matches`, see [`KnownVectors::chroma_search`].
    pub(super) fn chroma_search(
        &self,
        matches: &[Match],
        is_within: Option<&dyn Fn(u64, Option<usize>) -> bool>,
    ) -> ChromaSearch {
        self.known.chroma_search(matches, is_within)
    }

    /// Asks Chroma for the cosines of sections. A failure returns `None` and counts as an outage, like one of
    /// the provider.
    pub(super) async fn ask(&self, chroma_search: &ChromaSearch) -> Option<SectionMatches> {
        let stored_vectors = self.stored_vectors.as_ref()?;
        let Link { outage, news, .. } = &*stored_vectors.link;
        match timeout(WAIT, stored_vectors.nearby(&self.vector, chroma_search, &self.known)).await {
            Ok(Ok(nearby)) => {
                if outage.answered() {
                    news.notify_one();
                }
                return Some(nearby);
            }
            // The maintenance task creates the collection again.
            Ok(Err(Error::Backend { status: 404, .. })) => news.notify_one(),
            Ok(Err(error)) => outage.failed(&error.to_string()),
            Err(_) => outage.failed("it did not answer in time"),
        }
        None
    }

    /// Whether a document has vectors.
    pub(super) fn knows(&self, document: u64) -> bool {
        self.known.vectors.by_serial.get(&document).is_some_and(|of| !of.sections.is_empty())
    }
}

impl SemanticIndex {
    /// Starts the task that embeds the documents of `phase`, reusing the vectors of `cache`. It stores them in
    /// `collection` or in memory, until `tasks` end.
    pub(super) fn start(
        opening: ProviderFuture,
        cache: VectorCache,
        collection: Option<CollectionMaintenance>,
        phase: watch::Receiver<Phase>,
        tasks: &Shutdown,
    ) -> Self {
        let (sender, state) = watch::channel(State::default());
        tasks.spawn(Indexer::new(phase, sender, cache, collection, tasks.clone()).run(opening));
        Self { state, outage: Outage::of("the embedding provider") }
    }

    /// Returns the current state.
    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Embeds the query `text`, to be answered in `state`.
    pub(super) async fn question(&self, state: &State, text: &str) -> QueryPlan {
        let Some(model) = state.model.as_ref().filter(|_| state.embedded.is_ready) else {
            return QueryPlan::ByWords;
        };
        let may_ask_chroma =
            state.stored_vectors.as_ref().is_none_or(|stored_vectors| stored_vectors.link.outage.may_ask());
        if !may_ask_chroma || !self.outage.may_ask() {
            return QueryPlan::NotNow;
        }
        // If a long text was pasted, its beginning shows the topic.
        let most = model.window().characters(text);
        let text: String = text.chars().take(most).collect();
        let deadline = Instant::now() + WAIT;
        match timeout_at(deadline, model.embed(&[text], deadline)).await {
            Ok(Ok(mut vectors)) if vectors.len() == 1 => self.requested(state, normalized(vectors.remove(0))),
            Ok(Ok(_)) => self.failed("it gave no vector"),
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(_) => self.failed("it did not answer in time"),
        }
    }

    fn requested(&self, state: &State, vector: Vec<f32>) -> QueryPlan {
        if state.stored_vectors.as_ref().is_some_and(|stored_vectors| !stored_vectors.fits(&vector)) {
            return self.failed("its vector has another length than those of the documents");
        }
        self.outage.answered();
        QueryPlan::ByMeaning(Question {
            vector,
            known: state.known.clone(),
            stored_vectors: state.stored_vectors.clone(),
        })
    }

    fn failed(&self, reason: &str) -> QueryPlan {
        self.outage.failed(reason);
        QueryPlan::NotNow
    }
}

/// Whether the provider refused the texts, and did not fail itself.
fn is_refusal(error: &embedding::Error) -> bool {
    let embedding::Error::Failed { failure: Error::Backend { status, .. }, .. } = error else { return false };
    matches!(status, 400 | 413 | 422)
}

/// Whether `model` makes the vector `vector` of this passage. If it refuses the passage, it does not. An error
/// is the provider's, and leaves the question open. The cached vectors of a model that has changed are dropped.
async fn is_made_by(
    model: &dyn Embedding,
    passage: &Passage,
    vector: &[f32],
) -> Result<bool, embedding::Error> {
    let text = [passage.text.clone()];
    match model.embed_uncached(&text, Instant::now() + LIMIT).await {
        Err(error) if !is_refusal(&error) => Err(error),
        made => {
            let is_same =
                |made: Vec<Vec<f32>>| made.first().is_some_and(|made| is_same_direction(made, vector));
            let is_same = made.is_ok_and(is_same);
            if !is_same {
                model.forget_cached().await;
            }
            Ok(is_same)
        }
    }
}
