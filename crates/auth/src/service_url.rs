//! URLs of login services, as the configuration names them.
//!
//! Invariant: such a URL has no user and no password, because URLs are logged.

use url::Url;

/// Parses a URL of HTTP without a user, a password and a fragment.
pub(super) fn parse_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (is_plain && url.has_host() && matches!(url.scheme(), "http" | "https")).then_some(url)
}

/// Parses the URL of an issuer, which has no query (RFC 8414, section 2).
pub(super) fn parse_issuer(text: &str) -> Option<Url> {
    parse_url(text).filter(|url| url.query().is_none())
}
