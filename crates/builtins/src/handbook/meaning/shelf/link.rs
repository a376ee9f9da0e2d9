//! The way to the collection of a handbook at Chroma, and whether that collection is ours to use.
//!
//! Invariant: a collection is ours when a handbook made it, its vectors are of our model and dimension, and it
//! compares by angle. Only then anything is asked of it or written into it.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::super::outage::Outage;
use super::Trouble;
use crate::chroma::{Chroma, Collection, Metadata, Model, Space};
use crate::embedding::{Embedding, MOST_DIMENSIONS};
use crate::handbook::config;
use runtime::shutdown::Shutdown;
use upstream::api::Error;

/// What the metadata of a collection say when a handbook made it.
const KEPT_BY: (&str, &str) = ("kept_by", "switchyard handbook");
/// A request that is part of keeping the vectors takes no longer.
const LIMIT: Duration = Duration::from_secs(30);

/// See the head of this file.
pub(in super::super::super) struct Link {
    /// The database.
    pub(super) chroma: Chroma,
    /// The collection.
    pub(super) name: String,
    create_database: bool,
    /// What searches remember of Chroma.
    pub(in super::super) outage: Outage,
    /// Searches saw that the collection is gone, or that Chroma is back.
    pub(in super::super) news: Notify,
}

impl Link {
    /// For the handbook that is called `server`. Nothing is sent yet.
    pub(in super::super::super) fn new(
        config: &config::Collection,
        server: &str,
        shutdown: &Shutdown,
    ) -> Result<Self, Error> {
        Ok(Self {
            chroma: Chroma::new(&config.place, shutdown)?,
            name: config.name_for(server),
            create_database: config.create_database,
            outage: Outage::of("Chroma"),
            news: Notify::new(),
        })
    }

    /// The collection, if it is there; then it is ours, and the second is its dimension.
    pub(super) async fn find(&self, model: &dyn Embedding) -> Result<Option<(Collection, usize)>, Trouble> {
        if self.create_database {
            limited(self.chroma.make_database()).await?;
        }
        let Some(collection) = limited(self.chroma.collection(&self.name)).await? else { return Ok(None) };
        let dimension = self.check(&collection, model)?;
        Ok(Some((collection, dimension)))
    }

    /// Makes the collection for vectors of `dimension` numbers, unless somebody was quicker.
    pub(super) async fn make(
        &self,
        model: &dyn Embedding,
        dimension: usize,
    ) -> Result<(Collection, usize), Trouble> {
        let mut metadata = Metadata::new();
        metadata.insert(KEPT_BY.0.into(), KEPT_BY.1.into());
        if let Some(ours) = Model::ours(model, Some(dimension)) {
            ours.note(&mut metadata);
        }
        match limited(self.chroma.create(&self.name, Some(&metadata))).await {
            Ok(made) => Ok((made, dimension)),
            Err(Error::Backend { status: 409, .. }) => {
                self.find(model).await?.ok_or_else(|| gone(&self.name))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self, collection: &Collection, model: &dyn Embedding) -> Result<usize, Trouble> {
        let said = |key| collection.metadata.as_ref().and_then(|all| all.get(key)).and_then(Value::as_str);
        if said(KEPT_BY.0) != Some(KEPT_BY.1) {
            return Err(self.foreign("no handbook has made it"));
        }
        if collection.space() != Space::Cosine {
            return Err(self.foreign("it does not compare by cosine"));
        }
        let (Some(theirs), Some(ours)) = (Model::of(collection), Model::ours(model, None)) else {
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

    /// It can not be used.
    pub(super) fn foreign(&self, why: &str) -> Trouble {
        let why = format!("{why}; name another one in `chroma.collection`, or delete it");
        Trouble::Foreign { name: self.name.clone(), why }
    }
}

/// It was there a moment ago.
pub(super) fn gone(name: &str) -> Trouble {
    let detail = format!("the collection `{name}` is gone");
    Trouble::Chroma(Error::backend(404, detail))
}

/// A request that ends in time.
pub(super) async fn limited<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(LIMIT, request).await.unwrap_or(Err(Error::TimedOut { after: LIMIT }))
}
