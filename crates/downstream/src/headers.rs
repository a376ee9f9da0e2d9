//! Checks the headers of MCP requests over HTTP, in each era.
//!
//! Modern headers repeat parts of the body. A request whose headers and body differ is refused, because
//! a proxy may route by header while Switchyard executes the body. Names are compared without case,
//! values exactly; white space around values is ignored.

use std::fmt::Display;

use http::header::{ACCEPT, AsHeaderName, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::error::MessageRefusal;
use gateway::tools::Mirrored;
use json::{Part, Raw};
use protocol::{Request, Version, headers, meta, sanitize};

/// Header names, parsed once: a lookup by text would parse the name each time.
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
static METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
static NAME: HeaderName = HeaderName::from_static(headers::NAME);

/// Values of `Accept` that cover both forms of answers, JSON and event streams.
const USUAL_ACCEPT: [&str; 3] =
    ["application/json, text/event-stream", "text/event-stream, application/json", "*/*"];

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
            if let Some(at) = names.iter().position(|wanted| *wanted == name) {
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
            return Err(MessageRefusal::HeaderMismatch(format!("{name} stands more than once")));
        }
        let text = value.to_str();
        let text = text.map_err(|_| MessageRefusal::HeaderMismatch(format!("{name} is not plain text")))?;
        Ok(Some(text.trim_ascii()))
    }
}

/// Whether any header is repeated. That is rare, and one check then covers all headers.
fn has_repeated(map: &HeaderMap) -> bool {
    map.len() > map.keys_len()
}

/// Requires exactly one `Content-Type`, and that it is JSON: a proxy might read another one.
pub(crate) fn check_content_type(map: &HeaderMap) -> Result<(), MessageRefusal> {
    let value = map.get(CONTENT_TYPE);
    if has_repeated(map) && map.get_all(CONTENT_TYPE).iter().nth(1).is_some() {
        return Err(MessageRefusal::ContentType);
    }
    if value.is_some_and(|value| value == "application/json") {
        return Ok(());
    }
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(MessageRefusal::ContentType)
    }
}

/// Requires that the client accepts every one of `types`.
pub(crate) fn check_accept(
    map: &HeaderMap,
    types: &'static [&'static str],
    shown: &'static str,
) -> Result<(), MessageRefusal> {
    if map.get(ACCEPT).is_some_and(|value| USUAL_ACCEPT.iter().any(|usual| value == usual)) {
        return Ok(());
    }
    let accepts = |wanted: &str| {
        let family = wanted.split('/').next().unwrap_or_default();
        let has = |range: &str| {
            let range = range.split(';').next().unwrap_or_default().trim();
            let is_family = |of: &str| of.eq_ignore_ascii_case(family);
            range.eq_ignore_ascii_case(wanted)
                || range == "*/*"
                || range.strip_suffix("/*").is_some_and(is_family)
        };
        let mut values = map.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.split(',').any(has))
    };
    if types.iter().all(|wanted| accepts(wanted)) { Ok(()) } else { Err(MessageRefusal::Accept(shown)) }
}

/// Whether the client prefers an event stream to JSON, because `Accept` names the stream first.
///
/// Without `q` both are equal (RFC 9110, 12.5.1), so Switchyard may choose. In a session, an event
/// stream can be resumed after its connection broke.
pub(crate) fn prefers_stream(map: &HeaderMap) -> bool {
    let values = map.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(',')).map(str::trim);
    ranges.next().is_some_and(|first| first.eq_ignore_ascii_case("text/event-stream"))
}

/// Whether a request is modern: its body declares a modern revision, or its version header names no
/// revision with a handshake.
pub fn is_modern(map: &HeaderMap, params: Option<&Raw>) -> bool {
    let by_header = || {
        let value = map.get(&PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
        value.map(str::trim).and_then(Version::from_name).is_some_and(Version::is_modern)
    };
    meta::claimed_version(params).is_some() || by_header()
}

/// Checks the version header of a legacy request: absent, or a known revision.
pub(crate) fn check_legacy_version(map: &HeaderMap) -> Result<(), MessageRefusal> {
    match single(map, &PROTOCOL_VERSION)? {
        Some(name) if Version::from_name(name).is_none() => {
            Err(MessageRefusal::VersionHeader(sanitize::name(name)))
        }
        _ => Ok(()),
    }
}

/// Checks `_meta` and the headers of a modern request against each other.
pub(crate) fn check_modern(map: &HeaderMap, request: &Request) -> Result<(), MessageRefusal> {
    let [version, method, name] = Single::all(map, [&PROTOCOL_VERSION, &METHOD, &NAME]);
    let header = version
        .text(&PROTOCOL_VERSION)?
        .ok_or_else(|| MessageRefusal::HeaderMismatch("MCP-Protocol-Version is missing".into()))?;
    let described =
        meta::part(request.params.as_ref()).ok_or(MessageRefusal::Meta(meta::PROTOCOL_VERSION))?;
    let claimed = described.get(meta::PROTOCOL_VERSION);
    if !claimed.is_some_and(|claimed| claimed.says(header)) {
        let claimed = claimed.and_then(Part::text).ok_or(MessageRefusal::Meta(meta::PROTOCOL_VERSION))?;
        return Err(mismatch("MCP-Protocol-Version", header, &claimed));
    }
    check_description(described, header)?;
    let method = method
        .text(&METHOD)?
        .ok_or_else(|| MessageRefusal::HeaderMismatch("Mcp-Method is missing".into()))?;
    if method != request.method {
        return Err(mismatch("Mcp-Method", method, &request.method));
    }
    check_name(name, request)
}

/// Checks the `_meta` that a modern request needs on every transport.
pub(crate) fn check_meta(request: &Request) -> Result<(), MessageRefusal> {
    let described =
        meta::part(request.params.as_ref()).ok_or(MessageRefusal::Meta(meta::PROTOCOL_VERSION))?;
    let claimed = described
        .get(meta::PROTOCOL_VERSION)
        .and_then(Part::text)
        .ok_or(MessageRefusal::Meta(meta::PROTOCOL_VERSION))?;
    check_description(described, &claimed)
}

/// Checks the `_meta` of a modern request that declares the revision `claimed`.
fn check_description(described: Part<'_>, claimed: &str) -> Result<(), MessageRefusal> {
    if Version::from_name(claimed).is_none_or(|version| !version.is_modern()) {
        return Err(MessageRefusal::UnsupportedVersion { requested: sanitize::name(claimed) });
    }
    if !described.get(meta::CLIENT_CAPABILITIES).is_some_and(Part::is_object) {
        return Err(MessageRefusal::Meta(meta::CLIENT_CAPABILITIES));
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
    let sent = sent.ok_or_else(|| MessageRefusal::HeaderMismatch("Mcp-Name is missing".into()))?;
    let decoded = decoded.ok_or_else(|| {
        let sent = sanitize::name(sent);
        MessageRefusal::HeaderMismatch(format!("Mcp-Name {sent:?} is not a readable value"))
    })?;
    Err(mismatch("Mcp-Name", &decoded, &body))
}

/// Checks the mirrored parameters of a tool call: each has its header exactly when it is in the body,
/// with an equal value.
pub(crate) fn check_mirrored(map: &HeaderMap, mirrored: &[Mirrored]) -> Result<(), MessageRefusal> {
    for Mirrored { header, value, is_ambiguous } in mirrored {
        if *is_ambiguous {
            return Err(MessageRefusal::HeaderMismatch(format!(
                "what {header} mirrors stands twice in the body"
            )));
        }
        match (single(map, header.as_str())?, value) {
            (None, None) => {}
            (None, Some(_)) => return Err(MessageRefusal::HeaderMismatch(format!("{header} is missing"))),
            (Some(_), None) => {
                return Err(MessageRefusal::HeaderMismatch(format!("{header} stands in the headers only")));
            }
            (Some(sent), Some(value)) => {
                let decoded = headers::decode(sent).ok_or_else(|| {
                    MessageRefusal::HeaderMismatch(format!("{header} is not a readable value"))
                })?;
                if !headers::HeaderParam::agrees(&decoded, value) {
                    return Err(mismatch(header, &decoded, value));
                }
            }
        }
    }
    Ok(())
}

fn mismatch(name: &str, header: &str, body: &str) -> MessageRefusal {
    let cut = |text: &str| text.chars().take(80).collect::<String>();
    MessageRefusal::HeaderMismatch(format!("{name} is {:?}, the body says {:?}", cut(header), cut(body)))
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
