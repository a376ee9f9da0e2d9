//! Arguments that a view gives: what clients see, and what the server gets.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")
}

fn values(values: &Value) -> BTreeMap<String, ArgumentValue> {
    let members = values.as_object().expect("an object");
    let value =
        |value: &Value| ArgumentValue { json: Raw::of(value), is_reference: value.as_str() == Some("7") };
    members.iter().map(|(name, json)| (name.clone(), value(json))).collect()
}

fn given(fixed: &Value, defaults: &Value, schema: &Value) -> Result<ToolArguments, String> {
    let tool = Tool::from_definition(Raw::of(&json!({"name": "t", "inputSchema": schema}))).expect("a tool");
    ToolArguments::of(&values(fixed), &values(defaults), &tool)
}

/// The schema that clients see, with `a` fixed to 1 and 2 as the default of `d`.
fn listed(schema: &Value) -> Value {
    let given = given(&json!({"a": 1}), &json!({"d": 2}), schema).expect("they fit");
    let definition = Raw::of(&json!({"name": "t", "inputSchema": schema}));
    given.applied(&definition).read::<Value>().expect("JSON")["inputSchema"].take()
}

#[test]
fn fixed_argument_leaves_all_parts_of_the_schema_that_name_it() {
    let properties = json!({"a": {"type": "integer"}, "b": {}, "d": {"type": "integer"}});
    let whole = |more: &Value| {
        let mut schema = json!({"type": "object", "properties": properties});
        schema.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        schema
    };
    let rest = json!({"b": {}, "d": {"type": "integer", "default": 2}});
    for (more, expected) in [
        (json!({"required": ["a", "b", "d"]}), json!({"required": ["b"]})),
        (json!({"required": ["a"]}), json!({})),
        (
            json!({"dependentRequired": {"a": ["b"], "b": ["a", "c"]}}),
            json!({"dependentRequired": {"b": ["c"]}, "required": ["b"]}),
        ),
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"anyOf": [{}, {"required": ["b"]}]}),
        ),
        (
            json!({"oneOf": [{"properties": {"a": {"const": 1}, "c": {}}}, {"properties": {"a": {"const": 3}}}]}),
            json!({"oneOf": [{"properties": {"c": {}}}, false]}),
        ),
        (
            json!({"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b", "a"]}}),
            json!({"if": {"properties": {}}, "then": {"required": ["b"]}}),
        ),
        (json!({"$defs": {"x": {"required": ["a"]}}}), json!({"$defs": {"x": {"required": ["a"]}}})),
    ] {
        let mut expected = expected;
        expected["type"] = json!("object");
        expected["properties"] = rest.clone();
        assert_eq!(listed(&whole(&more)), expected, "{more}");
    }
}

#[test]
fn argument_has_to_be_one_of_the_tool() {
    let none = json!({});
    let closed = json!({"properties": {"alpha": {"type": "string"}}});
    let refused = given(&json!({"alpah": "x"}), &none, &closed).expect_err("there is no such argument");
    assert_eq!(refused, "the tool has no argument `alpah`; did you mean `alpha`?");
    let refused = given(&none, &json!({"alpha": 5}), &closed).expect_err("another type");
    assert_eq!(refused, "alpha has to be of the type string");
    for open in [
        json!({"properties": {}, "additionalProperties": true}),
        json!({"allOf": [{"properties": {"alfa": {}}}]}),
        json!({"$ref": "#/$defs/x"}),
    ] {
        assert!(given(&json!({"alfa": "x"}), &none, &open).is_ok(), "{open}");
    }
    assert!(given(&json!({"alfa": "x"}), &none, &json!({"additionalProperties": false})).is_err());
}

#[test]
fn text_of_a_variable_stands_for_a_number_where_the_tool_wants_one() {
    let fixed =
        |kind: &str| given(&json!({"a": "7"}), &json!({}), &json!({"properties": {"a": {"type": kind}}}));
    let value = |given: ToolArguments| given.fixed[0].1.as_str().to_owned();
    assert_eq!(fixed("integer").map(value).as_deref(), Ok("7"));
    assert_eq!(fixed("string").map(value).as_deref(), Ok("\"7\""));
    assert!(fixed("boolean").is_err());
}

#[test]
fn call_keeps_every_byte_of_its_client() {
    let schema = json!({"properties": {"a": {}, "d": {}, "x": {}}});
    let given = given(&json!({"a": "x y"}), &json!({"d": [1]}), &schema).expect("they fit");
    for (params, expected) in [
        (r#"{"name":"t"}"#, r#"{"name":"t","arguments":{"a":"x y","d":[1]}}"#),
        (r#"{"arguments":{},"name":"t"}"#, r#"{"arguments":{"a":"x y","d":[1]},"name":"t"}"#),
        (
            r#"{ "arguments" : { "x":1e400, "y" : "\u0061" } , "name":"t"}"#,
            r#"{ "arguments" : { "x":1e400, "y" : "\u0061","a":"x y","d":[1] } , "name":"t"}"#,
        ),
        (r#"{"arguments":{"d":null}}"#, r#"{"arguments":{"d":null,"a":"x y"}}"#),
    ] {
        let Ok(filled) = given.fill(&raw(params)) else { panic!("{params}") };
        assert_eq!(filled.params.as_str(), expected);
    }
    for sent in [
        r#"{"arguments":{"a":"x y"}}"#,
        r#"{"arguments":{"\u0061":null}}"#,
        r#"{"arguments":{"b":1,"a":1,"a":2}}"#,
    ] {
        assert_eq!(given.fill(&raw(sent)).err().as_deref(), Some("a"), "{sent}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// The arguments of a client reach the server whole, and each given argument once.
    #[test]
    fn any_call_has_the_given_arguments_once(sent in proptest::collection::btree_map("[a-e]|[a-z]{2,6}", 0..9_i32, 0..6)) {
        let schema = json!({"properties": {"a": {}, "d": {}}, "additionalProperties": {}});
        let given = given(&json!({"a": 1}), &json!({"d": 2}), &schema).expect("they fit");
        let params = Raw::of(&json!({"name": "t", "arguments": sent}));
        match given.fill(&params) {
            Err(name) => prop_assert!(&*name == "a" && sent.contains_key("a")),
            Ok(filled) => {
                prop_assert!(!sent.contains_key("a"));
                let arguments = filled.params.get("arguments").expect("arguments");
                prop_assert_eq!(arguments.duplicate_key(), None);
                let read: BTreeMap<String, i32> = arguments.read().expect("JSON");
                let mut expected = sent.clone();
                expected.insert("a".into(), 1);
                expected.entry("d".into()).or_insert(2);
                prop_assert_eq!(read, expected);
                prop_assert_eq!(filled.given.len(), if sent.contains_key("d") { 1 } else { 2 });
            }
        }
    }
}
