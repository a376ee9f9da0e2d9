//! Cache of tool results, for as long as the configuration says.
//!
//! Invariants: the key of a result contains everything that it depends on: the service and the account there,
//! the server's name, the collection and every argument. A result is stored without the note that it is
//! cached. A change of a collection drops its results and the lists.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::model::Id;
use crate::answer::Failure;
use crate::r2r::config::{Credentials, R2rOptions};
use json::Raw;
use runtime::secret::{ExposeSecret, SecretString};
use runtime::store::{self, Group, Key, Store};
use upstream::api::Error;

/// Group of the lists of collections, beside the groups of the collections.
const LISTS: &str = "lists";

/// The cache, as the tools of one server use it.
#[derive(Clone)]
pub(super) struct Answers {
    store: Store,
    server: Arc<str>,
    identity: Arc<str>,
}

/// A result that was just made.
pub(super) struct Fresh<T> {
    pub answer: T,
    /// Whether to cache it.
    pub keep: bool,
}

impl<T> Fresh<T> {
    /// A result that is valid until something changes.
    pub(super) const fn lasting(answer: T) -> Self {
        Self { answer, keep: true }
    }

    /// A result that may change at any moment.
    pub(super) const fn passing(answer: T) -> Self {
        Self { answer, keep: false }
    }
}

impl Answers {
    /// The results of the server `name`, which depend on `identity` ([`identity`]).
    pub(super) fn new(store: &Store, name: &Arc<str>, identity: &Arc<str>) -> Self {
        Self { store: store.clone(), server: Arc::clone(name), identity: Arc::clone(identity) }
    }

    /// Returns the result for `collection` (none: for all of them) and `inputs`. It comes from the cache, or
    /// from `make`, and is then cached for `ttl`. Its member `cached` tells which.
    pub(super) async fn fetch<T: Serialize>(
        &self,
        ttl: Duration,
        collection: Option<Id>,
        inputs: &(impl Serialize + Sync),
        make: impl Future<Output = Result<Fresh<T>, Failure>> + Send,
    ) -> Result<Raw, Failure> {
        let key = Key::new(&self.group(collection), inputs);
        let work = async {
            let Fresh { answer, keep } = make.await?;
            Ok::<_, Failure>(store::Fresh { value: Raw::of(&answer).bytes().clone(), keep })
        };
        let fetched = self.store.fetch(&key, ttl, work).await?;
        let answer = Raw::parse(&fetched.value).ok().filter(Raw::is_object);
        let answer =
            answer.ok_or_else(|| Error::Malformed { reason: "what was kept is broken".to_owned() })?;
        Ok(answer.with("cached", &Raw::of(&fetched.cached)))
    }

    /// Drops the results that depend on `collection`, and the lists.
    pub(super) async fn forget(&self, collection: Id) {
        self.store.forget(&self.group(Some(collection))).await;
        self.store.forget(&self.group(None)).await;
    }

    fn group(&self, collection: Option<Id>) -> Group {
        let collection = collection.map_or_else(|| LISTS.to_owned(), |id| id.to_string());
        Group::new(&["r2r", &self.server, &self.identity, &collection])
    }
}

/// Returns a hash of the R2R server and the account there. Neither should appear in a key or a file.
pub(super) fn identity(options: &R2rOptions) -> Arc<str> {
    let shown = |secret: &SecretString| secret.expose_secret().to_owned();
    let (kind, who) = match &options.credentials {
        Credentials::None => ("none", String::new()),
        Credentials::ApiKey(key) => ("key", shown(key)),
        Credentials::Account { email, .. } => ("account", shown(email)),
    };
    let all = serde_json::to_vec(&(options.url.as_str(), kind, who)).unwrap_or_default();
    hex::encode(&Sha256::digest(&all)[..16]).into()
}
