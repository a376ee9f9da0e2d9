//! State that all tools of one R2R server share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::answers::{self, Answers};
use super::client::Client;
use super::history::History;
use super::id::Id;
use super::model::{R2rChunk, R2rDocument, Results};
use super::projects::Projects;
use crate::r2r::config;
use upstream::api::{Error, ServerContext};

/// One R2R server, its projects, and what is known of both.
pub(super) struct R2rContext {
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
    pub(super) async fn open(
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
    pub(super) async fn titles(&self, chunks: &[R2rChunk]) -> BTreeMap<Id, String> {
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
