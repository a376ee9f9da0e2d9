//! `r2r_ingest_document` and `r2r_ingest_folder`: ingest files of this machine into an R2R collection.
//!
//! Invariants: R2R keeps the state of an ingestion, and nothing of it is stored here. A call is answered once
//! R2R has the document, or with the reason why it has not. An upload continues after its client has left, and
//! ends with the program. One upload at a time works on a document, and at most [`MAX_UNDER_WAY`] exist.
//!
//! Not here: which collection belongs to the project (`project`), and what R2R shows of a document
//! (`documents`).

mod folder;
mod form;
mod no_follow;
mod roots;
mod source;
mod upload;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::form::DocumentForm;
use self::roots::Roots;
use self::source::SourceFile;
use self::upload::{Change, Outcome, Upload, UploadProgress};
use crate::Report;
use crate::answer::Failure;
use crate::r2r::answers::Answers;
use crate::r2r::client::Client;
use crate::r2r::config;
use crate::r2r::documents::check_collection;
use crate::r2r::model::Id;
use crate::refusal::Refusal;
use crate::tool::{Effect, ToolInfo};
use json::Raw;
use protocol::{Notification, method};
use runtime::shutdown::Shutdown;
use upstream::api::{Error, Event, Events};

pub(super) use folder::{ABOUT_FOLDER, FolderArguments, FolderIngested};

/// Most documents under way.
const MAX_UNDER_WAY: usize = 64;
/// Longest upload, the work of R2R included. After that a service that never answers has its slot no longer.
const LONGEST_UPLOAD: Duration = Duration::from_hours(2);
/// Suggested wait after that limit was reached, or while another version of the document is under way.
const RETRY_IN: Duration = Duration::from_secs(10);

/// Description of the tool. It may be called twice: a document has one id, and one made of an identical file
/// stays unchanged.
pub(super) const ABOUT: ToolInfo = ToolInfo {
    name: "r2r_ingest_document",
    title: "Ingest a file into R2R",
    description: "Adds a file of this machine to a collection, so that r2r_search and r2r_rag_query find \
                  what it says. By default it answers once R2R has the file, with status `pending`; \
                  r2r_monitor_task tells when the document can be found. A file that is there already is \
                  replaced if it changed and left alone if not, so it can be called again at any time.",
    effect: Effect::Replaces,
};

/// Input of the tool.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// The absolute path of the file, below a folder that the operator has allowed.
    #[schemars(length(min = 1, max = 4096))]
    pub(super) file_path: String,
    /// The id of the collection that the document is to be in. Left out: the project's own.
    pub(super) collection_id: Option<Id>,
    /// Metadata for the document; searches can filter by it. `title` becomes its title.
    pub(super) metadata: Option<Map<String, Value>>,
    /// How carefully the file is read: `hi-res` also looks at layout and images and takes longest,
    /// `fast` only at text, `custom` does what the service was configured to.
    #[serde(default)]
    #[schemars(default)]
    pub(super) ingestion_mode: IngestMode,
    /// Whether to be answered once R2R has the file, while the document is ingested in the background.
    #[serde(default = "yes")]
    pub(super) run_async: bool,
}

fn yes() -> bool {
    true
}

/// How carefully a file is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum IngestMode {
    HiRes,
    #[default]
    Fast,
    Custom,
}

impl IngestMode {
    const fn name(self) -> &'static str {
        match self {
            Self::HiRes => "hi-res",
            Self::Fast => "fast",
            Self::Custom => "custom",
        }
    }
}

/// Output of the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Ingested {
    /// The document's id, for `r2r_monitor_task`.
    document_id: Id,
    /// `pending`: it is being ingested. `success`: it can be searched.
    status: Status,
    /// The name of the file.
    file_name: String,
    /// The collection that it is in, or will be.
    collection_id: Id,
}

/// How far an answered document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Pending,
    Success,
}

/// Collection that a document should go into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) collection: Id,
    /// Whether R2R had the collection a moment ago.
    pub(super) is_known: bool,
    /// URI of the resource that changes when the ingestion ends.
    pub(super) resource: Option<&'static str>,
}

/// Ingests documents. Dropping it stops its uploads.
pub(super) struct Ingest {
    service: Arc<Service>,
    shutdown: Shutdown,
}

/// State that all uploads share.
struct Service {
    client: Client,
    roots: Arc<Roots>,
    /// Cached answers of the tools that find documents.
    answers: Answers,
    events: Events,
    /// The id of the gateway's account at R2R, once it was requested.
    account: OnceCell<String>,
    /// One permit for each document under way.
    slots: Arc<Semaphore>,
    under_way: Mutex<HashMap<Id, Weak<UnderWay>>>,
}

/// The form of an upload, and its progress.
type RunningUpload = (DocumentForm, watch::Receiver<UploadProgress>);

/// A document with uploads that run or wait.
struct UnderWay {
    file_name: String,
    /// Held by the upload that runs.
    lock: tokio::sync::Mutex<()>,
    newest: Mutex<Option<RunningUpload>>,
}

impl UnderWay {
    /// Returns the newest upload that has not ended.
    fn newest(&self) -> MutexGuard<'_, Option<RunningUpload>> {
        // Nothing panics while it is held.
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.take_if(|(_, steps)| steps.borrow().outcome.is_some() || steps.has_changed().is_err());
        newest
    }
}

/// One document that was requested.
struct Request {
    id: Id,
    source: SourceFile,
    form: DocumentForm,
    arguments: Arguments,
    target: Target,
    under_way: Arc<UnderWay>,
    progress: watch::Sender<UploadProgress>,
    _slot: OwnedSemaphorePermit,
}

impl Ingest {
    /// Ingests through `client`, and drops `answers` of changed collections.
    pub(super) fn open(
        client: Client,
        options: &config::R2rOptions,
        answers: Answers,
        events: Events,
        shutdown: &Shutdown,
    ) -> Self {
        let service = Arc::new(Service {
            client,
            roots: Arc::new(Roots::new(&options.ingest_roots, options.max_file_bytes)),
            answers,
            events,
            account: OnceCell::new(),
            slots: Arc::new(Semaphore::new(MAX_UNDER_WAY)),
            under_way: Mutex::default(),
        });
        Self { service, shutdown: shutdown.child() }
    }

    /// Runs the tool.
    pub(super) async fn ingest(
        &self,
        arguments: Arguments,
        target: Target,
        report: &Report,
    ) -> Result<Ingested, Failure> {
        let service = &self.service;
        let metadata = form::metadata(arguments.metadata.clone())?;
        let source = service.open(&arguments.file_path).await?;
        let collection = target.collection;
        if !target.is_known {
            check_collection(&service.client, collection).await?;
        }
        let id = Id(form::id(service.account().await?, collection.0, &source.name));
        let digest = source.digest().await;
        let digest = digest.map_err(|fault| upload::refusal(&arguments.file_path, &fault.words()))?;
        let form =
            DocumentForm::new(id.0, collection.0, arguments.ingestion_mode, &source.name, &digest, &metadata);
        let (file_name, run_async) = (file_name(&source.name), arguments.run_async);
        let steps = self.begin(id, source, form, arguments, target)?;
        let has_ended = wait(steps, run_async, report).await?;
        let status = if has_ended { Status::Success } else { Status::Pending };
        Ok(Ingested { document_id: id, status, file_name, collection_id: collection })
    }

    /// Begins an upload, and returns its progress. An equal one that is under way is not begun again.
    fn begin(
        &self,
        id: Id,
        source: SourceFile,
        form: DocumentForm,
        arguments: Arguments,
        target: Target,
    ) -> Result<watch::Receiver<UploadProgress>, Error> {
        let service = &self.service;
        let under_way = service.enter(id, &source.name);
        let mut newest = under_way.newest();
        match &*newest {
            Some((running, steps)) if running.is_equal(&form) => return Ok(steps.clone()),
            // It would wait for the end of the other, and nobody waits for it.
            Some(_) if arguments.run_async => return Err(Error::Overloaded { retry_in: RETRY_IN }),
            _ => {}
        }
        let slot = Arc::clone(&service.slots).try_acquire_owned();
        let slot = slot.map_err(|_| Error::Overloaded { retry_in: RETRY_IN })?;
        let (progress, steps) = watch::channel(UploadProgress::default());
        *newest = Some((form.clone(), steps.clone()));
        drop(newest);
        let request = Request { id, source, form, arguments, target, under_way, progress, _slot: slot };
        self.shutdown.spawn_until_end(Arc::clone(service).run(request));
        Ok(steps)
    }

    /// Returns the file name of `document` if it is under way. R2R may not have it yet, or may have it before
    /// the cached answers are dropped.
    pub(super) fn under_way(&self, document: Id) -> Option<String> {
        let under_way = self.service.all_under_way();
        under_way.get(&document)?.upgrade().map(|document| document.file_name.clone())
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

/// Waits until R2R has a document, or has ended with it unless `run_async`. Returns whether it has ended. Meanwhile
/// reports progress to the client.
async fn wait(
    mut steps: watch::Receiver<UploadProgress>,
    run_async: bool,
    report: &Report,
) -> Result<bool, Failure> {
    let mut shown = 0.0;
    loop {
        {
            let step = steps.borrow_and_update();
            match &step.outcome {
                Some(outcome) => return outcome.clone().map(|_| true),
                None if run_async && step.is_accepted => return Ok(false),
                // Progress must grow with every message (2026-07-28 `basic/utilities/progress`).
                None if step.share > shown => {
                    shown = step.share;
                    report.share(shown, &step.message);
                }
                None => {}
            }
        }
        if steps.changed().await.is_err() {
            return Err(Failure::Failed(Error::Unavailable { state: "shutting down" }));
        }
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

impl Service {
    /// Ingests a document and publishes the outcome.
    async fn run(self: Arc<Self>, request: Request) {
        let outcome = {
            let _turn = request.under_way.lock.lock().await;
            let ended = timeout(LONGEST_UPLOAD, self.upload(&request)).await;
            ended.unwrap_or_else(|_| Err(Error::TimedOut { after: LONGEST_UPLOAD }.into()))
        };
        let (file, document) = (&request.arguments.file_path, request.id);
        match &outcome {
            Ok(change) => tracing::info!(file, %document, ?change, "a document was ingested"),
            Err(failure) => tracing::warn!(file, %document, ?failure, "a document was not ingested"),
        }
        if !matches!(outcome, Ok(Change::None)) {
            self.answers.forget(request.target.collection).await;
        }
        if let Some(uri) = request.target.resource {
            let params = Raw::object(&[("uri", &Raw::of(uri))]);
            let notice = Notification { method: method::RESOURCE_UPDATED.into(), params: Some(params) };
            self.events.report(Event::Notice(notice));
        }
        // Until the outcome is published, the document is under way.
        drop(request.under_way);
        request.progress.send_modify(|step| step.outcome = Some(outcome));
    }

    async fn upload(&self, request: &Request) -> Outcome {
        let Request { source, form, arguments, progress, .. } = request;
        let upload = Upload {
            client: &self.client,
            path: &arguments.file_path,
            source,
            form,
            progress,
            is_awaited: !arguments.run_async,
        };
        upload.run().await
    }

    /// Opens the file, if it can be sent.
    async fn open(&self, path: &str) -> Result<SourceFile, Failure> {
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
    async fn account(&self) -> Result<&str, Error> {
        self.account.get_or_try_init(|| self.client.account()).await.map(String::as_str)
    }

    /// Adds the document `id`, made of the file `name`, to those under way.
    fn enter(&self, id: Id, name: &str) -> Arc<UnderWay> {
        let mut all = self.all_under_way();
        all.retain(|_, document| document.strong_count() > 0);
        if let Some(document) = all.get(&id).and_then(Weak::upgrade) {
            return document;
        }
        let document = Arc::new(UnderWay {
            file_name: file_name(name),
            lock: tokio::sync::Mutex::default(),
            newest: Mutex::default(),
        });
        all.insert(id, Arc::downgrade(&document));
        document
    }

    fn all_under_way(&self) -> MutexGuard<'_, HashMap<Id, Weak<UnderWay>>> {
        // Nothing panics while it is held.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
