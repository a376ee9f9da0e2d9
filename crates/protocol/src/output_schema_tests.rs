//! Wrapping of output schemas and of structured results.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")
}

/// The wrapped form of `schema`, below `properties.result`.
fn inner(schema: &str) -> String {
    let wrapped = wrap_definition(&Raw::empty_object().with(SCHEMA, &raw(schema))).expect("wrapped");
    let wrapped = wrapped.get(SCHEMA).expect("a schema");
    wrapped.get("properties").and_then(|p| p.get(RESULT)).expect("a result").as_str().to_owned()
}

#[test]
fn another_root_is_wrapped_and_nothing_else_changes() {
    let before =
        r#"{"x":1e400, "outputSchema" : { "type" : "array","items":{"type":"number"} },"name":"t" }"#;
    let after = r#"{"x":1e400, "outputSchema" : {"type":"object","properties":{"result":{ "type" : "array","items":{"type":"number"} }},"required":["result"]},"name":"t" }"#;
    assert_eq!(wrap_definition(&raw(before)).expect("wrapped").as_str(), after);
    for schema in ["{}", r#"{"anyOf":[]}"#, r#"{"type":["object","null"]}"#, r#"{"type":null}"#] {
        let definition = Raw::empty_object().with(SCHEMA, &raw(schema));
        assert!(wrap_definition(&definition).is_some(), "{schema}");
    }
}

#[test]
fn an_object_root_and_what_is_no_schema_stay() {
    for definition in [
        r#"{"name":"t"}"#,
        r#"{"outputSchema":{"type":"object"}}"#,
        r##"{"outputSchema":{"type":"\u006fbject","$ref":"#"}}"##,
        r#"{"outputSchema":null}"#,
        r#"{"outputSchema":true}"#,
        r#"{"outputSchema":["array"]}"#,
        r#"{"inputSchema":{"type":"array"}}"#,
        "null",
        "[]",
    ] {
        assert_eq!(wrap_definition(&raw(definition)), None, "{definition}");
    }
}

#[test]
fn the_dialect_is_told_at_the_root_too() {
    let definition =
        raw(r#"{"outputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}}"#);
    assert_eq!(
        wrap_definition(&definition).expect("wrapped").as_str(),
        r#"{"outputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"result":{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}},"required":["result"]}}"#
    );
    assert!(
        !wrap_definition(&raw(r#"{"outputSchema":{"$schema":5}}"#))
            .expect("")
            .as_str()
            .starts_with(r#"{"outputSchema":{"$schema""#)
    );
}

#[test]
fn pointers_into_the_schema_follow_it() {
    for (before, after) in [
        (r##"{"$ref":"#"}"##, r##"{"$ref":"#/properties/result"}"##),
        (r##"{ "$ref" : "#/$defs/X" }"##, r##"{ "$ref" : "#/properties/result/$defs/X" }"##),
        (r#"{"$ref":"\u0023\/a"}"#, r##"{"$ref":"#/properties/result/a"}"##),
        (
            r##"{"anyOf":[{"$dynamicRef":"#/a"},[{"$ref":"#"}]]}"##,
            r##"{"anyOf":[{"$dynamicRef":"#/properties/result/a"},[{"$ref":"#/properties/result"}]]}"##,
        ),
        // A property with the name of a keyword is a property.
        (
            r##"{"properties":{"default":{"$ref":"#"},"$ref":{"$ref":"#"},"$id":{"$ref":"#"}}}"##,
            r##"{"properties":{"default":{"$ref":"#/properties/result"},"$ref":{"$ref":"#/properties/result"},"$id":{"$ref":"#/properties/result"}}}"##,
        ),
        (
            r##"{"dependencies":{"a":["#"],"b":{"$ref":"#"}}}"##,
            r##"{"dependencies":{"a":["#"],"b":{"$ref":"#/properties/result"}}}"##,
        ),
        (r##"{"$id":"#item","$ref":"#"}"##, r##"{"$id":"#item","$ref":"#/properties/result"}"##),
    ] {
        assert_eq!(inner(before), after);
    }
}

#[test]
fn text_that_only_looks_like_a_pointer_stays() {
    for schema in [
        r##"{"$ref":"#name"}"##,
        r#"{"$ref":"other.json#/a"}"#,
        r#"{"$ref":"https://x/#"}"#,
        r#"{"$ref":5}"#,
        r#"{"$ref":""}"#,
        r##"{"const":{"$ref":"#"},"enum":[{"$ref":"#"}],"default":{"$ref":"#"},"examples":[{"$ref":"#"}]}"##,
        r##"{"$id":"https://x","items":{"$ref":"#/$defs/D"}}"##,
        r##"{"items":{"$id":"https://x","items":{"$ref":"#"}}}"##,
        r##"{"$id":5,"$ref":"#"}"##,
        r##"{"properties":{"$ref":"#"}}"##,
        r##"{"title":"#","description":"#/a"}"##,
    ] {
        assert_eq!(inner(schema), schema);
    }
}

#[test]
fn a_result_is_wrapped_like_its_schema() {
    for (before, wrapped) in [
        (
            r#"{"content":[],"structuredContent":[1.0,1e400]}"#,
            r#"{"content":[],"structuredContent":{"result":[1.0,1e400]}}"#,
        ),
        (r#"{ "structuredContent" : null , "x":1}"#, r#"{ "structuredContent" : {"result":null} , "x":1}"#),
        (r#"{"structuredContent":0}"#, r#"{"structuredContent":{"result":0}}"#),
        (r#"{"structuredContent":""}"#, r#"{"structuredContent":{"result":""}}"#),
    ] {
        assert_eq!(wrap_result(&raw(before)).as_str(), wrapped);
        assert_eq!(wrap_unannounced(&raw(before)).as_str(), wrapped);
    }
    let object = raw(r#"{"structuredContent":{"a":1}}"#);
    assert_eq!(wrap_result(&object).as_str(), r#"{"structuredContent":{"result":{"a":1}}}"#);
    assert_eq!(wrap_unannounced(&object), object);
    for text in [r#"{"content":[]}"#, "{}", "null"] {
        assert_eq!(wrap_result(&raw(text)).as_str(), text);
        assert_eq!(wrap_unannounced(&raw(text)).as_str(), text);
    }
}

#[test]
fn hostile_schemas_cost_little() {
    for levels in [MAX_DEPTH, 100_000] {
        let (open, close) = (r#"{"items":"#.repeat(levels), "}".repeat(levels));
        let deep = raw(&format!(r#"{{"name":"t","outputSchema":{open}{{}}{close}}}"#));
        assert_eq!(wrap_definition(&deep).expect("left out").as_str(), r#"{"name":"t"}"#);
    }
    let wide: Vec<String> =
        (0..20_000).map(|at| format!(r##""p{at}":{{"$ref":"#/a","$id":"#x"}}"##)).collect();
    let wide = inner(&format!(r#"{{"properties":{{{}}}}}"#, wide.join(",")));
    assert_eq!(wide.matches("#/properties/result/a").count(), 20_000);
}

fn schema() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::json!(null)),
        Just(serde_json::json!({"$ref": "#"})),
        Just(serde_json::json!({"$ref": "#/a", "const": {"$ref": "#"}})),
        "[#/a$]{0,4}".prop_map(serde_json::Value::from),
    ];
    let key = prop::sample::select(vec!["items", "properties", "$defs", "$id", "$ref", "enum", "x"]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|members| serde_json::json!(members)),
        ]
    })
}

proptest! {
    #[test]
    fn any_wrapped_schema_is_json_and_keeps_all_but_pointers(schema in schema()) {
        let definition = Raw::of(&serde_json::json!({"name": "t", "outputSchema": schema}));
        if let Some(wrapped) = wrap_definition(&definition) {
            let wrapped = Raw::parse(wrapped.bytes()).expect("JSON");
            prop_assert_eq!(wrap_definition(&wrapped), None);
            let inner = wrapped.get(SCHEMA).and_then(|s| s.get("properties")).and_then(|p| p.get(RESULT));
            let inner = inner.expect("the schema").as_str().replace("\"#/properties/result", "\"#");
            prop_assert_eq!(inner, schema.to_string());
        }
    }
}
