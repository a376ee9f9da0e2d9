//! The handbook: search over a folder of Markdown documents, without any other program.
//!
//! One task follows the folder and publishes a `snapshot::Snapshot` after each change. A call uses the snapshot
//! of its start only, so a change never makes the handbook unavailable. A call before the first snapshot
//! waits for it. Reading and searching run on threads that may block, a few at a time.
//!
//! Wrong arguments give a tool result with `isError` (see `refusal`). An unknown tool gives a JSON-RPC error.
//!
//! With a configured embedding provider, `semantic` stores vectors beside the words, and a search uses both.
//! If no vector arrives in time, the search uses words alone.

mod answers;
mod arguments;
mod cache;
mod corpus;
mod document;
mod excerpt;
mod folder;
mod follow;
mod git;
mod index;
mod lookup;
mod markdown;
mod postings;
mod query;
mod resources;
mod semantic;
mod snapshot;
mod spelling;
mod synonyms;
mod tools;
mod topics;
mod words;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::sync::{Semaphore, watch};

use self::arguments::{HandbookCall, Search};
use self::cache::Cache;
use self::folder::Folder;
use self::follow::{Followed, Phase};
use self::resources::DocumentUris;
use self::semantic::{
    CollectionMaintenance, Link, ProviderFuture, QueryPlan, Question, SemanticIndex, VectorCache,
};
use self::snapshot::Snapshot;
use super::answer::{refused, result};
use super::embedding;
use super::tool::Tool;
use super::{Builtin, BuiltinInfo, Declared, Report, no_resource, no_tool};
use crate::refusal::Refusal;
use json::Raw;
use protocol::{ErrorObject, Reply};
use runtime::private_file;
use runtime::shutdown::Shutdown;
use upstream::api::{Error, Events, ServerContext};

/// How long the shutdown waits until the vectors are written.
const ENDING: Duration = Duration::from_secs(5);
/// Most calls that work at the same time. Other calls wait for some milliseconds.
const AT_A_TIME: usize = 4;

/// The handbook server. Dropping it ends the task that follows the folder.
pub(crate) struct Handbook {
    phase: watch::Receiver<Phase>,
    naming: DocumentUris,
    cache: Cache,
    semantic: Option<SemanticIndex>,
    work: Arc<Semaphore>,
    tools: Vec<Tool>,
    tasks: Shutdown,
}

impl Handbook {
    /// Opens the folder for the server `name` and begins to read it in the background. The task belongs to
    /// the group of `server_context`. Changes of the resource list are reported to `events`.
    ///
    /// The error is [`Error::Connect`] and names the folder if it cannot be opened.
    pub(crate) async fn open(
        name: &str,
        config: &config::HandbookOptions,
        server_context: &ServerContext,
        events: Events,
    ) -> Result<Self, Error> {
        let handbook = Self::by_words(name, config, server_context, events).await?;
        if server_context.is_inspection || matches!(config.embedding, embedding::Config::None) {
            return Ok(handbook);
        }
        let (embedding, server_context) = (config.embedding.clone(), server_context.clone());
        let (cache, collection) = match &config.keeping {
            config::VectorLocation::Memory => {
                let file = format!("{}.vectors", private_file::of(name));
                let file = config.index_dir.as_ref().map(|folder| folder.join(file));
                (VectorCache::new(file, &embedding.identity()), None)
            }
            config::VectorLocation::Chroma(collection) => {
                let link = Arc::new(Link::new(collection, name, &server_context)?);
                (VectorCache::new(None, ""), Some(CollectionMaintenance::new(link)))
            }
        };
        let opening = async move { embedding::open(&embedding, &server_context).await }.boxed();
        Ok(handbook.with(opening, cache, collection))
    }

    /// Returns the offer before the folder was read.
    pub(super) fn declared(_: &config::HandbookOptions) -> Declared {
        Declared::new(Self::INFO, &tools::definitions()).with_resources(Vec::new(), false)
    }

    /// Adds vectors from the provider that `opening` opens and from `cache`. They are stored in
    /// `collection` or in memory.
    fn with(
        mut self,
        opening: ProviderFuture,
        cache: VectorCache,
        collection: Option<CollectionMaintenance>,
    ) -> Self {
        let phase = self.phase.clone();
        self.semantic = Some(SemanticIndex::start(opening, cache, collection, phase, &self.tasks));
        self
    }

    async fn by_words(
        name: &str,
        config: &config::HandbookOptions,
        server_context: &ServerContext,
        events: Events,
    ) -> Result<Self, Error> {
        let folder = Folder::of(&config.documents).without(&config.exclude);
        let probed = folder.clone();
        let opened = tokio::task::spawn_blocking(move || probed.open().map(drop)).await;
        let opened = opened.unwrap_or_else(|_| Err("opening the handbook folder failed".to_owned()));
        opened.map_err(|reason| Error::Connect { reason })?;
        let tasks = server_context.shutdown.child();
        // The shutdown waits until the files are written.
        server_context.shutdown.include(&tasks, ENDING);
        let naming = DocumentUris::of(name);
        let phase = follow::start(Followed { folder, naming: naming.clone(), events }, &tasks);
        Ok(Self {
            phase,
            naming,
            cache: Cache::new(config.cache_size, &server_context.store),
            semantic: None,
            work: Arc::new(Semaphore::new(AT_A_TIME)),
            tools: tools::definitions(),
            tasks,
        })
    }

    /// Returns the documents once they were read. If `dated`, their dates must also be known.
    async fn snapshot(&self, dated: bool) -> Result<Arc<Snapshot>, Error> {
        let mut phase = self.phase.clone();
        let is_known = |phase: &Phase| match phase {
            Phase::Reading => false,
            Phase::Ready(snapshot) => !dated || snapshot.dates.is_some(),
            Phase::Failed(_) => true,
        };
        let known = phase.wait_for(is_known).await;
        match known.as_deref() {
            Ok(Phase::Ready(snapshot)) => Ok(Arc::clone(snapshot)),
            Ok(Phase::Failed(reason)) => Err(Error::Connect { reason: reason.clone() }),
            Ok(Phase::Reading) | Err(_) => Err(Error::Unavailable { state: "shutting down" }),
        }
    }

    async fn answer(&self, request: HandbookCall) -> Result<Reply, Error> {
        let snapshot = match request {
            HandbookCall::Ping => return Ok(Ok(result(&Raw::of(&answers::PONG)))),
            HandbookCall::Updates { .. } => self.snapshot(true).await?,
            _ => self.snapshot(false).await?,
        };
        match request {
            HandbookCall::Search(requested) => self.found(snapshot, requested).await,
            request => self.work_out(move || from_snapshot(&snapshot, &request)).await,
        }
    }

    /// Returns the text of a document. A megabyte takes a millisecond, so this runs on a thread that may
    /// block.
    async fn text(&self, uri: &str) -> Result<Reply, Error> {
        let snapshot = self.snapshot(false).await?;
        let Some(document) = self.naming.find(&snapshot.documents, uri).cloned() else {
            return Ok(Err(no_resource(uri)));
        };
        let uri = uri.to_owned();
        let Some(text) = on_a_thread(&self.work, move || resources::contents(&uri, &document)).await else {
            return Err(Error::Unavailable { state: "shutting down" });
        };
        Ok(text.map_err(|error| internal(&error)))
    }

    /// Runs `work` on a thread that may block and returns its answer. If the caller stops waiting, the work
    /// still finishes within milliseconds.
    async fn work_out(
        &self,
        work: impl FnOnce() -> Result<Raw, Refusal> + Send + 'static,
    ) -> Result<Reply, Error> {
        Ok(match self.done(work).await? {
            Ok(answer) => Ok(result(&answer)),
            Err(reply) => reply,
        })
    }

    /// Returns the result of `work`, or the answer that explains why there is none.
    async fn done<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<Result<T, Reply>, Error> {
        let Some(answer) = on_a_thread(&self.work, work).await else {
            return Err(Error::Unavailable { state: "shutting down" });
        };
        Ok(match answer {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(refusal)) => Err(Ok(refused(&refusal))),
            Err(error) => Err(Err(internal(&error))),
        })
    }

    /// Runs a search, and caches the result unless a better one is likely soon.
    async fn found(&self, snapshot: Arc<Snapshot>, search: Search) -> Result<Reply, Error> {
        let state = self.semantic.as_ref().map(SemanticIndex::state).unwrap_or_default();
        let moment = (snapshot.generation << u32::BITS) | u64::from(state.version);
        if let Some(known) = self.cache.get(moment, &search) {
            return Ok(Ok(known));
        }
        let requested = match &self.semantic {
            Some(semantic) => semantic.question(&state, &search.query).await,
            None => QueryPlan::ByWords,
        };
        let mut is_lasting = !matches!(requested, QueryPlan::NotNow);
        let query = search.clone();
        let reply = match requested.question() {
            Some(question) if question.is_asked_elsewhere() => {
                let (answered, reply) = self.with_chroma(snapshot, query, question).await?;
                is_lasting = answered;
                reply
            }
            question => self.work_out(move || answers::search(&snapshot, &query, question.as_ref())).await?,
        };
        if let Ok(answer) = reply.as_ref()
            && is_lasting
        {
            self.cache.put(moment, search, answer.clone());
        }
        Ok(reply)
    }

    /// Runs a search whose vectors are at Chroma. Also returns whether Chroma answered. Chroma is asked
    /// between the search by words and the result, outside of blocking threads.
    async fn with_chroma(
        &self,
        snapshot: Arc<Snapshot>,
        search: Search,
        question: Question,
    ) -> Result<(bool, Reply), Error> {
        let question = Arc::new(question);
        let (requested, at, search) = (Arc::clone(&question), Arc::clone(&snapshot), Arc::new(search));
        let query = Arc::clone(&search);
        let by_words = move || {
            let found = answers::by_words(&at, &query)?;
            let chroma_search = found.chroma_search(&at, &requested);
            Ok((found, chroma_search))
        };
        let (found, chroma_search) = match self.done(by_words).await? {
            Ok(found) => found,
            Err(reply) => return Ok((true, reply)),
        };
        let nearby = question.ask(&chroma_search).await;
        let answered = nearby.is_some();
        let answer = move || Ok(found.answer(&snapshot, &search, Some(&question), nearby));
        Ok((answered, self.work_out(answer).await?))
    }
}

/// Runs `work` on a thread that may block, under one of `permits`. Returns `None` if they are closed. The
/// work holds the permit, not the caller that waits. So callers that give up early do not accumulate threads.
async fn on_a_thread<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<Result<T, tokio::task::JoinError>> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    let under_permit = move || {
        let _permit = permit;
        work()
    };
    Some(tokio::task::spawn_blocking(under_permit).await)
}

impl Drop for Handbook {
    fn drop(&mut self) {
        self.tasks.begin();
    }
}

impl Builtin for Handbook {
    const INFO: BuiltinInfo = BuiltinInfo { name: "handbook", title: "Handbook", instructions: INSTRUCTIONS };

    fn tools(&self) -> Vec<Raw> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    fn resources(&self) -> Option<Vec<Raw>> {
        Some(self.phase.borrow().resources().to_vec())
    }

    async fn read(&self, uri: &str, _report: &Report) -> Result<Reply, Error> {
        self.text(uri).await
    }

    async fn call(&self, name: &str, arguments: Raw, _report: &Report) -> Result<Reply, Error> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return Ok(Err(no_tool(name)));
        };
        match HandbookCall::read(tool, &arguments) {
            Ok(request) => self.answer(request).await,
            Err(refusal) => Ok(Ok(refused(&refusal))),
        }
    }
}

fn from_snapshot(snapshot: &Snapshot, request: &HandbookCall) -> Result<Raw, Refusal> {
    match request {
        HandbookCall::Ping => Ok(Raw::of(&answers::PONG)),
        HandbookCall::Search(requested) => answers::search(snapshot, requested, None),
        HandbookCall::Section { path } => answers::section(snapshot, path),
        HandbookCall::Topics => Ok(topics::topics(snapshot)),
        HandbookCall::Updates { days } => Ok(answers::updates(snapshot, *days, SystemTime::now())),
    }
}

const INSTRUCTIONS: &str = "A handbook of Markdown documents. Answer questions about what it covers \
    from it, not from memory: call search_handbook with the question in plain words, and \
    get_handbook_section with a path from a hit when its text is cut off. list_handbook_topics shows \
    what there is.";

fn internal(error: &dyn std::error::Error) -> ErrorObject {
    super::internal("the handbook could not answer", error)
}

#[cfg(test)]
mod change_tests;
pub(crate) mod config;
#[cfg(test)]
mod docs_tests;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod git_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod resource_tests;
#[cfg(test)]
mod scale_tests;
#[cfg(test)]
mod tests;
