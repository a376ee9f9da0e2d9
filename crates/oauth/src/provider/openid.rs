//! The profile of `OpenID`: metadata by discovery, a verified ID token, and the userinfo endpoint. Metadata and keys are
//! fetched when they are needed, and kept for a while.
//!
//! Invariants: metadata of another issuer is refused. Claims of userinfo count only with the `sub` of the ID token, and
//! never in the place of a claim of it. One fetch of a document runs at a time. After a failure none is made for some seconds,
//! so visitors cannot cause many.
//!
//! Source: `OpenID` Connect Discovery 1.0, section 4; `OpenID` Connect Core 1.0, sections 3.1.3.7 and 5.3.2.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use super::Provider;
use super::identity::Identity;
use crate::dial::{Document, later, shown};
use crate::discovery::is_same_issuer;
use crate::metadata::optional_url;
use crate::{AuthorizationServer, Error};
use auth::{IdTokens, Reason};
use json::Raw;
use net::http::RequestBuilder;
use settings::one_line;

/// How long metadata is used.
const METADATA_LIFETIME: Duration = Duration::from_hours(1);
/// How long keys are used: a key that the service removed is accepted for at most this long.
const KEYS_LIFETIME: Duration = Duration::from_mins(10);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// The documents of the service that are known.
pub(super) struct OpenId {
    metadata: Latest<Metadata>,
    keys: Latest<IdTokens>,
}

/// The metadata of an `OpenID` provider.
#[derive(Deserialize)]
pub(super) struct Metadata {
    #[serde(flatten)]
    pub(super) server: AuthorizationServer,
    #[serde(deserialize_with = "optional_url::deserialize", default)]
    jwks_uri: Option<Url>,
    #[serde(deserialize_with = "optional_url::deserialize", default)]
    userinfo_endpoint: Option<Url>,
}

impl Default for OpenId {
    fn default() -> Self {
        Self { metadata: Latest::new(METADATA_LIFETIME), keys: Latest::new(KEYS_LIFETIME) }
    }
}

impl OpenId {
    /// Returns the metadata of the service.
    pub(super) async fn metadata(&self, provider: &Provider) -> Result<Arc<Metadata>, Error> {
        self.metadata.get(fetch_metadata(provider)).await
    }

    /// Verifies `id_token`, and returns who the person is.
    pub(super) async fn identify(
        &self,
        provider: &Provider,
        id_token: &SecretString,
        access_token: &SecretString,
        nonce: &str,
    ) -> Result<Identity, Error> {
        let metadata = self.metadata(provider).await?;
        let claims = self.verified(provider, &metadata, id_token.expose_secret(), nonce).await?;
        let claims: Map<String, Value> = claims.read().map_err(|_| unreadable("the ID token"))?;
        let more = match &metadata.userinfo_endpoint {
            Some(url) => userinfo(provider, url, access_token, &claims).await?,
            None => Map::new(),
        };
        Ok(Identity::new(claims, more))
    }

    async fn verified(
        &self,
        provider: &Provider,
        metadata: &Metadata,
        id_token: &str,
        nonce: &str,
    ) -> Result<Raw, Error> {
        let keys = self.keys.get(fetch_keys(provider, metadata)).await?;
        let judged = match keys.verify(id_token, nonce) {
            // The service may have new keys. Only it can have sent the token, so no stranger causes the request.
            Err(Reason::UnknownKid | Reason::Signature) => {
                self.keys.after(&keys, fetch_keys(provider, metadata)).await?.verify(id_token, nonce)
            }
            judged => judged,
        };
        judged.map_err(|reason| {
            Error::refused(format!("the ID token of the login service is refused: {reason}"))
        })
    }
}

async fn fetch_metadata(provider: &Provider) -> Result<Metadata, Error> {
    let issuer = &provider.settings.issuer;
    let mut place = issuer.url.clone();
    place.set_path(&format!("{}/.well-known/openid-configuration", place.path().trim_end_matches('/')));
    let metadata: Metadata = match provider.services.document(&place).await? {
        Document::Found(metadata) => metadata,
        Document::Absent => {
            return Err(Error::refused(format!("there is no OpenID metadata at {place}; check `issuer`")));
        }
        Document::Unreadable(reason) => {
            return Err(Error::refused(format!("the OpenID metadata at {place} is not readable: {reason}")));
        }
    };
    metadata.server.check_lengths()?;
    if is_same_issuer(&metadata.server.issuer, &issuer.text) {
        return Ok(metadata);
    }
    let other = one_line(&metadata.server.issuer);
    let hint = if other.contains("{tenantid}") { "; write the id of your tenant into `issuer`" } else { "" };
    Err(Error::refused(format!("the metadata of the login service is of another issuer, `{other}`{hint}")))
}

async fn fetch_keys(provider: &Provider, metadata: &Metadata) -> Result<IdTokens, Error> {
    let missing =
        || Error::refused("the metadata of the login service names no `jwks_uri`, so it is no OpenID");
    let url = metadata.jwks_uri.as_ref().ok_or_else(missing)?;
    let response = provider.services.send(url, RequestBuilder::new(Method::GET, url.clone())).await?;
    if let Some(later) = later(&response) {
        return Err(later);
    }
    let settings = &provider.settings;
    let keys =
        IdTokens::new(&settings.issuer.url, &metadata.server.issuer, &settings.client_id, &response.body);
    keys.map_err(|error| Error::refused(format!("the keys of the login service at {}: {error}", shown(url))))
}

/// Reads the claims that the ID token of a person lacks.
async fn userinfo(
    provider: &Provider,
    url: &Url,
    token: &SecretString,
    claims: &Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let response = provider.get(url, token).await?;
    let read = Raw::parse(&response.body).ok().filter(|read| read.duplicate_key().is_none());
    let more: Option<Map<String, Value>> = read.and_then(|read| read.read().ok());
    let more = more.ok_or_else(|| unreadable("userinfo"))?;
    if more.get("sub") == claims.get("sub") {
        return Ok(more);
    }
    Err(Error::refused("userinfo of the login service is about somebody else than the ID token"))
}

fn unreadable(what: &str) -> Error {
    Error::refused(format!("{what} of the login service is no object of JSON"))
}

/// The last version of a document.
struct Latest<T> {
    lifetime: Duration,
    state: Mutex<Fetched<T>>,
}

struct Fetched<T> {
    document: Option<(Arc<T>, Instant)>,
    failure: Option<(Error, Instant)>,
}

impl<T> Latest<T> {
    /// A document that is fetched again after `lifetime`.
    fn new(lifetime: Duration) -> Self {
        Self { lifetime, state: Mutex::new(Fetched { document: None, failure: None }) }
    }

    /// Returns the document, which `fetch` reads if there is none that is new enough.
    async fn get(&self, fetch: impl Future<Output = Result<T, Error>>) -> Result<Arc<T>, Error> {
        let mut state = self.state.lock().await;
        if let Some((document, since)) = &state.document
            && since.elapsed() < self.lifetime
        {
            return Ok(Arc::clone(document));
        }
        state.renewed(fetch).await
    }

    /// Returns a newer document than `known`.
    async fn after(
        &self,
        known: &Arc<T>,
        fetch: impl Future<Output = Result<T, Error>>,
    ) -> Result<Arc<T>, Error> {
        let mut state = self.state.lock().await;
        match &state.document {
            Some((document, _)) if !Arc::ptr_eq(document, known) => Ok(Arc::clone(document)),
            _ => state.renewed(fetch).await,
        }
    }
}

impl<T> Fetched<T> {
    async fn renewed(&mut self, fetch: impl Future<Output = Result<T, Error>>) -> Result<Arc<T>, Error> {
        if let Some((error, since)) = &self.failure
            && since.elapsed() < PAUSE
        {
            return Err(error.clone());
        }
        match fetch.await {
            Ok(document) => {
                let document = Arc::new(document);
                self.document = Some((Arc::clone(&document), Instant::now()));
                self.failure = None;
                Ok(document)
            }
            Err(error) => {
                self.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}
