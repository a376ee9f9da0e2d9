//! Tasks that ingest documents: the order in which they run, and what happens when one has ended.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lru::LruCache;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::failed;
use super::form::{self, DocumentForm};
use super::job::{self, Done, IngestJob, Outcome, Step};
use super::journal::{Journal, JournalEntry};
use super::remote::R2rApi;
use super::roots::Roots;
use super::source::SourceFile;
use crate::answer::Failure;
use crate::r2r::answers::Answers;
use crate::r2r::id::Id;
use crate::refusal::Refusal;
use json::Raw;
use protocol::{Notification, method};
use runtime::shutdown::Shutdown;
use upstream::api::{Error, Event, Events};

/// How long the ingestion of one document may take, from the start of its turn.
pub(super) const JOB_LIMIT: Duration = Duration::from_hours(2);
/// How long the existence of a collection is cached.
const COLLECTION_TTL: Duration = Duration::from_mins(1);
/// Most collections in that cache.
pub(super) const MOST_COLLECTIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// State that all tasks share.
pub(super) struct Tasks {
    pub(super) remote: Box<dyn R2rApi>,
    pub(super) roots: Arc<Roots>,
    pub(super) journal: Journal,
    pub(super) answers: Answers,
    /// The id of the gateway's account at R2R, once it was requested.
    pub(super) who: OnceCell<String>,
    pub(super) events: Events,
    /// One permit for each document under way.
    pub(super) seats: Arc<Semaphore>,
    pub(super) uploads: Semaphore,
    pub(super) turns: Mutex<HashMap<Uuid, Weak<tokio::sync::Mutex<()>>>>,
    pub(super) collections: Mutex<LruCache<Id, Instant>>,
}

/// One document under way.
pub(super) struct Task {
    pub(super) entry: JournalEntry,
    pub(super) number: u64,
    /// The file, opened for the request. `None` after a restart.
    pub(super) source: Option<SourceFile>,
    pub(super) is_awaited: bool,
    pub(super) is_watched: bool,
    pub(super) steps: watch::Sender<Step>,
    pub(super) _seat: OwnedSemaphorePermit,
}

impl Tasks {
    /// Resumes what an earlier instance left.
    pub(super) async fn resume(self: Arc<Self>, shutdown: Shutdown) {
        for (number, entry) in self.journal.take_over().await {
            let Ok(seat) = Arc::clone(&self.seats).acquire_owned().await else { return };
            tracing::info!(file = entry.path, "resuming a document that was under way");
            let (steps, _) = watch::channel(Step { share: 0.0, message: String::new(), outcome: None });
            let task = Task {
                entry,
                number,
                source: None,
                is_awaited: false,
                is_watched: false,
                steps,
                _seat: seat,
            };
            shutdown.spawn_until_end(Arc::clone(&self).ingest(task));
        }
    }

    /// Ingests a document and publishes the outcome.
    pub(super) async fn ingest(self: Arc<Self>, task: Task) {
        let source = match &task.source {
            Some(source) => Ok(source.clone()),
            None => self.source(&task.entry.path).await,
        };
        let outcome = match source {
            Ok(source) => self.ingest_from(&task, source).await,
            Err(failure) => Err(failure),
        };
        let outcome = match outcome {
            Err(failure) => Err(self.put_back(&task, failure).await),
            done => done,
        };
        self.end(task, outcome).await;
    }

    async fn ingest_from(&self, task: &Task, source: SourceFile) -> Outcome {
        let entry = &task.entry;
        let turn = self.turn(entry.document.0);
        let _turn = turn.lock().await;
        let Ok(upload) = self.uploads.acquire().await else {
            return Err(Failure::Failed(Error::Unavailable { state: "shutting down" }));
        };
        let work = async {
            let digest = source.digest().await;
            let digest =
                digest.map_err(|fault| Failure::Refused(job::refusal(&entry.path, &fault.words())))?;
            let told = (source.name.as_str(), digest.as_str(), &entry.metadata);
            let form = DocumentForm::new(entry.document.0, entry.collection.0, entry.mode, told);
            let job = IngestJob {
                remote: self.remote.as_ref(),
                path: &entry.path,
                source: source.clone(),
                form,
                steps: &task.steps,
                uploads: &self.uploads,
                journal: &self.journal,
                number: task.number,
                is_awaited: task.is_awaited,
                is_watched: task.is_watched,
            };
            job.run(upload).await
        };
        let outcome = timeout(JOB_LIMIT, work).await;
        outcome.unwrap_or(Err(Error::TimedOut { after: JOB_LIMIT }.into()))
    }

    async fn end(&self, task: Task, outcome: Outcome) {
        let (file, document) = (&task.entry.path, task.entry.document);
        match &outcome {
            Ok(done) => tracing::info!(file, %document, ?done, "a document was ingested"),
            Err(failure) => tracing::warn!(file, %document, ?failure, "a document was not ingested"),
        }
        // If R2R refused the credentials, the task is resumed after an operator has fixed them.
        let is_parked = outcome.as_ref().is_err_and(is_parked);
        if !is_parked {
            // Before the cached answers are dropped, so that a client that lists the documents again finds
            // the failure.
            let size = task.source.as_ref().map_or(0, |source| source.len);
            let failure = outcome.as_ref().err().map(|failure| (failed::reason(failure), size));
            self.journal.conclude(task.number, failure);
        }
        if !matches!(outcome, Ok(Done::Unchanged)) {
            self.answers.forget(task.entry.collection).await;
        }
        if outcome.is_ok() {
            self.journal.forget_kept(document).await;
        }
        // A removed version stays in the journal, even if a client waits.
        if !is_parked || (task.is_awaited && self.journal.removed(task.number).is_none()) {
            self.journal.remove(task.number).await;
        }
        if let Some(uri) = &task.entry.resource {
            let params = Raw::object(&[("uri", &Raw::of(uri))]);
            let notice = Notification { method: method::RESOURCE_UPDATED.into(), params: Some(params) };
            self.events.report(Event::Notice(notice));
        }
        task.steps.send_modify(|step| step.outcome = Some(outcome));
    }

    /// Opens the file, if it can be sent.
    pub(super) async fn source(&self, path: &str) -> Result<SourceFile, Failure> {
        let (roots, path) = (Arc::clone(&self.roots), path.to_owned());
        let opened = spawn_blocking(move || {
            let source = roots.open(&path)?;
            if form::is_known_type(&source.name) || source.looks_like_text() {
                return Ok(source);
            }
            Err(Refusal::new("invalid_path", "file_path", &path)
                .because("R2R does not know files of this type, and the content is no text.")
                .valid("text of any kind, or a type that R2R reads, such as pdf, docx, html, png")
                .suggest("Convert the file to one of these."))
        });
        let opened = opened.await.map_err(|error| Error::Malformed { reason: error.to_string() })?;
        Ok(opened?)
    }

    /// Returns the id of the gateway's account at R2R. The login is not used, because it may change while the
    /// documents still belong to the account.
    pub(super) async fn who(&self) -> Result<&str, Error> {
        self.who.get_or_try_init(|| self.remote.who()).await.map(String::as_str)
    }

    /// Refuses a collection that does not exist. R2R itself would accept it.
    pub(super) async fn check(&self, id: Id) -> Result<(), Failure> {
        let is_fresh = |seen: &Instant| seen.elapsed() < COLLECTION_TTL;
        if self.seen().get(&id).is_some_and(is_fresh) {
            return Ok(());
        }
        if !self.remote.has_collection(id.0).await? {
            let refusal = Refusal::new("not_found", "collection_id", &id);
            return Err(refusal
                .because("There is no such collection, or it is not ours.")
                .valid("the id of a collection, as r2r_list_collections gives it")
                .suggest("Call r2r_list_collections, or leave it out to use the project's own.")
                .into());
        }
        self.seen().put(id, Instant::now());
        Ok(())
    }

    /// Returns the lock of the document `id`, which one task at a time may hold.
    pub(super) fn turn(&self, id: Uuid) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&id).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(id, Arc::downgrade(&turn));
        turn
    }

    fn seen(&self) -> MutexGuard<'_, LruCache<Id, Instant>> {
        // Nothing panics while it is held.
        self.collections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a task that failed with `failure` is resumed after an operator has fixed the credentials of the
/// gateway.
pub(super) const fn is_parked(failure: &Failure) -> bool {
    matches!(failure, Failure::Failed(Error::AuthFailed { .. }))
}
