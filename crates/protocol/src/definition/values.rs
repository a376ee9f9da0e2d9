//! Checks a value against a JSON Schema of a server.
//!
//! Invariants: a value is refused only if every validator refuses it. Keywords that are not known here, patterns and
//! formats among them, accept any value, because the server checks its arguments itself. A refusal never quotes the
//! value, which may be secret. The work is bounded whatever the schema is: nothing is fetched, and references end.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::sanitize::shown;

/// The most schemas, and values that they name, that one checker looks at. Beyond them every value fits.
const MAX_STEPS: usize = 10_000;
/// The deepest chain of schemas.
const MAX_DEPTH: usize = 100;

/// Checks values against schemas of one document.
#[derive(Debug)]
pub struct ValueChecker<'a> {
    root: &'a Value,
    steps: Cell<usize>,
}

impl<'a> ValueChecker<'a> {
    /// A checker for schemas in `root`.
    pub const fn new(root: &'a Value) -> Self {
        Self { root, steps: Cell::new(0) }
    }

    /// Returns why `value`, which is called `name`, does not fit `schema`, or none.
    pub fn misfit(&self, name: &str, schema: &Value, value: &Value) -> Option<String> {
        self.check(&shown(name), schema, value, 0)
    }

    fn check(&self, at: &str, schema: &Value, value: &Value, depth: usize) -> Option<String> {
        let lists = schema
            .as_object()
            .into_iter()
            .flat_map(|keywords| ["enum", "required"].map(|name| keywords.get(name)));
        let named: usize = lists.flatten().filter_map(Value::as_array).map(Vec::len).sum();
        self.steps.set(self.steps.get().saturating_add(1 + named));
        if depth > MAX_DEPTH || self.steps.get() > MAX_STEPS {
            return None;
        }
        let Value::Object(keywords) = schema else {
            return (*schema == Value::Bool(false)).then(|| format!("{at} is not allowed"));
        };
        self.reference(keywords)
            .and_then(|target| self.check(at, target, value, depth + 1))
            .or_else(|| scalar(at, keywords, value))
            .or_else(|| self.combined(at, keywords, value, depth))
            .or_else(|| match value {
                Value::Array(items) => self.items(at, keywords, items, depth),
                Value::Object(members) => self.members(at, keywords, members, depth),
                _ => None,
            })
    }

    /// The schema in the document that `$ref` leads to.
    fn reference(&self, keywords: &Map<String, Value>) -> Option<&'a Value> {
        self.root.pointer(keywords.get("$ref")?.as_str()?.strip_prefix('#')?)
    }

    fn combined(
        &self,
        at: &str,
        keywords: &Map<String, Value>,
        value: &Value,
        depth: usize,
    ) -> Option<String> {
        let schemas = |name: &str| keywords.get(name).and_then(Value::as_array);
        let refused = |schema: &Value| self.check(at, schema, value, depth + 1);
        let all = schemas("allOf").into_iter().flatten().find_map(refused);
        all.or_else(|| {
            // Where a keyword is not known here, two schemas may seem to fit although one does.
            let mut any = ["anyOf", "oneOf"].into_iter().filter_map(schemas);
            any.find_map(|any| {
                let first = refused(any.first()?)?;
                match any.as_slice() {
                    [_] => Some(first),
                    [_, others @ ..] => others
                        .iter()
                        .all(|schema| refused(schema).is_some())
                        .then(|| format!("{at} fits none of the schemas for it")),
                    [] => None,
                }
            })
        })
    }

    fn items(
        &self,
        at: &str,
        keywords: &Map<String, Value>,
        items: &[Value],
        depth: usize,
    ) -> Option<String> {
        let limit = |name| keywords.get(name).and_then(Value::as_u64);
        let count = items.len() as u64;
        if limit("minItems").is_some_and(|least| count < least)
            || limit("maxItems").is_some_and(|most| count > most)
        {
            return Some(format!("{at} has too few or too many items"));
        }
        let prefix = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        let rest = keywords.get("items").filter(|schema| !schema.is_array())?;
        let mut checked = items.iter().enumerate().skip(prefix);
        checked.find_map(|(index, item)| self.check(&format!("{at}[{index}]"), rest, item, depth + 1))
    }

    fn members(
        &self,
        at: &str,
        keywords: &Map<String, Value>,
        members: &Map<String, Value>,
        depth: usize,
    ) -> Option<String> {
        let required = keywords.get("required").and_then(Value::as_array);
        let mut names = required.into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = names.find(|name| !members.contains_key(*name)) {
            return Some(format!("{at}.{} is missing", shown(missing)));
        }
        let properties = keywords.get("properties").and_then(Value::as_object);
        let others =
            keywords.get("additionalProperties").filter(|_| !keywords.contains_key("patternProperties"));
        members.iter().find_map(|(name, member)| {
            let schema = properties.and_then(|properties| properties.get(name)).or(others)?;
            self.check(&format!("{at}.{}", shown(name)), schema, member, depth + 1)
        })
    }
}

/// Checks the keywords that need no other schema.
fn scalar(at: &str, keywords: &Map<String, Value>, value: &Value) -> Option<String> {
    let types: Vec<&str> = match keywords.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of_type(name, value)) {
        return Some(format!("{at} has to be of the type {}", shown(&types.join(" or "))));
    }
    let is_other =
        |expected: &Value| expected != value && expected.as_f64().is_none_or(|n| value.as_f64() != Some(n));
    let values = keywords.get("enum").and_then(Value::as_array);
    if values.is_some_and(|values| values.iter().all(is_other)) || keywords.get("const").is_some_and(is_other)
    {
        return Some(format!("{at} is none of the values that the tool accepts"));
    }
    let limit = |name| keywords.get(name).and_then(Value::as_f64);
    if let Some(number) = value.as_f64() {
        let is_within = limit("minimum").is_none_or(|least| number >= least)
            && limit("maximum").is_none_or(|most| number <= most)
            && limit("exclusiveMinimum").is_none_or(|least| number > least)
            && limit("exclusiveMaximum").is_none_or(|most| number < most);
        return (!is_within).then(|| format!("{at} is out of range"));
    }
    let text = value.as_str()?;
    #[allow(clippy::cast_precision_loss)] // no text is that long
    let length = text.chars().count() as f64;
    let is_within = limit("minLength").is_none_or(|least| length >= least)
        && limit("maxLength").is_none_or(|most| length <= most);
    (!is_within).then(|| format!("{at} is too short or too long"))
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn misfit(schema: &Value, value: &Value) -> Option<String> {
        let root = json!({"$defs": {"color": {"enum": ["red", "blue"]}, "endless": {"$ref": "#/$defs/endless"},
            "tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}});
        ValueChecker::new(&root).misfit("a", schema, value)
    }

    #[test]
    fn value_that_no_validator_accepts_is_refused_with_its_place() {
        for (schema, value, expected) in [
            (json!(false), json!(1), "a is not allowed"),
            (json!({"type": "string"}), json!(1), "a has to be of the type string"),
            (json!({"type": ["string", "null"]}), json!(1), "a has to be of the type string or null"),
            (json!({"type": "integer"}), json!(1.5), "a has to be of the type integer"),
            (json!({"enum": ["x"]}), json!("y"), "none of the values"),
            (json!({"const": 1}), json!(2), "none of the values"),
            (json!({"minimum": 1}), json!(0), "out of range"),
            (json!({"exclusiveMaximum": 1}), json!(1), "out of range"),
            (json!({"minLength": 2}), json!("é"), "too short"),
            (json!({"maxItems": 1}), json!([1, 2]), "too many items"),
            (json!({"items": {"type": "string"}}), json!(["x", 1]), "a[1] has to be"),
            (json!({"required": ["b"]}), json!({}), "a.b is missing"),
            (json!({"properties": {"b": {"type": "null"}}}), json!({"b": 1}), "a.b has to be"),
            (
                json!({"properties": {"b": {}}, "additionalProperties": false}),
                json!({"c": 1}),
                "a.c is not allowed",
            ),
            (json!({"allOf": [{}, {"type": "string"}]}), json!(1), "a has to be"),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), json!(1), "fits none"),
            (json!({"$ref": "#/$defs/color"}), json!("green"), "none of the values"),
            (json!({"$ref": "#/$defs/tree"}), json!([[[1]]]), "a[0][0][0] has to be"),
        ] {
            let found = misfit(&schema, &value).unwrap_or_else(|| panic!("{schema} accepts {value}"));
            assert!(found.contains(expected), "{schema} {value}: {found}");
        }
    }

    #[test]
    fn value_that_a_validator_may_accept_fits() {
        for (schema, value) in [
            (json!(true), json!(1)),
            (json!({"type": "integer"}), json!(2.0)),
            (json!({"type": "number", "minimum": 1}), json!(1)),
            (json!({"enum": [1]}), json!(1.0)),
            (json!({"pattern": "("}), json!("x")),
            (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), json!(1)),
            (json!({"$ref": "#/$defs/endless"}), json!(1)),
            (json!({"$ref": "#/nowhere"}), json!(1)),
            (json!({"$ref": "https://example.org/x"}), json!(1)),
            (json!({"patternProperties": {"c": {}}, "additionalProperties": false}), json!({"c": 1})),
            (json!({"prefixItems": [{}], "items": false}), json!([1])),
        ] {
            assert_eq!(misfit(&schema, &value), None, "{schema} {value}");
        }
    }

    #[test]
    fn many_checks_of_one_document_have_one_bound() {
        let root = json!({"$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}]}}});
        let (checker, schema) = (ValueChecker::new(&root), json!({"$ref": "#/$defs/x"}));
        for _ in 0..20_000 {
            assert_eq!(checker.misfit("a", &schema, &json!(1)), None);
        }
        assert!(checker.steps.get() < MAX_STEPS + 40_000, "{}", checker.steps.get());
    }

    #[test]
    fn check_of_a_schema_that_grows_without_end_ends() {
        let root = json!({"$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}]}}});
        let schema = json!({"$ref": "#/$defs/x"});
        assert_eq!(ValueChecker::new(&root).misfit("a", &schema, &json!(1)), None);
    }
}
