//! An R2R in memory for tests, and an [`Ingest`] over it with a folder of files.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::sleep;
use uuid::Uuid;

use super::remote::{MakeForm, R2rApi};
use super::*;
use crate::r2r::config::{CacheTtl, Credentials};
use crate::r2r::model::R2rDocument;
use runtime::store::{Config, Store};
use upstream::api::Event;

/// The only collection.
pub(super) const COLLECTION: &str = "a694e727-6ebc-4761-9d21-b5b63bf32fa8";
pub(super) fn collection() -> Id {
    Id(Uuid::parse_str(COLLECTION).expect("an id"))
}

/// Resource that changes with the collection.
pub(super) const RESOURCE: &str = "r2r://current-project/context";

/// Outcome of one upload. Without one, R2R answers after the ingestion succeeded.
#[derive(Debug, Clone)]
pub(super) enum Sending {
    /// The ingestion continues for this time after the answer.
    Queued(Duration),
    /// The ingestion fails, and the answer says so.
    Fails(&'static str),
    /// The answer is lost. The value says whether the document arrived.
    Lost(bool),
    /// R2R answers with this error and has no document.
    Refused(Error),
    /// The answer is lost, and the document stays at this step.
    Orphaned(&'static str),
    /// R2R never answers, and the ingestion never ends.
    Hangs,
    /// The document is in no collection.
    Unjoined,
}

/// An R2R in memory. Clones share its state.
#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<World>>);

#[derive(Default)]
pub(super) struct World {
    pub(super) documents: BTreeMap<Uuid, R2rDocument>,
    /// Contents of the documents that R2R returns.
    pub(super) contents: BTreeMap<Uuid, String>,
    pub(super) content_errors: VecDeque<Error>,
    /// A removal never answers.
    pub(super) removals_hang: bool,
    /// Log of all requests except status checks, in order.
    pub(super) log: Vec<String>,
    pub(super) looks: usize,
    pub(super) sendings: VecDeque<Sending>,
    /// Errors of the next status checks.
    pub(super) look_errors: VecDeque<Error>,
    pub(super) joins_hang: bool,
    /// A member of the metadata that R2R does not store.
    pub(super) forgets: Option<String>,
    /// Uploads that run now, and the most at one time.
    pub(super) at_once: (usize, usize),
    pub(super) sending_time: Duration,
    /// Called before a form is read.
    pub(super) before_reading: Option<Box<dyn Fn() + Send>>,
}

pub(super) fn away() -> Error {
    Error::Connect { reason: "nobody listens".into() }
}

pub(super) fn status(status: u16, detail: &str) -> Error {
    Error::backend(status, detail)
}

/// A document as R2R shows it.
pub(super) fn document(status: &str, metadata: &Value, collections: &[&str]) -> R2rDocument {
    let all = json!({"id": Uuid::nil(), "ingestion_status": status, "metadata": metadata, "collection_ids": collections});
    serde_json::from_value(all).expect("a document")
}

impl Fake {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no panic")
    }

    pub(super) fn next(&self, sendings: impl IntoIterator<Item = Sending>) {
        self.world().sendings.extend(sendings);
    }

    /// Returns the log since the last call.
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.world().log)
    }

    pub(super) fn document(&self, id: &str) -> Option<R2rDocument> {
        self.world().documents.get(&Uuid::parse_str(id).expect("an id")).cloned()
    }

    async fn take(&self, form: String) -> Result<(), Error> {
        let part = |name: &str| {
            let (_, rest) = form.split_once(&format!("name=\"{name}\"")).expect("the part");
            rest.split_once("\r\n\r\n").expect("a body").1.split("\r\n--").next().expect("an end").to_owned()
        };
        let id = Uuid::parse_str(&part("id")).expect("an id");
        let mut metadata: Value = serde_json::from_str(&part("metadata")).expect("JSON");
        if let Some(member) = &self.world().forgets {
            metadata[member] = json!(null);
        }
        assert_eq!(part("collection_ids"), json!([COLLECTION]).to_string());
        let sending = {
            let mut world = self.world();
            world.log.push(format!("send {}", part("file")));
            let old = world.documents.get(&id).map(|old| old.ingestion_status.clone());
            if old.is_some_and(|old| old != "failed") {
                return Err(status(409, "already exists"));
            }
            world.sendings.pop_front()
        };
        let put = |status: &str, collections: &[&str]| {
            self.world().contents.insert(id, part("file"));
            self.world().documents.insert(id, document(status, &metadata, collections));
        };
        match sending {
            None => put("success", &[COLLECTION]),
            Some(Sending::Unjoined) => put("success", &[]),
            Some(Sending::Queued(time)) => {
                put("embedding", &[]);
                let world = Arc::clone(&self.0);
                let done = document("success", &metadata, &[COLLECTION]);
                #[allow(clippy::disallowed_methods)] // of a test
                tokio::spawn(async move {
                    sleep(time).await;
                    world.lock().expect("no panic").documents.insert(id, done);
                });
            }
            Some(Sending::Fails(reason)) => {
                let mut metadata = metadata.clone();
                metadata["failure"] = json!(reason);
                self.world().documents.insert(id, document("failed", &metadata, &[]));
                return Err(status(500, "it failed"));
            }
            Some(Sending::Lost(there)) => {
                if there {
                    put("success", &[COLLECTION]);
                }
                return Err(Error::Lost { reason: "cut".into() });
            }
            Some(Sending::Orphaned(step)) => {
                put(step, &[]);
                return Err(Error::Lost { reason: "cut".into() });
            }
            Some(Sending::Refused(error)) => return Err(error),
            Some(Sending::Hangs) => {
                put("parsing", &[]);
                std::future::pending::<()>().await;
            }
        }
        Ok(())
    }
}

impl R2rApi for Fake {
    fn who(&self) -> BoxFuture<'_, Result<String, Error>> {
        async { Ok("me".to_owned()) }.boxed()
    }

    fn has_collection(&self, id: Uuid) -> BoxFuture<'_, Result<bool, Error>> {
        self.world().log.push("collection".into());
        async move { Ok(id.to_string() == COLLECTION) }.boxed()
    }

    fn document(&self, id: Uuid) -> BoxFuture<'_, Result<Option<R2rDocument>, Error>> {
        async move {
            let mut world = self.world();
            world.looks += 1;
            match world.look_errors.pop_front() {
                Some(error) => Err(error),
                None => Ok(world.documents.get(&id).cloned()),
            }
        }
        .boxed()
    }

    fn content(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        async move {
            let mut world = self.world();
            match world.content_errors.pop_front() {
                Some(error) => Err(error),
                None => Ok(world.contents.get(&id).cloned().map(Bytes::from)),
            }
        }
        .boxed()
    }

    fn remove(&self, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        let hangs = {
            let mut world = self.world();
            world.log.push("remove".into());
            world.documents.remove(&id);
            world.contents.remove(&id);
            world.removals_hang
        };
        async move { if hangs { std::future::pending().await } else { Ok(()) } }.boxed()
    }

    fn create<'a>(&'a self, form: MakeForm<'a>) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let time = {
                let mut world = self.world();
                world.at_once.0 += 1;
                world.at_once.1 = world.at_once.1.max(world.at_once.0);
                if let Some(before) = &world.before_reading {
                    before();
                }
                world.sending_time
            };
            sleep(time).await;
            let read = form().into_body().1.collect().await;
            self.world().at_once.0 -= 1;
            let Ok(all) = read else { return Err(Error::Lost { reason: "the body ended early".into() }) };
            self.take(String::from_utf8(all.to_bytes().into()).expect("text")).await
        }
        .boxed()
    }

    fn join(&self, collection: Uuid, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            let hangs = {
                let mut world = self.world();
                world.log.push("join".into());
                let hangs = world.joins_hang;
                if let Some(there) = world.documents.get_mut(&id).filter(|_| !hangs) {
                    there.collection_ids.push(Id(collection));
                }
                hangs
            };
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
        .boxed()
    }
}

/// A folder of files, and the state that outlives an [`Ingest`].
pub(super) struct Place {
    pub(super) dir: TempDir,
    pub(super) fake: Fake,
    pub(super) store: Store,
    events: (Events, mpsc::Receiver<Event>),
}

impl Place {
    /// Makes the folder, with `a.md` in it.
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("docs")).expect("made");
        let store = Store::open(&Config::default());
        let place = Self { dir, fake: Fake::default(), store, events: Events::channel() };
        place.write("a.md", "one");
        place
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join("docs").join(name), text).expect("written");
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.dir.path().join("docs").join(name).display().to_string()
    }

    /// Returns the documents under way, as the journal has them.
    pub(super) fn journal(&self) -> String {
        let text = fs::read_to_string(self.dir.path().join("journal.json")).unwrap_or_default();
        let whole = serde_json::from_str::<Value>(&text).unwrap_or_default();
        whole.get("under_way").map(Value::to_string).unwrap_or_default()
    }

    /// Opens the tool, as after a restart.
    pub(super) fn open(&self) -> Ingest {
        self.open_over(self.fake.clone())
    }

    pub(super) fn open_over(&self, remote: impl R2rApi) -> Ingest {
        let options = config::R2rOptions {
            url: "http://127.0.0.1:1".parse().expect("a URL"),
            credentials: Credentials::None,
            project: config::ProjectName { name: "p".into(), path: None },
            follows_client: false,
            pace: None,
            auto_create_collections: false,
            collection_mapping_file: None,
            ingest_roots: vec![self.dir.path().join("docs")],
            max_file_bytes: 8 << 20,
            advanced_search: config::AdvancedSearch::default(),
            cache_ttl: CacheTtl::default(),
        };
        let opening = IngestOptions {
            options: &options,
            journal: self.dir.path().join("journal.json"),
            answers: Answers::new(&self.store, &"r2r".into(), &"me".into()),
            events: self.events.0.clone(),
            shutdown: &Shutdown::new(),
        };
        Ingest::over(remote, opening)
    }

    /// Returns the resources that changed since the last call.
    pub(super) fn told(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(Event::Notice(notice)) = self.events.1.try_recv() {
            all.extend(notice.params.expect("parameters").get_as::<String>("uri"));
        }
        all
    }

    pub(super) fn arguments(&self, name: &str, rest: &Value) -> Arguments {
        let mut all: Map<String, Value> = rest.as_object().expect("an object").clone();
        all.insert("file_path".into(), json!(self.path(name)));
        serde_json::from_value(Value::Object(all)).expect("arguments")
    }

    /// Calls the tool and waits for the document.
    pub(super) async fn call(&self, ingest: &Ingest, name: &str) -> Result<Ingested, Failure> {
        self.call_with(ingest, name, &json!({"run_async": false})).await
    }

    pub(super) async fn call_with(
        &self,
        ingest: &Ingest,
        name: &str,
        rest: &Value,
    ) -> Result<Ingested, Failure> {
        let target = Target { collection: collection(), is_known: false, resource: Some(RESOURCE) };
        ingest.ingest(self.arguments(name, rest), target, &Report::none()).await
    }

    /// Calls the tool without waiting for the document. Returns the id of the document.
    pub(super) async fn begin(&self, ingest: &Ingest, name: &str) -> String {
        let begun = self.call_with(ingest, name, &json!({})).await;
        let begun = begun.expect("nothing to refuse");
        assert_eq!(begun.status, Status::Pending);
        begun.document_id.to_string()
    }

    /// Waits until no document is under way.
    pub(super) async fn settled(&self, ingest: &Ingest) {
        while ingest.0.seats.available_permits() < MOST_JOBS {
            sleep(Duration::from_millis(50)).await;
        }
    }
}
