//! The text of the body of an HTTP error, for people.
//!
//! Invariants: the text is one short line without control characters. An HTML page is described by its kind and its
//! title. Configured secrets are redacted by the caller.

use http::HeaderValue;
use serde_json::Value;

use protocol::sanitize::shown;

/// Bytes of a body that are looked at.
pub(super) const MOST_BYTES: usize = 64 * 1024;
/// Members of the usual forms of errors: JSON-RPC, FastAPI, OAuth (RFC 6749), problem details (RFC 9457).
const MEMBERS: [&str; 7] = ["message", "detail", "error_description", "error", "title", "reason", "msg"];
/// How deep an error is searched for its text.
const DEEPEST: usize = 3;

/// Returns what `body` says; `None` if it says nothing. `content_type` is its `Content-Type`, unless it is JSON.
pub(in super::super) fn describe(content_type: Option<&HeaderValue>, body: &[u8]) -> Option<String> {
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
pub(in super::super) fn describe_other(content_type: Option<&HeaderValue>, body: &[u8]) -> Option<String> {
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
