//! Finds clients, wherever their metadata is, and checks that they are who they claim to be.
//!
//! Invariants: an id of the operator's file comes first, so nobody can register or publish another client under it.
//! Callers come with a person who is signed in, or with a code or refresh token of this server (see `fetch`).

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::JwkSet;
use secrecy::ExposeSecret;
use url::Url;

use crate::client::{Client, ClientAuthentication, ClientSource};
use crate::client_assertion;
use crate::client_document::{Documents, client_host, is_document_id};
use crate::error::{Code, Error};
use crate::fetch::{Cache, FetchError, Fetcher};
use crate::grant::Grant;
use crate::registration::Registrations;
use crate::token_request::ClaimedClient;

/// Limit of cached key sets.
const MAX_KEY_SETS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
/// The time for which a key set is cached.
const KEY_SET_LIFETIME: Duration = Duration::from_mins(5);

/// All clients.
pub(crate) struct Clients {
    configured: HashMap<String, Arc<Client>>,
    documents: Documents,
    pub(crate) registrations: Registrations,
    fetcher: Fetcher,
    key_sets: Cache<JwkSet>,
}

impl Clients {
    pub(crate) fn new(configured: Vec<Client>, registrations: Registrations, fetcher: Fetcher) -> Self {
        Self {
            configured: configured.into_iter().map(|client| (client.id.clone(), Arc::new(client))).collect(),
            documents: Documents::new(),
            registrations,
            fetcher,
            key_sets: Cache::new(MAX_KEY_SETS),
        }
    }

    /// Returns the client `id`, which `owner` uses.
    pub(crate) async fn find(&self, id: &str, owner: &str, now: u64) -> Result<Arc<Client>, Error> {
        if let Some(client) = self.configured.get(id) {
            return Ok(Arc::clone(client));
        }
        if is_document_id(id) {
            return self.documents.find(id, owner, &self.fetcher).await;
        }
        let unknown =
            || Error::new(Code::InvalidClient, "the client is not registered here; it can register again");
        self.registrations.find(id, now).await?.ok_or_else(unknown)
    }

    /// The clients of the operator's file.
    pub(crate) fn configured(&self) -> impl Iterator<Item = &Client> {
        self.configured.values().map(|client| &**client)
    }

    /// Whether the operator has vouched for `client`, by its own entry or by the host of its id.
    pub(crate) fn is_trusted(&self, source: ClientSource, id: &str) -> bool {
        match source {
            ClientSource::Configured => true,
            ClientSource::Registered => false,
            ClientSource::Document => client_host(id).is_some_and(|host| self.fetcher.trusts(&host)),
        }
    }

    /// Checks that the client of `grant` sent a request with `claimed`. A public client only names itself.
    pub(crate) async fn check(
        &self,
        claimed: &ClaimedClient,
        grant: &Grant,
        audiences: [&str; 2],
        now: u64,
    ) -> Result<(), Error> {
        if claimed.id()?.is_some_and(|id| id != grant.client) {
            return Err(Error::new(Code::InvalidGrant, "the code or token was issued to another client"));
        }
        let refused = |reason: &'static str| Error::new(Code::InvalidClient, reason);
        let is_public = !grant.authenticates && claimed.assertion.is_none();
        // A document that cannot be fetched now does not log a public client out.
        if is_public && grant.source != ClientSource::Configured {
            return Ok(());
        }
        let client = self.find(&grant.client, &grant.owner, now).await?;
        let keys = match &client.metadata.authentication {
            ClientAuthentication::None if is_public => return Ok(()),
            ClientAuthentication::None => {
                return Err(refused("the client has no key, so it cannot send an assertion"));
            }
            ClientAuthentication::Keys(keys) => Arc::new(keys.clone()),
            ClientAuthentication::KeysAt(url) => self.key_set(url, &client, &grant.owner).await?,
        };
        let assertion = claimed.assertion.as_ref().ok_or_else(|| refused("`client_assertion` is missing"))?;
        client_assertion::verify(assertion.expose_secret(), &grant.client, &keys, audiences, now)
            .map_err(refused)
    }

    async fn key_set(&self, url: &str, client: &Client, owner: &str) -> Result<Arc<JwkSet>, Error> {
        if let Some(keys) = self.key_sets.get(url) {
            return Ok(keys);
        }
        let absent = || Error::new(Code::InvalidClient, "there are no keys at `jwks_uri`");
        let place = Url::parse(url).map_err(|_| absent())?;
        let is_vouched = self.is_trusted(client.source, &client.id);
        let fetched = self.fetcher.fetch(&place, owner, is_vouched).await;
        let (json, _) = fetched.map_err(|error| match error {
            FetchError::Refused(_) => absent(),
            FetchError::Unreachable => Error::later("the host of `jwks_uri` cannot be reached", 30),
        })?;
        let keys = Arc::new(json.read().map_err(|_| absent())?);
        self.key_sets.put(url, &keys, KEY_SET_LIFETIME);
        Ok(keys)
    }
}
