//! Tests of the tool definitions, and of the checks of arbitrary arguments.

use serde_json::{Value, json};

use super::{collections, documents, rag, search, tools};
use crate::hostile;
use crate::r2r::config::AdvancedSearch;
use crate::tool::Tool;

fn definition(tool: &Tool) -> Value {
    tool.definition().read().expect("JSON")
}

fn by_name(name: &str) -> Tool {
    tools(AdvancedSearch::Hybrid).into_iter().find(|tool| tool.name() == name).expect("a tool")
}

#[test]
fn names_inputs_defaults_and_ranges_are_as_specified() {
    let input = |name| definition(&by_name(name))["inputSchema"].clone();
    let said = |schema: &Value, member: &str, what: &str| schema["properties"][member][what].clone();
    let schema = input("r2r_search");
    assert_eq!(schema["required"], json!(["query"]));
    assert_eq!(said(&schema, "search_mode", "enum"), json!(["basic", "advanced", "custom"]));
    assert_eq!(said(&schema, "search_mode", "default"), "advanced");
    let limit = |schema: &Value| ["minimum", "maximum", "default"].map(|what| said(schema, "limit", what));
    assert_eq!(limit(&schema), [1, 100, 10].map(Value::from));
    assert_eq!(said(&schema, "filters", "type"), "object");
    assert_eq!(said(&schema, "search_settings", "type"), "object");
    let schema = input("r2r_rag_query");
    assert_eq!(schema["required"], json!(["question"]));
    assert_eq!(said(&schema, "max_tokens", "default"), 500);
    let temperature =
        ["minimum", "maximum", "default"].map(|what| said(&schema, "temperature", what).as_f64());
    assert_eq!(temperature, [Some(0.0), Some(2.0), Some(0.7)]);
    assert_eq!(said(&schema, "include_sources", "default"), true);
    assert_eq!(said(&schema, "model", "default"), Value::Null);
    let schema = input("r2r_list_documents");
    assert!(schema.get("required").is_none());
    assert_eq!(limit(&schema), [1, 100, 50].map(Value::from));
    assert_eq!(said(&schema, "status_filter", "enum"), json!(["pending", "success", "failed", "all"]));
    assert_eq!(
        (said(&schema, "status_filter", "default"), said(&schema, "offset", "default")),
        (json!("all"), json!(0))
    );
    assert_eq!(input("r2r_monitor_task")["required"], json!(["document_id"]));
    let schema = input("r2r_list_collections");
    assert_eq!(limit(&schema), [1, 100, 20].map(Value::from));
}

#[test]
fn outputs_promise_what_is_specified() {
    let members = |schema: &Value| {
        let mut names: Vec<_> = schema["required"]
            .as_array()
            .expect("names")
            .iter()
            .map(|name| name.as_str().expect("text").to_owned())
            .collect();
        names.sort();
        names.join(" ")
    };
    for (name, at, expected) in [
        ("r2r_search", "", "cached count results search_mode"),
        ("r2r_rag_query", "", "answer cached model_used sources"),
        ("r2r_rag_query", "/properties/sources/items", "document document_id id score text"),
        ("r2r_list_documents", "", "cached documents limit offset total"),
        (
            "r2r_list_documents",
            "/properties/documents/items",
            "created_at document_id ingestion_status size_bytes title",
        ),
        ("r2r_monitor_task", "", "document_id extraction_status ingestion_status progress title"),
        ("r2r_list_collections", "", "cached collections total"),
        (
            "r2r_list_collections",
            "/properties/collections/items",
            "collection_id description document_count name user_count",
        ),
    ] {
        let output = definition(&by_name(name))["outputSchema"].clone();
        assert_eq!(members(output.pointer(at).expect("a schema")), expected, "{name}{at}");
    }
}

#[test]
fn every_definition_is_whole_closed_and_true() {
    for tool in tools(AdvancedSearch::Hybrid) {
        let definition = definition(&tool);
        assert!(tool.is_known(), "{}: a word of its schema is not checked", tool.name());
        for schema in ["inputSchema", "outputSchema"] {
            let text = definition[schema].to_string();
            assert_eq!(definition[schema]["additionalProperties"], false);
            assert!(
                !text.contains("$ref") && !text.contains("$schema") && !text.contains("\"title\":\""),
                "{text}"
            );
        }
        assert!(definition["description"].as_str().is_some_and(|text| text.len() > 40));
        let reads = !tool.name().starts_with("r2r_ingest_");
        assert_eq!(definition["annotations"]["readOnlyHint"], reads, "{}", tool.name());
        // Each query pays for a model, so it is never repeated automatically.
        let costs = tool.name() == "r2r_rag_query";
        assert_eq!(definition["annotations"]["idempotentHint"], !costs, "{}", tool.name());
        assert_eq!(definition["annotations"]["openWorldHint"], costs, "{}", tool.name());
        for (name, member) in definition["inputSchema"]["properties"].as_object().expect("members") {
            assert!(member["description"].is_string(), "{}: {name} is not explained", tool.name());
        }
    }
}

#[test]
fn a_search_that_asks_a_model_says_that_it_costs() {
    let search = |advanced| definition(&tools(advanced)[0]);
    let (plain, paid) = (search(AdvancedSearch::Hybrid), search(AdvancedSearch::R2r));
    for hint in ["idempotentHint", "openWorldHint"] {
        assert_ne!(plain["annotations"][hint], paid["annotations"][hint], "{hint}");
    }
    assert_eq!(plain["inputSchema"], paid["inputSchema"]);
}

#[test]
fn any_arguments_are_judged() {
    hostile::judges::<search::R2rSearchInput>(&by_name("r2r_search"), 400);
    hostile::judges::<rag::RagInput>(&by_name("r2r_rag_query"), 400);
    hostile::judges::<documents::DocumentListInput>(&by_name("r2r_list_documents"), 400);
    hostile::judges::<documents::MonitorInput>(&by_name("r2r_monitor_task"), 400);
    hostile::judges::<collections::ListCollectionsInput>(&by_name("r2r_list_collections"), 400);
}
