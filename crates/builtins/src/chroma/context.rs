//! State that all tools of one Chroma server share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{MutexGuard, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use super::model::Collection;
use super::{ChromaClient, names};
use crate::answer::Failure;
use crate::chroma::config;
use crate::embedding::{self, Embedding};
use crate::progress::Report;
use crate::refusal::Refusal;
use settings::nearest_few;
use upstream::api::Error;

/// Documents that are cut, embedded and written at a time. Each holds all its vectors in memory.
const WRITERS: usize = 4;
/// Texts in one embedding request at most. Vectors are cached, so a call that timed out continues where it stopped
/// when it is repeated.
const SLICE: usize = 64;
/// Texts in the first request. A slow model gets few at a time, because with many it would never finish in time.
const FIRST_SLICE: usize = 8;
/// Time for one such request. It is below the usual deadline of a call, so that the error names the provider
/// and not Chroma.
const SLICE_LIMIT: Duration = Duration::from_secs(20);

/// One database of one Chroma server, with its embedding provider.
pub(super) struct ChromaContext {
    /// The client for Chroma.
    pub chroma: ChromaClient,
    /// Its configuration.
    pub options: config::ChromaOptions,
    /// The embedding provider.
    pub embedding: Arc<dyn Embedding>,
    /// Locks that serialize writers of one document.
    pub locks: Locks,
    /// One permit for each document that is being written.
    pub writers: Semaphore,
}

impl ChromaContext {
    /// Makes the state without sending a request.
    pub(super) fn new(
        chroma: ChromaClient,
        options: &config::ChromaOptions,
        embedding: Arc<dyn Embedding>,
    ) -> Self {
        Self {
            chroma,
            options: options.clone(),
            embedding,
            locks: Locks::default(),
            writers: Semaphore::new(WRITERS),
        }
    }

    /// Returns the collection with the client's name `name`.
    pub(super) async fn open(&self, name: &str) -> Result<Collection, Failure> {
        let full = names::full(&self.options.collection_prefix, "collection", name)?;
        match self.chroma.collection(&full).await? {
            Some(found) => Ok(found),
            None => Err(self.no_collection("collection", name).await.into()),
        }
    }

    /// If `outcome` says that the collection is gone, returns the one that has its name now. Another client may have deleted
    /// it and created it again while texts were embedded.
    pub(super) async fn reopened<T>(
        &self,
        name: &str,
        outcome: &Result<T, Failure>,
    ) -> Result<Option<Collection>, Failure> {
        match outcome {
            Err(Failure::Failed(Error::Backend { status: 404, .. })) => self.open(name).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Refuses the unknown collection `name`, and suggests similar names.
    pub(super) async fn no_collection(&self, field: &str, name: &str) -> Refusal {
        let prefix = self.options.collection_prefix.as_str();
        let some = self.chroma.collections(names::PAGE, 0).await.unwrap_or_default();
        let own = some.iter().filter_map(|one| one.name.strip_prefix(prefix));
        // Chroma shows names with the prefix.
        let requested = name.strip_prefix(prefix).unwrap_or(name);
        let nearest: Vec<String> = nearest_few(requested, own).into_iter().map(str::to_owned).collect();
        Refusal::new("not_found", field, name)
            .because("There is no such collection.")
            .valid("the name of a collection that is there")
            .suggest_names(
                "Did you mean one of",
                &nearest,
                "Make it with create_collection; list_collections shows what there is.",
            )
    }

    /// Embeds `texts` for `tool`, with a time limit for each request.
    pub(super) async fn embed(
        &self,
        tool: &str,
        texts: &[String],
        report: &Report,
    ) -> Result<Vec<Vec<f32>>, Refusal> {
        let (mut vectors, mut most) = (Vec::with_capacity(texts.len()), FIRST_SLICE);
        while vectors.len() < texts.len() {
            let rest = &texts[vectors.len()..];
            let started = Instant::now();
            let made = self.embedding.embed(&rest[..most.min(rest.len())], started + SLICE_LIMIT).await;
            vectors.extend(made.map_err(|error| not_embedded(tool, &error))?);
            most = fitting(most, started.elapsed());
            #[allow(clippy::cast_precision_loss)] // of some thousands
            report.share(0.8 * vectors.len() as f64 / texts.len() as f64, "embedding");
        }
        Ok(vectors)
    }
}

/// Returns how many texts the next request has, after `many` took `time`.
fn fitting(many: usize, time: Duration) -> usize {
    match time {
        time if time < SLICE_LIMIT / 4 => (many * 2).min(SLICE),
        time if time > SLICE_LIMIT / 2 => (many / 2).max(1),
        _ => many,
    }
}

/// Reports a failed provider as a refusal, because Chroma did not fail.
fn not_embedded(tool: &str, error: &embedding::Error) -> Refusal {
    let (word, suggestion) = match error {
        embedding::Error::NotConfigured(_) => {
            ("not_configured", "An operator has to set them under `chroma` of this server.")
        }
        error if error.is_retryable() => ("embedding_failed", "Try again later; nothing was changed."),
        _ => ("embedding_failed", "An operator has to look at `embedding`; nothing was changed."),
    };
    Refusal::new(word, "embedding", &Value::Null)
        .because(&format!("{tool} needs vectors: {error}."))
        .valid("an embedding provider that answers")
        .suggest(suggestion)
}

/// Locks that all documents share by their hash. Two documents with one lock wait for each other, which costs time but
/// no memory. A task holds at most one lock, so deadlocks are impossible.
const LOCKS: usize = 256;

/// Locks that serialize the writers of one document.
pub(super) struct Locks {
    all: Vec<tokio::sync::Mutex<()>>,
    hash: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { all: (0..LOCKS).map(|_| tokio::sync::Mutex::default()).collect(), hash: RandomState::new() }
    }
}

impl Locks {
    /// Waits until no other task writes the document, and locks it.
    pub(super) async fn lock(&self, collection: Uuid, document: &str) -> MutexGuard<'_, ()> {
        let hash = self.hash.hash_one((collection, document));
        #[allow(clippy::cast_possible_truncation)] // any part of a hash will do
        let at = hash as usize % self.all.len();
        self.all[at].lock().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::sleep;

    use super::*;
    use crate::chroma::fixture;
    use crate::embedding::{EmbeddingFuture, Window};
    use runtime::shutdown::Shutdown;

    /// A model that takes the same time for each text.
    struct Slow(Duration);

    impl Embedding for Slow {
        fn embed<'a>(&'a self, texts: &'a [String], deadline: Instant) -> EmbeddingFuture<'a> {
            async move {
                let time = self.0 * u32::try_from(texts.len()).expect("few");
                if Instant::now() + time > deadline {
                    let failure = Error::TimedOut { after: SLICE_LIMIT };
                    return Err(embedding::Error::Failed { provider: "slow", model: "m".into(), failure });
                }
                sleep(time).await;
                Ok(vec![vec![1.0]; texts.len()])
            }
            .boxed()
        }

        fn provider(&self) -> &'static str {
            "slow"
        }

        fn model(&self) -> &'static str {
            "m"
        }

        fn window(&self) -> Window {
            Window::of_tokens(100)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_model_embeds_a_long_text_in_slices_that_it_has_time_for() {
        for (each, limit) in [(2, 201), (1, 101), (0, 1)] {
            let options = fixture::options(&"http://localhost:1".parse().expect("a URL"), None);
            let chroma =
                ChromaClient::new(&options.place, &crate::server_context(&Shutdown::new())).expect("usable");
            let slow = Arc::new(Slow(Duration::from_secs(each)));
            let context = ChromaContext::new(chroma, &options, slow);
            let (texts, started) = (vec!["a".to_owned(); 100], Instant::now());
            let made = context.embed("add_document", &texts, &Report::none()).await.expect("in time");
            assert!(made.len() == 100 && started.elapsed() < Duration::from_secs(limit));
        }
    }
}
