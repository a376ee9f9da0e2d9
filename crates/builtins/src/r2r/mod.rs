//! The tools of an R2R retrieval service (REST API v3) as a built-in server.
//!
//! Each tool has a file with its argument and result types, from which its definition is made, and with its
//! requests to R2R. The tools share an [`R2rContext`]: the client, the project's collection, and the cached
//! results.
//!
//! Not here: the requests and the login (`client`, `session`), and which file goes where (`ingest`).

mod answers;
mod client;
mod collections;
mod documents;
mod filters;
mod history;
mod ingest;
mod mapping;
mod model;
mod project;
mod project_name;
mod projects;
mod rag;
mod rag_stream;
mod resources;
mod search;
mod session;
mod settings;
mod token;

#[cfg(test)]
mod client_tests;
pub(crate) mod config;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod ingest_tests;
#[cfg(test)]
mod project_tests;
#[cfg(test)]
mod searching_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tools_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::BoxFuture;

use self::answers::Answers;
use self::client::Client;
use self::history::History;
use self::ingest::Ingest;
use self::model::{Id, R2rChunk, R2rDocument, Results};
use self::project::Project;
use self::projects::{ProjectChoice, Projects};
use super::answer::{Failure, passing, reply};
use super::refusal::Refusal;
use super::tool::Tool;
use super::{Builtin, BuiltinInfo, Declared, Report, no_tool};
use crate::r2r::config::AdvancedSearch;
use json::Raw;
use protocol::{ErrorCode, Reply};
use upstream::api::{Error, Events, ServerContext};

#[cfg(test)]
use testkit::r2r as double;

/// R2R as a built-in server.
pub(crate) struct R2r {
    context: Arc<R2rContext>,
    ingest: Ingest,
    tools: Vec<Tool>,
}

impl R2r {
    /// Logs in.
    pub(super) async fn open(
        name: &Arc<str>,
        options: &config::R2rOptions,
        server_context: &ServerContext,
        events: Events,
    ) -> Result<Self, Error> {
        let context = Arc::new(R2rContext::open(name, options, server_context).await?);
        let (client, answers) = (context.client.clone(), context.answers.clone());
        let ingest = Ingest::open(client, options, answers, events, &server_context.shutdown);
        Ok(Self { context, ingest, tools: tools(options.advanced_search) })
    }

    /// Returns the offer that is declared before the login.
    pub(super) fn declared(options: &config::R2rOptions) -> Declared {
        Declared::new(Self::INFO, &tools(options.advanced_search))
            .with_resources(resources::definitions(), true)
    }

    /// Returns the project of a call of the tool `name`. The client is asked for it only if the arguments
    /// name no collection.
    fn project(&self, name: &str, arguments: &Raw, report: &Report) -> Result<ProjectChoice, Refusal> {
        let projects = &self.context.projects;
        let needs_none = [documents::ABOUT_MONITOR.name, collections::ABOUT.name].contains(&name);
        let has_collection = || arguments.part("collection_id").is_some_and(|id| !id.is_null());
        match projects.of(report)? {
            ProjectChoice::Ask(_) if needs_none || has_collection() => {
                Ok(ProjectChoice::Known(Arc::clone(projects.own())))
            }
            choice => Ok(choice),
        }
    }

    /// Returns the target of a document: the requested collection, or that of `project`.
    async fn target(&self, project: &Project, requested: Option<Id>) -> Result<ingest::Target, Failure> {
        let collection = project.or_own(requested).await?;
        let is_own = match requested {
            Some(_) => matches!(project.peek().await, Ok(Some(own)) if own == collection),
            None => true,
        };
        let resource = is_own.then_some(resources::CONTEXT);
        Ok(ingest::Target { collection, is_known: requested.is_none(), resource })
    }

    async fn run(
        &self,
        tool: &Tool,
        project: &Project,
        arguments: &Raw,
        report: &Report,
    ) -> Result<Raw, Failure> {
        let context = &*self.context;
        match tool.name() {
            "r2r_search" => {
                let input: search::R2rSearchInput = tool.read(arguments)?;
                context.history.record(report.affinity(), search::ABOUT.name, &input.query);
                search::search(context, project, input).await
            }
            "r2r_rag_query" => {
                let input: rag::RagInput = tool.read(arguments)?;
                context.history.record(report.affinity(), rag::ABOUT.name, &input.question);
                rag::ask(context, project, input, report).await
            }
            "r2r_ingest_document" => {
                let input: ingest::Arguments = tool.read(arguments)?;
                let target = self.target(project, input.collection_id).await?;
                self.ingest.ingest(input, target, report).await.map(|answer| Raw::of(&answer))
            }
            "r2r_ingest_folder" => {
                let input: ingest::FolderArguments = tool.read(arguments)?;
                let target = self.target(project, input.collection_id).await?;
                self.ingest.ingest_folder(input, target, report).await.map(|answer| Raw::of(&answer))
            }
            "r2r_list_documents" => documents::list(context, project, tool.read(arguments)?).await,
            "r2r_monitor_task" => {
                let input: documents::MonitorInput = tool.read(arguments)?;
                // Before the request to R2R, because the ingestion may end in between.
                let under_way = self.ingest.under_way(input.document_id);
                documents::monitor(context, input, under_way).await
            }
            _ => collections::list(context, tool.read(arguments)?).await,
        }
    }
}

/// Returns all tools, in the order of the list.
fn tools(advanced_search: AdvancedSearch) -> Vec<Tool> {
    vec![
        Tool::new::<search::R2rSearchInput, search::R2rSearchOutput>(&search::about(advanced_search)),
        Tool::new::<rag::RagInput, rag::RagOutput>(&rag::ABOUT),
        Tool::new::<ingest::Arguments, ingest::Ingested>(&ingest::ABOUT),
        Tool::new::<ingest::FolderArguments, ingest::FolderIngested>(&ingest::ABOUT_FOLDER),
        Tool::new::<documents::DocumentListInput, documents::DocumentListOutput>(&documents::ABOUT_LIST),
        Tool::new::<documents::MonitorInput, documents::MonitorOutput>(&documents::ABOUT_MONITOR),
        Tool::new::<collections::ListCollectionsInput, collections::ListCollectionsOutput>(
            &collections::ABOUT,
        ),
    ]
}

const INSTRUCTIONS: &str = "Documents of a project, kept in R2R. r2r_search finds passages and \
    r2r_rag_query answers a question from them; both use the project's own collection unless another \
    one is named. r2r_ingest_document adds a file and r2r_monitor_task follows that; r2r_ingest_folder \
    adds all files of a folder.";

impl Builtin for R2r {
    const INFO: BuiltinInfo = BuiltinInfo { name: "r2r", title: "R2R", instructions: INSTRUCTIONS };

    fn tools(&self) -> Vec<Raw> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    async fn call(&self, name: &str, arguments: Raw, report: &Report) -> Result<Reply, Error> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return Ok(Err(no_tool(name)));
        };
        let project = match self.project(name, &arguments, report) {
            Ok(ProjectChoice::Known(project)) => project,
            Ok(ProjectChoice::Ask(question)) => return Ok(Ok(question)),
            Err(refusal) => return reply(Err(refusal.into())),
        };
        let replied = reply(self.run(tool, &project, &arguments, report).await);
        if name == documents::ABOUT_MONITOR.name { replied.map(passing) } else { replied }
    }

    fn resources(&self) -> Option<Vec<Raw>> {
        Some(resources::definitions())
    }

    fn subscribable_resources(&self) -> &[&str] {
        &[resources::CONTEXT]
    }

    async fn read(&self, uri: &str, report: &Report) -> Result<Reply, Error> {
        let project = match self.context.projects.of(report) {
            Ok(ProjectChoice::Known(project)) => project,
            Ok(ProjectChoice::Ask(question)) if uri == resources::CONTEXT => return Ok(Ok(question)),
            Ok(ProjectChoice::Ask(_)) => Arc::clone(self.context.projects.own()),
            Err(refusal) => {
                let code = ErrorCode::InvalidParams;
                return Ok(Err(refusal.error(code, code, refusal.message())));
            }
        };
        resources::read((&self.context, &project), uri, report).await
    }

    async fn health(&self) -> Result<(), Error> {
        self.context.client.health().await
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.context.client.refused()
    }
}

/// One R2R server, its projects, and what is known of both.
struct R2rContext {
    /// The client for R2R.
    pub client: Client,
    /// Its configuration.
    pub options: config::R2rOptions,
    /// The projects, whose collections are used when a client names none.
    pub projects: Projects,
    /// The cache of tool results.
    pub answers: Answers,
    /// Recent queries.
    pub history: History,
}

impl R2rContext {
    /// Logs in, and reads the stored state.
    async fn open(
        name: &Arc<str>,
        options: &config::R2rOptions,
        server_context: &ServerContext,
    ) -> Result<Self, Error> {
        let client = Client::open(options, server_context).await?;
        let identity = answers::identity(options);
        Ok(Self {
            projects: Projects::open(&client, options, &identity).await?,
            answers: Answers::new(&server_context.store, name, &identity),
            history: History::default(),
            options: options.clone(),
            client,
        })
    }

    /// Returns the titles of the documents of `chunks`. Missing titles are not an error: results without them
    /// are still useful.
    async fn titles(&self, chunks: &[R2rChunk]) -> BTreeMap<Id, String> {
        let own = |chunk: &R2rChunk| Some((chunk.document_id, chunk.title()?.to_owned()));
        let mut titles: BTreeMap<Id, String> = chunks.iter().filter_map(own).collect();
        let documents: BTreeSet<Id> = chunks.iter().map(|chunk| chunk.document_id).collect();
        let missing: Vec<String> =
            documents.iter().filter(|id| !titles.contains_key(id)).map(Id::to_string).collect();
        if !missing.is_empty() {
            titles.extend(self.ask_titles(&missing).await);
        }
        titles
    }

    async fn ask_titles(&self, documents: &[String]) -> Vec<(Id, String)> {
        let mut query: Vec<(&str, &str)> = documents.iter().map(|id| ("ids", id.as_str())).collect();
        query.push(("limit", "100"));
        match self.client.get::<Results<Vec<R2rDocument>>>(&["documents"], &query).await {
            Ok(found) => {
                let named = |document: R2rDocument| Some((document.id, document.title?));
                found.results.into_iter().filter_map(named).collect()
            }
            Err(error) => {
                tracing::debug!(%error, "titles of documents are not known");
                Vec::new()
            }
        }
    }
}
