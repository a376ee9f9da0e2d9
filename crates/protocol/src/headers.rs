//! The headers of Streamable HTTP: their names, and how values are encoded.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`, Request Metadata and Value Encoding.
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
}
