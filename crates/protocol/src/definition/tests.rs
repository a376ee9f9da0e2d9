//! Definitions as servers get them wrong.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const SERVERS: [Version; 2] = [Version::V2025_11_25, Version::V2026_07_28];

fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")
}

fn checked(kind: Kind, definition: &Value) -> Result<Checked, String> {
    check(kind, "a:1", &Raw::of(definition), Version::V2025_11_25)
}

/// The definition that is offered in the place of `definition`.
fn offered(kind: Kind, definition: Value) -> Value {
    match checked(kind, &definition).expect("offered").repaired {
        Some(repaired) => repaired.read().expect("JSON"),
        None => definition,
    }
}

/// The `inputSchema` that is offered in the place of `schema`.
fn input(schema: &Value) -> Value {
    offered(Kind::Tools, json!({"name": "t", "inputSchema": schema}))["inputSchema"].take()
}

#[test]
fn valid_definitions_keep_every_byte() {
    let schema = r#"{ "$schema":"x", "type" : "object","properties":{"a":{"type":["string","null"],"pattern":"^[\\w-]+$"}},"required":[ ],"x":1e400}"#;
    let icons = r#"[{"src":"data:,","sizes":["any"],"theme":"dark","x":null}]"#;
    let tool = format!(
        r#"{{"name":"t", "x":null,"inputSchema":{schema},"outputSchema":{schema},"annotations":{{"readOnlyHint":true,"title":""}},"execution":{{"taskSupport":"optional"}},"icons":{icons},"_meta":{{"a":null}}}}"#
    );
    let tool = tool.replacen("1e400", "1", 2);
    let resource = format!(
        r#"{{"uri":"a:1","name":"","size":9007199254740993,"annotations":{{"audience":["user"],"priority":1,"lastModified":"2024-02-29T23:59:59.5+05:30"}},"icons":{icons}}}"#
    );
    let prompt = r#"{"name":"p","arguments":[{"name":"a","title":"A","required":false}],"description":"\ud83d\ude00"}"#;
    for (kind, definition) in [
        (Kind::Tools, tool.as_str()),
        (Kind::Resources, &resource),
        (Kind::Templates, &resource),
        (Kind::Prompts, prompt),
    ] {
        for server in SERVERS {
            let checked = check(kind, "a:1", &raw(definition), server).expect("valid");
            assert!(checked.repaired.is_none() && checked.repairs.is_none(), "{kind:?}: {}", checked.repairs);
            assert_eq!((checked.schema_flaw, checked.legacy), (None, LegacyForm::default()), "{kind:?}");
        }
    }
}

#[test]
fn an_input_schema_becomes_one_of_an_object_or_the_tool_is_left_out() {
    for (schema, expected) in [
        (json!(null), json!({"type": "object"})),
        (json!(true), json!({"type": "object"})),
        (json!([]), json!({"type": "object"})),
        (json!({}), json!({"type": "object"})),
        (json!({"type": null}), json!({"type": "object"})),
        (json!({"type": "OBJECT"}), json!({"type": "object"})),
        (json!({"type": ["object", "null"]}), json!({"type": "object"})),
        (json!({"anyOf": [{}]}), json!({"anyOf": [{}], "type": "object"})),
        (json!({"type": "object", "properties": []}), json!({"type": "object"})),
        (json!({"type": "object", "properties": null}), json!({"type": "object"})),
        (json!({"type": "object", "required": "a"}), json!({"type": "object"})),
        (json!({"type": "object", "required": ["a", 5]}), json!({"type": "object", "required": ["a"]})),
        (json!({"type": "object", "$schema": 5}), json!({"type": "object"})),
        (
            json!({"type": "object", "properties": {"a": "string", "required": ["a"], "b": {}}}),
            json!({"type": "object", "properties": {"a": {}, "required": {}, "b": {}}}),
        ),
    ] {
        assert_eq!(input(&schema), expected, "{schema}");
    }
    assert_eq!(offered(Kind::Tools, json!({"name": "t"}))["inputSchema"], json!({"type": "object"}));
    for schema in [json!({"type": "string"}), json!([1]), json!("object"), json!(false), json!({"type": []})]
    {
        let why = checked(Kind::Tools, &json!({"name": "t", "inputSchema": schema})).expect_err("no object");
        assert!(why.contains("inputSchema"), "{why}");
    }
}

#[test]
fn optional_members_that_are_not_valid_are_left_out() {
    let icons = json!([{"src": "a", "sizes": "48x48", "theme": "blue"}, {"mimeType": "x"}, null, 5]);
    let annotations =
        json!({"audience": ["user", "system"], "priority": 2, "lastModified": "2025-01-01", "x": 1});
    let bad = json!({"title": 1, "description": null, "mimeType": [], "size": 1.5, "annotations": annotations,
        "icons": icons, "_meta": [], "arguments": [{"name": "a", "required": "yes"}, {"description": "no name"}], "y": null});
    let with = |key: &str| {
        let mut definition = bad.clone();
        definition[key] = "a:1".into();
        definition["name"] = "a:1".into();
        definition
    };
    let (icons, annotations) = (json!([{"src": "a"}]), json!({"audience": ["user"], "x": 1}));
    assert_eq!(
        offered(Kind::Resources, with("uri")),
        json!({"uri": "a:1", "name": "a:1", "annotations": annotations, "icons": icons, "arguments": bad["arguments"], "y": null})
    );
    assert_eq!(
        offered(Kind::Templates, with("uriTemplate"))["annotations"],
        json!({"audience": ["user"], "x": 1})
    );
    assert_eq!(
        offered(Kind::Prompts, with("name")),
        json!({"name": "a:1", "icons": icons, "mimeType": [], "size": 1.5, "annotations": bad["annotations"],
            "arguments": [{"name": "a"}], "y": null})
    );
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "true"},
        "execution": {"taskSupport": "maybe"}, "icons": "x"});
    let repaired =
        json!({"name": "t", "inputSchema": {"type": "object"}, "annotations": {}, "execution": {}});
    assert_eq!(offered(Kind::Tools, tool.clone()), repaired);
    let repairs = checked(Kind::Tools, &tool).expect("offered").repairs.to_string();
    assert!(repairs.contains("annotations.readOnlyHint is not true or false"), "{repairs}");
}

#[test]
fn a_resource_without_a_name_gets_its_uri() {
    for name in [json!(null), json!(5)] {
        let definition = json!({"uri": "a:1", "name": name});
        assert_eq!(offered(Kind::Resources, definition), json!({"uri": "a:1", "name": "a:1"}));
    }
    assert_eq!(offered(Kind::Templates, json!({"uriTemplate": "a:1"}))["name"], "a:1");
}

#[test]
fn an_invalid_keyword_of_an_input_schema_is_named_and_of_an_output_schema_leaves_it_out() {
    for (schema, named) in [
        (json!({"properties": {"a": {"type": "int"}}}), "properties.a.type is `int`"),
        (json!({"properties": {"a": {"type": "string", "required": true}}}), "properties.a.required"),
        (json!({"properties": {"a": {"items": {"enum": []}}}}), "properties.a.items.enum"),
        (json!({"properties": {"a": {"$ref": "#/$defs/a"}}}), "properties.a.$ref"),
        (json!({"properties": {"a": {"$ref": "https://example.com/a"}}}), "properties.a.$ref"),
        (json!({"anyOf": {}}), "anyOf"),
        (json!({"additionalProperties": "no"}), "additionalProperties"),
        (json!({"properties": {"a": {"pattern": "("}}}), "properties.a.pattern"),
        (json!({"patternProperties": {"[": {}}}), "patternProperties"),
        (json!({"maximum": "5"}), "maximum"),
        (json!({"$defs": {"a": 5}}), "$defs.a is no schema"),
    ] {
        let mut schema = schema;
        schema["type"] = "object".into();
        let tool = json!({"name": "t", "inputSchema": schema, "outputSchema": schema});
        let checked = checked(Kind::Tools, &tool).expect("offered");
        let flaw = checked.schema_flaw.expect("named");
        assert!(flaw.starts_with(named), "{flaw}: {named}");
        let repaired: Value = checked.repaired.expect("repaired").read().expect("JSON");
        assert_eq!(repaired, json!({"name": "t", "inputSchema": schema}), "{schema}");
    }
}

#[test]
fn keywords_are_told_from_names_and_data_and_references_are_followed() {
    let schema = json!({"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}, "required": {"type": "boolean"},
        "a": {"$ref": "#/$defs/a%20b"}, "b": {"$ref": "#"}, "c": {"const": {"type": "int"}, "default": {"required": true}},
        "d": {"$ref": "#x"}, "e": {"items": [{}], "nullable": true, "type": "null"}},
        "$defs": {"a b": true, "x": {"$anchor": "x"}}, "dependencies": {"a": ["b"]}, "x-any": {"type": "int"}});
    let tool = json!({"name": "t", "inputSchema": schema, "outputSchema": schema});
    let checked = checked(Kind::Tools, &tool).expect("offered");
    assert_eq!((checked.schema_flaw, checked.repaired.is_none()), (None, true), "{}", checked.repairs);
}

#[test]
fn an_output_schema_of_a_legacy_server_is_one_of_an_object() {
    let output = |schema: Value, server| {
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema});
        let checked = check(Kind::Tools, "t", &Raw::of(&tool), server).expect("offered");
        let offered: Value = checked.repaired.map_or(tool, |repaired| repaired.read().expect("JSON"));
        (offered.get("outputSchema").cloned(), checked.legacy.wraps_output)
    };
    let [legacy, modern] = SERVERS;
    assert_eq!(output(json!({}), legacy), (Some(json!({"type": "object"})), false));
    assert_eq!(output(json!({"type": "array"}), legacy), (None, false));
    assert_eq!(output(json!({"type": "array"}), modern), (Some(json!({"type": "array"})), true));
    for schema in [json!(null), json!(true), json!([])] {
        assert_eq!(output(schema.clone(), legacy), (None, false), "{schema}");
        assert_eq!(output(schema.clone(), modern), (None, false), "{schema}");
    }
}

#[test]
fn legacy_clients_get_objects_in_the_place_of_boolean_schemas() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": true, "b": false, "c": {"items": true}}}});
    let checked = check(Kind::Tools, "t", &Raw::of(&tool), Version::V2026_07_28).expect("valid");
    assert!(checked.repaired.is_none() && checked.repairs.is_none());
    let legacy: Value = checked.legacy.of(&Raw::of(&tool)).expect("changed").read().expect("JSON");
    let properties = json!({"a": {}, "b": {"not": {}}, "c": {"items": true}});
    assert_eq!(legacy["inputSchema"]["properties"], properties);
}

#[test]
fn the_first_of_two_equal_members_is_the_only_one_that_is_offered() {
    for definition in [
        r#"{"name":"t","inputSchema":{"type":"object"},"inputSchema":null}"#,
        r#"{"name":"t","inputSchema":{"type":"object","type":"string"}}"#,
        r#"{"name":"t","inputSchema":{"type":"object"},"title":"a","titl\u0065":5}"#,
    ] {
        let repaired =
            check(Kind::Tools, "t", &raw(definition), Version::V2025_11_25).expect("offered").repaired;
        let value: Value = repaired.expect("repaired").read().expect("JSON");
        assert_eq!(value["inputSchema"], json!({"type": "object"}), "{definition}");
        assert!(value.get("title").is_none_or(Value::is_string), "{definition}");
    }
}

#[test]
fn strings_and_numbers_that_python_cannot_read_do_not_reach_it() {
    let half = r#"{"name":"p","description":"\ud800 \udc00\ud83d\ude00 \\ud800","x":["\ude00"]}"#;
    let repaired = check(Kind::Prompts, "p", &raw(half), Version::V2025_11_25).expect("offered").repaired;
    assert_eq!(
        repaired.expect("repaired").as_str(),
        r#"{"name":"p","description":"\ufffd \ufffd\ud83d\ude00 \\ud800","x":["\ufffd"]}"#
    );
    let long = format!(r#"{{"name":"p","x":{}}}"#, "1".repeat(5_000));
    let why = check(Kind::Prompts, "p", &raw(&long), Version::V2025_11_25).expect_err("too long");
    assert!(why.contains("5000 digits"), "{why}");
}

#[test]
fn capabilities_and_server_information_lose_only_what_is_not_valid() {
    let capabilities = r#"{"tools":{"listChanged":"yes","x":1},"prompts":true,"logging":null,"extensions":{"a/b":{"n":1e400},"c/d":null},"experimental":5,"tasks":{"requests":{"tools":{"call":true}}},"odd":5}"#;
    let (repaired, repairs) = check_capabilities(&raw(capabilities));
    assert_eq!(
        repaired.expect("repaired").as_str(),
        r#"{"tools":{"x":1},"extensions":{"a/b":{"n":1e400}},"tasks":{"requests":{"tools":{}}},"odd":5}"#
    );
    assert!(repairs.to_string().contains("and 2 more"), "{repairs}");
    let (repaired, _) = check_info(&raw(r#"{"name":"s","version":1,"icons":[{"src":5}]}"#));
    assert_eq!(repaired.expect("repaired").as_str(), r#"{"name":"s"}"#);
    assert!(check_info(&Raw::empty_object()).0.is_none());
}

/// Any JSON, with names of members that definitions have.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i32..3).prop_map(Value::from),
        Just(json!(1.5)),
        "[a-z]{0,3}".prop_map(Value::from),
        Just(json!("object")),
        Just(json!("string")),
    ];
    let names = prop::sample::select(vec![
        "name",
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "icons",
        "_meta",
        "execution",
        "arguments",
        "required",
        "properties",
        "type",
        "$ref",
        "src",
        "sizes",
        "theme",
        "audience",
        "size",
        "x",
    ]);
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn repaired_definition_is_valid(value in any_value(), at in 0..4_usize, is_modern: bool) {
        let (kind, server) = (Kind::ALL[at], SERVERS[usize::from(is_modern)]);
        let mut definition = value;
        if !definition.is_object() {
            definition = json!({});
        }
        definition[kind.key()] = "a:1".into();
        if let Ok(first) = check(kind, "a:1", &Raw::of(&definition), server) {
            prop_assert_eq!(first.repaired.is_none(), first.repairs.is_none());
            let offered = first.repaired.unwrap_or_else(|| Raw::of(&definition));
            let second = check(kind, "a:1", &offered, server).expect("still valid");
            prop_assert!(second.repaired.is_none() && second.repairs.is_none(), "{} {}", offered.as_str(), second.repairs);
        }
    }
}
