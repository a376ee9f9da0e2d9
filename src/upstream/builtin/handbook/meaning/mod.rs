//! Search by meaning, beside the search for words: vectors of all passages from an embedding provider.
//!
//! ```text
//!  none ──the provider is opened──▶ embedding ──all documents have vectors──▶ ready
//!                                       ▲──────fewer than half have──────────┘
//! ```
//!
//! Invariants: while it is not ready, and while the provider does not answer, searches are answered by words
//! alone, and the answer says so; a question waits for its vector at most [`WAIT`], and after a failure
//! nobody but one caller every [`REST`] waits at all. A [`State`] stays as it is while the next one is made.
//!
//! Not here: making the vectors (`indexer`), and what becomes of both rankings (`fusion`).

mod fusion;
mod indexer;
mod kept;
mod passages;
#[cfg(test)]
pub(super) mod tests;
mod vectors;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

pub(super) use self::fusion::{Sections, fused};
use self::indexer::Indexer;
pub(super) use self::kept::KeptVectors;
use self::vectors::normalized;
pub(super) use self::vectors::{Near, Vectors};
use super::follow::Phase;
use crate::shutdown::Shutdown;
use crate::upstream::builtin::embedding::{self, Embedding};

/// How long a question waits for its vector.
const WAIT: Duration = Duration::from_secs(1);
/// After a failure, how long the provider is not asked for the vector of a question.
const REST: Duration = Duration::from_secs(10);

/// The way to a provider, which may take a while.
pub(super) type Opening = BoxFuture<'static, Result<Arc<dyn Embedding>, embedding::Error>>;

/// How many documents have vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Documents with vectors.
    pub documents: usize,
    /// Of so many.
    pub of: usize,
    /// Vectors that they have together.
    pub passages: usize,
    /// Whether searches go by meaning too.
    pub is_ready: bool,
}

/// What is known at one moment.
#[derive(Clone, Default)]
pub(super) struct State {
    /// None until it was opened.
    model: Option<Arc<dyn Embedding>>,
    vectors: Arc<Vectors>,
    /// Counts the states in which the same question has another answer.
    pub version: u32,
    /// How far it is.
    pub embedded: Embedded,
}

/// The vectors of a handbook, kept up to date by a task.
pub(super) struct Meaning {
    state: watch::Receiver<State>,
    outage: Mutex<Outage>,
}

/// What is remembered of a provider that failed.
#[derive(Default)]
struct Outage {
    /// Until when nobody asks it.
    until: Option<Instant>,
}

/// A question and what it is held against.
pub(super) struct Question {
    vector: Vec<f32>,
    vectors: Arc<Vectors>,
}

/// How a question can be answered.
pub(super) enum Asked {
    /// By words alone, until the state is another one.
    ByWords,
    /// By words alone, because the provider failed; soon that may be otherwise.
    NotNow,
    /// By words and meaning.
    ByMeaning(Question),
}

impl Asked {
    /// The question, if meaning counts.
    pub(super) fn question(self) -> Option<Question> {
        match self {
            Self::ByMeaning(question) => Some(question),
            Self::ByWords | Self::NotNow => None,
        }
    }
}

impl Question {
    /// How near every section is to it, in no order.
    pub(super) fn near(&self) -> Vec<Near> {
        self.vectors.near(&self.vector)
    }

    /// Whether a document has vectors.
    pub(super) fn knows(&self, document: u64) -> bool {
        self.vectors.by_serial.get(&document).is_some_and(|of| !of.sections.is_empty())
    }
}

impl Meaning {
    /// Begins to make vectors of the documents of `phase`, beside those of `kept`, until `tasks` end.
    pub(super) fn start(
        opening: Opening,
        kept: KeptVectors,
        phase: watch::Receiver<Phase>,
        tasks: &Shutdown,
    ) -> Self {
        let (sender, state) = watch::channel(State::default());
        tasks.spawn(Indexer::new(phase, sender, kept, tasks.clone()).run(opening));
        Self { state, outage: Mutex::default() }
    }

    /// The present state.
    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The question `text`, to be answered in `state`.
    pub(super) async fn question(&self, state: &State, text: &str) -> Asked {
        let Some(model) = state.model.as_ref().filter(|_| state.embedded.is_ready) else {
            return Asked::ByWords;
        };
        if !self.may_ask() {
            return Asked::NotNow;
        }
        // The beginning of a pasted text tells what it is about.
        let most = model.window().characters(text);
        let text: String = text.chars().take(most).collect();
        let deadline = Instant::now() + WAIT;
        match timeout_at(deadline, model.embed(&[text], deadline)).await {
            Ok(Ok(mut vectors)) if vectors.len() == 1 => {
                self.answered();
                let vector = normalized(vectors.remove(0));
                Asked::ByMeaning(Question { vector, vectors: Arc::clone(&state.vectors) })
            }
            Ok(Ok(_)) => self.failed("it gave no vector"),
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(_) => self.failed("it did not answer in time"),
        }
    }

    /// Whether the provider may be asked. Of those who come after its rest, the first one only.
    fn may_ask(&self) -> bool {
        let mut outage = self.outage();
        let now = Instant::now();
        let may = outage.until.is_none_or(|until| until <= now);
        if may && outage.until.is_some() {
            outage.until = Some(now + REST);
        }
        may
    }

    fn answered(&self) {
        if self.outage().until.take().is_some() {
            tracing::info!("the embedding provider answers again: the handbook is searched by meaning too");
        }
    }

    /// Told once and not for every question.
    fn failed(&self, reason: &str) -> Asked {
        let before = self.outage().until.replace(Instant::now() + REST);
        if before.is_none() {
            tracing::warn!(
                reason,
                "the embedding provider failed: the handbook is searched by words alone meanwhile"
            );
        }
        Asked::NotNow
    }

    fn outage(&self) -> std::sync::MutexGuard<'_, Outage> {
        // Every change leaves it whole.
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
