//! Finds the authorization server of an MCP server, and what to ask it for.
//!
//! Invariants: metadata of another resource is refused, and nothing else is tried then. An authorization server with metadata of
//! another issuer is not used, and nothing is sent to either. A service that cannot answer now is not taken for one without
//! metadata.
//!
//! Source: RFC 8414, section 3.3; RFC 9728, sections 3, 5 and 7.6; MCP 2026-07-28
//! `basic/authorization/authorization-server-discovery`; MCP 2025-03-26 `basic/authorization`, section 2.3.

use std::slice;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use settings::one_line;
use url::Url;

use crate::challenge::Challenge;
use crate::config::{Grant, ResourceParameter, Settings};
use crate::dial::{Document, Services, shown};
use crate::error::Error;
use crate::limits::bounded_scopes;
use crate::metadata::{AuthorizationServer, Resource, resource_places, server_places, without_slash};

/// Limit of authorization servers that are tried, of those that a server names.
const MAX_ISSUERS: usize = 4;

/// The authorization server of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovered {
    /// The value of the parameter `resource`.
    pub resource: String,
    /// The scopes to ask for; if empty, no scope is sent.
    pub scopes: Vec<String>,
    /// The authorization server.
    pub server: AuthorizationServer,
}

/// Finds the authorization server of the MCP server at `server`, which answered with `challenge`.
pub async fn discover(
    services: &Services,
    server: &Url,
    challenge: Option<&Challenge>,
    settings: &Settings,
) -> Result<Discovered, Error> {
    let resource = find_resource(services, server, challenge).await?;
    let authorization = match issuers(resource.as_ref(), settings)? {
        [] => find_own(services, server).await.and_then(|own| usable(own, settings))?,
        issuers => first_usable(services, issuers, settings).await?,
    };
    let identifier = resource.as_ref().map(|resource| resource.identifier.clone());
    let supported = resource.map(|resource| resource.scopes_supported).unwrap_or_default();
    let configured = match &settings.resource {
        ResourceParameter::Value(value) => Some(value.clone()),
        ResourceParameter::Discovered | ResourceParameter::Omitted => None,
    };
    Ok(Discovered {
        resource: configured.or(identifier).unwrap_or_else(|| without_slash(server)),
        scopes: scopes(&authorization, challenge, supported, settings),
        server: authorization,
    })
}

/// Returns the metadata of the protected resource, or `None` for a server without it.
async fn find_resource(
    services: &Services,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<Resource>, Error> {
    let named = challenge.and_then(|challenge| challenge.resource_metadata.clone());
    let places: Vec<Url> = named.into_iter().chain(resource_places(server)).collect();
    let Some(found) = first::<Resource>(services, &places).await? else { return Ok(None) };
    found.check_lengths()?;
    if !found.describes(server) {
        let resource = one_line(&found.identifier);
        return Err(Error::refused(format!(
            "the server's metadata is of another resource, `{resource}`; nothing is sent to its authorization server"
        )));
    }
    Ok(Some(found))
}

/// Returns the issuers to try, in order; none if neither the settings nor the server name one. Credentials of the settings
/// belong to one authorization server, so without `issuer` only the first one is tried with them.
fn issuers<'a>(resource: Option<&'a Resource>, settings: &'a Settings) -> Result<&'a [String], Error> {
    let named = resource.map(|resource| resource.authorization_servers.as_slice()).unwrap_or_default();
    let has_credentials = settings.client_id.is_some() || settings.has_secret();
    let limit = if has_credentials { 1 } else { MAX_ISSUERS };
    let Some(pinned) = &settings.issuer else { return Ok(&named[..named.len().min(limit)]) };
    if named.is_empty() || named.iter().any(|named| is_same_issuer(pinned, named)) {
        return Ok(slice::from_ref(pinned));
    }
    let (pinned, named) = (one_line(pinned), one_line(&named[0]));
    Err(Error::refused(format!(
        "the server names the authorization server `{named}`, and `issuer` allows only `{pinned}`"
    )))
}

/// Returns the first of `issuers` that can be used.
async fn first_usable(
    services: &Services,
    issuers: &[String],
    settings: &Settings,
) -> Result<AuthorizationServer, Error> {
    let mut failed = None;
    for issuer in issuers {
        let found = find_server(services, issuer).await.and_then(|found| {
            let found = found.ok_or_else(|| no_metadata(issuer))?;
            usable(found, settings)
        });
        match found {
            Ok(found) => return Ok(found),
            Err(error) => failed = Some(error.or(failed)),
        }
    }
    Err(failed.unwrap_or_else(|| Error::refused("the server names no authorization server")))
}

/// Returns the authorization server `issuer`, or `None` if it has no metadata.
async fn find_server(services: &Services, issuer: &str) -> Result<Option<AuthorizationServer>, Error> {
    let refused =
        |why: &str| Error::refused(format!("the authorization server `{}` {why}", one_line(issuer)));
    let url = Url::parse(issuer).map_err(|_| refused("has no valid URL"))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("has a URL with a query or a fragment"));
    }
    let found = first::<AuthorizationServer>(services, &server_places(&url)).await?;
    match found {
        Some(found) if !is_same_issuer(&found.issuer, issuer) => {
            let other = one_line(&found.issuer);
            Err(refused(&format!("has metadata of another issuer, `{other}`; nothing is sent to it")))
        }
        Some(found) => found.check_lengths().map(|()| Some(found)),
        None => Ok(None),
    }
}

/// Finds the authorization server of a server of the revision 2025-03-26, which is its own.
async fn find_own(services: &Services, server: &Url) -> Result<AuthorizationServer, Error> {
    let mut origin = server.clone();
    origin.set_path("/");
    origin.set_query(None);
    origin.set_fragment(None);
    let found = find_server(services, &without_slash(&origin)).await?;
    Ok(found.unwrap_or_else(|| AuthorizationServer::with_default_endpoints(&origin)))
}

/// Returns the first document of `places`.
async fn first<T: DeserializeOwned>(services: &Services, places: &[Url]) -> Result<Option<T>, Error> {
    let mut failed = None;
    for place in places {
        match services.document(place).await {
            Ok(Document::Found(document)) => return Ok(Some(document)),
            Ok(Document::Absent) => {}
            // Some servers answer every unknown path with a page.
            Ok(Document::Unreadable(_)) if places.len() > 1 => {}
            Ok(Document::Unreadable(reason)) => {
                return Err(Error::refused(format!("the metadata of {}: {reason}", shown(place))));
            }
            Err(error) => failed = Some(error.or(failed)),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// Compares issuers as strings. An empty path and `/` are one URL (RFC 3986, section 6.2.3), and libraries write an
/// issuer without a path in both forms.
pub(crate) fn is_same_issuer(one: &str, other: &str) -> bool {
    let is_origin = |text: &str| text.matches('/').count() == 2;
    let bare = |text: &str| text.strip_suffix('/').filter(|text| is_origin(text)).unwrap_or(text).to_owned();
    bare(one) == bare(other)
}

/// Returns `server` if it can give tokens in the way of `settings`.
fn usable(server: AuthorizationServer, settings: &Settings) -> Result<AuthorizationServer, Error> {
    let issuer = one_line(&server.issuer);
    let refused = |why: &str| Err(Error::refused(format!("the authorization server `{issuer}` {why}")));
    if server.token_endpoint.is_none() {
        return refused("names no token endpoint");
    }
    if settings.grant != Grant::AuthorizationCode {
        return Ok(server);
    }
    if server.authorization_endpoint.is_none() {
        return refused("names no authorization endpoint; `grant` can name one that needs none");
    }
    let methods = server.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if methods.iter().any(|method| method == "S256") {
        return Ok(server);
    }
    refused("does not offer PKCE with S256, and a login without it is not safe")
}

/// Returns the scopes to ask for. `offline_access` is added if a person logs in and it is offered.
fn scopes(
    server: &AuthorizationServer,
    challenge: Option<&Challenge>,
    supported: Vec<String>,
    settings: &Settings,
) -> Vec<String> {
    if !settings.has_server_scopes() {
        return settings.scopes.clone();
    }
    let challenged = challenge.and_then(|challenge| challenge.scope.as_deref());
    let challenged: Vec<String> =
        challenged.map(|scope| scope.split_whitespace().map(str::to_owned).collect()).unwrap_or_default();
    let mut scopes = match (challenged.is_empty(), settings.scopes.is_empty()) {
        // No challenge has `openid`, without which an account has no name. So the operator's scopes are always added.
        (false, _) => union(&settings.scopes, &challenged),
        (true, false) => settings.scopes.clone(),
        (true, true) => supported,
    };
    if settings.grant == Grant::AuthorizationCode && server.has_scope("offline_access") {
        scopes = union(&scopes, &["offline_access".to_owned()]);
    }
    bounded_scopes(scopes)
}

/// Returns `scopes` and those of `more` that they lack, for a step-up.
pub fn union(scopes: &[String], more: &[String]) -> Vec<String> {
    let mut all = scopes.to_vec();
    for scope in more {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

fn no_metadata(issuer: &str) -> Error {
    let issuer = one_line(issuer);
    Error::refused(format!("the authorization server `{issuer}` has no readable metadata; check `issuer`"))
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
