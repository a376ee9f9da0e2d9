//! The result of a technique, as the bridge wrote it.
//!
//! Invariants: a result reaches the client byte for byte, unknown members included; a result that does not
//! fit the contract is a fault of the bridge.
//!
//! Not here: why there is no result (`failed`).

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::bridge::malformed;
use super::failed::{AskFailure, Reported};
use json::Raw;
use runtime::secret::SecretString;

/// Members of a result that must be objects. Serde would accept a list for them too.
const OBJECTS: [&str; 2] = ["metadata", "performance"];

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
pub(super) fn schema() -> Value {
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
pub(super) fn read(answered: &Raw, secrets: &[SecretString]) -> Result<Raw, AskFailure> {
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
