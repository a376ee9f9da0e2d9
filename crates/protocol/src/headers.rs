//! The headers of Streamable HTTP: their names, how values are encoded, and the `Accept` header of a client that can be answered
//! with JSON or with an event stream.
//!
//! Invariants: the most specific range of `Accept` that matches a media type decides about it. Without the header, or with an
//! empty one, everything is acceptable. A weight that cannot be read counts as 1.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`, Request Metadata and Value Encoding; RFC 9110, 12.5.1.
//! Used on both sides: built for servers, checked for clients.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::message::MAX_DEPTH;
use json::part::Part;
use json::raw::Raw;

/// The revision; on every modern POST, and on legacy requests after `initialize`.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The legacy session.
pub const SESSION_ID: &str = "mcp-session-id";
/// The method of a modern request.
pub const METHOD: &str = "mcp-method";
/// The tool, prompt, resource or task of a modern request.
pub const NAME: &str = "mcp-name";
/// The position at which a legacy event stream resumes.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// The prefix of the names of mirrored parameters.
pub const PARAM_PREFIX: &str = "mcp-param-";

/// The member of `params` that [`NAME`] mirrors for `method`, if there is one.
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Deepest chain of `properties` that is followed for `x-mcp-header`.
const MAX_PATH: usize = 16;
/// Largest integer a mirrored parameter may have (2^53 - 1).
const MAX_INTEGER: i64 = 9_007_199_254_740_991;

/// A tool parameter that is mirrored into a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    /// The name behind `Mcp-Param-`, as the schema spells it.
    pub header: String,
    /// The chain of property names that leads to the value.
    pub path: Vec<String>,
}

impl HeaderParam {
    /// The whole header name, in lower case.
    pub fn header_name(&self) -> String {
        format!("{PARAM_PREFIX}{}", self.header.to_ascii_lowercase())
    }

    /// The text of the value in `arguments`, not yet encoded; `None` when absent, `null` or not a
    /// string, boolean or safe integer.
    pub fn value_in(&self, arguments: Option<Part<'_>>) -> Option<String> {
        let mut value = arguments?;
        for name in &self.path {
            value = value.get(name)?;
        }
        let text = || std::str::from_utf8(value.bytes()).ok();
        match value.bytes().first()? {
            b'"' => value.text().map(Cow::into_owned),
            b't' | b'f' => text().map(str::to_owned),
            _ => safe_integer(text()?).map(|number| number.to_string()),
        }
    }

    /// Whether a member on the path to the value occurs twice, so that two readers may differ.
    pub fn is_ambiguous_in(&self, arguments: Option<Part<'_>>) -> bool {
        let mut value = arguments;
        self.path.iter().any(|name| {
            let Some(object) = value else { return false };
            value = object.get(name);
            object.count(name) > 1
        })
    }

    /// Whether `sent`, a decoded header value, equals `value`. Integers are compared as numbers.
    pub fn agrees(sent: &str, value: &str) -> bool {
        sent == value || safe_integer(value).is_some_and(|number| safe_integer(sent) == Some(number))
    }
}

fn safe_integer(text: &str) -> Option<i64> {
    // `42.0` is the integer 42 for JSON Schema, and the specification compares numerically.
    let text = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    };
    text.parse().ok().filter(|number: &i64| number.abs() <= MAX_INTEGER)
}

/// The parameters of a tool that carry `x-mcp-header`, or why the schema breaks the rules.
pub fn header_params(input_schema: Option<&Raw>) -> Result<Vec<HeaderParam>, String> {
    let mut found = Vec::new();
    let Some(schema) = input_schema.filter(|schema| schema.as_str().contains("x-mcp-header")) else {
        return Ok(found);
    };
    if schema.depth() > MAX_DEPTH {
        return Err("its input schema is nested too deep to look for x-mcp-header".into());
    }
    walk(schema, &mut Vec::new(), &mut found)?;
    let mut names: Vec<String> = found.iter().map(|p: &HeaderParam| p.header.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.array_windows().find(|[one, next]| one == next) {
        Some([twice, _]) => Err(format!("x-mcp-header {twice:?} stands twice")),
        None => Ok(found),
    }
}

/// Follows `properties` only; the annotation anywhere else makes the definition invalid.
fn walk(schema: &Raw, path: &mut Vec<String>, found: &mut Vec<HeaderParam>) -> Result<(), String> {
    for (key, value) in schema.members() {
        match key.as_ref() {
            "x-mcp-header" if path.is_empty() => {
                return Err("x-mcp-header stands at the root of the schema".into());
            }
            "x-mcp-header" => found.push(annotated(schema, &value, path)?),
            "properties" if path.len() < MAX_PATH => {
                for (name, property) in value.members() {
                    path.push(name.into_owned());
                    walk(&property, path, found)?;
                    path.pop();
                }
            }
            // These contain instances, not schemas, so everything in them is data.
            "default" | "const" | "enum" | "examples" => {}
            _ if annotates(&value) => {
                return Err(format!("x-mcp-header stands below {key:?}, where it is not reachable"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether `value` has a member `x-mcp-header` at any depth.
fn annotates(value: &Raw) -> bool {
    value.as_str().contains("x-mcp-header")
        && (value.members().any(|(key, inner)| key == "x-mcp-header" || annotates(&inner))
            || value.elements().any(|inner| annotates(&inner)))
}

fn annotated(schema: &Raw, header: &Raw, path: &[String]) -> Result<HeaderParam, String> {
    let at = path.join(".");
    let header: String = header.read().map_err(|_| format!("x-mcp-header of {at:?} is not a string"))?;
    if header.is_empty() || !header.bytes().all(is_token) {
        return Err(format!("x-mcp-header {header:?} of {at:?} is not a header name"));
    }
    let kind: Option<String> = schema.get_as("type");
    match kind.as_deref() {
        Some("string" | "integer" | "boolean") => Ok(HeaderParam { header, path: path.to_vec() }),
        _ => {
            Err(format!("x-mcp-header of {at:?} is on a parameter that is not a string, integer or boolean"))
        }
    }
}

/// `tchar` of RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Encodes `value` for a header: unchanged if that is safe, otherwise in Base64 between `=?base64?` and `?=`.
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let ends = value.as_bytes().first().zip(value.as_bytes().last());
    let plain = ends.is_some_and(|(first, last)| !is_blank(first) && !is_blank(last))
        && value.bytes().all(|b| matches!(b, 0x20..=0x7e | b'\t'))
        && encoded_part(value).is_none();
    if plain { Cow::Borrowed(value) } else { Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value))) }
}

/// Reads a value that [`encode`] or any other conforming sender wrote; `None` when it is not one.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim_matches([' ', '\t']);
    match encoded_part(value) {
        None => value.bytes().all(|b| matches!(b, 0x20..=0x7e | b'\t')).then_some(Cow::Borrowed(value)),
        Some(part) => String::from_utf8(STANDARD.decode(part).ok()?).ok().map(Cow::Owned),
    }
}

fn encoded_part(value: &str) -> Option<&str> {
    value.strip_prefix("=?base64?")?.strip_suffix("?=")
}

/// The media type of a single answer.
const JSON: &str = "application/json";
/// The media type of an event stream.
const EVENTS: &str = "text/event-stream";
/// The highest weight, in thousandths.
const MOST: u16 = 1_000;

/// The preferences of an `Accept` header for JSON and for event streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    json: Preference,
    events: Preference,
}

/// The range that decides about one media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Preference {
    /// From 0, which excludes it, to [`MOST`].
    weight: u16,
    /// 3 for the media type itself, 2 for its family, 1 for anything, 0 without a range.
    precision: u8,
    /// The position of the range in the header.
    position: usize,
}

impl Preference {
    const EXCLUDED: Self = Self { weight: 0, precision: 0, position: 0 };
    const ANYTHING: Self = Self { weight: MOST, precision: 1, position: 0 };

    const fn is_named(self) -> bool {
        self.precision == 3 && self.weight > 0
    }

    /// Takes the range at `position`, with its parameters, if it decides about the media type.
    fn record(&mut self, media_type: &str, (range, parameters): (&str, &str), position: usize) {
        let has_family = |family: &str| {
            media_type.get(..family.len()).is_some_and(|own| own.eq_ignore_ascii_case(family))
                && media_type.as_bytes().get(family.len()) == Some(&b'/')
        };
        let precision = match range.strip_suffix("/*") {
            _ if range.eq_ignore_ascii_case(media_type) => 3,
            Some("*") => 1,
            Some(family) if has_family(family) => 2,
            _ => return,
        };
        if precision > self.precision {
            *self = Self { weight: weight(parameters), precision, position };
        }
    }
}

/// The media range before the first `;`, and its parameters.
fn split(range: &str) -> (&str, &str) {
    range.split_once(';').map_or((range, ""), |(range, parameters)| (range.trim(), parameters))
}

impl Accept {
    /// Reads the values of all `Accept` headers of a request.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let ranges = values.into_iter().flat_map(|value| value.split(',')).map(str::trim);
        let mut accept = Self { json: Preference::EXCLUDED, events: Preference::EXCLUDED };
        let mut is_empty = true;
        for (position, range) in ranges.filter(|range| !range.is_empty()).enumerate() {
            is_empty = false;
            let range = split(range);
            accept.json.record(JSON, range, position);
            accept.events.record(EVENTS, range, position);
        }
        if is_empty { Self { json: Preference::ANYTHING, events: Preference::ANYTHING } } else { accept }
    }

    /// Whether the answer may be JSON.
    pub const fn allows_json(self) -> bool {
        self.json.weight > 0
    }

    /// Whether the answer may be an event stream.
    pub const fn allows_events(self) -> bool {
        self.events.weight > 0
    }

    /// Whether an event stream is named, and JSON is not named or not better.
    pub const fn prefers_named_events(self) -> bool {
        self.events.is_named() && (!self.json.is_named() || self.prefers_events())
    }

    /// Whether an event stream is better than JSON: it has the higher weight, or the same one and is named first.
    pub const fn prefers_events(self) -> bool {
        let is_first = self.events.is_named() && self.events.position < self.json.position;
        self.events.weight > self.json.weight || self.events.weight == self.json.weight && is_first
    }
}

/// The weight in the parameters of a range, in thousandths.
fn weight(parameters: &str) -> u16 {
    let mut values = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let value = values.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    let weight = value.and_then(|(_, value)| value.trim().parse::<f32>().ok());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is from 0 to 1,000
    weight.filter(|weight| (0.0..=1.0).contains(weight)).map_or(MOST, |weight| (weight * 1_000.0) as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode(value), header);
            assert_eq!(decode(header).as_deref(), Some(value));
        }
        assert_eq!(decode("=?base64?%%%?="), None);
    }

    proptest! {
        #[test]
        fn any_value_survives_and_is_a_legal_header(value in any::<String>()) {
            let header = encode(&value).into_owned();
            prop_assert!(http::HeaderValue::from_str(&header).is_ok());
            let decoded = decode(&header);
            prop_assert_eq!(decoded.as_deref(), Some(value.as_str()));
        }
    }

    #[test]
    fn parameters_are_found_along_properties() {
        let schema = serde_json::json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "plain": {"type": "string", "default": "x-mcp-header"},
        }});
        let params = header_params(Some(&Raw::of(&schema))).expect("valid");
        let arguments = Raw::of(&serde_json::json!({"region": "eu", "deep": {"n": 42}}));
        let values: Vec<_> =
            params.iter().map(|p| (p.header_name(), p.value_in(Some(arguments.as_part())))).collect();
        // serde_json prints `deep` before `region`.
        assert_eq!(
            values,
            [("mcp-param-n".into(), Some("42".into())), ("mcp-param-region".into(), Some("eu".into()))]
        );
        assert!(
            HeaderParam::agrees("42.0", "42")
                && !HeaderParam::agrees("43", "42")
                && !HeaderParam::agrees("4 2", "42")
        );
        assert_eq!(
            params[0].value_in(Some(Raw::of(&serde_json::json!({"deep": {"n": null}})).as_part())),
            None
        );
    }

    #[test]
    fn annotations_in_other_places_are_refused() {
        let property = |p: serde_json::Value| serde_json::json!({"type": "object", "properties": {"a": p}});
        for (schema, part) in [
            (property(serde_json::json!({"type": "string", "x-mcp-header": ""})), "not a header name"),
            (property(serde_json::json!({"type": "string", "x-mcp-header": "a b"})), "not a header name"),
            (property(serde_json::json!({"type": "string", "x-mcp-header": 5})), "not a string"),
            (property(serde_json::json!({"type": "number", "x-mcp-header": "A"})), "not a string, integer"),
            (
                property(
                    serde_json::json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
                ),
                "items",
            ),
            (
                serde_json::json!({"type": "object", "oneOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
                "oneOf",
            ),
            (serde_json::json!({"type": "object", "x-mcp-header": "A"}), "root"),
            (
                serde_json::json!({"properties": {
                "a": {"type": "string", "x-mcp-header": "One"}, "b": {"type": "string", "x-mcp-header": "ONE"}}}),
                "twice",
            ),
        ] {
            let error = header_params(Some(&Raw::of(&schema))).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }

    /// The media types that the header allows: `J` for JSON, `E` for events, the better one first.
    fn of(values: &[&str]) -> &'static str {
        let accept = Accept::of(values.iter().copied());
        match (accept.allows_json(), accept.allows_events(), accept.prefers_events()) {
            (true, true, false) => "JE",
            (true, true, true) => "EJ",
            (true, false, _) => "J",
            (false, true, _) => "E",
            (false, false, _) => "",
        }
    }

    #[test]
    fn the_most_specific_range_decides_about_each_media_type() {
        for (values, expected) in [
            (&[][..], "JE"),
            (&[""], "JE"),
            (&[" , "], "JE"),
            (&["*/*"], "JE"),
            (&["*/*;q=0.1"], "JE"),
            (&["application/json"], "J"),
            (&["Application/JSON; charset=utf-8"], "J"),
            (&["application/*"], "J"),
            (&["text/event-stream"], "E"),
            (&["text/*"], "E"),
            (&["text/*, application/*;q=0.5"], "EJ"),
            (&["application/json, text/event-stream"], "JE"),
            (&["text/event-stream, application/json"], "EJ"),
            (&["text/event-stream, */*"], "EJ"),
            (&["*/*, text/event-stream"], "JE"),
            (&["application/json", "text/event-stream"], "JE"),
            (&["text/event-stream;q=0.8, application/json;q=0.9"], "JE"),
            (&["application/json;q=0.8, text/event-stream;q=0.9"], "EJ"),
            (&["application/json, text/event-stream;q=0"], "J"),
            (&["*/*, application/json;q=0.0"], "E"),
            (&["application/json, text/plain, */*"], "JE"),
            (&["application/json;q=x"], "J"),
            (&["text/html"], ""),
            (&["image/*, application/xml"], ""),
            (&["json"], ""),
            (&["*/*;q=0"], ""),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_range_for_anything_names_no_event_stream() {
        let is = |value: &str| Accept::of([value]).prefers_named_events();
        for value in
            ["text/event-stream", "*/*, text/event-stream;q=0.5", "text/event-stream, application/json"]
        {
            assert!(is(value), "{value}");
        }
        for value in ["", "text/*", "text/event-stream;q=0", "application/json, text/event-stream"] {
            assert!(!is(value), "{value}");
        }
    }
}
