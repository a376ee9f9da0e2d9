//! What the headers of an HTTP request must say, in each era.
//!
//! Modern: they mirror the body, and a request whose headers and body differ is refused, so that
//! whoever routes by header and whoever executes by body mean the same. Names compare
//! case-insensitively, values exactly, white space around them ignored.

use std::fmt::Display;

use http::header::{ACCEPT, AsHeaderName, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::error::Refusal;
use gateway::tools::Mirrored;
use json::{Part, Raw};
use protocol::{Request, Version, headers, meta, sanitize};

/// Names as they are looked up; of one that is text each look would read it first.
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
static METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
static NAME: HeaderName = HeaderName::from_static(headers::NAME);

/// What clients write that can read JSON and event streams, which are all there are.
const USUAL_ACCEPT: [&str; 3] =
    ["application/json, text/event-stream", "text/event-stream, application/json", "*/*"];

/// The value of a header that may stand once, without the white space around it.
pub fn single<K>(map: &HeaderMap, name: K) -> Result<Option<&str>, Refusal>
where
    K: AsHeaderName + Copy + Display,
{
    let is_repeated = has_repeated(map) && map.get_all(name).iter().nth(1).is_some();
    Single { value: map.get(name), is_repeated }.text(&name)
}

/// One header of those that may stand once.
#[derive(Clone, Copy, Default)]
struct Single<'a> {
    value: Option<&'a HeaderValue>,
    is_repeated: bool,
}

impl<'a> Single<'a> {
    /// The headers called `names`, found in one look at all of them.
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

    /// What it says, without the white space around it; `name` is for people.
    fn text(self, name: &dyn Display) -> Result<Option<&'a str>, Refusal> {
        let Some(value) = self.value else { return Ok(None) };
        if self.is_repeated {
            return Err(Refusal::HeaderMismatch(format!("{name} stands more than once")));
        }
        let text = value.to_str();
        let text = text.map_err(|_| Refusal::HeaderMismatch(format!("{name} is not plain text")))?;
        Ok(Some(text.trim_ascii()))
    }
}

/// Whether any header stands more than once: hardly ever, so that one look is enough for each.
fn has_repeated(map: &HeaderMap) -> bool {
    map.len() > map.keys_len()
}

/// Whether the body is declared as JSON, and as nothing else: who stands before us may read another one.
pub fn check_content_type(map: &HeaderMap) -> Result<(), Refusal> {
    let value = map.get(CONTENT_TYPE);
    if has_repeated(map) && map.get_all(CONTENT_TYPE).iter().nth(1).is_some() {
        return Err(Refusal::ContentType);
    }
    if value.is_some_and(|value| value == "application/json") {
        return Ok(());
    }
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(Refusal::ContentType) }
}

/// Whether the client can read every one of `types`.
pub fn check_accept(
    map: &HeaderMap,
    types: &'static [&'static str],
    shown: &'static str,
) -> Result<(), Refusal> {
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
    if types.iter().all(|wanted| accepts(wanted)) { Ok(()) } else { Err(Refusal::Accept(shown)) }
}

/// Whether the client would rather have an event stream than a JSON text: it names it first.
///
/// Without `q` both are equal to it (RFC 9110, 12.5.1), and which one it gets is our choice; in a
/// session a stream can be read on after a broken connection, from its beginning.
pub fn prefers_stream(map: &HeaderMap) -> bool {
    let values = map.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(',')).map(str::trim);
    ranges.next().is_some_and(|first| first.eq_ignore_ascii_case("text/event-stream"))
}

/// Whether a request describes itself, which is what makes it modern: by a claim in its body, or by
/// a version header that names no revision with a handshake.
pub fn is_modern(map: &HeaderMap, params: Option<&Raw>) -> bool {
    let by_header = || {
        let value = map.get(&PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
        value.map(str::trim).and_then(Version::from_name).is_some_and(Version::is_modern)
    };
    meta::claimed_version(params).is_some() || by_header()
}

/// The version header of a legacy request: absent, or a revision somebody knows.
pub fn check_legacy_version(map: &HeaderMap) -> Result<(), Refusal> {
    match single(map, &PROTOCOL_VERSION)? {
        Some(name) if Version::from_name(name).is_none() => Err(Refusal::VersionHeader(sanitize::name(name))),
        _ => Ok(()),
    }
}

/// `_meta` and the headers of a modern request, checked against one another.
pub fn check_modern(map: &HeaderMap, request: &Request) -> Result<(), Refusal> {
    let [version, method, name] = Single::all(map, [&PROTOCOL_VERSION, &METHOD, &NAME]);
    let header = version
        .text(&PROTOCOL_VERSION)?
        .ok_or_else(|| Refusal::HeaderMismatch("MCP-Protocol-Version is missing".into()))?;
    let described = meta::part(request.params.as_ref()).ok_or(Refusal::Meta(meta::PROTOCOL_VERSION))?;
    let claimed = described.get(meta::PROTOCOL_VERSION);
    if !claimed.is_some_and(|claimed| claimed.says(header)) {
        let claimed = claimed.and_then(Part::text).ok_or(Refusal::Meta(meta::PROTOCOL_VERSION))?;
        return Err(mismatch("MCP-Protocol-Version", header, &claimed));
    }
    check_description(described, header)?;
    let method =
        method.text(&METHOD)?.ok_or_else(|| Refusal::HeaderMismatch("Mcp-Method is missing".into()))?;
    if method != request.method {
        return Err(mismatch("Mcp-Method", method, &request.method));
    }
    check_name(name, request)
}

/// What the body of a modern request must say of itself, on every transport.
pub fn check_meta(request: &Request) -> Result<(), Refusal> {
    let described = meta::part(request.params.as_ref()).ok_or(Refusal::Meta(meta::PROTOCOL_VERSION))?;
    let claimed = described
        .get(meta::PROTOCOL_VERSION)
        .and_then(Part::text)
        .ok_or(Refusal::Meta(meta::PROTOCOL_VERSION))?;
    check_description(described, &claimed)
}

/// What a modern request says of itself, in which it claims the revision `claimed`.
fn check_description(described: Part<'_>, claimed: &str) -> Result<(), Refusal> {
    if Version::from_name(claimed).is_none_or(|version| !version.is_modern()) {
        return Err(Refusal::UnsupportedVersion { requested: sanitize::name(claimed) });
    }
    if !described.get(meta::CLIENT_CAPABILITIES).is_some_and(Part::is_object) {
        return Err(Refusal::Meta(meta::CLIENT_CAPABILITIES));
    }
    Ok(())
}

fn check_name(name: Single<'_>, request: &Request) -> Result<(), Refusal> {
    let Some(member) = headers::name_member(&request.method) else { return Ok(()) };
    let Some(body) = request.params.as_ref().and_then(|params| params.part(member)) else {
        return Ok(()); // the method itself refuses parameters that lack it
    };
    let sent = name.text(&NAME)?;
    let decoded = sent.and_then(headers::decode);
    if decoded.as_ref().is_some_and(|decoded| body.says(decoded)) {
        return Ok(());
    }
    let Some(body) = body.text() else { return Ok(()) }; // nor one that is no text
    let sent = sent.ok_or_else(|| Refusal::HeaderMismatch("Mcp-Name is missing".into()))?;
    let decoded = decoded.ok_or_else(|| {
        let sent = sanitize::name(sent);
        Refusal::HeaderMismatch(format!("Mcp-Name {sent:?} is not a readable value"))
    })?;
    Err(mismatch("Mcp-Name", &decoded, &body))
}

/// The mirrored parameters of a tool call: each stands in its header exactly when it stands in the
/// body, with the same value.
pub fn check_mirrored(map: &HeaderMap, mirrored: &[Mirrored]) -> Result<(), Refusal> {
    for Mirrored { header, value, is_ambiguous } in mirrored {
        if *is_ambiguous {
            return Err(Refusal::HeaderMismatch(format!("what {header} mirrors stands twice in the body")));
        }
        match (single(map, header.as_str())?, value) {
            (None, None) => {}
            (None, Some(_)) => return Err(Refusal::HeaderMismatch(format!("{header} is missing"))),
            (Some(_), None) => {
                return Err(Refusal::HeaderMismatch(format!("{header} stands in the headers only")));
            }
            (Some(sent), Some(value)) => {
                let decoded = headers::decode(sent)
                    .ok_or_else(|| Refusal::HeaderMismatch(format!("{header} is not a readable value")))?;
                if !headers::HeaderParam::agrees(&decoded, value) {
                    return Err(mismatch(header, &decoded, value));
                }
            }
        }
    }
    Ok(())
}

fn mismatch(name: &str, header: &str, body: &str) -> Refusal {
    let cut = |text: &str| text.chars().take(80).collect::<String>();
    Refusal::HeaderMismatch(format!("{name} is {:?}, the body says {:?}", cut(header), cut(body)))
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
