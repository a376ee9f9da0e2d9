//! The host of a URL as people see it and as the operator trusts it: with its port, unless that is the usual one.

use url::Url;

/// Returns the host of `url`, with its port unless that is the usual one of its scheme: another port can be another service.
pub(crate) fn host_and_port(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}
