//! Members of all answers that mean the same have the same name: `server`, `tool`, and times in `_ms`.
//!
//! Walks the `OpenAPI` document. Not here: the values, which `fixture` compares with the document in every other test.

use std::collections::BTreeSet;

use serde_json::Value;

/// Parts of the names of times that are not dates.
const TIMES: &[&str] = &[
    "age", "duration", "elapsed", "latency", "minutes", "ms", "pause", "seconds", "time", "timeout", "ttl",
    "uptime", "wait",
];
/// Names that the specification of the manager gives, and that have a member in `_ms` beside them.
const SPECIFIED: &[(&str, &str)] = &[("seconds_until_probe", "probe_in_ms")];
/// Names of settings that are no times.
const NUMBERS: &[&str] = &["calls_at_a_time"];
/// Schemas that occur only within an entry with `server`, or that have `servers`.
const WITHIN: &[&str] = &["ChangedTool", "ExplainedLimit", "Secret"];

/// The schemas that a request body refers to.
fn requested(document: &Value) -> BTreeSet<String> {
    let operations = document["paths"].as_object().into_iter().flatten();
    let operations = operations.flat_map(|(_, item)| item.as_object().into_iter().flatten());
    let bodies = operations.flat_map(|(_, operation)| {
        operation["requestBody"]["content"].as_object().cloned().unwrap_or_default()
    });
    bodies.filter_map(|(_, content)| Some(name(&content["schema"])?.to_owned())).collect()
}

fn name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// All objects of the schemas of answers: the name of the schema, and the members of the object.
fn objects(document: &Value) -> Vec<(String, serde_json::Map<String, Value>)> {
    fn walk(name: &str, schema: &Value, found: &mut Vec<(String, serde_json::Map<String, Value>)>) {
        match schema {
            Value::Object(members) => {
                if let Some(properties) = members.get("properties").and_then(Value::as_object) {
                    found.push((name.to_owned(), properties.clone()));
                }
                members.values().for_each(|schema| walk(name, schema, found));
            }
            Value::Array(schemas) => schemas.iter().for_each(|schema| walk(name, schema, found)),
            _ => {}
        }
    }
    let (requested, mut found) = (requested(document), Vec::new());
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        if !requested.contains(name) {
            walk(name, schema, &mut found);
        }
    }
    assert!(found.len() > 30 && requested.len() >= 3, "{} objects, not {requested:?}", found.len());
    found
}

fn document() -> Value {
    serde_json::to_value(super::operations::described()).expect("JSON")
}

#[test]
fn an_answer_that_names_a_server_or_a_tool_has_the_member_server() {
    for (schema, members) in objects(&document()) {
        let names = members.contains_key("name") || members.contains_key("tool");
        let is_clear = !names || members.contains_key("server") || WITHIN.contains(&&*schema);
        assert!(is_clear, "{schema} has no `server`: {:?}", members.keys());
    }
}

#[test]
fn times_in_answers_are_numbers_of_milliseconds_and_say_so() {
    let mut count = 0;
    for (schema, members) in objects(&document()) {
        for (member, described) in &members {
            let is_time = member.split('_').any(|part| TIMES.contains(&part));
            if !is_time || NUMBERS.contains(&&**member) {
                continue;
            }
            if let Some((_, beside)) = SPECIFIED.iter().find(|(specified, _)| specified == member) {
                assert!(members.contains_key(*beside), "{schema} has {member} and not {beside}");
                continue;
            }
            assert!(member.ends_with("_ms"), "{schema}: {member} does not say that it is in milliseconds");
            let kind = described["type"].as_array().map_or(&described["type"], |kinds| &kinds[0]);
            let is_number = kind == "number" || kind == "integer";
            assert!(is_number && described["minimum"] == 0, "{schema}: {member} is {described}");
            count += 1;
        }
    }
    assert!(count >= 6, "{count} times");
}
