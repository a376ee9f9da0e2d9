//! Resource indicators: the MCP endpoint that a token is for.
//!
//! Invariants: an endpoint has one identifier, which becomes the audience of its tokens. Only endpoints of this gateway
//! have one, so no token is ever made for another audience.
//!
//! Source: RFC 8707, section 2; RFC 9728, section 3.3; MCP 2026-07-28 `basic/authorization`, canonical server URI.

use auth::token_format::{ENDPOINTS, is_whole, name_in};
use url::Url;

use crate::access::{Endpoint, Host};
use crate::error::{Code, Error};

/// Limit of the length of `resource` in bytes.
const MAX_BYTES: usize = 1_024;

/// An endpoint of this gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// The identifier, which is a URL without a trailing slash.
    pub(crate) identifier: String,
    /// The view that the endpoint is of.
    pub(crate) view: Option<String>,
}

/// Returns the endpoint that `resource` names, below the public URL `base`. Clients of old revisions name none, which
/// means the endpoint of the whole gateway.
pub(crate) fn find(resource: Option<&str>, base: &str, host: &dyn Host) -> Result<Resource, Error> {
    let whole = format!("{base}{}", ENDPOINTS[0]);
    let Some(resource) = resource else { return Ok(Resource { identifier: whole, view: None }) };
    let refused = || {
        let reason = format!("`resource` is no MCP endpoint of this gateway, such as {whole}");
        Error::new(Code::InvalidTarget, reason)
    };
    if resource.len() > MAX_BYTES || resource.contains('\\') {
        return Err(refused());
    }
    // Parsed, because the scheme and the host may be in capitals.
    let url = Url::parse(resource).map_err(|_| refused())?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    let identifier = url.as_str().trim_end_matches('/');
    let path = identifier.strip_prefix(base).filter(|_| is_plain && url.password().is_none());
    let path = path.ok_or_else(refused)?;
    let found = |view| Ok(Resource { identifier: identifier.to_owned(), view });
    if is_whole(path) {
        return found(None);
    }
    let name = name_in(path).ok_or_else(refused)?;
    match host.endpoint(&name) {
        Some(Endpoint::Server) => found(None),
        Some(Endpoint::View) => found(Some(name.into_owned())),
        None => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    struct Gateway;

    impl Host for Gateway {
        fn rights(&self, _: &str) -> Option<Access> {
            None
        }

        fn endpoint(&self, name: &str) -> Option<Endpoint> {
            match name {
                "files" | "two words" => Some(Endpoint::Server),
                "help" => Some(Endpoint::View),
                _ => None,
            }
        }

        fn grant_ended(&self, _: &str) {}
    }

    #[test]
    fn only_endpoints_of_this_gateway_are_resources() {
        let base = "https://gw.example/tools";
        let of = |path: &str, view: Option<&str>| {
            Some(Resource { identifier: format!("{base}{path}"), view: view.map(str::to_owned) })
        };
        for (resource, expected) in [
            (None, of("/mcp", None)),
            (Some("https://gw.example/tools"), of("", None)),
            (Some("https://gw.example/tools/"), of("", None)),
            (Some("https://gw.example/tools/mcp"), of("/mcp", None)),
            (Some("HTTPS://GW.example:443/tools/mcp/"), of("/mcp", None)),
            (Some("https://gw.example/tools/sse"), of("/sse", None)),
            (Some("https://gw.example/tools/mcp/files"), of("/mcp/files", None)),
            (Some("https://gw.example/tools/mcp/two%20words"), of("/mcp/two%20words", None)),
            (Some("https://gw.example/tools/mcp/help"), of("/mcp/help", Some("help"))),
            (Some("https://gw.example/tools/mcp/other"), None),
            (Some("https://gw.example/tools/mcp/files/x"), None),
            (Some("https://gw.example/tools/mcp/../../mcp"), None),
            (Some("https://gw.example/toolsx/mcp"), None),
            (Some("https://gw.example/tools.evil/mcp"), None),
            (Some("https://gw.example/mcp"), None),
            (Some("https://gw.example/tools/api/v1"), None),
            (Some("http://gw.example/tools/mcp"), None),
            (Some("https://gw.example:8443/tools/mcp"), None),
            (Some("https://other.example/tools/mcp"), None),
            (Some("https://gw.example.evil/tools/mcp"), None),
            (Some("https://gw.example@evil.example/tools/mcp"), None),
            (Some("https://me@gw.example/tools/mcp"), None),
            (Some("https://gw.example/tools/mcp#x"), None),
            (Some("https://gw.example/tools/mcp?x=1"), None),
            (Some("https:\\\\gw.example/tools/mcp"), None),
            (Some("gw.example/tools/mcp"), None),
            (Some("/mcp"), None),
        ] {
            let found = find(resource, base, &Gateway);
            assert_eq!(found.clone().ok(), expected, "{resource:?}");
            assert!(found.is_ok() || found.expect_err("none").code == Code::InvalidTarget, "{resource:?}");
        }
    }
}
