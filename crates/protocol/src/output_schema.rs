//! Structured results for clients that accept only objects, and the form of a tool's definition for clients of the legacy
//! revisions, where a valid modern definition is not valid.
//!
//! Up to 2025-11-25 the root of a tool's `outputSchema` is an object schema, and `structuredContent` is an object.
//! Since 2026-07-28 both may have any type. For an older client a schema with another root becomes
//! `{"type":"object","properties":{"result":SCHEMA},"required":["result"]}`. The `structuredContent` of the call
//! becomes `{"result":VALUE}`. The TypeScript SDK (v2) does the same, so a client sees no difference between a server
//! and Switchyard.
//!
//! The schema moves, so pointers into its own document (`#`, `#/…` in `$ref` and `$dynamicRef`) are adapted. Every
//! other byte stays. Invariants: only keywords are changed, never property names or values that look like keywords.
//! Nothing below an `$id` that sets a new base is changed, because there `#` means that base. The work grows at most
//! with size × depth.
//!
//! Not here: `$recursiveRef` (2019-09 only), which stays as it is and then means the root of the wrapped schema;
//! whether a client is old (`gateway`).

use super::message::MAX_DEPTH;
use json::Raw;

const SCHEMA: &str = "outputSchema";
const CONTENT: &str = "structuredContent";
const RESULT: &str = "result";
/// The new position of the schema.
const POINTER: &str = "#/properties/result";

/// Keywords whose value is data and not a schema.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];
/// Keywords whose value maps names, which are not keywords, to schemas.
const NAMES: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Returns the definition of a tool for a client that accepts only objects; `None` if no change is needed. A schema
/// nested deeper than any message may be is removed.
pub fn wrap_definition(definition: &Raw) -> Option<Raw> {
    let schema = definition.get(SCHEMA).filter(is_wrapped)?;
    if schema.depth() > MAX_DEPTH {
        return Some(definition.without(SCHEMA));
    }
    let dialect = schema.get("$schema").filter(|dialect| dialect.as_str().starts_with('"'));
    let properties = Raw::empty_object().with(RESULT, &moved(&schema));
    let wrapped = Raw::empty_object().edit(&[
        ("$schema", dialect.as_ref()),
        ("type", Some(&Raw::of("object"))),
        ("properties", Some(&properties)),
        ("required", Some(&Raw::of(&[RESULT]))),
    ]);
    Some(definition.with(SCHEMA, &wrapped))
}

/// Whether a definition with the output schema `schema` is wrapped.
pub(crate) fn is_wrapped(schema: &Raw) -> bool {
    schema.is_object() && schema.get_as::<String>("type").as_deref() != Some("object")
}

/// Returns the result of a call whose tool was wrapped. Its `structuredContent`, if any, is wrapped too.
pub fn wrap_result(result: &Raw) -> Raw {
    match result.get(CONTENT) {
        Some(content) => result.with(CONTENT, &Raw::empty_object().with(RESULT, &content)),
        None => result.clone(),
    }
}

/// Returns the result of a call whose tool was not wrapped. A `structuredContent` that is not an object is wrapped even
/// so, because older clients do not accept anything else.
pub fn wrap_unannounced(result: &Raw) -> Raw {
    match result.part(CONTENT) {
        Some(content) if !content.is_object() => wrap_result(result),
        _ => result.clone(),
    }
}

/// Returns the schema with its pointers into itself adapted to its new position.
fn moved(schema: &Raw) -> Raw {
    let mut pointers = Vec::new();
    find_pointers(schema, Place::Schema, &mut pointers);
    let text = schema.as_str();
    let start = schema.bytes().as_ptr().addr();
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for Pointer { token, target } in pointers {
        // A value found in a schema is a slice of the same bytes.
        let at = token.bytes().as_ptr().addr() - start;
        out.push_str(&text[copied..at]);
        out.push_str(Raw::of(&target).as_str());
        copied = at + token.bytes().len();
    }
    if copied == 0 {
        return schema.clone();
    }
    out.push_str(&text[copied..]);
    Raw::parse(&out.into()).unwrap_or_else(|_| schema.clone())
}

/// A string token in a schema, and its replacement.
struct Pointer {
    token: Raw,
    target: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Keys are keywords.
    Schema,
    /// Keys are names.
    Names,
}

/// The caller limits the depth.
fn find_pointers(node: &Raw, place: Place, found: &mut Vec<Pointer>) {
    for element in node.elements() {
        find_pointers(&element, Place::Schema, found);
    }
    if place == Place::Schema && sets_base(node) {
        return;
    }
    for (key, value) in node.members() {
        match &*key {
            _ if place == Place::Names => find_pointers(&value, Place::Schema, found),
            "$ref" | "$dynamicRef" => found.extend(pointer(value)),
            key if DATA.contains(&key) => {}
            key if NAMES.contains(&key) => find_pointers(&value, Place::Names, found),
            _ => find_pointers(&value, Place::Schema, found),
        }
    }
}

fn pointer(token: Raw) -> Option<Pointer> {
    let text: String = token.read().ok()?;
    let path = text.strip_prefix('#').filter(|path| path.is_empty() || path.starts_with('/'))?;
    Some(Pointer { target: format!("{POINTER}{path}"), token })
}

/// A URI in `$id` makes `#` mean that URI. A fragment alone, as up to draft 7, is a name.
fn sets_base(node: &Raw) -> bool {
    node.get("$id").is_some_and(|id| !id.read::<String>().is_ok_and(|id| id.starts_with('#')))
}

/// The changes that clients of the legacy revisions need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LegacyForm {
    /// Its `outputSchema` is wrapped, and so are its results (see [`wrap_result`]).
    pub wraps_output: bool,
    /// A property whose schema is `true` or `false` gets the same schema as an object: `{}` or `{"not": {}}`.
    pub replaces_booleans: bool,
}

impl LegacyForm {
    /// The legacy form of `definition`; `None` if it needs no changes.
    pub fn of(self, definition: &Raw) -> Option<Raw> {
        let wrapped = if self.wraps_output { wrap_definition(definition) } else { None };
        if !self.replaces_booleans {
            return wrapped;
        }
        let definition = wrapped.as_ref().unwrap_or(definition);
        let schemas = ["inputSchema", "outputSchema"]
            .map(|name| (name, definition.get(name).map(|schema| without_booleans(&schema))));
        let changes: Vec<_> = schemas
            .iter()
            .filter(|(_, schema)| schema.is_some())
            .map(|(name, s)| (*name, s.as_ref()))
            .collect();
        Some(definition.edit(&changes))
    }
}

fn without_booleans(schema: &Raw) -> Raw {
    let Some(properties) = schema.get("properties") else { return schema.clone() };
    let (any, none) = (Raw::empty_object(), Raw::of(&serde_json::json!({"not": {}})));
    let members: Vec<_> = properties.members().collect();
    let replaced = |value| match Raw::as_str(value) {
        "true" => &any,
        "false" => &none,
        _ => value,
    };
    let changes: Vec<(&str, Option<&Raw>)> =
        members.iter().map(|(name, value)| (&**name, Some(replaced(value)))).collect();
    schema.with("properties", &Raw::empty_object().edit(&changes))
}

#[cfg(test)]
#[path = "output_schema_tests.rs"]
mod tests;
