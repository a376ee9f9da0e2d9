//! Search by meaning, beside the search for words: vectors of all passages from an embedding provider.
//!
//! ```text
//!  none ──the provider is opened──▶ embedding ──all documents have vectors──▶ ready
//!                                       ▲──────fewer than half have──────────┘
//! ```
//!
//! Invariants: while it is not ready, and while the provider or the place where vectors are kept does not
//! answer, searches are answered by words alone, and the answer says so; a question waits for its vector at most
//! [`WAIT`], and as long again for Chroma where vectors are there; after a failure nobody but one caller every
//! `outage::REST` waits at all. A [`State`] stays as it is while the next one is made.
//!
//! Not here: making the vectors (`indexer`), where they are (`shelf`), and what becomes of both rankings
//! (`fusion`).

mod fusion;
mod indexer;
mod outage;
mod passages;
mod shelf;
#[cfg(test)]
pub(super) mod tests;
mod vector_cache;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

pub(super) use self::fusion::{Sections, fused};
use self::indexer::Indexer;
use self::outage::Outage;
use self::shelf::{Known, Reach};
pub(super) use self::shelf::{Link, Shelf, Wish};
use self::vectors::normalized;
pub(super) use self::vectors::{Near, Nearby};
use super::follow::Phase;
use super::index::Match;
use crate::embedding::{self, Embedding};
pub(super) use crate::handbook::meaning::vector_cache::KeptVectors;
use runtime::shutdown::Shutdown;
use upstream::api::Error;

/// How long a question waits for its vector, and then for those who keep the others.
const WAIT: Duration = Duration::from_secs(1);

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
    known: Known,
    /// The way to vectors that are not here.
    reach: Option<Arc<Reach>>,
    /// Counts the states in which the same question has another answer.
    pub version: u32,
    /// How far it is.
    pub embedded: Embedded,
}

/// The vectors of a handbook, kept up to date by a task.
pub(super) struct Meaning {
    state: watch::Receiver<State>,
    outage: Outage,
}

/// A question and what it is held against.
pub(super) struct Question {
    vector: Vec<f32>,
    known: Known,
    reach: Option<Arc<Reach>>,
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
    /// How near every section is to it, where the vectors are in memory; else Chroma is asked.
    pub(super) fn near(&self) -> Option<Nearby> {
        self.reach.is_none().then(|| Nearby::of_all(self.known.vectors.near(&self.vector)))
    }

    /// Whether Chroma is to be asked what is near.
    pub(super) fn is_asked_elsewhere(&self) -> bool {
        self.reach.is_some()
    }

    /// What to ask Chroma, where `matches` have the words: see [`Known::wish`].
    pub(super) fn wish(
        &self,
        matches: &[Match],
        is_within: Option<&dyn Fn(u64, Option<usize>) -> bool>,
    ) -> Wish {
        self.known.wish(matches, is_within)
    }

    /// How near sections are to it by what Chroma answers; none when it does not. That is remembered as the outage
    /// of a provider is.
    pub(super) async fn ask(&self, wish: &Wish) -> Option<Nearby> {
        let reach = self.reach.as_ref()?;
        let Link { outage, news, .. } = &*reach.link;
        match timeout(WAIT, reach.nearby(&self.vector, wish, &self.known)).await {
            Ok(Ok(nearby)) => {
                if outage.answered() {
                    news.notify_one();
                }
                return Some(nearby);
            }
            // Who keeps it makes it anew.
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

impl Meaning {
    /// Begins to make vectors of the documents of `phase`, beside those of `kept`, and to put them on `shelf`,
    /// until `tasks` end.
    pub(super) fn start(
        opening: Opening,
        kept: KeptVectors,
        shelf: Shelf,
        phase: watch::Receiver<Phase>,
        tasks: &Shutdown,
    ) -> Self {
        let (sender, state) = watch::channel(State::default());
        tasks.spawn(Indexer::new(phase, sender, kept, shelf, tasks.clone()).run(opening));
        Self { state, outage: Outage::of("the embedding provider") }
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
        let may_ask_chroma = state.reach.as_ref().is_none_or(|reach| reach.link.outage.may_ask());
        if !may_ask_chroma || !self.outage.may_ask() {
            return Asked::NotNow;
        }
        // The beginning of a pasted text tells what it is about.
        let most = model.window().characters(text);
        let text: String = text.chars().take(most).collect();
        let deadline = Instant::now() + WAIT;
        match timeout_at(deadline, model.embed(&[text], deadline)).await {
            Ok(Ok(mut vectors)) if vectors.len() == 1 => self.asked(state, normalized(vectors.remove(0))),
            Ok(Ok(_)) => self.failed("it gave no vector"),
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(_) => self.failed("it did not answer in time"),
        }
    }

    fn asked(&self, state: &State, vector: Vec<f32>) -> Asked {
        if state.reach.as_ref().is_some_and(|reach| !reach.fits(&vector)) {
            return self.failed("its vector has another length than those of the documents");
        }
        self.outage.answered();
        Asked::ByMeaning(Question { vector, known: state.known.clone(), reach: state.reach.clone() })
    }

    fn failed(&self, reason: &str) -> Asked {
        self.outage.failed(reason);
        Asked::NotNow
    }
}
