//! State that all tools of one R2R server share.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

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

/// Most titles in the cache, and their lifetime.
const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
const TRUSTED: Duration = Duration::from_mins(10);

/// The cache of titles.
pub(super) struct Titles {
    client: Client,
    /// Each with the time at which R2R named it.
    known: Mutex<LruCache<Id, (String, Instant)>>,
}

impl Titles {
    /// Makes an empty cache.
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone(), known: Mutex::new(LruCache::new(MOST)) }
    }

    /// Returns the titles of the documents of `chunks`. Missing titles are not an error: results without them
    /// are still useful.
    pub(super) async fn of(&self, chunks: &[R2rChunk]) -> BTreeMap<Id, String> {
        let mut titles = BTreeMap::new();
        let mut missing = Vec::new();
        for chunk in chunks {
            let known = chunk.title().map(str::to_owned).or_else(|| self.find(chunk.document_id));
            match known {
                Some(title) => {
                    titles.insert(chunk.document_id, title);
                }
                None if missing.contains(&chunk.document_id) => {}
                None => missing.push(chunk.document_id),
            }
        }
        if !missing.is_empty() {
            titles.extend(self.ask(&missing).await);
        }
        titles
    }

    fn find(&self, document: Id) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&document).filter(|(_, at)| at.elapsed() < TRUSTED).map(|(title, _)| title.clone())
    }

    async fn ask(&self, documents: &[Id]) -> Vec<(Id, String)> {
        let ids: Vec<String> = documents.iter().map(Id::to_string).collect();
        let mut query: Vec<(&str, &str)> = ids.iter().map(|id| ("ids", id.as_str())).collect();
        query.push(("limit", "100"));
        let found: Result<Results<Vec<R2rDocument>>, _> = self.client.get(&["documents"], &query).await;
        let found = match found {
            Ok(found) => found.results,
            Err(error) => {
                tracing::debug!(%error, "titles of documents are not known");
                Vec::new()
            }
        };
        let named = |document: R2rDocument| Some((document.id, document.title?));
        let titles: Vec<_> = found.into_iter().filter_map(named).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, title) in &titles {
            known.put(*id, (title.clone(), Instant::now()));
        }
        drop(known);
        titles
    }
}
