//! Finds clients, wherever their metadata is, and checks that they are who they claim to be. The id of a client may be the URL
//! of a document with its metadata.
//!
//! Invariants: an id of the operator's file comes first, so nobody can register or publish another client under it.
//! A URL is fetched only in the form that its parser prints, so the id that people see is the place that is
//! contacted. A document belongs to the id that names it. A document that is not valid, and a failure, are not cached.
//! Callers come with a person who is signed in, or with a code or refresh token of this server (see `fetch`).
//!
//! Source: draft-ietf-oauth-client-id-metadata-document-02, sections 3 to 5; MCP 2026-07-28
//! `basic/authorization/client-registration`.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::CACHE_CONTROL;
use jsonwebtoken::jwk::JwkSet;
use secrecy::ExposeSecret;
use url::{Host, Url};

use crate::client;
use crate::client::{Client, ClientAuthentication, ClientMetadata, ClientSource};
use crate::error::{Code, Error};
use crate::fetch::{Cache, FetchError, Fetcher, host_and_port};
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
        client::verify(assertion.expose_secret(), &grant.client, &keys, audiences, now).map_err(refused)
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

/// Limit of cached documents.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
/// Limit of the length of an id in bytes.
const MAX_ID: usize = 1_024;
/// The shortest time for which a document is cached, whatever its host wants.
const SHORTEST: Duration = Duration::from_mins(1);
/// The longest one.
const LONGEST: Duration = Duration::from_hours(24);
/// The time for which a document is cached if its host says nothing.
const USUAL: Duration = Duration::from_hours(1);
/// Seconds after which a client may try again if its host cannot be reached.
const RETRY: u64 = 30;

/// The documents of clients.
pub(crate) struct Documents {
    cached: Cache<Client>,
}

impl Documents {
    pub(crate) fn new() -> Self {
        Self { cached: Cache::new(MAX_CACHED) }
    }

    /// Returns the client with the id `id`, for `owner`.
    pub(crate) async fn find(&self, id: &str, owner: &str, fetcher: &Fetcher) -> Result<Arc<Client>, Error> {
        let url = parse_id(id).map_err(|reason| Error::new(Code::InvalidClient, reason))?;
        if let Some(client) = self.cached.get(id) {
            return Ok(client);
        }
        let (json, headers) = fetcher.fetch(&url, owner, true).await.map_err(|error| match error {
            FetchError::Refused(reason) => Error::new(Code::InvalidClient, reason),
            FetchError::Unreachable => {
                Error::later("the host of the client's document cannot be reached", RETRY)
            }
        })?;
        let metadata = ClientMetadata::of_document(&json, id)?;
        let client = Arc::new(Client { id: id.to_owned(), source: ClientSource::Document, metadata });
        self.cached.put(id, &client, lifetime(&headers));
        Ok(client)
    }
}

/// Whether `id` is meant as the URL of a document.
fn is_document_id(id: &str) -> bool {
    id.contains("://")
}

/// Returns the host that vouches for the client `id`: that of its document, if it has one, with a port that is not 443.
pub fn client_host(id: &str) -> Option<String> {
    if is_document_id(id) { host_and_port(&Url::parse(id).ok()?) } else { None }
}

/// Reads an id that is the URL of a document.
fn parse_id(id: &str) -> Result<Url, &'static str> {
    if id.len() > MAX_ID {
        return Err("the id of the client is longer than 1024 bytes");
    }
    let url = Url::parse(id).map_err(|_| "the id of the client is not a URL")?;
    // Other spellings of dots, hosts and ports would have been printed in another form.
    if url.scheme() != "https" || url.as_str() != id {
        return Err("the id of the client is not an https URL in its normal form");
    }
    if !matches!(url.host(), Some(Host::Domain(_))) {
        return Err("the id of the client has an address in the place of a host name");
    }
    if url.path() == "/" || url.query().is_some() || url.fragment().is_some() {
        return Err("the id of the client needs a path, and no query or fragment");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the id of the client has a user or a password");
    }
    Ok(url)
}

/// The time for which an answer with `headers` is cached.
fn lifetime(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directives: Vec<String> =
        values.flat_map(|value| value.split(',')).map(|word| word.trim().to_ascii_lowercase()).collect();
    if directives.iter().any(|word| word == "no-store" || word == "no-cache") {
        return SHORTEST;
    }
    let age = directives.iter().find_map(|word| word.strip_prefix("max-age=")?.parse().ok());
    age.map_or(USUAL, |seconds| Duration::from_secs(seconds).clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_client_is_a_url_in_its_normal_form() {
        for id in [
            "https://claude.ai/oauth/claude-code-client-metadata",
            "https://app.example/client.json",
            "https://app.example:8443/a/b",
            "https://app.example/a%20b",
            "https://xn--bcher-kva.example/c",
        ] {
            assert!(parse_id(id).is_ok(), "{id}");
        }
        for id in [
            "https://app.example",
            "https://app.example/",
            "http://app.example/client.json",
            "HTTPS://app.example/client.json",
            "https://APP.example/client.json",
            "https://app.example:443/client.json",
            "https://app.example/a/../client.json",
            "https://app.example/./client.json",
            "https://app.example/%2e%2e/client.json",
            "https://app.example/client.json?x=1",
            "https://app.example/client.json#x",
            "https://user@app.example/client.json",
            "https://user:pw@app.example/client.json",
            "https://app.example\\client.json",
            "https://b\u{fc}cher.example/c",
            "https://app.example/\u{e9}",
            "https://app.example/ ",
            " https://app.example/c",
            "https://127.0.0.1/client.json",
            "https://[::1]/client.json",
            "https://2130706433/client.json",
            "file:///etc/passwd",
            "ftp://app.example/c",
        ] {
            assert!(parse_id(id).is_err(), "{id:?}");
        }
        assert!(parse_id(&format!("https://app.example/{}", "a".repeat(MAX_ID))).is_err());
    }

    #[test]
    fn host_of_a_client_has_a_port_that_is_not_the_usual_one() {
        for (id, expected) in [
            ("https://app.example/c", Some("app.example")),
            ("https://app.example:443/c", Some("app.example")),
            ("https://app.example:8443/c", Some("app.example:8443")),
            ("swyclient-0", None),
        ] {
            assert_eq!(client_host(id).as_deref(), expected, "{id}");
        }
    }

    #[test]
    fn host_decides_within_limits_how_long_its_document_is_cached() {
        for (value, expected) in [
            (None, USUAL),
            (Some("public"), USUAL),
            (Some("max-age=600"), Duration::from_mins(10)),
            (Some("public, Max-Age=600"), Duration::from_mins(10)),
            (Some("max-age=0"), SHORTEST),
            (Some("no-store"), SHORTEST),
            (Some("max-age=600, no-cache"), SHORTEST),
            (Some("max-age=99999999999"), LONGEST),
            (Some("max-age=x"), USUAL),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(value.map(|value| (CACHE_CONTROL, value.parse().expect("a header"))));
            assert_eq!(lifetime(&headers), expected, "{value:?}");
        }
    }
}
