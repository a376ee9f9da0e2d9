//! Finds keywords of a JSON Schema whose values no validator accepts, such as `"type": "int"`.
//!
//! Only keywords are looked at, never names of properties and data. Only what is wrong in every dialect of the MCP
//! revisions is found, so a schema with unknown keywords is valid. For an `outputSchema` there is no such choice: it has
//! to compile in the validator of the TypeScript SDK (Ajv in its default dialect).
//!
//! The work is bounded: a schema beyond [`MAX_BYTES`] is not looked at, and each pattern is parsed once.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::sanitize;
use json::Raw;

/// The size of the largest schema that is looked at.
const MAX_BYTES: usize = 1024 * 1024;
/// The longest pattern that is parsed, in bytes.
const MAX_PATTERN: usize = 1024;
/// The most groups of a pattern that is parsed. The parser descends into each.
const MAX_GROUPS: usize = 100;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
const SCHEMAS: [&str; 12] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalProperties",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
    "items",
];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const BY_NAME: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
const NUMBERS: [&str; 5] = ["maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"];
const COUNTS: [&str; 8] = [
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "minContains",
    "maxContains",
];
const TEXTS: [&str; 4] = ["$id", "$anchor", "$ref", "format"];
/// Keywords that Ajv refuses or treats in a way of its own.
const NOT_IN_AJV: [&str; 7] = [
    "id",
    "$async",
    "formatMinimum",
    "formatMaximum",
    "formatExclusiveMinimum",
    "formatExclusiveMaximum",
    "$vocabulary",
];

/// The first flaw of `schema`; `None` if it has none, or if it is too large.
pub(super) fn flaw(schema: &Raw) -> Option<String> {
    if schema.bytes().len() > MAX_BYTES {
        return None;
    }
    find(&schema.read().ok()?, false)
}

/// The first reason for which the TypeScript SDK would not compile `schema`.
pub(super) fn flaw_of_output(schema: &Raw) -> Option<String> {
    if schema.bytes().len() > MAX_BYTES {
        return Some(format!("it is larger than {MAX_BYTES} bytes"));
    }
    match schema.read() {
        Ok(schema) => find(&schema, true),
        Err(_) => Some("it has a number that is too large".to_owned()),
    }
}

fn find(root: &Value, for_ajv: bool) -> Option<String> {
    let mut anchors = HashSet::new();
    collect_anchors(root, &mut anchors);
    let finder = Finder { root, anchors, for_ajv };
    finder.schema(root, "").err()
}

struct Finder<'a> {
    root: &'a Value,
    /// The names of schemas that references lead to.
    anchors: HashSet<&'a str>,
    for_ajv: bool,
}

type CheckResult = Result<(), String>;

fn refuse(path: &str, keyword: &str, why: &str) -> CheckResult {
    Err(format!("{path}{keyword} {why}"))
}

impl Finder<'_> {
    /// Checks a schema whose keywords are at `path`. The caller limits the depth.
    fn schema(&self, schema: &Value, path: &str) -> CheckResult {
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(keywords) => {
                if self.for_ajv && keywords.contains_key("nullable") && !keywords.contains_key("type") {
                    return refuse(path, "nullable", "stands without a type");
                }
                keywords
                    .iter()
                    .try_for_each(|(keyword, value)| self.keyword((keyword, value), keywords, path))
            }
            _ => refuse(path.trim_end_matches('.'), "", "is no schema"),
        }
    }

    fn keyword(
        &self,
        (keyword, value): (&String, &Value),
        beside: &Map<String, Value>,
        path: &str,
    ) -> CheckResult {
        let keyword = keyword.as_str();
        let is = |fits: bool, expected| if fits { Ok(()) } else { refuse(path, keyword, expected) };
        match keyword {
            "type" => check_type(value, path),
            "enum" => {
                is(value.as_array().is_some_and(|values| !values.is_empty()), "is not a list of values")
            }
            "required" => is(is_texts(value), "is not an array of strings"),
            "dependentRequired" => is(
                value.as_object().is_some_and(|all| all.values().all(is_texts)),
                "has no arrays of strings",
            ),
            "uniqueItems" => is(value.is_boolean(), "is not true or false"),
            "nullable" if self.for_ajv => is(value.is_boolean(), "is not true or false"),
            "pattern" => is(value.is_string(), "is not a string")
                .and_then(|()| self.pattern(value.as_str().unwrap_or_default(), path, keyword)),
            "$ref" => is(value.is_string(), "is not a string")
                .and_then(|()| self.reference(value.as_str().unwrap_or_default(), path)),
            "items" if value.is_array() => self.schemas(value, path, keyword),
            _ if NUMBERS.contains(&keyword) => is(value.is_number(), "is not a number"),
            _ if COUNTS.contains(&keyword) => is(is_count(value), "is not a whole number from 0"),
            _ if TEXTS.contains(&keyword) => is(value.is_string(), "is not a string"),
            _ if SCHEMAS.contains(&keyword) => self.schema(value, &format!("{path}{keyword}.")),
            _ if LISTS.contains(&keyword) => self.schemas(value, path, keyword),
            _ if BY_NAME.contains(&keyword) => self.by_name(value, path, keyword),
            _ if self.for_ajv && NOT_IN_AJV.contains(&keyword) && !is_harmless(keyword, beside) => {
                refuse(path, keyword, "is not supported by the validators of clients")
            }
            _ => Ok(()),
        }
    }

    fn schemas(&self, value: &Value, path: &str, keyword: &str) -> CheckResult {
        let Some(schemas) = value.as_array() else {
            return refuse(path, keyword, "is not an array of schemas");
        };
        let at = |index: usize| format!("{path}{keyword}[{index}].");
        schemas.iter().enumerate().try_for_each(|(index, schema)| self.schema(schema, &at(index)))
    }

    fn by_name(&self, value: &Value, path: &str, keyword: &str) -> CheckResult {
        let Some(schemas) = value.as_object() else { return refuse(path, keyword, "is not an object") };
        schemas.iter().try_for_each(|(name, schema)| {
            if keyword == "patternProperties" {
                self.pattern(name, path, keyword)?;
            }
            if keyword == "dependencies" && is_texts(schema) {
                return Ok(());
            }
            self.schema(schema, &format!("{path}{keyword}.{}.", sanitize::shown(name)))
        })
    }

    /// A pattern is a regular expression of ECMAScript, which Ajv compiles with the flag `u`. In an `inputSchema` only
    /// a pattern that is invalid without the flag too is a flaw.
    fn pattern(&self, pattern: &str, path: &str, keyword: &str) -> CheckResult {
        let is_valid = |unicode| {
            let flags = regress::Flags { unicode, no_opt: true, ..regress::Flags::default() };
            regress::Regex::with_flags(pattern, flags).is_ok()
        };
        if pattern.len() > MAX_PATTERN || pattern.matches('(').count() > MAX_GROUPS {
            return if self.for_ajv {
                refuse(path, keyword, "has a pattern that is too large")
            } else {
                Ok(())
            };
        }
        let is_valid = is_valid(true) || !self.for_ajv && is_valid(false);
        if is_valid { Ok(()) } else { refuse(path, keyword, "has an invalid regular expression") }
    }

    /// A reference leads to a schema in the same document. Nothing is fetched.
    fn reference(&self, reference: &str, path: &str) -> CheckResult {
        let own = self.root.get("$id").and_then(Value::as_str).unwrap_or_default();
        let fragment = reference.strip_prefix(own).unwrap_or(reference);
        let is_schema =
            |found: Option<&Value>| found.is_some_and(|found| found.is_object() || found.is_boolean());
        let is_found = match fragment.strip_prefix('#') {
            Some("") => true,
            Some(pointer) if pointer.starts_with('/') => {
                is_schema(self.root.pointer(pointer)) || is_schema(self.root.pointer(&decoded(pointer)))
            }
            Some(anchor) => self.anchors.contains(anchor),
            None => fragment.is_empty() && !reference.is_empty(),
        };
        if is_found { Ok(()) } else { refuse(path, "$ref", "leads to no schema of its document") }
    }
}

fn check_type(value: &Value, path: &str) -> CheckResult {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let fits = match value {
        Value::Array(types) => !types.is_empty() && types.iter().all(is_type),
        value => is_type(value),
    };
    if fits {
        return Ok(());
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    refuse(path, "type", &format!("is `{}`, which is no type of JSON Schema", sanitize::shown(&text)))
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|texts| texts.iter().all(Value::is_string))
}

fn is_count(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
}

/// A comparison of formats is harmless beside a date or a time.
fn is_harmless(keyword: &str, beside: &Map<String, Value>) -> bool {
    let format = beside.get("format").and_then(Value::as_str);
    keyword.starts_with("format")
        && format.is_some_and(|format| ["date", "time", "date-time"].contains(&format))
}

/// Adds the names of the schemas in `node`. The caller limits the depth.
fn collect_anchors<'a>(node: &'a Value, anchors: &mut HashSet<&'a str>) {
    match node {
        Value::Object(members) => {
            anchors.extend(members.get("$anchor").and_then(Value::as_str));
            members.values().for_each(|value| collect_anchors(value, anchors));
        }
        Value::Array(elements) => elements.iter().for_each(|value| collect_anchors(value, anchors)),
        _ => {}
    }
}

/// A pointer with its percent escapes decoded.
fn decoded(pointer: &str) -> String {
    let (mut out, mut rest) = (Vec::with_capacity(pointer.len()), pointer.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(decoded) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(decoded);
            rest = &tail[2..];
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
