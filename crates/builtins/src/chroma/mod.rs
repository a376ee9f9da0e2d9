//! Chroma, a vector store (REST API v2), as a built-in server. Documents are cut, embedded, stored there, and
//! found by meaning.
//!
//! Vectors are made here ([`super::embedding`]), because Chroma makes none. `client` sends typed requests,
//! passes no input of a caller on unchecked, and does not retry. `layout` defines the records of a document,
//! `writing` stores them, and `consistent_search` finds them, so that no caller finds half of a document. The tools of
//! collections, documents and search have one file each. `context` is what they share.
//!
//! Not here: cutting texts ([`super::chunk`]).

mod bare;
mod client;
mod collections;
pub(crate) mod config;
mod consistent_search;
mod context;
mod documents;
mod filter;
mod layout;
mod metadata;
mod model;
mod model_check;
mod names;
mod search;
mod writing;

#[cfg(test)]
pub(super) mod double;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tools_tests;
#[cfg(test)]
mod writing_tests;

use std::borrow::Cow;
use std::sync::Arc;

pub(crate) use bare::{Distant, Vector};
pub(crate) use client::{ChromaClient, ChromaToken, DatabaseAddress};
#[cfg(test)]
use filter::filter;
pub(crate) use model::{BadRecords, Collection, Metadata, Records, Select, Space};
#[cfg(test)]
use model::{Record, VectorQuery};
pub(super) use model_check::CollectionModel;
pub(crate) use names::is_name;

use super::answer::{Failure, refused_by, reply};
use super::refusal::Refusal;
use super::tool::Tool;
use super::{Builtin, BuiltinInfo, Declared, Report, embedding, no_tool, schema};
use crate::chroma::context::ChromaContext;
use json::Raw;
use protocol::Reply;
use upstream::api::{Error, Events, ServerContext};

/// Chroma as a built-in server.
pub(crate) struct VectorStore {
    context: ChromaContext,
    tools: Vec<Tool>,
}

impl VectorStore {
    /// Creates the database if configured, checks that it exists, and opens the embedding provider.
    pub(super) async fn open(
        _: &Arc<str>,
        options: &config::ChromaOptions,
        server_context: &ServerContext,
        _: Events,
    ) -> Result<Self, Error> {
        let chroma = ChromaClient::new(&options.place, server_context)?;
        if options.create_database {
            chroma.make_database().await?;
        }
        chroma.health().await?;
        let embedding = embedding::open(&options.embedding, server_context).await;
        let embedding = embedding.map_err(|error| Error::Connect { reason: error.to_string() })?;
        Ok(Self::new(ChromaContext::new(chroma, options, embedding)))
    }

    /// Returns the offer before Chroma has answered.
    pub(super) fn declared(options: &config::ChromaOptions) -> Declared {
        Declared::new(Self::INFO, &tools(options))
    }

    fn new(context: ChromaContext) -> Self {
        Self { tools: tools(&context.options), context }
    }

    async fn run(&self, tool: &Tool, arguments: &Raw, report: &Report) -> Result<Raw, Failure> {
        let context = &self.context;
        match tool.name() {
            "create_collection" => collections::create(context, tool.read(arguments)?).await,
            "list_collections" => {
                let collections::CollectionListInput {} = tool.read(arguments)?;
                collections::list(context).await
            }
            "delete_collection" => collections::delete(context, tool.read(arguments)?).await,
            "add_document" => documents::add(context, tool.read(arguments)?, report).await,
            "update_document" => documents::update(context, tool.read(arguments)?, report).await,
            "delete_document" => documents::delete(context, tool.read(arguments)?).await,
            "search" => search::search(context, tool.read(arguments)?, report).await,
            _ => documents::get(context, tool.read(arguments)?).await,
        }
    }
}

/// Returns all tools in the order of the list.
fn tools(options: &config::ChromaOptions) -> Vec<Tool> {
    vec![
        Tool::new::<collections::CreateInput, collections::CreateOutput>(&collections::ABOUT_CREATE),
        Tool::new::<collections::CollectionListInput, collections::CollectionListOutput>(
            &collections::ABOUT_LIST,
        ),
        Tool::new::<collections::DeleteInput, collections::DeleteOutput>(&collections::ABOUT_DELETE),
        add(options),
        Tool::new::<documents::UpdateInput, documents::WriteOutput>(&documents::ABOUT_UPDATE),
        Tool::new::<documents::OneInput, documents::RemoveOutput>(&documents::ABOUT_DELETE),
        search(options),
        Tool::new::<documents::OneInput, documents::DocumentInfo>(&documents::ABOUT_GET),
    ]
}

/// Returns the tool that adds documents, with the configured size of chunks as the default.
fn add(options: &config::ChromaOptions) -> Tool {
    let mut input = schema::of_input::<documents::AddInput>();
    let (size, limits) = (options.chunking.size(), &mut input["properties"]["chunk_size"]);
    limits["minimum"] = documents::LEAST_CHUNK.min(size).into();
    limits["default"] = size.into();
    Tool::with_schemas(&documents::ABOUT_ADD, &input, &schema::of_output::<documents::WriteOutput>())
}

/// Returns the search tool, with the configured maximum of results.
fn search(options: &config::ChromaOptions) -> Tool {
    let mut input = schema::of_input::<search::SearchInput>();
    let most = options.max_results;
    let limits = &mut input["properties"]["n_results"];
    limits["maximum"] = most.into();
    limits["default"] = most.min(search::USUAL).into();
    Tool::with_schemas(&search::ABOUT, &input, &schema::of_output::<search::SearchOutput>())
}

/// Arguments that Chroma calls by other names, and those names.
const THEIR_WORDS: [(&str, &str); 3] =
    [("filters", "where"), ("content", "document"), ("query", "embedding")];

/// Returns the argument that Chroma names in `detail`, or else the only one. If neither is clear, it returns
/// all of them.
fn complained_of(arguments: &Raw, detail: &str) -> (String, Raw) {
    let detail = detail.to_lowercase();
    let is_named = |(name, _): &(Cow<'_, str>, Raw)| {
        let theirs = THEIR_WORDS.iter().find(|(ours, _)| ours == name);
        detail.contains(&name.to_lowercase()) || theirs.is_some_and(|(_, theirs)| detail.contains(theirs))
    };
    let named = arguments.members().filter(|(_, value)| !value.is_null()).find(is_named);
    let mut all = arguments.members();
    let only = || all.next().filter(|_| all.next().is_none());
    match named.or_else(only) {
        Some((name, value)) => (name.into_owned(), value),
        None => ("arguments".to_owned(), arguments.clone()),
    }
}

/// Returns the failure of `tool`, with its name. An argument that Chroma refuses is the caller's fault and
/// not a failure of Chroma.
fn blamed(tool: &str, arguments: &Raw, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(Error::Backend { status: 400 | 404 | 413 | 422, detail, .. }) => {
            let (field, value) = complained_of(arguments, &detail);
            Refusal::new("refused_by_chroma", &field, &value)
                .because(&format!("{tool}: Chroma refused this: {detail}"))
                .valid("what Chroma takes")
                .suggest("Change what it complains of.")
                .into()
        }
        Failure::Refused(refusal) => refusal.of_tool(tool).into(),
        failure @ Failure::Failed(_) => failure,
    }
}

const INSTRUCTIONS: &str = "Documents in a vector store, in collections. search finds passages by their \
    meaning; add_document takes a text in, update_document replaces it, delete_document drops it; \
    list_collections shows where to look.";

impl Builtin for VectorStore {
    const INFO: BuiltinInfo = BuiltinInfo { name: "chroma", title: "Chroma", instructions: INSTRUCTIONS };

    fn tools(&self) -> Vec<Raw> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    async fn call(&self, name: &str, arguments: Raw, report: &Report) -> Result<Reply, Error> {
        match self.tools.iter().find(|tool| tool.name() == name) {
            Some(tool) => {
                let done = self.run(tool, &arguments, report).await;
                match done.map_err(|failure| blamed(name, &arguments, failure)) {
                    Err(Failure::Refused(refusal)) => Ok(Ok(refused_by(name, &refusal))),
                    done => reply(done),
                }
            }
            None => Ok(Err(no_tool(name))),
        }
    }

    async fn health(&self) -> Result<(), Error> {
        self.context.chroma.health().await
    }
}
