//! State that all tools of one R2R server share.

use std::sync::Arc;

use super::answers::{self, Answers};
use super::client::Client;
use super::history::History;
use super::projects::Projects;
use super::titles::Titles;
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
    /// Titles of documents.
    pub titles: Titles,
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
            titles: Titles::new(&client),
            history: History::default(),
            options: options.clone(),
            client,
        })
    }
}
