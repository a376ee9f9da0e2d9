//! Metadata of a protected resource (RFC 9728): tells clients which issuer's tokens are accepted.
//!
//! ```text
//! 401, WWW-Authenticate: Bearer resource_metadata="…/.well-known/oauth-protected-resource/mcp"
//!   ──▶ GET it, without a credential ──▶ {"resource": …, "authorization_servers": [ourselves, other issuers], …}
//! ```
//!
//! Invariants: the document exists only while tokens are accepted whose login services are URLs; otherwise there is none
//! to name. The authorization server of this gateway is named before others, and gives tokens for each endpoint. It contains only configured values, the requested path if it is a known one, and an allowed
//! `Host`. Headers that a proxy or client may have added (`X-Forwarded-…`) are not used.
//!
//! Not here: which tokens are accepted ([`auth`]), access (`guard`), which treats it as public like `/health`.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ORIGIN, VARY};
use http::{HeaderValue, Method, request};
use serde::Serialize;

use super::authority::Authority;
use auth::{Authenticator, Role, TokenSource};
use authorization::role_scopes;
use json::Raw;

/// Path of the metadata; the path of the described endpoint follows it (RFC 9728, section 3.1).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// How long a document may be cached: a reload may change the issuer.
const LASTS: HeaderValue = HeaderValue::from_static("public, max-age=300");
/// The longest name of a server that is repeated, in bytes.
const MAX_NAME: usize = 128;
/// The longest URL that is accepted from the configuration, in bytes.
const MAX_URL: usize = 1_024;

/// The sources of the metadata.
#[derive(Debug)]
pub(super) struct Metadata {
    url: OwnUrl,
    authenticator: Arc<Authenticator>,
}

/// The URL at which clients reach Switchyard.
#[derive(Debug, Clone)]
pub(super) enum OwnUrl {
    /// A configured one, without a trailing slash.
    Public(String),
    /// The host of each request, with TLS.
    Https,
    /// The host of each request, without TLS.
    Http,
}

#[derive(Serialize)]
pub(crate) struct Document<'a> {
    resource: &'a str,
    authorization_servers: Vec<&'a str>,
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<&'a str>,
    resource_name: &'static str,
}

impl Metadata {
    pub(super) const fn new(url: OwnUrl, authenticator: Arc<Authenticator>) -> Self {
        Self { url, authenticator }
    }

    /// Returns the answer to `head` if it requests an existing document. `host` gives the host of the request,
    /// which was checked before.
    pub(super) fn answer(
        &self,
        head: &request::Parts,
        host: impl FnOnce() -> Option<Authority>,
    ) -> Option<Response> {
        let path = head.uri.path().strip_prefix(WELL_KNOWN)?;
        // A client that writes its URL with a slash at the end finds the same URL in the document.
        let endpoint = path.strip_suffix('/').unwrap_or(path);
        if endpoint_of(endpoint) != endpoint || !matches!(head.method, Method::GET | Method::HEAD) {
            return None;
        }
        let document = self.document(path, host().as_ref())?;
        let length = document.bytes().len();
        let is_head = head.method == Method::HEAD;
        let body = if is_head { Body::empty() } else { document.bytes().clone().into() };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, length.into());
        headers.insert(CACHE_CONTROL, LASTS);
        if !head.headers.contains_key(ORIGIN) {
            // A cached answer without CORS headers must not be given to a web page, which could not read it.
            headers.insert(VARY, HeaderValue::from_static("origin"));
        }
        Some(response)
    }

    fn document(&self, path: &str, host: Option<&Authority>) -> Option<Raw> {
        let Issuers { own, others } = self.issuers()?;
        // Tokens of another issuer for another resource would be refused, so the configured audience is named under every
        // host (RFC 8707). The own authorization server knows each endpoint.
        let audience = others.as_ref().filter(|_| own.is_none()).and_then(|source| source.audience.as_ref());
        let resource = match audience.filter(|audience| WebUrl::parse(audience).is_some()) {
            Some(audience) => audience.clone(),
            None => format!("{}{path}", self.base(others.as_deref(), host)?),
        };
        let servers = others.iter().flat_map(|source| &source.authorization_servers).map(String::as_str);
        // The endpoints need these two. Operators request more by themselves.
        let mut scopes: Vec<&str> = role_scopes(Role::Caller).filter(|_| own.is_some()).collect();
        scopes.extend(others.iter().flat_map(|source| &source.scopes).map(String::as_str));
        Some(Raw::of(&Document {
            resource: &resource,
            authorization_servers: own.as_deref().into_iter().chain(servers).collect(),
            bearer_methods_supported: ["header"],
            scopes_supported: scopes,
            resource_name: "Switchyard",
        }))
    }

    /// Returns the URL of the document about the endpoint of `path`, if there is one.
    pub(super) fn url(&self, path: &str, host: Option<&Authority>) -> Option<String> {
        let base = self.base(self.issuers()?.others.as_deref(), host)?;
        let endpoint = endpoint_of(path);
        let is_with_slash = !endpoint.is_empty() && path.strip_suffix('/') == Some(endpoint);
        Some(format!("{base}{WELL_KNOWN}{endpoint}{}", if is_with_slash { "/" } else { "" }))
    }

    /// Returns the scope that a client has to request for calls, if it is known and a header can have it.
    pub(super) fn scope_for_calls(&self) -> Option<String> {
        let Issuers { own, others } = self.issuers()?;
        if own.is_some() {
            return role_scopes(Role::Caller).last().map(str::to_owned);
        }
        let is_scope_byte = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'); // RFC 6749, section 3.3
        others?.caller_scope.clone().filter(|scope| scope.bytes().all(is_scope_byte))
    }

    /// Whether the gateway has an authorization server of its own.
    pub(super) fn has_own_issuer(&self) -> bool {
        self.authenticator.own_issuer().is_some()
    }

    /// Returns the sources of accepted tokens whose login services are URLs that clients can open, if there are any.
    fn issuers(&self) -> Option<Issuers> {
        let is_web = |issuer: &String| WebUrl::parse(issuer).is_some();
        let is_open = |source: &Arc<TokenSource>| {
            let servers = &source.authorization_servers;
            !servers.is_empty() && servers.iter().all(is_web)
        };
        let own = self.authenticator.own_issuer();
        let others = self.authenticator.token_source().filter(is_open);
        (own.is_some() || others.is_some()).then_some(Issuers { own, others })
    }

    /// Returns the base URL of Switchyard. Without a configured `public_url` it has the requested host, and the
    /// scheme that the listener speaks. If that is plain HTTP and the audience of `source` has that host, its scheme is used:
    /// a proxy may speak TLS.
    fn base(&self, source: Option<&TokenSource>, host: Option<&Authority>) -> Option<String> {
        let host = match &self.url {
            OwnUrl::Public(url) => return Some(url.clone()),
            OwnUrl::Https => return Some(format!("https://{}", host?)),
            OwnUrl::Http => host?,
        };
        let audience = source.and_then(|source| source.audience.as_deref()).and_then(WebUrl::parse);
        let audience = audience.filter(|audience| audience.authority == *host);
        Some(format!("{}://{host}", audience.map_or("http", |audience| audience.scheme)))
    }
}

/// The issuers of accepted tokens.
struct Issuers {
    /// This gateway.
    own: Option<Arc<str>>,
    others: Option<Arc<TokenSource>>,
}

/// Whether `path` is a path of such a document, which is public.
pub(super) fn is_below(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the endpoint that `path` belongs to; empty for Switchyard as a whole. A server name is repeated only if
/// it is harmless in a header.
pub(super) fn endpoint_of(path: &str) -> &str {
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
    let is_name = |name: &str| (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    let of = |at: &'static str| match path.strip_prefix(at)?.strip_prefix('/') {
        None if path == at => Some(at),
        None => None,
        Some(name) => Some(if is_name(name) { path } else { at }),
    };
    of("/mcp").or_else(|| of("/sse")).unwrap_or(if path == "/messages" { "/sse" } else { "" })
}

/// An absolute web URL.
struct WebUrl<'t> {
    scheme: &'t str,
    authority: Authority,
}

impl<'t> WebUrl<'t> {
    /// Parses `http` or `https`, `://`, a host, and optionally a port and a path. A user, query or fragment is
    /// refused.
    fn parse(text: &'t str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@/".contains(&b);
        let fits = text.len() <= MAX_URL && matches!(scheme, "http" | "https") && path.bytes().all(is_plain);
        fits.then_some(Self { scheme, authority: Authority::parse(authority)? })
    }
}

/// Returns `text` without trailing slashes, if it is a valid public URL.
pub(super) fn parse_public_url(text: &str) -> Option<String> {
    WebUrl::parse(text).map(|_| text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
#[path = "protected_resource_tests.rs"]
mod tests;
