//! `r2r_ingest_document`: ingests a file of this machine into an R2R collection.
//!
//! Every document has its own task. The task continues after its client has left, and resumes after a restart
//! of the gateway. Invariants: a client that gets the answer `pending` gets it before anything is sent, with
//! the future id of the document. One task at a time works on a file. At most [`UPLOADS`] files are sent at a
//! time, and at most [`MOST_JOBS`] tasks exist. If a document could not be ingested, the reason is kept for
//! later queries.
//!
//! Not here: which collection belongs to the project (`project`), and the requests to R2R (`client`).

mod about;
mod backup;
mod failed;
mod folder;
mod form;
mod job;
mod journal;
mod listing;
mod no_follow;
mod remote;
mod roots;
mod source;
mod tasks;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lru::LruCache;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tokio::sync::{OnceCell, Semaphore, watch};

use crate::Report;
use crate::answer::Failure;
use crate::r2r::answers::Answers;
use crate::r2r::client::Client;
use crate::r2r::config;
use crate::r2r::id::Id;
use crate::r2r::model::R2rDocument;
pub(super) use about::{ABOUT, Arguments, Ingested};
use about::{IngestMode, Status};
pub(super) use failed::FailedDocument;
pub(super) use folder::{ABOUT_FOLDER, FolderArguments, FolderIngested};
use job::{Outcome, Step};
pub(super) use journal::beside as journal_beside;
use journal::{Journal, JournalEntry};
use remote::R2rApi;
use roots::Roots;
use runtime::shutdown::Shutdown;
use tasks::{MOST_COLLECTIONS, Task, Tasks};
use upstream::api::{Error, Events};

/// Most documents that are sent at a time.
const UPLOADS: usize = 4;
/// Most documents under way, waiting ones included.
const MOST_JOBS: usize = 256;
/// Suggested wait after that limit was reached.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Collection that a document should go into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) collection: Id,
    /// Whether R2R had the collection a moment ago.
    pub(super) is_known: bool,
    /// URI of the resource that changes when the ingestion ends.
    pub(super) resource: Option<&'a str>,
}

/// Everything that `Ingest` needs to start.
pub(super) struct IngestOptions<'a> {
    pub(super) options: &'a config::R2rOptions,
    /// Path of the journal: [`journal_beside`].
    pub(super) journal: PathBuf,
    /// Cached answers of the tools that find documents.
    pub(super) answers: Answers,
    pub(super) events: Events,
    pub(super) shutdown: &'a Shutdown,
}

/// Ingests documents. Dropping it stops its tasks. The next instance that opens the journal resumes them.
pub(super) struct Ingest(Arc<Tasks>, Shutdown);

impl Ingest {
    /// Ingests through `client`, and resumes what an earlier instance left.
    pub(super) fn open(client: Client, opening: IngestOptions<'_>) -> Self {
        Self::over(client, opening)
    }

    fn over(remote: impl R2rApi, opening: IngestOptions<'_>) -> Self {
        let shutdown = opening.shutdown.child();
        let options = opening.options;
        let inner = Arc::new(Tasks {
            remote: Box::new(remote),
            roots: Arc::new(Roots::new(&options.ingest_roots, options.max_file_bytes)),
            journal: Journal::new(opening.journal),
            answers: opening.answers,
            who: OnceCell::new(),
            events: opening.events,
            seats: Arc::new(Semaphore::new(MOST_JOBS)),
            uploads: Semaphore::new(UPLOADS),
            turns: Mutex::default(),
            collections: Mutex::new(LruCache::new(MOST_COLLECTIONS)),
        });
        shutdown.spawn_until_end(Arc::clone(&inner).resume(shutdown.clone()));
        Self(inner, shutdown)
    }

    /// Runs the tool.
    pub(super) async fn ingest(
        &self,
        arguments: Arguments,
        target: Target<'_>,
        report: &Report,
    ) -> Result<Ingested, Failure> {
        let Arguments { file_path, metadata, ingestion_mode, run_async, .. } = arguments;
        let metadata = form::metadata(metadata)?;
        let source = self.0.source(&file_path).await?;
        let collection = target.collection;
        if !target.is_known {
            self.0.check(collection).await?;
        }
        let document = Id(form::id(self.0.who().await?, collection.0, &source.name));
        let entry = JournalEntry {
            document,
            path: file_path,
            collection,
            mode: ingestion_mode,
            metadata,
            resource: target.resource.map(str::to_owned),
            removed: None,
        };
        let file_name = file_name(&source.name);
        let answer =
            |status| Ingested { document_id: document, status, file_name, collection_id: collection };
        let seat = Arc::clone(&self.0.seats).try_acquire_owned();
        let seat = seat.map_err(|_| Error::Overloaded { retry_in: TRY_AGAIN })?;
        let number = self.0.journal.add(entry.clone()).await;
        let (steps, step) = watch::channel(Step { share: 0.0, message: "queued".into(), outcome: None });
        let is_watched = !run_async && report.wants_progress();
        let task = Task {
            entry,
            number,
            source: Some(source),
            is_awaited: !run_async,
            is_watched,
            steps,
            _seat: seat,
        };
        self.1.spawn_until_end(Arc::clone(&self.0).ingest(task));
        if run_async {
            return Ok(answer(Status::Pending));
        }
        ended(step, report).await.map(|_| answer(Status::Success))
    }

    /// Returns what Switchyard itself knows of `document`: that it is under way, or that it could not be
    /// ingested.
    pub(super) fn ours(&self, document: Id) -> Option<LocalState> {
        let journal = &self.0.journal;
        let under_way = journal.noted(document);
        let under_way = under_way
            .map(|(path, since)| LocalState::UnderWay(UnderWay { file_name: file_name(&path), since }));
        under_way.or_else(|| journal.failed(document).map(LocalState::Failed))
    }

    /// Returns the documents of `collection` that could not be ingested, the newest first.
    pub(super) fn failed(&self, collection: Id) -> Vec<FailedDocument> {
        self.0.journal.all_failed(collection)
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// State of a document that Switchyard itself knows.
#[derive(Debug, Clone)]
pub(super) enum LocalState {
    UnderWay(UnderWay),
    Failed(FailedDocument),
}

impl LocalState {
    /// Whether this is newer than the document that R2R shows.
    pub(super) fn is_newer_than(&self, there: &R2rDocument) -> bool {
        match self {
            Self::UnderWay(ours) => !ours.is_of(&there.metadata),
            Self::Failed(ours) => !ours.is_outlived_by(there),
        }
    }
}

/// A document that was promised and is not finished.
#[derive(Debug, Clone)]
pub(super) struct UnderWay {
    /// The name of its file.
    pub(super) file_name: String,
    since: OffsetDateTime,
}

impl UnderWay {
    /// Whether a document with `metadata` is the promised one, and not the one to be replaced.
    fn is_of(&self, metadata: &Map<String, Value>) -> bool {
        form::is_sent_since(metadata, self.since)
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        self.1.begin();
    }
}

/// Waits for the outcome of a document. Meanwhile reports progress to the client.
async fn ended(mut step: watch::Receiver<Step>, report: &Report) -> Outcome {
    loop {
        {
            let step = step.borrow_and_update();
            if let Some(outcome) = &step.outcome {
                return outcome.clone();
            }
            report.share(step.share, &step.message);
        }
        if step.changed().await.is_err() {
            return Err(Failure::Failed(Error::Unavailable { state: "shutting down" }));
        }
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod kept_tests;
#[cfg(test)]
mod left_behind_tests;
#[cfg(test)]
mod socket_tests;
#[cfg(test)]
mod tests;
