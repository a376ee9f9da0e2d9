//! `docs/reference/rest.md` is what the `OpenAPI` document says.

use std::fmt::Write as _;

use serde_json::Value;

const INTRO: &str = "<!-- Made from openapi/switchyard.json. Renew it with UPDATE_GOLDEN=1. -->

# Reference: REST operations

This page lists every operation of the REST API with its role, parameters and status codes. [REST API](../rest-api.md)
explains requests and responses. A running gateway shows the whole document, with all schemas, at `/docs` and
`/openapi.json`. [Error codes](../errors.md) explains the problem documents of all codes from 400 on.

";

fn texts<'d>(value: &'d Value, member: &str) -> &'d str {
    value[member].as_str().unwrap_or_default()
}

/// The role that a description demands.
fn role(operation: &Value) -> String {
    let description = texts(operation, "description").split_whitespace().collect::<Vec<_>>().join(" ");
    let named = description.split_once("eeds the role *").and_then(|(_, rest)| rest.split('*').next());
    let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
    let other =
        if is_open || description.contains("Open to everybody") { "none" } else { "as its text says" };
    named.unwrap_or(other).to_owned()
}

/// The type of a schema, or the name of the schema that it refers to.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return format!("`{}`", reference.rsplit('/').next().unwrap_or_default());
    }
    let one_of = ["oneOf", "anyOf", "allOf"].iter().filter_map(|key| schema[*key].as_array()).flatten();
    let choices: Vec<String> = one_of.map(kind).filter(|kind| kind != "null").collect();
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(types) => {
            let names = types.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            names.collect::<Vec<_>>().join(" or ")
        }
        _ if !choices.is_empty() => choices.join(" or "),
        _ => "any value".to_owned(),
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn parameters(operation: &Value) -> String {
    let rows = operation["parameters"].as_array().into_iter().flatten().map(|parameter| {
        let (name, place) = (texts(parameter, "name"), texts(parameter, "in"));
        let required = yes_no(parameter["required"] == true);
        format!("| `{name}` | {place} | {} | {required} |\n", kind(&parameter["schema"]))
    });
    rows.collect()
}

/// The members of the JSON body of a request.
fn members(operation: &Value, document: &Value) -> String {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let name = texts(schema, "$ref").rsplit('/').next().unwrap_or_default();
    let schema = &document["components"]["schemas"][name];
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let rows = schema["properties"].as_object().into_iter().flatten().map(|(name, value)| {
        let is_required = yes_no(required.iter().any(|other| other == name));
        format!("| `{name}` | body | {} | {is_required} |\n", kind(value))
    });
    rows.collect()
}

/// Status codes, and the schemas of those below 400.
fn answers(operation: &Value) -> String {
    let all = operation["responses"].as_object().into_iter().flatten().map(|(status, answer)| {
        let contents = answer["content"].as_object().into_iter().flatten();
        let kinds: Vec<String> = contents
            .filter(|_| status.as_str() < "400")
            .map(|(media, content)| format!("{media}, {}", kind(&content["schema"])))
            .collect();
        if kinds.is_empty() { status.clone() } else { format!("{status} ({})", kinds.join("; ")) }
    });
    all.collect::<Vec<_>>().join(", ")
}

fn section(method: &str, path: &str, operation: &Value, document: &Value) -> String {
    let (method, summary) = (method.to_uppercase(), texts(operation, "summary"));
    let rows = parameters(operation) + &members(operation, document);
    let mut text = format!("## {method} {path}\n\n{summary}. Role: {}.\n\n", role(operation));
    if !rows.is_empty() {
        write!(text, "| parameter | where | type | required |\n|---|---|---|---|\n{rows}\n")
            .expect("a string");
    }
    text + &format!("Status: {}.\n\n", answers(operation))
}

#[test]
fn the_page_of_rest_operations_is_what_the_document_says() {
    let document = std::fs::read_to_string(super::file("openapi/switchyard.json")).expect("it is committed");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let (mut table, mut sections) =
        ("| operation | what | role |\n|---|---|---|\n".to_owned(), String::new());
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let title = format!("{} {path}", method.to_uppercase());
            writeln!(table, "| `{title}` | {} | {} |", texts(operation, "summary"), role(operation))
                .expect("a string");
            sections += &section(method, path, operation, &document);
        }
    }
    super::compare("docs/reference/rest.md", &format!("{INTRO}{table}\n{}\n", sections.trim_end()));
}
