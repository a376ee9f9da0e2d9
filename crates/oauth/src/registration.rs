//! Makes Switchyard known to an authorization server.
//!
//! Invariant: a registration belongs to one issuer, and another issuer never sees it.
//!
//! Not here: the issuer that credentials of the settings belong to (`issuer_binding`).
//!
//! Source: RFC 7591; draft-ietf-oauth-client-id-metadata-document; MCP 2026-07-28
//! `basic/authorization/client-registration`.

use std::time::{Duration, SystemTime};

use http::Method;
use net::http::RequestBuilder;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use settings::one_line;
use url::Url;

use crate::config::{ClientAuthentication, Grant, Settings};
use crate::dial::{Services, is_loopback, later};
use crate::discovery::{Discovered, union};
use crate::error::{Error, foreign_text};
use crate::limits::{self, MAX_CLIENT_ID, MAX_CLIENT_SECRET, bounded_scopes};
use crate::metadata::AuthorizationServer;
use crate::secret_json;
use crate::token_response::{Failure, Members};

/// A registered secret that ends within this time is not used any more.
const SECRET_MARGIN: Duration = Duration::from_mins(1);

/// Switchyard as an authorization server knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Registration {
    /// The issuer that it belongs to.
    pub issuer: String,
    /// The id of the client.
    pub client_id: String,
    /// The secret of the client.
    #[serde(with = "secret_json::option", default)]
    pub client_secret: Option<SecretString>,
    /// How the client authenticates at the token endpoint.
    pub authentication: ClientAuthentication,
    /// The only redirect URI that it was registered for.
    pub redirect_uri: String,
    /// The scopes that it was registered with; a client that the operator registered has none here.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// When the secret ends.
    #[serde(with = "secret_json::seconds", default)]
    pub expires_at: Option<SystemTime>,
}

impl Registration {
    /// Whether both are for the same issuer and redirect URI, so that one replaces the other.
    pub(crate) fn is_in_place_of(&self, other: &Self) -> bool {
        self.issuer == other.issuer && self.redirect_uri == other.redirect_uri
    }

    /// Whether both are the same client. A newer one may have taken the place of one that a login still has.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.client_id == other.client_id && self.is_in_place_of(other)
    }
}

/// The URLs of Switchyard that an authorization server gets to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnClient {
    /// Where a browser returns after a login.
    pub redirect_uri: Url,
    /// Where Switchyard serves its client id metadata document, if its own URL is https.
    pub client_metadata_url: Option<Url>,
}

impl OwnClient {
    /// Returns the metadata of this client, as registration and the client id metadata document have it.
    pub fn metadata(&self, authentication: ClientAuthentication) -> Value {
        json!({
            "client_name": "Switchyard",
            "application_type": if is_loopback(&self.redirect_uri) { "native" } else { "web" },
            "redirect_uris": [self.redirect_uri.as_str()],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": authentication.as_str(),
        })
    }

    /// Returns the client id metadata document that is served at `url`.
    pub fn document(&self, url: &Url) -> Value {
        let mut document = self.metadata(ClientAuthentication::None);
        document["client_id"] = url.as_str().into();
        document
    }
}

/// Makes Switchyard known to the authorization server of `discovered`. `known` is the result of an earlier call.
pub async fn register(
    services: &Services,
    discovered: &Discovered,
    settings: &Settings,
    own: &OwnClient,
    known: Option<&Registration>,
) -> Result<Registration, Error> {
    let server = &discovered.server;
    if let Some(id) = &settings.client_id {
        return by_hand(server, settings, own, id);
    }
    if let Some(url) = metadata_url(server, settings, own) {
        let authentication = authentication(server, settings)?;
        return Ok(registration(server, own, url.into(), authentication));
    }
    let known = known.filter(|known| is_usable(known, server, own));
    if let Some(known) = known.filter(|known| union(&known.scopes, &discovered.scopes) == known.scopes) {
        return Ok(known.clone());
    }
    // A client that registered with scopes gets no others, so a new one asks for all that were needed so far.
    let before = known.map(|known| known.scopes.as_slice()).unwrap_or_default();
    let scopes = bounded_scopes(union(&discovered.scopes, before));
    let wider = Discovered { scopes, ..discovered.clone() };
    match &server.registration_endpoint {
        Some(endpoint) => by_request(services, endpoint, &wider, settings, own).await,
        None => Err(unsupported(server)),
    }
}

/// Returns the client of the settings.
fn by_hand(
    server: &AuthorizationServer,
    settings: &Settings,
    own: &OwnClient,
    id: &str,
) -> Result<Registration, Error> {
    let authentication = authentication(server, settings)?;
    let made = registration(server, own, id.to_owned(), authentication);
    Ok(Registration { client_secret: settings.client_secret.clone(), ..made })
}

/// Returns the URL that is the id of the client, if the authorization server reads such documents.
fn metadata_url(server: &AuthorizationServer, settings: &Settings, own: &OwnClient) -> Option<Url> {
    let url = settings.client_metadata_url.as_ref().or(own.client_metadata_url.as_ref());
    url.filter(|url| url.scheme() == "https")
        .filter(|_| server.client_id_metadata_document_supported)
        .cloned()
}

fn is_usable(known: &Registration, server: &AuthorizationServer, own: &OwnClient) -> bool {
    let is_current = known.expires_at.is_none_or(|end| end > SystemTime::now() + SECRET_MARGIN);
    known.issuer == server.issuer && known.redirect_uri == own.redirect_uri.as_str() && is_current
}

fn registration(
    server: &AuthorizationServer,
    own: &OwnClient,
    client_id: String,
    authentication: ClientAuthentication,
) -> Registration {
    Registration {
        issuer: server.issuer.clone(),
        client_id,
        client_secret: None,
        authentication,
        redirect_uri: own.redirect_uri.to_string(),
        scopes: Vec::new(),
        expires_at: None,
    }
}

/// Returns how to authenticate: what the settings say, else the first way that both sides support.
fn authentication(server: &AuthorizationServer, settings: &Settings) -> Result<ClientAuthentication, Error> {
    use ClientAuthentication::{Basic, None, Post, PrivateKeyJwt};
    if let Some(configured) = settings.token_endpoint_auth {
        return Ok(configured);
    }
    // With the grant `jwt_bearer`, the key signs the grant and not the client.
    let has_key = settings.private_key.is_some() && settings.grant != Grant::JwtBearer;
    let own: &[ClientAuthentication] = match (has_key, settings.client_secret.is_some()) {
        (true, _) => &[PrivateKeyJwt],
        (false, true) => &[Basic, Post],
        (false, false) => &[None],
    };
    // Without a list only `basic` is promised (RFC 8414, section 2), and a client without secret cannot use it.
    let Some(supported) = &server.token_endpoint_auth_methods_supported else { return Ok(own[0]) };
    let is_supported = |one: &&ClientAuthentication| supported.iter().any(|name| name == one.as_str());
    if let Some(both) = own.iter().find(is_supported) {
        return Ok(*both);
    }
    if own == [None] {
        // Many servers accept public clients and do not list them.
        return Ok(None);
    }
    Err(unusable(server, supported))
}

fn unusable(server: &AuthorizationServer, supported: &[String]) -> Error {
    let (issuer, supported) = (one_line(&server.issuer), one_line(&supported.join(", ")));
    Error::Unsupported {
        what: format!(
            "the authorization server `{issuer}` accepts {supported}; check `token_endpoint_auth`, `client_secret` and \
             `private_key`"
        ),
    }
}

async fn by_request(
    services: &Services,
    endpoint: &Url,
    discovered: &Discovered,
    settings: &Settings,
    own: &OwnClient,
) -> Result<Registration, Error> {
    let server = &discovered.server;
    let requested = requested_authentication(server, settings)?;
    let mut body = own.metadata(requested);
    if !discovered.scopes.is_empty() {
        body["scope"] = discovered.scopes.join(" ").into();
    }
    let request = RequestBuilder::new(Method::POST, endpoint.clone()).json(&body);
    let response = services.send(endpoint, request).await?;
    if let Some(later) = later(&response) {
        return Err(later);
    }
    let members = Members::of(&response);
    let failure = members.as_ref().and_then(Members::failure);
    if !response.status.is_success() || failure.is_some() {
        return Err(not_registered(response.status.as_u16(), failure));
    }
    let unreadable =
        || Error::refused("the authorization server registered Switchyard without a `client_id`");
    let members = members.ok_or_else(unreadable)?;
    let client_id = members.id("client_id").ok_or_else(unreadable)?;
    let length = client_id.len();
    if length > MAX_CLIENT_ID {
        return Err(Error::refused(format!(
            "the authorization server registered a client id of {length} bytes, and {MAX_CLIENT_ID} are the limit; \
             register a client there by hand, and fill in `client_id`"
        )));
    }
    let secret = members.text("client_secret");
    limits::check("a client secret", secret.as_deref().unwrap_or_default(), MAX_CLIENT_SECRET)?;
    let secret = secret.map(SecretString::from);
    let method = members.text("token_endpoint_auth_method");
    let authentication = agreed(method.as_deref(), requested, secret.is_some())?;
    let made = registration(server, own, client_id, authentication);
    // 0 means never.
    let end = members.number("client_secret_expires_at").map(Duration::from_secs_f64);
    let expires_at = end.and_then(|end| SystemTime::UNIX_EPOCH.checked_add(end));
    let scopes = discovered.scopes.clone();
    Ok(Registration { client_secret: secret, expires_at, scopes, ..made })
}

/// Returns the way of authentication to register for: a public client, unless the server wants a secret.
fn requested_authentication(
    server: &AuthorizationServer,
    settings: &Settings,
) -> Result<ClientAuthentication, Error> {
    use ClientAuthentication::{Basic, None, Post};
    if let Some(configured) = settings.token_endpoint_auth {
        return Ok(configured);
    }
    // Basic is the default of RFC 7591, section 2.
    let Some(supported) = &server.token_endpoint_auth_methods_supported else { return Ok(Basic) };
    let order = [Basic, Post, None];
    let both = order.into_iter().find(|one| supported.iter().any(|name| name == one.as_str()));
    both.ok_or_else(|| unusable(server, supported))
}

/// Returns the way of authentication that a server registered.
fn agreed(
    method: Option<&str>,
    requested: ClientAuthentication,
    has_secret: bool,
) -> Result<ClientAuthentication, Error> {
    use ClientAuthentication::{Basic, None, Post, PrivateKeyJwt};
    let known = [Basic, Post, None, PrivateKeyJwt];
    let agreed = match method {
        Some(name) => known.into_iter().find(|one| one.as_str() == name),
        Option::None => Some(requested),
    };
    match agreed {
        Some(Basic | Post) if !has_secret => Ok(None),
        Some(agreed) => Ok(agreed),
        Option::None => Err(Error::refused(format!(
            "the authorization server registered an authentication that Switchyard does not have: `{}`",
            one_line(method.unwrap_or_default())
        ))),
    }
}

fn not_registered(status: u16, failure: Option<Failure>) -> Error {
    let (code, description) =
        failure.map(|Failure { error, description }| (error, description)).unwrap_or_default();
    let (code, description) = (foreign_text(&code, &[]), foreign_text(&description, &[]));
    Error::Unsupported {
        what: format!(
            "the authorization server does not register Switchyard (status {status} {code} {description}); register a \
             client there by hand, and fill in `client_id` and `client_secret`"
        ),
    }
}

fn unsupported(server: &AuthorizationServer) -> Error {
    let issuer = one_line(&server.issuer);
    Error::Unsupported {
        what: format!(
            "the authorization server `{issuer}` registers no clients by itself; register one there, and fill in \
             `client_id` and `client_secret`, or `client_metadata_url`"
        ),
    }
}

#[cfg(test)]
#[path = "registration_tests.rs"]
mod tests;
