//! Advice about a server that cannot be connected to, appended to the reason of a failed connect.
//!
//! Invariants: the kind of the error stays, apart from HTTP 421, which becomes a failed connect. A challenge of the
//! server is quoted escaped and clipped. No URL or header of the configuration is quoted. Calls on a live connection
//! get no advice.

use std::sync::{Mutex, PoisonError};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use url::Url;

use crate::error::Error;
use protocol::sanitize::shown;

/// Variables that make other programs use a proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const NO_TLS: &str = "the port may not speak TLS; write `http://` in `url`, or name the port that does";
const TLS: &str = "the port may speak TLS; write `https://` in `url`";
const HOST: &str = "the server refuses the host name of `url`; add it to the hosts that the server allows, or set \
                    the header that it expects with `headers: {Host: localhost:PORT}`";
const LOGIN: &str = "set `auth: {bearer: \"${NAME}\"}` if you have a token; for a server with a login (OAuth) set \
                     `auth: oauth` and run `switchyard login SERVER`";

/// The last `WWW-Authenticate` of one server.
#[derive(Debug, Default)]
pub(super) struct Challenge(Mutex<Option<String>>);

impl Challenge {
    /// Records the challenge of a 401.
    pub(super) fn record(&self, status: StatusCode, headers: &HeaderMap) {
        if status != StatusCode::UNAUTHORIZED {
            return;
        }
        let challenge_text: Vec<_> =
            headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|v| v.to_str().ok()).collect();
        let challenge_text = (!challenge_text.is_empty()).then(|| shown(&challenge_text.join(", ")));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = challenge_text;
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Adds advice to `error`, the failure to connect to the server at `url`.
pub(super) fn advise(error: Error, (url, has_proxy): (&Url, bool), challenge: &Challenge) -> Error {
    match error {
        Error::AuthFailed { reason } if reason.starts_with("HTTP 401") => {
            let challenge_text = challenge
                .get()
                .map_or_else(String::new, |challenge_text| format!(", WWW-Authenticate: {challenge_text}"));
            Error::AuthFailed { reason: format!("{reason}{challenge_text}; {LOGIN}") }
        }
        // Common SDKs send 421 for a host that is not in their list.
        Error::Status { status: status @ 421, detail, .. } => {
            Error::Connect { reason: format!("the server answered HTTP {status}{detail}; {HOST}") }
        }
        Error::Connect { reason } => {
            let variable = proxy_variable().filter(|_| !has_proxy);
            let advice = advice_for(&reason, url.scheme() == "https", variable);
            Error::Connect { reason: format!("{reason}{advice}") }
        }
        other => other,
    }
}

/// Returns advice about `reason` with a separator, or an empty text.
fn advice_for(reason: &str, is_tls: bool, proxy: Option<&str>) -> String {
    let says = |words: &[&str]| words.iter().any(|word| reason.to_ascii_lowercase().contains(word));
    let advice = if is_tls && says(&["invalidcontenttype", "corrupt message", "handshake eof"]) {
        NO_TLS
    } else if !is_tls && says(&["invalid http version", "closed before message", "connection reset"]) {
        // Node.js and uvicorn close a connection that does not begin with TLS.
        TLS
    } else if says(&["invalid host", "host header", "host not allowed"]) {
        HOST
    } else if let Some(name) =
        proxy.filter(|_| says(&["connection refused", "took too long", "timed out", "dns", "unreachable"]))
    {
        return format!(
            "; {name} is set, but Switchyard connects to servers directly; set `proxy: environment` in the file to use it"
        );
    } else {
        return String::new();
    };
    format!("; {advice}")
}

/// Returns the name of a proxy variable that is set in the environment of this process.
pub fn proxy_variable() -> Option<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    PROXY_VARIABLES.into_iter().find(is_set)
}

/// Bytes of a body that are looked at.
pub(super) const MOST_BYTES: usize = 64 * 1024;
/// Members of the usual forms of errors: JSON-RPC, FastAPI, OAuth (RFC 6749), problem details (RFC 9457).
const MEMBERS: [&str; 7] = ["message", "detail", "error_description", "error", "title", "reason", "msg"];
/// How deep an error is searched for its text.
const DEEPEST: usize = 3;

/// Returns what `body` says; `None` if it says nothing. `content_type` is its `Content-Type`, unless it is JSON.
///
/// Invariants: the text is one short line without control characters. An HTML page is described by its kind and its
/// title. Configured secrets are redacted by the caller.
pub(in crate::transport) fn describe(content_type: Option<&HeaderValue>, body: &[u8]) -> Option<String> {
    let body = body.trim_ascii();
    if body.is_empty() {
        return None;
    }
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        return text_of(&value, DEEPEST);
    }
    if let Some(page) = html_page(content_type, body) {
        return Some(page);
    }
    let kind = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let beginning = &body[..body.len().min(MOST_BYTES)];
    match std::str::from_utf8(beginning) {
        Ok(text) if !text.contains('\0') => Some(shown(text)),
        _ if kind.is_empty() => Some(format!("{} bytes that are no text", body.len())),
        _ => Some(format!("{} bytes of the content type `{}`", body.len(), shown(kind))),
    }
}

/// Describes a body that should have been an MCP message and is not even JSON; `None` if its beginning looks like JSON.
pub(in crate::transport) fn describe_other(
    content_type: Option<&HeaderValue>,
    body: &[u8],
) -> Option<String> {
    let body = body.trim_ascii();
    if let Some(page) = html_page(content_type, body) {
        return Some(format!(
            "it is {page}; `url` may name a web page or a login page instead of the MCP endpoint"
        ));
    }
    let kind = content_type?.to_str().ok()?;
    let is_json = kind.to_ascii_lowercase().contains("json") || body.starts_with(b"{");
    (!is_json).then(|| {
        let text = describe(content_type, body).unwrap_or_default();
        format!("its content type is `{}`, and it begins with: {text}", shown(kind))
    })
}

/// Names an HTML page, with its content type and its title.
fn html_page(content_type: Option<&HeaderValue>, body: &[u8]) -> Option<String> {
    let kind = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body[..body.len().min(MOST_BYTES)]);
    let lower = text.to_ascii_lowercase();
    let begins = |tag| lower.trim_start_matches('\u{feff}').trim_start().starts_with(tag);
    let is_typed = kind.to_ascii_lowercase().starts_with("text/html");
    if !(begins("<!doctype html") || begins("<html") || begins("<head") || is_typed && begins("<")) {
        return None;
    }
    let kind = if kind.is_empty() { String::new() } else { format!(" (`{}`)", shown(kind)) };
    let title = title(&text, &lower).map(|title| format!(" with the title \"{title}\"")).unwrap_or_default();
    Some(format!("an HTML page{kind}{title}"))
}

fn title(text: &str, lower: &str) -> Option<String> {
    // The two have the same length, because only ASCII changed.
    let begin = lower.find("<title")?;
    let begin = begin + lower[begin..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    let title = text[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then(|| shown(&title))
}

/// Returns the text of an error in one of the usual forms.
fn text_of(value: &Value, depth: usize) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(shown(text)),
        Value::Object(members) if depth > 0 => {
            MEMBERS.iter().find_map(|name| text_of(members.get(*name)?, depth - 1))
        }
        Value::Array(items) if depth > 0 => items.iter().find_map(|item| text_of(item, depth - 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_reason() {
        let proxy = Some("HTTPS_PROXY");
        for (reason, is_tls, proxy, expected) in [
            ("received corrupt message of type InvalidContentType", true, None, "`http://`"),
            ("tls handshake eof", true, None, "`http://`"),
            ("invalid HTTP version parsed", false, None, "`https://`"),
            ("connection closed before message completed", false, None, "`https://`"),
            ("connection error: Connection reset by peer (os error 104)", false, None, "`https://`"),
            ("connection closed before message completed", true, None, ""),
            ("the server refused initialize: Invalid Host: gw (-32000)", false, None, "Host: localhost"),
            ("tcp connect error: Connection refused", true, proxy, "HTTPS_PROXY is set"),
            ("tcp connect error: Connection refused", true, None, ""),
            ("the server refused initialize: no (-32000)", true, proxy, ""),
        ] {
            let advice = advice_for(reason, is_tls, proxy);
            assert!(
                advice.contains(expected) && advice.is_empty() == expected.is_empty(),
                "{reason}: {advice}"
            );
        }
    }
}

#[cfg(test)]
mod body_text_tests {
    use super::*;

    #[test]
    fn the_usual_forms_of_errors_are_read() {
        for (kind, body, expected) in [
            (
                "",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"quota used"}}"#,
                Some("quota used"),
            ),
            ("", r#"{"detail":"Not Found"}"#, Some("Not Found")),
            ("", r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, Some("field required")),
            ("", r#"{"error":"invalid_request","error_description":"no id"}"#, Some("no id")),
            ("", r#"{"error":"invalid_request"}"#, Some("invalid_request")),
            ("", r#"{"title":"Too many","status":429}"#, Some("Too many")),
            ("", r#""just text""#, Some("just text")),
            ("", r#"{"other":1}"#, None),
            ("", " \n ", None),
            (
                "text/plain",
                "Rate limit\nexceeded, it's \"hard\"",
                Some("Rate limit\\nexceeded, it's \"hard\""),
            ),
            (
                "text/html; charset=utf-8",
                "<!DOCTYPE html><html><head><TITLE>502 Bad\n Gateway</TITLE>",
                Some("an HTML page (`text/html; charset=utf-8`) with the title \"502 Bad Gateway\""),
            ),
            ("", "\u{feff}<html><body>x", Some("an HTML page")),
            (
                "application/octet-stream",
                "a\0b",
                Some("3 bytes of the content type `application/octet-stream`"),
            ),
        ] {
            let kind = (!kind.is_empty()).then(|| HeaderValue::from_static(kind));
            assert_eq!(describe(kind.as_ref(), body.as_bytes()).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn an_answer_that_is_no_json_is_named() {
        let named = |kind: &'static str, body: &str| {
            describe_other(Some(&HeaderValue::from_static(kind)), body.as_bytes()).unwrap_or_default()
        };
        assert!(
            named("text/html", "<html><title>Sign in</title>")
                .contains("HTML page (`text/html`) with the title \"Sign in\"")
        );
        assert!(named("text/plain", "hello").contains("`text/plain`, and it begins with: hello"));
        assert_eq!(named("text/plain", "{\"a\":NaN}"), "");
        assert_eq!(named("application/json", "nope"), "");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert!(
            describe(None, "x".repeat(100_000).as_bytes()).is_some_and(|text| text.chars().count() <= 201)
        );
    }
}
