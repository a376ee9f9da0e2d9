//! Access to the handbook's collection at Chroma, and the check that the collection belongs to the handbook.
//!
//! Invariant: a collection is read and written only if a handbook created it, its vectors have this model and
//! dimension, and it compares by angle.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::super::outage::Outage;
use super::StorageError;
use crate::chroma::{ChromaClient, Collection, CollectionModel, Metadata, Space};
use crate::embedding::{Embedding, MOST_DIMENSIONS};
use crate::handbook::config;
use upstream::api::{Error, ServerContext};

/// Metadata of a collection that a handbook created.
const KEPT_BY: (&str, &str) = ("kept_by", "switchyard handbook");
/// Time limit of a request that stores or checks vectors.
const LIMIT: Duration = Duration::from_secs(30);

/// Access to one collection at Chroma.
pub(in super::super::super) struct Link {
    /// The database.
    pub(super) chroma: ChromaClient,
    /// The collection.
    pub(super) name: String,
    create_database: bool,
    /// Whether searches saw Chroma fail.
    pub(in super::super) outage: Outage,
    /// Wakes the indexer after a search saw that the collection is gone, or that Chroma is back.
    pub(in super::super) news: Notify,
}

impl Link {
    /// Makes the access for the handbook `server`. Nothing is sent yet.
    pub(in super::super::super) fn new(
        config: &config::CollectionOptions,
        server: &str,
        server_context: &ServerContext,
    ) -> Result<Self, Error> {
        Ok(Self {
            chroma: ChromaClient::new(&config.place, server_context)?,
            name: config.name_for(server),
            create_database: config.create_database,
            outage: Outage::of("Chroma"),
            news: Notify::new(),
        })
    }

    /// Returns the collection and its dimension, if it exists and belongs to the handbook.
    pub(super) async fn find(
        &self,
        model: &dyn Embedding,
    ) -> Result<Option<(Collection, usize)>, StorageError> {
        if self.create_database {
            limited(self.chroma.make_database()).await?;
        }
        let Some(collection) = limited(self.chroma.collection(&self.name)).await? else { return Ok(None) };
        let dimension = self.check(&collection, model)?;
        Ok(Some((collection, dimension)))
    }

    /// Creates the collection for vectors of `dimension` numbers, or uses one that another gateway has just
    /// created.
    pub(super) async fn make(
        &self,
        model: &dyn Embedding,
        dimension: usize,
    ) -> Result<(Collection, usize), StorageError> {
        let mut metadata = Metadata::new();
        metadata.insert(KEPT_BY.0.into(), KEPT_BY.1.into());
        if let Some(ours) = CollectionModel::ours(model, Some(dimension)) {
            ours.write_to(&mut metadata);
        }
        match limited(self.chroma.create(&self.name, Some(&metadata))).await {
            Ok(made) => Ok((made, dimension)),
            Err(Error::Backend { status: 409, .. }) => {
                self.find(model).await?.ok_or_else(|| gone(&self.name))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self, collection: &Collection, model: &dyn Embedding) -> Result<usize, StorageError> {
        let said = |key| collection.metadata.as_ref().and_then(|all| all.get(key)).and_then(Value::as_str);
        if said(KEPT_BY.0) != Some(KEPT_BY.1) {
            return Err(self.foreign("no handbook has made it"));
        }
        if collection.space() != Space::Cosine {
            return Err(self.foreign("it does not compare by cosine"));
        }
        let (Some(theirs), Some(ours)) =
            (CollectionModel::of(collection), CollectionModel::ours(model, None))
        else {
            return Err(self.foreign("it does not say of which model its vectors are"));
        };
        if !theirs.is_same(&ours) {
            let (theirs, ours) = (theirs.words(), ours.words());
            return Err(
                self.foreign(&format!("its vectors are of {theirs}, those of this handbook of {ours}"))
            );
        }
        let dimension = theirs.dimension().filter(|dimension| (1..=MOST_DIMENSIONS).contains(dimension));
        dimension.ok_or_else(|| self.foreign("it does not say how long its vectors are"))
    }

    /// The error for a collection that belongs to something else.
    pub(super) fn foreign(&self, why: &str) -> StorageError {
        let why = format!("{why}; name another one in `chroma.collection`, or delete it");
        StorageError::Foreign { name: self.name.clone(), why }
    }
}

/// The error for a collection that was deleted in the meantime.
pub(super) fn gone(name: &str) -> StorageError {
    let detail = format!("the collection `{name}` is gone");
    StorageError::Chroma(Error::backend(404, detail))
}

/// Applies the time limit to a request.
pub(super) async fn limited<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(LIMIT, request).await.unwrap_or(Err(Error::TimedOut { after: LIMIT }))
}
