//! Classes of requests to which other checks apply: public paths, health checks, logins, pages for people, and clients
//! of the authorization server.
//!
//! Invariant: each class is decided by the head alone, before anybody is authenticated.
//!
//! Not here: the checks (`guard`).

use http::header::ORIGIN;
use http::{Method, request};

use super::protected_resource;
use super::refusal::AnswerFormat;
use auth::token_format::ENDPOINTS;
use authorization::{KEY_SET, REGISTER, REVOKE, TOKEN};
use net::http::is_own_loop;

/// Paths that need no credential, for GET and HEAD: health checks, and the API description, which is equal in all
/// installations. A browser opens the description before its user can enter a credential. The only other public paths are
/// the metadata that names the token issuer (`protected_resource`) and the pages for people ([`FOR_PEOPLE`]).
const PUBLIC: [&str; 7] = ["/", "/health", "/health/live", "/health/ready", "/openapi.json", "/docs", "/ui"];
/// Health checks, which are answered under any `Host`. A supervisor such as Kubernetes knows only the address of the
/// pod, and the answers reveal only whether Switchyard is alive and ready.
const PROBES: [&str; 2] = ["/health/live", "/health/ready"];
/// Paths at which clients try to log in (OAuth 2.0). Without a credential they are answered with 404: clients take a
/// 401 for a rejected login and do not tell their users that a key is missing.
const OAUTH: [&str; 5] = ["/register", "/authorize", "/token", "/revoke", "/introspect"];
/// The metadata of such a login (RFC 8414, `OpenID` Connect Discovery), anywhere in a path.
pub(super) const OAUTH_METADATA: [&str; 2] =
    ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
/// Limit of the form of a page for people, and of a request for tokens, in bytes. It is read before anybody is
/// authenticated.
pub(crate) const MAX_FORM: usize = 16 * 1024;
/// Limit of the registration of a client, in bytes, which is read in the same way.
pub(super) const MAX_REGISTRATION: usize = 64 * 1024;
/// Path prefixes of the scripts and styles of the page at `/docs`, and of the dashboard. The files are equal in all
/// installations; what the dashboard shows comes from the REST API.
const PAGES: [&str; 2] = ["/docs/", "/ui/"];
/// Path prefix of the REST API, and the routes below it that reach servers for a client.
const REST: &str = "/api/v1/mcp/";
const CALLS: [&str; 3] = ["call", "prompts", "resources/read"];
/// Path prefix of the pages for people (`login`). They authenticate their visitors themselves, by sessions of browsers,
/// and check the origin of forms more strictly than [`super::authority::Origins`] does.
const FOR_PEOPLE: &str = "/oauth/";

/// Whether the request is for a page for people.
pub(super) fn is_for_people(parts: &request::Parts) -> bool {
    parts.uri.path().starts_with(FOR_PEOPLE)
}

/// Whether clients of the authorization server use `path`: they get tokens, register, or read its documents there. Web pages of
/// any origin may be such clients, as nothing here depends on cookies.
pub(super) fn is_of_authorization_server(path: &str) -> bool {
    let is_of = |at: &str| path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    [TOKEN, REVOKE, KEY_SET].contains(&path)
        || is_of(REGISTER)
        || OAUTH_METADATA.iter().any(|metadata| {
            is_of(metadata) || path.strip_suffix(metadata).is_some_and(|at| ENDPOINTS.contains(&at))
        })
}

/// Returns the limit of a body of a client of the authorization server, which is at `path`.
pub(super) fn limit_of_client(path: &str) -> usize {
    if path == REGISTER { MAX_REGISTRATION } else { MAX_FORM }
}

/// Whether the request needs no credential.
pub(super) fn is_public(parts: &request::Parts) -> bool {
    let path = parts.uri.path();
    if is_for_people(parts) {
        return matches!(parts.method, Method::GET | Method::HEAD | Method::POST);
    }
    matches!(parts.method, Method::GET | Method::HEAD)
        && (PUBLIC.contains(&path)
            || PAGES.iter().any(|pages| path.starts_with(pages))
            || protected_resource::is_below(path))
}

/// Whether clients use `path` to try a login.
pub(super) fn is_of_oauth(path: &str) -> bool {
    OAUTH.contains(&path) || OAUTH_METADATA.iter().any(|metadata| path.contains(metadata))
}

/// Whether an OAuth client of a Switchyard sent the request, and it may change something over REST.
pub(super) fn is_of_oauth_client(parts: &request::Parts) -> bool {
    let is_safe = matches!(parts.method, Method::GET | Method::HEAD);
    !is_safe && AnswerFormat::of(parts.uri.path()) == AnswerFormat::Rest && is_own_loop(&parts.headers)
}

/// Whether the request is an action of an operator over REST, or reads the configuration. Calls of tools, prompts and
/// resources are none, as web clients on this machine make them.
pub(super) fn is_of_operator(parts: &request::Parts) -> bool {
    let Some(route) = parts.uri.path().strip_prefix(REST) else { return false };
    match parts.method {
        Method::GET | Method::HEAD => route == "configuration",
        _ => !CALLS.iter().any(|calls| {
            route == *calls || route.strip_prefix(calls).is_some_and(|rest| rest.starts_with('/'))
        }),
    }
}

/// Whether the request reads the REST API. MCP uses GET too, for streams and sessions, but those need a credential.
pub(super) fn is_rest_read(parts: &request::Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD)
        && AnswerFormat::of(parts.uri.path()) == AnswerFormat::Rest
}

/// Whether the request is a health check. A request with an `Origin` is not one, so its host is checked as usual.
pub(super) fn is_probe(parts: &request::Parts) -> bool {
    PROBES.contains(&parts.uri.path()) && is_plain_read(parts)
}

/// Whether the request reads the health of the gateway. A balancer sends it to an address, which is accepted then: a page
/// of a foreign site cannot have one as its host.
pub(super) fn is_health(parts: &request::Parts) -> bool {
    parts.uri.path() == "/health" && is_plain_read(parts)
}

fn is_plain_read(parts: &request::Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD) && !parts.headers.contains_key(ORIGIN)
}
