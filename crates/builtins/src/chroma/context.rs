//! What all tools of one Chroma server share.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::locks::Locks;
use super::model::Collection;
use super::{Chroma, names};
use crate::answer::Failure;
use crate::chroma::config;
use crate::embedding::{self, Embedding};
use crate::progress::Report;
use crate::refusal::Refusal;
use settings::nearest_few;
use upstream::api::Error;

/// Collections whose id is remembered.
const MOST_KNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);
/// Documents that are cut, embedded and written at a time: each holds all its vectors.
const WRITERS: usize = 4;
/// Texts that are embedded at a time, and the time they have. What was embedded is kept, so a call that
/// ran out of time goes on where it stopped when it is made again.
const SLICE: usize = 64;
/// Below the usual deadline of a call, so that the provider is named and not Chroma.
const SLICE_LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

/// One database of one Chroma server, and what makes its vectors.
pub(super) struct Desk {
    /// The way to Chroma.
    pub chroma: Chroma,
    /// How it was configured.
    pub options: config::Chroma,
    /// What makes vectors.
    pub embedding: Arc<dyn Embedding>,
    /// Writers of one document go one after another.
    pub locks: Locks,
    /// One for each document that is being written.
    pub writers: Semaphore,
    known: Mutex<LruCache<String, Arc<Collection>>>,
}

impl Desk {
    /// Nothing is sent yet.
    pub(super) fn new(chroma: Chroma, options: &config::Chroma, embedding: Arc<dyn Embedding>) -> Self {
        Self {
            chroma,
            options: options.clone(),
            embedding,
            locks: Locks::default(),
            writers: Semaphore::new(WRITERS),
            known: Mutex::new(LruCache::new(MOST_KNOWN)),
        }
    }

    /// The collection that callers know as `name`.
    pub(super) async fn open(&self, name: &str) -> Result<Arc<Collection>, Failure> {
        let full = names::full(&self.options.collection_prefix, "collection", name)?;
        let known = self.lock().get(&full).cloned();
        match known {
            Some(known) => Ok(known),
            None => self.find(name, full).await,
        }
    }

    /// The same as Chroma has it now, whatever was known.
    pub(super) async fn open_anew(&self, name: &str) -> Result<Arc<Collection>, Failure> {
        let full = names::full(&self.options.collection_prefix, "collection", name)?;
        self.find(name, full).await
    }

    /// Does `work` in `collection`, which callers know as `name`; once more where Chroma says that it is gone:
    /// it may have been made anew since we saw it.
    pub(super) async fn within<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        name: &str,
        collection: &Arc<Collection>,
        work: impl Fn(Arc<Collection>) -> F,
    ) -> Result<T, Failure> {
        match work(Arc::clone(collection)).await {
            Err(failure) if is_gone(&failure) => work(self.open_anew(name).await?).await,
            done => done,
        }
    }

    async fn find(&self, name: &str, full: String) -> Result<Arc<Collection>, Failure> {
        if let Some(found) = self.chroma.collection(&full).await? {
            return Ok(self.note(found));
        }
        self.forget(&full);
        Err(self.no_collection("collection", name).await.into())
    }

    /// Remembers a collection.
    pub(super) fn note(&self, collection: Collection) -> Arc<Collection> {
        let collection = Arc::new(collection);
        self.lock().put(collection.name.clone(), Arc::clone(&collection));
        collection
    }

    /// Forgets a collection, named as Chroma does.
    pub(super) fn forget(&self, full: &str) {
        self.lock().pop(full);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<String, Arc<Collection>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is no collection `name`; names some that are like it.
    pub(super) async fn no_collection(&self, field: &str, name: &str) -> Refusal {
        let prefix = self.options.collection_prefix.as_str();
        let some = self.chroma.collections(names::PAGE, 0).await.unwrap_or_default();
        let own = some.iter().filter_map(|one| one.name.strip_prefix(prefix));
        // Chroma shows names with the prefix.
        let asked = name.strip_prefix(prefix).unwrap_or(name);
        let nearest: Vec<String> = nearest_few(asked, own).into_iter().map(str::to_owned).collect();
        Refusal::new("not_found", field, name)
            .because("There is no such collection.")
            .valid("the name of a collection that is there")
            .suggest_names(
                "Did you mean one of",
                &nearest,
                "Make it with create_collection; list_collections shows what there is.",
            )
    }

    /// The vectors of `texts` for `tool`, each slice within its own time.
    pub(super) async fn embed(
        &self,
        tool: &str,
        texts: &[String],
        report: &Report,
    ) -> Result<Vec<Vec<f32>>, Refusal> {
        let mut vectors = Vec::with_capacity(texts.len());
        for slice in texts.chunks(SLICE) {
            let made = self.embedding.embed(slice, Instant::now() + SLICE_LIMIT).await;
            vectors.extend(made.map_err(|error| not_embedded(tool, &error))?);
            #[allow(clippy::cast_precision_loss)] // of some thousands
            report.share(0.8 * vectors.len() as f64 / texts.len() as f64, "embedding");
        }
        Ok(vectors)
    }
}

/// Chroma is not to blame for that, so it is an answer.
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

/// Whether Chroma says that the collection it was asked about by its id is gone.
const fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::Failed(Error::Backend { status: 404, .. }))
}
