//! The tool of a technique: it sends a question to the bridge, and reads the result.
//!
//! Invariants: a result reaches the client byte for byte, unknown members included; a result that does not fit the contract is
//! a fault of the bridge.
//!
//! Not here: why there is no result (`failed`).

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::bridge::{Bridge, TechniqueRequest, malformed};
use super::failed::{AskFailure, Reported};
use crate::refusal::Refusal;
use crate::schema;
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Tool, ToolInfo};
use json::Raw;
use runtime::secret::SecretString;

/// Longest question, in characters.
const LONGEST: usize = 20_000;
/// Setting with its own argument.
const TOP_K: &str = "top_k";
/// Members of a result that must be objects. Serde would accept a list for them too.
const OBJECTS: [&str; 2] = ["metadata", "performance"];

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct AskInput {
    /// The question, in plain words.
    #[schemars(length(min = 1, max = LONGEST), regex(pattern = NOT_BLANK), example = "when do access tokens expire")]
    pub query: String,
    /// How many documents to look for at most. Left out: as many as the technique is set to.
    #[schemars(range(min = 1, max = 50))]
    pub top_k: Option<u32>,
    /// More settings of the technique, handed to it as they are. Left out: as it is set up.
    #[schemars(example = json!({"temperature": 0.2}))]
    pub params: Option<Map<String, Value>>,
}

/// Makes the tool of one technique.
pub(super) fn tool(about: &ToolInfo<'_>) -> Tool {
    Tool::with_schemas(about, &schema::of_input::<AskInput>(), &output_schema())
}

/// Returns the bridge's result of `technique`, unchanged.
pub(super) async fn ask(bridge: &Bridge, technique: &str, input: AskInput) -> Result<Raw, AskFailure> {
    let params = params(input.params.unwrap_or_default(), input.top_k)?;
    let request = TechniqueRequest { technique, query: &input.query, params: &params };
    let answered = bridge.invoke(&request).await.map_err(AskFailure::of_http)?;
    result_of(&answered, bridge.secrets())
}

fn params(mut params: Map<String, Value>, top_k: Option<u32>) -> Result<Map<String, Value>, Refusal> {
    if let Some(value) = params.get(TOP_K) {
        return Err(Refusal::new("invalid_argument", "params.top_k", value)
            .because("This setting is an argument of its own.")
            .valid("params without top_k")
            .suggest("Give it beside params, as top_k."));
    }
    if let Some(most) = top_k {
        params.insert(TOP_K.to_owned(), most.into());
    }
    Ok(params)
}

/// Further members that the contract names. Only their types are checked.
#[derive(Deserialize)]
#[allow(dead_code)] // deserializing checks the types
struct ContractMembers {
    answer: Option<String>,
    #[serde(default)]
    retrieved_documents: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    sources: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    performance: Option<Performance>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Performance {
    #[serde(default)]
    execution_time_ms: Option<f64>,
    #[serde(default)]
    tokens_used: Option<f64>,
}

/// Returns the output schema: the members of [`ContractMembers`], and any others.
fn output_schema() -> Value {
    let list = |what: &str| json!({"type": ["array", "null"], "items": {}, "description": what});
    json!({
        "type": "object",
        "properties": {
            "answer": {"type": ["string", "null"], "description": "The answer in words; null of a technique that only finds."},
            "retrieved_documents": list("What was found, best first."),
            "sources": list("Where that is from."),
            "metadata": {"type": ["object", "null"], "description": "What the technique says of its way to the answer."},
            "performance": {
                "type": ["object", "null"],
                "properties": {
                    "execution_time_ms": {"type": ["number", "null"]},
                    "tokens_used": {"type": ["number", "null"]},
                },
                "additionalProperties": true,
            },
        },
        "required": ["answer"],
        "additionalProperties": true,
    })
}

/// Reads the result in `answered`, or why there is none. The reason contains none of `secrets`.
fn result_of(answered: &Raw, secrets: &[SecretString]) -> Result<Raw, AskFailure> {
    let fault = |why: &str| AskFailure::Bridge(malformed(why));
    let Some(success) = answered.get_as::<bool>("success") else {
        return Err(fault("`success` is neither true nor false"));
    };
    if !success {
        return Err(AskFailure::Reported(Box::new(Reported::of(answered, secrets))));
    }
    let result =
        answered.get("result").filter(Raw::is_object).ok_or_else(|| fault("there is no `result`"))?;
    let is_object =
        |name: &&str| result.get(name).is_none_or(|member| member.is_object() || member.is_null());
    let fits = OBJECTS.iter().all(is_object) && result.read::<ContractMembers>().is_ok();
    if result.part("answer").is_none() || !fits {
        return Err(fault("a member of `result` is of another type, or `answer` is missing"));
    }
    Ok(result)
}
