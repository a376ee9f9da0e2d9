//! The tool of a technique: it sends a question to the bridge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer;
use super::bridge::{Bridge, TechniqueRequest};
use super::failed::AskFailure;
use crate::refusal::Refusal;
use crate::schema;
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Tool, ToolInfo};
use json::Raw;

/// Longest question, in characters.
const LONGEST: usize = 20_000;
/// Setting with its own argument.
const TOP_K: &str = "top_k";

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
    Tool::with_schemas(about, &schema::of_input::<AskInput>(), &answer::schema())
}

/// Returns the bridge's result of `technique`, unchanged.
pub(super) async fn ask(bridge: &Bridge, technique: &str, input: AskInput) -> Result<Raw, AskFailure> {
    let params = params(input.params.unwrap_or_default(), input.top_k)?;
    let request = TechniqueRequest { technique, query: &input.query, params: &params };
    let answered = bridge.invoke(&request).await.map_err(AskFailure::of_http)?;
    answer::read(&answered, bridge.secrets())
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
