//! Checks the headers of MCP requests over HTTP, in each era.
//!
//! Modern headers repeat parts of the body. A request whose headers and body differ is refused, because
//! a proxy may route by header while Switchyard executes the body. Names are compared without case,
//! values exactly; white space around values is ignored.

use std::fmt::Display;

use http::header::{ACCEPT, AsHeaderName, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::error::MessageRefusal;
use json::{Part, Raw};
use net::http::has_content_coding;
use protocol::{Accept, ErrorCode, Problem, Request, Version, headers, meta, sanitize};

/// Header names, parsed once: a lookup by text would parse the name each time.
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
static METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
static NAME: HeaderName = HeaderName::from_static(headers::NAME);

/// The media type of an answer that consists of messages, in the error for a client that accepts JSON alone.
pub(crate) const EVENTS_NEEDED: &str =
    "text/event-stream, because this request is answered with notifications or server requests";
/// Values of `Accept` of most clients, and what they mean.
const USUAL_ACCEPT: [(&str, ResponseFormat); 3] = [
    ("application/json, text/event-stream", ResponseFormat::Json),
    ("text/event-stream, application/json", ResponseFormat::Stream),
    ("*/*", ResponseFormat::Json),
];

/// The forms of a response that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// Both. JSON is better, if the response is the first thing to arrive.
    Json,
    /// Both. An event stream is better in a session, where it can be resumed.
    Stream,
    /// JSON alone.
    OnlyJson,
    /// An event stream alone.
    OnlyStream,
}

/// Returns the value of a header that may occur once, without the white space around it.
pub fn single<K>(map: &HeaderMap, name: K) -> Result<Option<&str>, MessageRefusal>
where
    K: AsHeaderName + Copy + Display,
{
    let is_repeated = has_repeated(map) && map.get_all(name).iter().nth(1).is_some();
    Single { value: map.get(name), is_repeated }.text(&name)
}

/// A header that may occur once.
#[derive(Clone, Copy, Default)]
struct Single<'a> {
    value: Option<&'a HeaderValue>,
    is_repeated: bool,
}

impl<'a> Single<'a> {
    /// Finds the headers called `names` in one pass.
    fn all<const N: usize>(map: &'a HeaderMap, names: [&HeaderName; N]) -> [Self; N] {
        let mut found = [Self::default(); N];
        for (name, value) in map {
            if let Some(at) = names.iter().position(|name_to_find| *name_to_find == name) {
                let is_repeated = found[at].value.is_some();
                found[at] = Self { value: Some(value), is_repeated };
            }
        }
        found
    }

    /// Returns the value without the white space around it; `name` is for error texts.
    fn text(self, name: &dyn Display) -> Result<Option<&'a str>, MessageRefusal> {
        let Some(value) = self.value else { return Ok(None) };
        if self.is_repeated {
            return Err(MessageRefusal::header_mismatch(format!("{name} stands more than once")));
        }
        let text = value.to_str();
        let text = text.map_err(|_| MessageRefusal::header_mismatch(format!("{name} is not plain text")))?;
        Ok(Some(text.trim_ascii()))
    }
}

/// Whether any header is repeated. That is rare, and one check then covers all headers.
fn has_repeated(map: &HeaderMap) -> bool {
    map.len() > map.keys_len()
}

/// Requires exactly one `Content-Type`, and that it is JSON: a proxy might read another one. The content has no coding.
pub(crate) fn check_content_type(map: &HeaderMap) -> Result<(), MessageRefusal> {
    if has_content_coding(map) {
        let problem = Problem::new(ErrorCode::UnsupportedMediaType, "encoded bodies are not accepted");
        return Err(problem.hinting("send the body as it is, without Content-Encoding").into());
    }
    let value = map.get(CONTENT_TYPE);
    if has_repeated(map) && map.get_all(CONTENT_TYPE).iter().nth(1).is_some() {
        return Err(not_json());
    }
    if value.is_some_and(|value| value == "application/json") {
        return Ok(());
    }
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(not_json()) }
}

/// Not declared as JSON, or declared more than once.
fn not_json() -> MessageRefusal {
    let text = "Content-Type must be application/json, and stand once";
    MessageRefusal::new(ErrorCode::UnsupportedMediaType, text)
}

/// Returns the forms of answers that the client accepts, the better one first. Refuses a client that accepts none.
pub(crate) fn response_format(map: &HeaderMap) -> Result<ResponseFormat, MessageRefusal> {
    let usual = map.get(ACCEPT).filter(|_| !has_repeated(map));
    if let Some((_, format)) =
        USUAL_ACCEPT.iter().find(|(value, _)| usual.is_some_and(|usual| usual == value))
    {
        return Ok(*format);
    }
    let accept = accepted(map);
    match (accept.allows_json(), accept.allows_events()) {
        (true, true) if accept.prefers_events() => Ok(ResponseFormat::Stream),
        (true, true) => Ok(ResponseFormat::Json),
        (true, false) => Ok(ResponseFormat::OnlyJson),
        (false, true) => Ok(ResponseFormat::OnlyStream),
        (false, false) => Err(MessageRefusal::accept("application/json or text/event-stream")),
    }
}

/// Requires that the client accepts an event stream, for an answer that has no other form.
pub(crate) fn check_accepts_events(map: &HeaderMap) -> Result<(), MessageRefusal> {
    if accepted(map).allows_events() { Ok(()) } else { Err(MessageRefusal::accept(EVENTS_NEEDED)) }
}

/// The forms that the client accepts. A value that is not text allows nothing.
fn accepted(map: &HeaderMap) -> Accept {
    Accept::of(map.get_all(ACCEPT).iter().map(|value| value.to_str().unwrap_or("unreadable")))
}

/// Whether a request is modern: its body declares a modern revision, or its version header names no
/// revision with a handshake.
pub fn is_modern(map: &HeaderMap, params: Option<&Raw>) -> bool {
    let by_header = || {
        let value = map.get(&PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
        value.map(str::trim).and_then(Version::from_name).is_some_and(Version::is_modern)
    };
    by_header() || meta::claimed_version(params).is_some()
}

/// Checks the version header of a legacy request: absent, or a known revision.
pub(crate) fn check_legacy_version(map: &HeaderMap) -> Result<(), MessageRefusal> {
    match single(map, &PROTOCOL_VERSION)? {
        Some(name) if Version::from_name(name).is_none() => {
            let text = format!("MCP-Protocol-Version {:?} is not a known revision", sanitize::name(name));
            Err(MessageRefusal::new(ErrorCode::UnsupportedVersion, text))
        }
        _ => Ok(()),
    }
}

/// Checks `_meta` and the headers of a modern request against each other.
pub(crate) fn check_modern(map: &HeaderMap, request: &Request) -> Result<(), MessageRefusal> {
    let [version, method, name] = Single::all(map, [&PROTOCOL_VERSION, &METHOD, &NAME]);
    let header = version
        .text(&PROTOCOL_VERSION)?
        .ok_or_else(|| MessageRefusal::header_mismatch("MCP-Protocol-Version is missing"))?;
    let described =
        meta::part(request.params.as_ref()).ok_or_else(|| MessageRefusal::meta(meta::PROTOCOL_VERSION))?;
    let claimed = described.get(meta::PROTOCOL_VERSION);
    if !claimed.is_some_and(|claimed| claimed.says(header)) {
        let claimed =
            claimed.and_then(Part::text).ok_or_else(|| MessageRefusal::meta(meta::PROTOCOL_VERSION))?;
        return Err(mismatch("MCP-Protocol-Version", header, &claimed));
    }
    check_description(described, header)?;
    let method =
        method.text(&METHOD)?.ok_or_else(|| MessageRefusal::header_mismatch("Mcp-Method is missing"))?;
    if method != request.method {
        return Err(mismatch("Mcp-Method", method, &request.method));
    }
    check_name(name, request)
}

/// Checks the `_meta` that a modern request needs on every transport.
pub(crate) fn check_meta(request: &Request) -> Result<(), MessageRefusal> {
    let described =
        meta::part(request.params.as_ref()).ok_or_else(|| MessageRefusal::meta(meta::PROTOCOL_VERSION))?;
    let claimed = described
        .get(meta::PROTOCOL_VERSION)
        .and_then(Part::text)
        .ok_or_else(|| MessageRefusal::meta(meta::PROTOCOL_VERSION))?;
    check_description(described, &claimed)
}

/// Checks the `_meta` of a modern request that declares the revision `claimed`.
fn check_description(described: Part<'_>, claimed: &str) -> Result<(), MessageRefusal> {
    if Version::from_name(claimed).is_none_or(|version| !version.is_modern()) {
        return Err(MessageRefusal::unsupported_version(&sanitize::name(claimed)));
    }
    if !described.get(meta::CLIENT_CAPABILITIES).is_some_and(Part::is_object) {
        return Err(MessageRefusal::meta(meta::CLIENT_CAPABILITIES));
    }
    Ok(())
}

fn check_name(name: Single<'_>, request: &Request) -> Result<(), MessageRefusal> {
    let Some(member) = headers::name_member(&request.method) else { return Ok(()) };
    let Some(body) = request.params.as_ref().and_then(|params| params.part(member)) else {
        return Ok(()); // the method itself refuses parameters that lack it
    };
    let sent = name.text(&NAME)?;
    let decoded = sent.and_then(headers::decode);
    if decoded.as_ref().is_some_and(|decoded| body.says(decoded)) {
        return Ok(());
    }
    let Some(body) = body.text() else { return Ok(()) }; // the method also refuses one that is not a string
    let sent = sent.ok_or_else(|| MessageRefusal::header_mismatch("Mcp-Name is missing"))?;
    let decoded = decoded.ok_or_else(|| {
        let sent = sanitize::name(sent);
        MessageRefusal::header_mismatch(format!("Mcp-Name {sent:?} is not a readable value"))
    })?;
    Err(mismatch("Mcp-Name", &decoded, &body))
}

fn mismatch(name: &str, header: &str, body: &str) -> MessageRefusal {
    let cut = |text: &str| text.chars().take(80).collect::<String>();
    MessageRefusal::header_mismatch(format!("{name} is {:?}, the body says {:?}", cut(header), cut(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_declared_once() {
        let of = |types: &[&'static str]| {
            let mut map: HeaderMap = [(ACCEPT, HeaderValue::from_static("*/*"))].into_iter().collect();
            for kind in types {
                map.append(CONTENT_TYPE, HeaderValue::from_static(kind));
            }
            check_content_type(&map).is_ok()
        };
        for fine in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(of(&[fine]), "{fine}");
            for other in [fine, "text/plain", "application/json"] {
                assert!(!of(&[fine, other]) && !of(&[other, fine]), "{fine} and {other}");
            }
        }
        assert!(!of(&[]) && !of(&["text/plain"]) && !of(&["application/json, text/plain"]));
    }
}
