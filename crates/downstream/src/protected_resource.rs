//! Where a client learns whose tokens are taken here: the metadata of a protected resource (RFC 9728).
//!
//! ```text
//! 401, WWW-Authenticate: Bearer resource_metadata="…/.well-known/oauth-protected-resource/mcp"
//!   ──▶ GET it, without a credential ──▶ {"resource": …, "authorization_servers": [the issuer], …}
//! ```
//!
//! Invariants: there is a document only while tokens are accepted whose issuer is a URL, else there would be
//! nobody to name; it holds what the operator wrote, the path that was asked for if it is one of ours, and a
//! `Host` that was allowed, never a header that a proxy or a client may have added (`X-Forwarded-…`).
//!
//! Not here: which tokens are accepted ([`auth`]); who may ask (`guard`), to whom it is as open as
//! `/health`.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ORIGIN, VARY};
use http::{HeaderValue, Method, request};
use serde::Serialize;

use super::authority::Authority;
use auth::{Authenticator, TokenSource};
use json::Raw;

/// Where metadata is; behind it the path of the endpoint that it is about (RFC 9728, section 3.1).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// How long a document may be kept: a reload may name another issuer.
const LASTS: HeaderValue = HeaderValue::from_static("public, max-age=300");
/// The longest name of a server that is repeated, in bytes.
const MAX_NAME: usize = 128;
/// The longest URL that is taken from the operator, in bytes.
const MAX_URL: usize = 1_024;

/// What the metadata is made of.
#[derive(Debug)]
pub(super) struct Metadata {
    public_url: Option<String>,
    authenticator: Arc<Authenticator>,
}

#[derive(Serialize)]
pub(crate) struct Document<'a> {
    resource: &'a str,
    authorization_servers: [&'a str; 1],
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    scopes_supported: &'a [String],
    resource_name: &'static str,
}

impl Metadata {
    pub(super) const fn new(public_url: Option<String>, authenticator: Arc<Authenticator>) -> Self {
        Self { public_url, authenticator }
    }

    /// The answer to `head`, if it asks for a document that there is. `host` tells for whom it was let in.
    pub(super) fn answer(
        &self,
        head: &request::Parts,
        host: impl FnOnce() -> Option<Authority>,
    ) -> Option<Response> {
        let path = head.uri.path().strip_prefix(WELL_KNOWN)?;
        if endpoint_of(path) != path || !matches!(head.method, Method::GET | Method::HEAD) {
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
            // What a program got must not be given to a page, which could not read it.
            headers.insert(VARY, HeaderValue::from_static("origin"));
        }
        Some(response)
    }

    fn document(&self, path: &str, host: Option<&Authority>) -> Option<Raw> {
        let source = self.source()?;
        // Tokens for anything else would be refused, whatever we are called (RFC 8707).
        let resource = match WebUrl::parse(&source.audience) {
            Some(_) => source.audience.clone(),
            None => format!("{}{path}", self.base(&source, host)?),
        };
        Some(Raw::of(&Document {
            resource: &resource,
            authorization_servers: [&source.issuer],
            bearer_methods_supported: ["header"],
            scopes_supported: &source.scopes,
            resource_name: "Switchyard",
        }))
    }

    /// Where the document is about what `path` is a part of, if there is one.
    pub(super) fn url(&self, path: &str, host: Option<&Authority>) -> Option<String> {
        let base = self.base(&*self.source()?, host)?;
        Some(format!("{base}{WELL_KNOWN}{}", endpoint_of(path)))
    }

    /// Whose tokens are accepted, if that is somebody whom a client can find.
    fn source(&self) -> Option<Arc<TokenSource>> {
        self.authenticator.token_source().filter(|source| WebUrl::parse(&source.issuer).is_some())
    }

    /// The URL of the gateway. Where the operator says nothing, it is plain HTTP to the host that was asked for, as
    /// we speak it ourselves, unless that is the host of an audience that says how it is reached.
    fn base(&self, source: &TokenSource, host: Option<&Authority>) -> Option<String> {
        if let Some(url) = &self.public_url {
            return Some(url.clone());
        }
        let host = host?;
        let audience = WebUrl::parse(&source.audience).filter(|audience| audience.authority == *host);
        Some(format!("{}://{host}", audience.map_or("http", |audience| audience.scheme)))
    }
}

/// Whether a document may be at `path`, which then needs no credential.
pub(super) fn is_below(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The endpoint that `path` belongs to; nothing for the gateway as a whole. A name is only repeated if it can do
/// no harm in a header.
fn endpoint_of(path: &str) -> &str {
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

/// A URL that stands for somebody on the web.
struct WebUrl<'t> {
    scheme: &'t str,
    authority: Authority,
}

impl<'t> WebUrl<'t> {
    /// Reads `http` or `https`, `://`, a host and perhaps a port and a path. No user, no query, no fragment.
    fn parse(text: &'t str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@/".contains(&b);
        let fits = text.len() <= MAX_URL && matches!(scheme, "http" | "https") && path.bytes().all(is_plain);
        fits.then_some(Self { scheme, authority: Authority::parse(authority)? })
    }
}

/// `text` without the slashes at its end, if it is a URL that clients can reach us at.
pub(super) fn parse_public_url(text: &str) -> Option<String> {
    WebUrl::parse(text).map(|_| text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
#[path = "protected_resource_tests.rs"]
mod tests;
