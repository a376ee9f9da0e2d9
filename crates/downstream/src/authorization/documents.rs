//! The documents for clients: the metadata of the authorization server, and its public keys.
//!
//! The metadata is one document, whose `issuer` is the public URL. It is at the well-known paths, also with the path of the
//! public URL or of an MCP endpoint inserted, and appended to MCP endpoints. Clients that do not read the metadata of the
//! protected resource take the MCP endpoint for the issuer. Every other path is answered with 404, so that a client tries
//! the next one.
//!
//! Source: RFC 8414, section 3.1; `OpenID` Connect Discovery 1.0, section 4.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::header::{CACHE_CONTROL, ORIGIN, PRAGMA, VARY};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use url::Url;

use super::Endpoints;
use super::answer;
use crate::protected_resource::endpoint_of;
use crate::request_class::OAUTH_METADATA;
use auth::TokenIssuer;
use runtime::telemetry::RequestId;

/// The routes of the metadata.
pub(super) const METADATA_PATHS: [&str; 10] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/",
    "/.well-known/oauth-authorization-server/{*endpoint}",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/.well-known/openid-configuration/{*endpoint}",
    "/mcp/.well-known/oauth-authorization-server",
    "/mcp/.well-known/openid-configuration",
    "/sse/.well-known/oauth-authorization-server",
    "/sse/.well-known/openid-configuration",
];
/// How long a document may be cached. A reload may change the metadata; keys are published long before they sign.
const LASTS: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// Answers with the metadata.
pub(super) async fn metadata(
    State(endpoints): State<Arc<Endpoints>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let inserted = OAUTH_METADATA.iter().find_map(|metadata| uri.path().strip_prefix(metadata));
    if inserted.is_some_and(|path| !is_endpoint(path, endpoints.server.issuer())) {
        return answer::invalid(StatusCode::NOT_FOUND, "there is no such endpoint here");
    }
    cached(answer::json(StatusCode::OK, endpoints.server.metadata().to_string()), &headers)
}

/// Answers with the public keys.
pub(super) async fn key_set(
    State(endpoints): State<Arc<Endpoints>>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> Response {
    match endpoints.server.key_set(SystemTime::now()).await {
        Ok(keys) => cached(answer::json(StatusCode::OK, keys.to_string()), &headers),
        Err(error) => answer::error(&error, id),
    }
}

/// Whether `path` is that of `issuer` or of an MCP endpoint, or one after the other.
fn is_endpoint(path: &str, issuer: &str) -> bool {
    let issuer = Url::parse(issuer);
    let base = issuer.as_ref().map_or("", |url| url.path().trim_end_matches('/'));
    let rest =
        path.strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(path);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    endpoint_of(rest) == rest
}

fn cached(mut answer: Response, request: &HeaderMap) -> Response {
    answer.headers_mut().remove(PRAGMA);
    answer.headers_mut().insert(CACHE_CONTROL, LASTS);
    if !request.contains_key(ORIGIN) {
        // A cached answer without CORS headers must not be given to a web page, which could not read it.
        answer.headers_mut().insert(VARY, HeaderValue::from_static("origin"));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_at_the_path_of_the_issuer_and_of_each_endpoint() {
        for (path, root, below) in [
            ("", true, true),
            ("/", true, true),
            ("/mcp", true, true),
            ("/mcp/", true, true),
            ("/mcp/files", true, true),
            ("/sse", true, true),
            ("/tools", false, true),
            ("/tools/", false, true),
            ("/tools/mcp", false, true),
            ("/tools/mcp/files", false, true),
            ("/toolsmcp", false, false),
            ("/messages", false, false),
            ("/mcp/files/more", false, false),
            ("/other", false, false),
        ] {
            assert_eq!(is_endpoint(path, "https://gw.example"), root, "{path}");
            assert_eq!(is_endpoint(path, "https://gw.example/tools"), below, "{path}");
        }
    }
}
