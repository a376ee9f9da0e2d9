//! Headers and URLs of requests and responses.
//!
//! A transfer coding is none, or exactly `chunked`. Others would have to be undone before the content is read. Parties that
//! disagree about them disagree about where a message ends.
//!
//! Source: RFC 9110 (`Retry-After`, `Content-Type`, `Host`), RFC 9112, section 6.1, RFC 7617 (basic authentication), RFC 8586
//! (`CDN-Loop`).

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use http_body::Body;
use percent_encoding::percent_decode_str;
use url::{Position, Url};

use super::error::Error;

/// Header that an intermediary adds so that it recognizes its own requests (RFC 8586).
pub const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");
/// The token of Switchyard in [`CDN_LOOP`].
pub const CDN_TOKEN: &str = "switchyard";
/// `User-Agent` of requests that Switchyard makes.
pub const OUR_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("switchyard/", env!("CARGO_PKG_VERSION")));

/// `Accept-Encoding` of requests that Switchyard makes: a body without a content coding.
pub const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Returns the path and the query of `url` as a request has them.
pub fn path(url: &Url) -> Result<Uri, Error> {
    url[Position::BeforePath..Position::AfterQuery].parse().map_err(|_| Error::unusable_url())
}

/// Returns the value of `Host` for `url`: the host, and the port if it is not the default one.
pub fn host(url: &Url) -> Result<HeaderValue, Error> {
    let host = &url[Position::BeforeHost..Position::AfterPort];
    HeaderValue::from_str(host).map_err(|_| Error::unusable_url())
}

/// Returns the value of `Authorization` for the user and the password of `url`.
pub fn basic_credentials(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a Switchyard sent the request: one of the intermediaries in [`CDN_LOOP`] is its token. Other intermediaries, such
/// as a content delivery network, may have passed the request on. Case and parameters do not count (RFC 8586, section 2).
pub fn is_own_loop(headers: &HeaderMap) -> bool {
    let is_own = |id: &[u8]| id.trim_ascii().eq_ignore_ascii_case(CDN_TOKEN.as_bytes());
    headers.get_all(CDN_LOOP).iter().any(|list| intermediaries(list.as_bytes()).any(is_own))
}

/// Splits a list of intermediaries at the commas outside of quoted strings, and returns each without its parameters.
fn intermediaries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let elements = list.split(move |byte| {
        let escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'"' if !escaped => is_quoted = !is_quoted,
            b'\\' if is_quoted && !escaped => is_escaped = true,
            _ => {}
        }
        *byte == b',' && !is_quoted
    });
    elements.map(|element| element.split(|byte| *byte == b';').next().unwrap_or_default())
}

/// Returns the time to wait that `Retry-After` asks for, in seconds or as a date.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // A date in the past asks for no wait.
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Whether `headers` announce the media type `media_type`; parameters and case do not matter.
pub fn is_media_type(headers: &HeaderMap, media_type: &str) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    // The usual values are compared without a look at their parts.
    if value == media_type || value == "application/json" {
        return value == media_type;
    }
    let value = value.to_str().unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

/// Whether the message has no transfer coding, or `chunked` once and no other. A body of known size has none, so its
/// headers are not checked.
pub fn has_supported_transfer_coding(headers: &HeaderMap, body: &impl Body) -> bool {
    if body.size_hint().exact().is_some() {
        return true;
    }
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    let first = lines.next();
    lines.next().is_none() && first.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let after = |value| retry_after(&headers(RETRY_AFTER, value));
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        assert!(after("Fri, 31 Dec 2100 23:59:59 GMT").is_some_and(|pause| pause > Duration::from_hours(1)));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        let is = |value| is_media_type(&headers(CONTENT_TYPE, value), "text/event-stream");
        assert!(
            is("text/event-stream") && is("Text/Event-Stream; charset=utf-8") && is(" text/event-stream ;x")
        );
        assert!(!is("application/json") && !is("text/event-streams") && !is(""));
    }

    #[test]
    fn user_and_password_of_a_url_are_decoded() {
        let credentials = |url: &str| basic_credentials(&Url::parse(url).expect("a URL"));
        let pair = format!("Basic {}", STANDARD.encode("us er:p:w"));
        assert_eq!(credentials("http://us%20er:p:w@h/").expect("credentials"), pair);
        assert_eq!(credentials("http://h/"), None);
    }

    #[test]
    fn only_the_own_token_is_a_loop() {
        for (fields, is_loop) in [
            (&["switchyard"][..], true),
            (&["Switchyard"], true),
            (&["cloudflare; subreqs=1, switchyard"], true),
            (&[" SWITCHYARD ;a=b , Fastly"], true),
            (&["cloudflare", "switchyard"], true),
            (&["a;x=\"\\\",\", switchyard"], true),
            (&[", ,switchyard;"], true),
            (&["cloudflare"], false),
            (&["cloudflare; loops=2; subreqs=1"], false),
            (&["Fastly, foo123.foocdn.example, barcdn.example; trace=\"abcdef\""], false),
            (&["a; by=\"x, switchyard, y\""], false),
            (&["a; by=switchyard"], false),
            (&["switchyard.example", "xswitchyard", "switchyard:80", ""], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(CDN_LOOP, HeaderValue::from_str(field).expect("a value"));
            }
            assert_eq!(is_own_loop(&headers), is_loop, "{fields:?}");
        }
    }
}
