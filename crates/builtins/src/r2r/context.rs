//! What all tools of one R2R server share.

use std::sync::Arc;

use super::answers::{self, Answers};
use super::client::Client;
use super::history::History;
use super::projects::Projects;
use super::titles::Titles;
use crate::r2r::config;
use upstream::api::{Error, Means};

/// One R2R server, its project and what was learnt of both.
pub(super) struct Desk {
    /// The way to R2R.
    pub client: Client,
    /// How it was configured.
    pub options: config::R2r,
    /// The projects, whose collections are meant where a caller names none.
    pub projects: Projects,
    /// Answers that may be given again.
    pub answers: Answers,
    /// Titles of documents.
    pub titles: Titles,
    /// What was searched for lately.
    pub history: History,
}

impl Desk {
    /// Logs in, and reads what was remembered.
    pub(super) async fn open(name: &Arc<str>, options: &config::R2r, means: &Means) -> Result<Self, Error> {
        let client = Client::open(options, means).await?;
        let identity = answers::identity(options);
        Ok(Self {
            projects: Projects::open(&client, options, &identity).await?,
            answers: Answers::new(&means.store, name, &identity),
            titles: Titles::new(&client),
            history: History::default(),
            options: options.clone(),
            client,
        })
    }
}
