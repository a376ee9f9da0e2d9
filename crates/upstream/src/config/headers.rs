//! The headers of requests to one server: fixed ones, those with a value of each caller, and those of clients that are
//! passed on.
//!
//! Not here: credentials (`transport`), and the values of callers (`principal_secrets`).

use http::header::{AUTHORIZATION, COOKIE, EXPECT, HOST, SET_COOKIE, TRAILER};
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::forwarded_headers::PrincipalHeader;
use auth::vault::{SECRET_NAME, is_secret_name};
use settings::expand::CallerPart;
use settings::{DefaultText, Setting};

/// Headers that belong to the protocol or to the connection. The configured headers are set beside them.
const RESERVED: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "te",
    "transfer-encoding",
    "upgrade",
];
/// The most headers of clients that one server gets.
const MAX_FORWARDED: usize = 16;
/// Headers of clients that may have a credential, and never reach a server.
const CREDENTIALS: [HeaderName; 4] = [AUTHORIZATION, COOKIE, SET_COOKIE, auth::API_KEY_HEADER];
/// Headers of the connection of a client that never reach a server, beside those that cannot be configured.
const OF_CONNECTION: [HeaderName; 4] = [HOST, TRAILER, EXPECT, HeaderName::from_static("keep-alive")];

/// The headers that `headers` sets.
#[derive(Clone, Default)]
pub(super) struct ConfiguredHeaders {
    /// Headers with one value for all.
    pub fixed: Vec<(HeaderName, SecretString)>,
    /// Headers with a value of each caller.
    pub of_principals: Vec<PrincipalHeader>,
}

impl DefaultText for ConfiguredHeaders {}

impl ConfiguredHeaders {
    /// Whether it sets the header `name`.
    pub(super) fn sets(&self, name: &HeaderName) -> bool {
        self.fixed.iter().any(|(other, _)| other == name)
            || self.of_principals.iter().any(|header| header.name == *name)
    }
}

/// Whether the header `name` (in any case) is set by the protocol, so that it cannot be configured.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str()) || name.starts_with("mcp-")
}

/// Reads `headers`.
pub(super) fn headers(setting: &Setting<'_>) -> Option<ConfiguredHeaders> {
    let mut headers = ConfiguredHeaders::default();
    for (key, value) in setting.entries()? {
        let Ok(name) = HeaderName::from_bytes(key.as_bytes()) else {
            value.key_problem("this is not the name of a header", None);
            continue;
        };
        if is_reserved_header(name.as_str()) {
            value.key_problem("this header is set by the protocol", Some("remove it".into()));
        }
        if headers.sets(&name) {
            value.key_problem(
                "this header stands twice",
                Some("case does not matter in names of headers".into()),
            );
        }
        if let Some(parts) = value.caller_parts() {
            headers.of_principals.extend(principal_header(&value, name, parts));
        } else {
            headers.fixed.extend(header_value(&value).map(|value| (name, value)));
        }
    }
    Some(headers)
}

fn principal_header(
    setting: &Setting<'_>,
    name: HeaderName,
    parts: Vec<CallerPart>,
) -> Option<PrincipalHeader> {
    let header = PrincipalHeader::new(name, parts);
    if let Some(wrong) = header.secrets().find(|name| !is_secret_name(name)) {
        let message = format!("`{}` is not the name of a secret", settings::one_line(wrong));
        setting.problem(message, Some(format!("a name has {SECRET_NAME}")));
        return None;
    }
    if header.texts().any(|text| HeaderValue::from_str(text).is_err()) {
        unsendable(setting);
        return None;
    }
    Some(header)
}

/// Reads a secret that is valid as the value of an HTTP header.
pub fn header_value(setting: &Setting<'_>) -> Option<SecretString> {
    let value = setting.secret()?;
    if HeaderValue::from_str(value.expose_secret()).is_err() {
        unsendable(setting);
        return None;
    }
    Some(value)
}

fn unsendable(setting: &Setting<'_>) {
    let hint = "it must be one line of ASCII characters";
    setting.hidden_problem("the value cannot be sent in a header", Some(hint.into()));
}

/// Reads `forward_headers`.
pub(super) fn forwarded(setting: &Setting<'_>) -> Option<Vec<HeaderName>> {
    let mut names: Vec<HeaderName> = Vec::new();
    let items = setting.list()?;
    if items.len() > MAX_FORWARDED {
        setting.problem(format!("a server gets at most {MAX_FORWARDED} headers of clients"), None);
    }
    for item in &items {
        let Some(text) = item.text() else { continue };
        let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else {
            item.problem(
                "this is not the name of a header",
                Some("write the name alone, such as X-Tenant".into()),
            );
            continue;
        };
        if let Some((message, hint)) = refused(&name) {
            item.problem(message, Some(hint.into()));
        } else if names.contains(&name) {
            item.problem("this header stands twice", Some("case does not matter in names of headers".into()));
        } else {
            names.push(name);
        }
    }
    Some(names)
}

/// Why the header `name` of clients reaches no server, and what to do instead.
fn refused(name: &HeaderName) -> Option<(&'static str, &'static str)> {
    let text = name.as_str();
    if CREDENTIALS.contains(name) || text.starts_with("proxy-") {
        let hint = "it may have the credential for this gateway; give each caller a secret with `headers: {X-Token: \"${principal:TOKEN}\"}`";
        return Some(("a credential of the client is not passed on", hint));
    }
    if OF_CONNECTION.contains(name)
        || is_reserved_header(text)
        || text.starts_with("content-")
        || text.starts_with("accept-")
    {
        return Some((
            "this header belongs to one connection or to the protocol, and is not passed on",
            "remove it",
        ));
    }
    None
}
