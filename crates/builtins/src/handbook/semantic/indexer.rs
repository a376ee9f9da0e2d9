//! The task that embeds every document and follows changes.
//!
//! Invariants: a passage with unchanged text keeps its vector, even if the rest of the document has changed.
//! A deleted document is missing from the next state. At most [`AT_ONCE`] texts are sent in one request, and
//! the newest documents are read between two requests. At most [`MOST_NUMBERS`] numbers are kept; documents
//! beyond that limit are found by words only. After a failure the task pauses and then resumes. If vectors
//! are stored elsewhere, a state is published after they were stored there, and superfluous vectors are
//! deleted afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::passages::{Passage, passages};
use super::storage::{CollectionMaintenance, KnownVectors, StorageError, StoredVectors};
use super::vectors::{DocumentVectors, Vectors, normalized};
use super::{EmbeddingProgress, LIMIT, ProviderFuture, State, is_refusal};
use crate::embedding::{Embedding, Error, Window};
use crate::handbook::document::Document;
use crate::handbook::follow::Phase;
use crate::handbook::semantic::vector_cache::VectorCache;
use crate::handbook::snapshot::Snapshot;
use runtime::shutdown::Shutdown;
use runtime::telemetry::untrusted;
use runtime::worker::at;

/// Most texts in one request to the provider.
const AT_ONCE: usize = 128;
/// Most numbers of all vectors in memory: 512 MiB.
const MOST_NUMBERS: usize = 128 << 20;
/// First and longest pause after a failure. Each pause is twice as long as the one before.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));
/// Consecutive refused documents that count as an outage.
const MOST_REFUSED: u32 = 10;
/// Pause between two log lines about the progress.
const TELLING: Duration = Duration::from_secs(30);

/// See the head of this file.
pub(super) struct Indexer {
    phase: watch::Receiver<Phase>,
    state: watch::Sender<State>,
    /// The collection at Chroma, unless the vectors are in memory.
    collection: Option<CollectionMaintenance>,
    tasks: Shutdown,
    /// Vectors that changed documents had before, by file, for passages that are unchanged.
    former: HashMap<String, Arc<DocumentVectors>>,
    /// Vectors of an earlier run.
    cache: VectorCache,
    /// Consecutive failures.
    failures: u32,
    /// Consecutive documents that the provider refused. After one, documents are sent one at a time.
    refused: u32,
    started: Option<Instant>,
    told: Instant,
}

/// The next action of the task.
enum IndexerStep {
    More,
    Wait,
    Pause(Duration),
    End,
}

/// A document to be embedded.
struct EmbeddingJob {
    serial: u64,
    file_path: String,
    passages: Vec<Passage>,
}

impl Indexer {
    /// Vectors that `cache` has are not made again. New ones are stored in
    /// `collection`, or in memory.
    pub(super) fn new(
        phase: watch::Receiver<Phase>,
        state: watch::Sender<State>,
        cache: VectorCache,
        collection: Option<CollectionMaintenance>,
        tasks: Shutdown,
    ) -> Self {
        let told = Instant::now();
        let former = HashMap::new();
        Self { phase, state, collection, tasks, former, cache, failures: 0, refused: 0, started: None, told }
    }

    pub(super) async fn run(mut self, opening: ProviderFuture) {
        self.cache = self.cache.open().await;
        let tasks = self.tasks.clone();
        tokio::select! {
            () = tasks.requested() => {}
            () = self.work(opening) => {}
        }
        self.write_cache().await;
    }

    async fn work(&mut self, opening: ProviderFuture) {
        let model = match opening.await {
            Ok(model) => model,
            Err(error) => return useless(&error),
        };
        self.state.send_modify(|state| state.model = Some(Arc::clone(&model)));
        loop {
            match self.step(model.as_ref()).await {
                IndexerStep::More => {}
                IndexerStep::Pause(pause) => tokio::select! {
                    () = sleep(pause) => {}
                    Some(()) = OptionFuture::from(self.collection.as_mut().map(CollectionMaintenance::is_back)) => {}
                },
                IndexerStep::End => return,
                IndexerStep::Wait => tokio::select! {
                    changed = self.phase.changed() => {
                        if changed.is_err() {
                            return;
                        }
                    }
                    Some(()) = OptionFuture::from(self.collection.as_mut().map(CollectionMaintenance::is_due)) => {}
                    () = at(self.cache.due()) => self.write_cache().await,
                },
            }
        }
    }

    /// Embeds some documents.
    async fn step(&mut self, model: &dyn Embedding) -> IndexerStep {
        let snapshot = match &*self.phase.borrow_and_update() {
            Phase::Ready(snapshot) => Arc::clone(snapshot),
            Phase::Reading | Phase::Failed(_) => return IndexerStep::Wait,
        };
        let mut vectors = Vectors::clone(&self.state.borrow().known.vectors);
        self.retire(&mut vectors, &snapshot);
        let before = vectors.by_serial.len();
        let opened = match &mut self.collection {
            Some(collection) => collection.open(model, &mut vectors).await,
            None => Ok(()),
        };
        if vectors.by_serial.len() < before || self.is_moved() {
            // A state without the lost vectors is published at once.
            self.publish(vectors.clone(), &snapshot);
        }
        if let Err(trouble) = opened {
            return self.failed(&trouble);
        }
        let jobs = self.jobs(&snapshot, &vectors, model.window()).await;
        if jobs.is_empty() {
            return self.finish(vectors, &snapshot).await;
        }
        self.started.get_or_insert_with(Instant::now);
        if let Err(trouble) = self.prove(model, &jobs).await {
            return self.failed(&trouble);
        }
        match self.embed(model, &jobs).await {
            Ok(numbers) => {
                self.recovered();
                Self::take(&mut vectors, jobs, numbers);
            }
            Err(StorageError::Embedding(error)) if is_refusal(&error) && self.refused < MOST_REFUSED => {
                self.refuse(&mut vectors, jobs, &error);
            }
            Err(trouble) => return self.failed(&trouble),
        }
        self.publish(vectors, &snapshot);
        self.cache.fell_behind();
        if self.cache.due().is_some_and(|due| due <= Instant::now()) {
            self.write_cache().await;
        }
        IndexerStep::More
    }

    /// Checks that the vectors of earlier runs were made by `model`.
    async fn prove(&mut self, model: &dyn Embedding, jobs: &[EmbeddingJob]) -> Result<(), StorageError> {
        let passages = || jobs.iter().flat_map(|job| &job.passages);
        self.cache.prove(model, passages()).await?;
        match &mut self.collection {
            Some(collection) => collection.prove(model, passages()).await,
            None => Ok(()),
        }
    }

    fn stored_vectors(&self) -> Option<Arc<StoredVectors>> {
        self.collection.as_ref().and_then(CollectionMaintenance::stored_vectors)
    }

    /// Whether searches use another collection than the current one.
    fn is_moved(&self) -> bool {
        let published = self.state.borrow().stored_vectors.as_ref().map(Arc::as_ptr);
        published != self.stored_vectors().as_ref().map(Arc::as_ptr)
    }

    async fn write_cache(&mut self) {
        let vectors = Arc::clone(&self.state.borrow().known.vectors);
        self.cache.write(vectors).await;
    }

    /// Publishes the state after all documents have vectors.
    async fn finish(&mut self, vectors: Vectors, snapshot: &Snapshot) -> IndexerStep {
        self.former.clear();
        self.cache.forget();
        if let Some(collection) = &mut self.collection {
            if let Err(trouble) = collection.settle(&vectors).await {
                return self.failed(&trouble);
            }
            if collection.stored_vectors().is_some() {
                self.recovered();
            }
        }
        self.publish(vectors.clone(), snapshot);
        if let Some(collection) = &mut self.collection
            && let Err(trouble) = collection.forget(&vectors).await
        {
            return self.failed(&trouble);
        }
        IndexerStep::Wait
    }

    /// Removes the vectors of deleted and changed documents.
    fn retire(&mut self, vectors: &mut Vectors, snapshot: &Snapshot) {
        let former = &mut self.former;
        vectors.by_serial.retain(|serial, of| {
            let is_there = snapshot.by_serial.contains_key(serial);
            if !is_there && snapshot.documents.contains_key(&of.file_path) {
                former.insert(of.file_path.clone(), Arc::clone(of));
            }
            is_there
        });
    }

    /// Returns the next documents without vectors. They are cut on a thread that may block.
    async fn jobs(&self, snapshot: &Arc<Snapshot>, vectors: &Vectors, window: Window) -> Vec<EmbeddingJob> {
        let most = if self.refused > 0 { 1 } else { AT_ONCE };
        let missing = snapshot.documents.values().filter(|of| !vectors.by_serial.contains_key(&of.serial));
        let missing: Vec<Arc<Document>> = missing.take(most).cloned().collect();
        if missing.is_empty() {
            return Vec::new();
        }
        let cut = tokio::task::spawn_blocking(move || {
            let mut count = 0;
            let small_enough = |job: &EmbeddingJob| {
                let before = count;
                count += job.passages.len();
                before == 0 || count <= AT_ONCE
            };
            missing
                .iter()
                .map(|document| EmbeddingJob::of(document, window))
                .take_while(small_enough)
                .collect()
        });
        cut.await.unwrap_or_default()
    }

    /// Returns the vectors of all passages of `jobs`, in order. A vector that is stored elsewhere is empty.
    /// Only new texts are sent to the provider.
    async fn embed(
        &mut self,
        model: &dyn Embedding,
        jobs: &[EmbeddingJob],
    ) -> Result<Vec<Vec<f32>>, StorageError> {
        let (mut vectors, mut digests): (Vec<Vec<f32>>, Vec<_>) = (Vec::new(), Vec::new());
        let (mut texts, mut places) = (Vec::new(), Vec::new());
        for job in jobs {
            let former = self.former.get(&job.file_path);
            for passage in &job.passages {
                let digest = passage.digest();
                let known = former.and_then(|former| former.find(&digest)).map(<[f32]>::to_vec);
                let known = known.or_else(|| self.cache.find(&digest));
                let is_stored = self.collection.as_ref().is_some_and(|collection| collection.has(&digest));
                if known.is_none() && !is_stored {
                    places.push(vectors.len());
                    texts.push(passage.text.clone());
                }
                vectors.push(known.unwrap_or_default());
                digests.push(digest);
            }
        }
        for (texts, places) in texts.chunks(AT_ONCE).zip(places.chunks(AT_ONCE)) {
            let made = model.embed_uncached(texts, Instant::now() + LIMIT).await?;
            for (place, vector) in places.iter().zip(made) {
                vectors[*place] = normalized(vector);
            }
        }
        match &mut self.collection {
            Some(collection) => {
                collection.put(model, &digests, vectors).await?;
                Ok(vec![Vec::new(); digests.len()])
            }
            None => Ok(vectors),
        }
    }

    fn take(vectors: &mut Vectors, jobs: Vec<EmbeddingJob>, made: Vec<Vec<f32>>) {
        let (mut made, mut numbers) = (made.into_iter(), vectors.numbers());
        for job in jobs {
            let own: Vec<Vec<f32>> = made.by_ref().take(job.passages.len()).collect();
            let own_numbers: usize = own.iter().map(Vec::len).sum();
            let fits = numbers + own_numbers <= MOST_NUMBERS;
            if fits {
                numbers += own_numbers;
            } else {
                let path = untrusted(&job.file_path);
                tracing::warn!(%path, "there is no room for the vectors of a document: words alone find it");
            }
            let of = if fits { job.with(&own) } else { job.without() };
            vectors.by_serial.insert(of.0, Arc::new(of.1));
        }
    }

    /// Skips a document that the provider refused. If several were sent, it is unknown which was refused, so
    /// they are sent one by one afterwards.
    fn refuse(&mut self, vectors: &mut Vectors, jobs: Vec<EmbeddingJob>, error: &Error) {
        let is_one = jobs.len() == 1;
        self.refused += 1;
        for job in jobs.into_iter().filter(|_| is_one) {
            let path = untrusted(&job.file_path);
            tracing::warn!(%path, %error, "a document was refused: words alone find it");
            let (serial, of) = job.without();
            vectors.by_serial.insert(serial, Arc::new(of));
        }
    }

    fn failed(&mut self, trouble: &StorageError) -> IndexerStep {
        if let StorageError::Embedding(error @ (Error::NotConfigured(_) | Error::Unusable { .. })) = trouble {
            useless(error);
            return IndexerStep::End;
        }
        let is_told = self.collection.as_ref().is_some_and(|collection| collection.is_told(trouble));
        if self.failures == 0 && !is_told {
            tracing::warn!(error = %trouble, "the handbook cannot be embedded and is tried again");
        }
        let pause = PAUSES.0.saturating_mul(1 << self.failures.min(16)).min(PAUSES.1);
        (self.failures, self.refused) = (self.failures.saturating_add(1), 0);
        IndexerStep::Pause(pause)
    }

    fn recovered(&mut self) {
        if self.failures > 0 {
            tracing::info!("the handbook can be embedded again");
        }
        (self.failures, self.refused) = (0, 0);
    }

    /// Publishes the state. Searches change only if they use vectors before or after.
    fn publish(&mut self, vectors: Vectors, snapshot: &Snapshot) {
        let (documents, of) = (vectors.by_serial.len(), snapshot.documents.len());
        let before = self.state.borrow().embedded;
        let is_most = documents == of || (before.is_ready && documents * 2 >= of);
        let is_ready = is_most && (self.collection.is_none() || self.stored_vectors().is_some());
        let embedded = EmbeddingProgress { documents, of, passages: vectors.passages(), is_ready };
        self.report(embedded, before);
        self.state.send_modify(|state| {
            if is_ready || state.embedded.is_ready {
                state.version = state.version.wrapping_add(1);
            }
            state.known = KnownVectors::new(Arc::new(vectors));
            state.stored_vectors = self.stored_vectors();
            state.embedded = embedded;
        });
    }

    fn report(&mut self, embedded: EmbeddingProgress, before: EmbeddingProgress) {
        let EmbeddingProgress { documents, of, passages, is_ready } = embedded;
        if documents == of && is_ready {
            let Some(started) = self.started.take() else { return };
            let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(documents, passages, milliseconds, "the handbook is searched by meaning too");
        } else if self.told.elapsed() >= TELLING || before.is_ready != is_ready {
            self.told = Instant::now();
            tracing::info!(documents, of, passages, "embedding the handbook");
        }
    }
}

impl EmbeddingJob {
    fn of(document: &Document, window: Window) -> Self {
        let (serial, file_path) = (document.serial, document.file_path.clone());
        Self { serial, file_path, passages: passages(document, window) }
    }

    fn with(self, vectors: &[Vec<f32>]) -> (u64, DocumentVectors) {
        let sections = self.passages.iter().map(|passage| passage.section).collect();
        let begins = self.passages.iter().map(|passage| passage.begin).collect();
        let digests = self.passages.iter().map(Passage::digest).collect();
        let numbers = vectors.concat();
        let of = DocumentVectors { file_path: self.file_path, sections, begins, digests, numbers };
        (self.serial, of)
    }

    fn without(self) -> (u64, DocumentVectors) {
        (self.serial, DocumentVectors { file_path: self.file_path, ..DocumentVectors::default() })
    }
}

fn useless(error: &Error) {
    tracing::warn!(%error, "the handbook is searched by words alone");
}
