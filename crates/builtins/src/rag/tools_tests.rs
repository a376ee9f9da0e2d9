//! Tests of the tool definitions, and of the checks of arbitrary arguments.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::bridge::TechniqueNames;
use super::double::SIX;
use super::techniques::Offer;
use super::{ask, health};
use crate::hostile;
use crate::tool::Tool;
use json::Raw;

fn offer() -> Offer {
    let names = SIX.iter().chain(&["unheard_of"]).map(|&name| name.to_owned()).collect();
    Offer::of(TechniqueNames { names, others: 0 }, 64)
}

fn tools() -> Vec<Tool> {
    offer().techniques.into_iter().map(|technique| technique.tool).chain([health::tool()]).collect()
}

fn definition(tool: &Tool) -> Value {
    tool.definition().read().expect("JSON")
}

#[test]
fn every_definition_is_whole_and_true() {
    let mut descriptions = std::collections::BTreeSet::new();
    for tool in tools() {
        let (definition, name) = (definition(&tool), tool.name().to_owned());
        assert!(tool.is_known(), "{name}: a word of its schema is not checked");
        let annotations = &definition["annotations"];
        let costs = name != "rag_health";
        // It changes nothing, but is not retried automatically where it costs money.
        assert_eq!(
            (&annotations["readOnlyHint"], &annotations["idempotentHint"], &annotations["openWorldHint"]),
            (&json!(true), &json!(!costs), &json!(costs)),
            "{name}"
        );
        let description = definition["description"].as_str().expect("text").to_owned();
        assert!(description.len() > 80 && descriptions.insert(description), "{name}: one of its own");
        assert_eq!(definition["inputSchema"]["additionalProperties"], false);
        for (member, schema) in definition["inputSchema"]["properties"].as_object().expect("members") {
            assert!(schema["description"].is_string(), "{name}: {member} is not explained");
        }
    }
    assert_eq!(descriptions.len(), 8);
}

#[test]
fn a_technique_takes_what_is_specified() {
    let schema = definition(&tools()[0])["inputSchema"].clone();
    assert_eq!(schema["required"], json!(["query"]));
    let top_k = &schema["properties"]["top_k"];
    assert_eq!(
        (&top_k["type"], &top_k["minimum"], &top_k["maximum"]),
        (&json!("integer"), &json!(1), &json!(50))
    );
    assert_eq!(schema["properties"]["params"]["additionalProperties"], true);
    let names: Vec<&String> = schema["properties"].as_object().expect("members").keys().collect();
    assert_eq!(names, ["params", "query", "top_k"]);
}

#[test]
fn the_output_is_open_where_services_add_to_it() {
    let schema = definition(&tools()[0])["outputSchema"].clone();
    assert_eq!(schema["required"], json!(["answer"]));
    for at in ["", "/properties/performance"] {
        assert_eq!(schema.pointer(at).expect("a schema")["additionalProperties"], true, "{at}");
    }
    for member in ["answer", "retrieved_documents", "sources", "metadata", "performance"] {
        assert!(schema["properties"][member].is_object(), "{member}");
    }
}

#[test]
fn any_arguments_are_judged() {
    hostile::judges::<ask::AskInput>(&tools()[0], 400);
    hostile::judges::<health::HealthInput>(&health::tool(), 400);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_list_gives_tools_with_names(names in proptest::collection::vec(".{0,70}|[a-z_]{1,6}", 0..40), most in 1_usize..8) {
        let listed: TechniqueNames = TechniqueNames::of(&Raw::of(&names)).expect("a list");
        let known = listed.names.len();
        let offer = Offer::of(listed, most);
        prop_assert!(offer.techniques.len() <= most);
        prop_assert_eq!(offer.techniques.len() + offer.left_out.len() + offer.more_left_out, known);
        for technique in &offer.techniques {
            let name = technique.tool.name();
            prop_assert!(names.contains(&technique.name) && name != "rag_health" && name.len() <= 64);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)));
        }
    }
}
