//! The collection of the project, which is used when a client names none.
//!
//! Its name is `claude-code-PROJECT`. It is found by that name, or created if the configuration allows it.
//! Its id is kept here and in a file (`mapping`). If R2R no longer knows the id, the collection is looked for
//! again. Concurrent calls share one lookup.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::client::Client;
use super::mapping::{self, Mapping, MappingEntry, Owner, Remembered};
use super::model::{self, Id, Results};
use crate::answer::Failure;
use crate::r2r::config;
use crate::r2r::project_name::ProjectName;
use crate::refusal::Refusal;
use upstream::api::Error;

/// How long the existence of a collection is trusted. A search in a deleted collection finds nothing, which
/// looks like a valid result.
const TRUSTED: Duration = Duration::from_mins(1);
/// Page size and most pages, when collections are listed to find a name that does not fit into a path.
const PAGE: u64 = 1_000;
const PAGES: u64 = 10;
/// Description of new collections at R2R.
const DESCRIPTION: &str = "Made by an MCP gateway for the documents of a project.";

/// The project and its collection.
pub(super) struct Project {
    client: Client,
    owner: Owner,
    collection_name: String,
    path: Option<String>,
    may_create: bool,
    mapping: Option<Mapping>,
    known: Mutex<Option<KnownCollection>>,
    looking: Semaphore,
}

#[derive(Clone, Copy)]
struct KnownCollection {
    collection: Remembered,
    seen: Instant,
}

impl Project {
    /// Opens the project that `options` name. Fails if the file of collections is broken; the error names it.
    pub(super) async fn open(
        client: &Client,
        options: &config::R2rOptions,
        identity: &Arc<str>,
    ) -> Result<Self, Error> {
        let project = Self::new(client, options, identity, options.project.clone());
        project.remembered().await.map_err(|error| Error::Connect { reason: error.to_string() })?;
        Ok(project)
    }

    /// The project `name`, with the other settings of `options`.
    pub(super) fn new(
        client: &Client,
        options: &config::R2rOptions,
        identity: &Arc<str>,
        ProjectName { name, path }: ProjectName,
    ) -> Self {
        Self {
            client: client.clone(),
            collection_name: format!("claude-code-{name}"),
            path,
            may_create: options.auto_create_collections,
            known: Mutex::new(None),
            looking: Semaphore::new(1),
            mapping: Mapping::new(options.collection_mapping_file.as_deref()),
            owner: Owner { project: name, identity: identity.to_string() },
        }
    }

    /// Returns the folder of the project, as the client or the settings name it.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Returns the name of the project.
    pub(super) fn name(&self) -> &str {
        &self.owner.project
    }

    /// Returns the name of its collection.
    pub(super) fn collection_name(&self) -> &str {
        &self.collection_name
    }

    /// Returns `given`, or the project's collection, which is created if needed.
    pub(super) async fn or_own(&self, given: Option<Id>) -> Result<Id, Failure> {
        match given {
            Some(id) => Ok(id),
            None => self.own().await,
        }
    }

    /// Returns the project's collection, which is created if needed.
    pub(super) async fn own(&self) -> Result<Id, Failure> {
        match self.look(self.may_create).await? {
            Some(id) => Ok(id),
            None => Err(self.no_collection().into()),
        }
    }

    /// Returns the project's collection, if there is one.
    pub(super) async fn peek(&self) -> Result<Option<Id>, Failure> {
        self.look(false).await
    }

    /// Forgets `id` after R2R reported it as unknown. The next call looks for the collection again.
    pub(super) fn forget(&self, id: Id) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some_and(|known| known.collection.id == id) {
            *known = None;
        }
    }

    async fn look(&self, may_create: bool) -> Result<Option<Id>, Failure> {
        if let Some(id) = self.fresh() {
            return Ok(Some(id));
        }
        // One call looks, and the waiting ones use its result.
        let _turn = self.looking.acquire().await;
        if let Some(id) = self.fresh() {
            return Ok(Some(id));
        }
        if let Some(collection) = self.still_there().await? {
            return Ok(Some(self.keep(collection)));
        }
        let Some(id) = self.found_or_made(may_create).await? else { return Ok(None) };
        self.write_down(id).await;
        Ok(Some(self.keep(Remembered { id, is_foreign: false })))
    }

    fn fresh(&self) -> Option<Id> {
        self.known().filter(|known| known.seen.elapsed() < TRUSTED).map(|known| known.collection.id)
    }

    fn known(&self) -> Option<KnownCollection> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, collection: Remembered) -> Id {
        let known = KnownCollection { collection, seen: Instant::now() };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        collection.id
    }

    /// Returns the collection from memory or from the file, if R2R still knows it.
    async fn still_there(&self) -> Result<Option<Remembered>, Failure> {
        let known = self.known().map(|known| known.collection);
        let remembered = match known {
            Some(collection) => Some(collection),
            None => self.remembered().await.map_err(|error| broken(&error))?,
        };
        let Some(collection) = remembered else { return Ok(None) };
        let id = collection.id;
        let found: Result<Results<model::R2rCollection>, Error> =
            self.client.get(&["collections", &id.to_string()], &[]).await;
        match found {
            Ok(found) if collection.is_foreign || found.results.name == self.collection_name => {
                Ok(Some(collection))
            }
            Ok(_) | Err(Error::Backend { status: 403 | 404 | 422, .. }) => {
                tracing::info!(collection = %id, "the project's collection is gone, looking for it again");
                self.forget(id);
                Ok(None)
            }
            // The collection existed a minute ago, so cached results can still be used.
            Err(_) if known.is_some() => Ok(Some(collection)),
            Err(error) => Err(error.into()),
        }
    }

    async fn remembered(&self) -> Result<Option<Remembered>, mapping::Error> {
        match &self.mapping {
            Some(mapping) => mapping.get(&self.owner, &self.collection_name).await,
            None => Ok(None),
        }
    }

    async fn found_or_made(&self, may_create: bool) -> Result<Option<Id>, Failure> {
        if let Some(id) = self.by_name().await? {
            return Ok(Some(id));
        }
        if !may_create {
            return Ok(None);
        }
        let body = json!({"name": self.collection_name, "description": DESCRIPTION});
        let made: Result<Results<model::R2rCollection>, Error> =
            self.client.post(&["collections"], &body).await;
        match made {
            Ok(made) => Ok(Some(made.results.id)),
            // Another program created it in the meantime.
            Err(Error::Backend { status: 409, .. }) => self.by_name().await,
            Err(error) => Err(error.into()),
        }
    }

    async fn by_name(&self) -> Result<Option<Id>, Failure> {
        if self.collection_name.contains(['/', '\\']) {
            return self.by_looking_through().await;
        }
        let found: Result<Results<model::R2rCollection>, Error> =
            self.client.get(&["collections", "name", &self.collection_name], &[]).await;
        match found {
            Ok(found) => Ok(Some(found.results.id)),
            Err(Error::Backend { status: 404, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks for the name in the list of collections. R2R decodes a slash in a path, so such a name cannot be
    /// requested directly.
    async fn by_looking_through(&self) -> Result<Option<Id>, Failure> {
        for page in 0..PAGES {
            let (part, ours) = ((page * PAGE, PAGE), [("owner_only", "true")]);
            let found = self.client.page::<model::R2rCollection>(&["collections"], part, &ours).await?;
            let count = found.results.len();
            if let Some(found) = found.results.iter().find(|found| found.name == self.collection_name) {
                return Ok(Some(found.id));
            }
            if (count as u64) < PAGE {
                break;
            }
        }
        Ok(None)
    }

    /// Stores the id in the file. If that fails, the collection can still be found by its name.
    async fn write_down(&self, id: Id) {
        let Some(mapping) = &self.mapping else { return };
        let collection_name = self.collection_name.clone();
        let entry = MappingEntry { owner: self.owner.clone(), collection_id: id, collection_name };
        if let Err(error) = mapping.put(entry).await {
            tracing::warn!(%error, "the project's collection is not written down");
        }
    }

    fn no_collection(&self) -> Refusal {
        Refusal::new("not_found", "collection_id", &())
            .because(&format!(
                "The project {:?} has no collection at R2R yet, and the gateway may not make one.",
                self.owner.project
            ))
            .valid("the id of a collection that is there")
            .suggest("Give a collection_id from r2r_list_collections, or have an operator allow auto_create_collections.")
    }
}

fn broken(error: &mapping::Error) -> Failure {
    tracing::error!(%error, "the project's collection is not known");
    Refusal::new("unavailable", "collection_id", &())
        .because("The gateway's file of project collections cannot be read; its log says why.")
        .valid("the id of a collection")
        .suggest("Give a collection_id from r2r_list_collections, and have an operator repair the file.")
        .into()
}
