//! Arbitrary arguments for tests, derived from the schema of a tool: valid, almost valid and absurd. And the check that an
//! answer has the schema.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::tool::Tool;
use json::Raw;

/// Checks with as many arbitrary arguments that each is accepted, or refused with the name of a member and advice.
pub(super) fn judges<I: DeserializeOwned>(tool: &Tool, cases: u32) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    proptest!(config, |(arguments in arguments(tool))| is_judged::<I>(tool, &arguments));
}

/// Makes arguments for `tool`: each member present or not, with values of its type, at its bounds and beyond.
fn arguments(tool: &Tool) -> impl Strategy<Value = Value> + use<> {
    let schema: Value = tool.definition().get("inputSchema").expect("a schema").read().expect("JSON");
    object(&schema, 3)
}

fn is_judged<I: DeserializeOwned>(tool: &Tool, arguments: &Value) {
    let Err(refusal) = tool.read::<I>(&Raw::of(arguments)) else { return };
    let shown: Value = refusal.raw().read().expect("JSON");
    for member in ["error", "type", "message", "suggestion"] {
        assert!(shown[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {shown}");
    }
    let range = &shown["valid_range"];
    assert!(range.is_array() || range.as_str().is_some_and(|text| !text.is_empty()), "{shown}");
    let first = refusal.field().split(['.', '[']).next().unwrap_or_default();
    let given = |name: &str| arguments.get(name).is_some();
    let known = given(first)
        || given(refusal.field())
        || tool.definition().as_str().contains(&format!("\"{first}\""));
    assert!(known || refusal.field().len() >= 190, "it names no member: {shown}");
    assert!(shown.to_string().len() < 4_000, "it is long: {} bytes", shown.to_string().len());
}

/// Checks a value by the part of JSON Schema that output schemas use.
pub(super) fn fits(schema: &Value, value: &Value, at: &str) {
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let is = |name: &Value| match name.as_str().unwrap_or_else(|| panic!("{at}: no type in {schema}")) {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: unknown type {other}"),
    };
    assert!(types.iter().any(is), "{at}: {value} is no {types:?}");
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{at}: {value}");
    }
    if value.is_null() {
        return;
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(value.get(name).is_some(), "{at}: {name} is missing in {value}");
    }
    if let (Some(map), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, member) in map {
            let schema = known.get(name).unwrap_or_else(|| panic!("{at}: {name} is not in the schema"));
            fits(schema, member, &format!("{at}.{name}"));
        }
    }
    value.as_array().into_iter().flatten().for_each(|item| fits(&schema["items"], item, at));
}

fn object(schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let member = |(name, schema): (String, Value)| {
        let value = prop_oneof![6 => value(&schema, depth), 1 => anything()];
        (Just(name), proptest::option::weighted(0.8, value))
    };
    let members: Vec<_> = properties.into_iter().map(member).collect();
    let stranger = proptest::option::weighted(0.1, (".{0,12}", anything()));
    (members, stranger)
        .prop_map(|(members, stranger)| {
            let given = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
            Value::Object(given.chain(stranger).collect::<Map<_, _>>())
        })
        .boxed()
}

fn value(schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    let bound = |name: &str| schema[name].as_f64();
    match schema["type"].as_str() {
        Some("integer" | "number") => {
            let (least, most) = (bound("minimum").unwrap_or(-9.0), bound("maximum").unwrap_or(9e15));
            let whole = |number: f64| {
                if number.fract() == 0.0 {
                    {
                        #[allow(clippy::cast_possible_truncation)] // any result is tried
                        let whole = number as i64;
                        json!(whole)
                    }
                } else {
                    json!(number)
                }
            };
            let near = select(vec![least - 1.0, least, least + 0.5, most, most + 1.0, 1e300, -0.0]);
            prop_oneof![near.prop_map(whole), (least..most).prop_map(move |n| whole(n.floor()))].boxed()
        }
        Some("string") if schema["enum"].is_array() => {
            select(schema["enum"].as_array().expect("words").clone()).boxed()
        }
        Some("string") if schema["format"] == "uuid" => prop_oneof![
            Just(json!("0b8aa2e5-2b7c-4b5c-9f0e-3a1f2d4c5b6a")),
            Just(json!("{0b8aa2e5-2b7c-4b5c-9f0e-3a1f2d4c5b6a}")),
            Just(json!("../users/me")),
            ".{0,40}".prop_map(Value::String),
        ]
        .boxed(),
        Some("string") => {
            let most = usize::try_from(schema["maxLength"].as_u64().unwrap_or(50)).unwrap_or(50);
            prop_oneof![
                3 => ".{0,30}".prop_map(Value::String),
                1 => select(vec![0, 1, most, most + 1]).prop_map(|length| json!("x".repeat(length))),
                1 => Just(json!(" \t\n")),
            ]
            .boxed()
        }
        Some("boolean") => any::<bool>().prop_map(Value::Bool).boxed(),
        Some("array") if depth > 0 => {
            vec(value(&schema["items"], depth - 1), 0..4).prop_map(Value::Array).boxed()
        }
        Some("object") if depth > 0 && schema["properties"].is_object() => object(schema, depth - 1),
        _ => filters(),
    }
}

/// Makes values that resemble a search filter, valid or not.
pub(super) fn filters() -> BoxedStrategy<Value> {
    let keys = [
        "$eq",
        "$ne",
        "$in",
        "$and",
        "$or",
        "$neq",
        "$where",
        "$overlap",
        "collection_id",
        "collection_ids",
        "owner_id",
        "document_type",
        "metadata.collection_id",
        "a.b",
        "",
        "$",
    ];
    let leaf =
        prop_oneof![any::<i64>().prop_map(Value::from), ".{0,8}".prop_map(Value::String), Just(Value::Null)];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let members = vec((select(keys.to_vec()).prop_map(str::to_owned), inner.clone()), 0..4);
        prop_oneof![
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
            vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
    .boxed()
}

fn anything() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,40}".prop_map(Value::String),
        filters(),
    ]
    .boxed()
}
