//! Answers that may be given again, kept for as long as the configuration says.
//!
//! Invariants: the key of an answer holds all that changes it: the service and the account there, the
//! server's name, the collection and every argument of the tool; an answer is kept as it was made,
//! without the note that it was kept; what a collection takes in drops its answers and the lists.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::id::Id;
use crate::answer::Failure;
use crate::r2r::config::{Credentials, R2r};
use json::Raw;
use runtime::hex::hex;
use runtime::secret::{ExposeSecret, SecretString};
use runtime::store::{self, Group, Key, Store};
use upstream::api::Error;

/// Where the lists of collections are kept, beside the collections.
const LISTS: &str = "lists";

/// The cache, as the tools of one server use it.
#[derive(Clone)]
pub(super) struct Answers {
    store: Store,
    server: Arc<str>,
    identity: Arc<str>,
}

/// An answer that was made just now.
pub(super) struct Fresh<T> {
    pub answer: T,
    /// Whether it is worth keeping.
    pub keep: bool,
}

impl<T> Fresh<T> {
    /// One that holds until something changes.
    pub(super) const fn lasting(answer: T) -> Self {
        Self { answer, keep: true }
    }

    /// One that may be another in a moment.
    pub(super) const fn passing(answer: T) -> Self {
        Self { answer, keep: false }
    }
}

impl Answers {
    /// Those of the server `name`, whose answers depend on `identity` ([`identity`]).
    pub(super) fn new(store: &Store, name: &Arc<str>, identity: &Arc<str>) -> Self {
        Self { store: store.clone(), server: Arc::clone(name), identity: Arc::clone(identity) }
    }

    /// The answer that depends on `collection` (none: on all of them) and `inputs`, with `cached` as it is:
    /// one that was kept, or what `make` makes, which is kept for `ttl`.
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

    /// Drops what depends on `collection`, and the lists.
    pub(super) async fn forget(&self, collection: Id) {
        self.store.forget(&self.group(Some(collection))).await;
        self.store.forget(&self.group(None)).await;
    }

    fn group(&self, collection: Option<Id>) -> Group {
        let collection = collection.map_or_else(|| LISTS.to_owned(), |id| id.to_string());
        Group::new(&["r2r", &self.server, &self.identity, &collection])
    }
}

/// Which R2R it is, and who we are there, as a hash: neither belongs in a key or a file.
pub(super) fn identity(options: &R2r) -> Arc<str> {
    let shown = |secret: &SecretString| secret.expose_secret().to_owned();
    let (kind, who) = match &options.credentials {
        Credentials::None => ("none", String::new()),
        Credentials::ApiKey(key) => ("key", shown(key)),
        Credentials::Account { email, .. } => ("account", shown(email)),
    };
    let all = serde_json::to_vec(&(options.url.as_str(), kind, who)).unwrap_or_default();
    hex(&Sha256::digest(&all)[..16]).into()
}
