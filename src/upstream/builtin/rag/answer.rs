//! What a technique answered: its result as it was written, or why there is none.
//!
//! Invariants: a result reaches the client byte for byte, also what nobody here knows of it; one that
//! does not fit the contract is a fault of the bridge; what the bridge says of a failure is one short
//! line without our key, and never a trace of its program (`rest` sees to both, also where HTTP says failure).

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bridge::malformed;
use crate::protocol::{Raw, Reply};
use crate::secret::SecretString;
use crate::upstream::builtin::answer::{failed, refused};
use crate::upstream::builtin::refusal::Refusal;
use crate::upstream::builtin::rest::plain;
use crate::upstream::error::Error;

/// Where nothing was said.
const SILENT: &str = "it did not say why";

/// The envelope.
#[derive(Deserialize)]
struct Answered {
    success: bool,
    #[serde(default)]
    error: Option<Value>,
}

/// Members of a result that are objects; to serde a list is one too.
const OBJECTS: [&str; 2] = ["metadata", "performance"];

/// The other members of a result that the contract names; they are only looked at.
#[derive(Deserialize)]
#[allow(dead_code)] // what it reads is what fits
struct Known {
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

/// What [`Known`] holds and whatever else the technique says.
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

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// What was asked can not be put to the bridge.
    Refused(Refusal),
    /// The bridge does not do what was asked, and says why.
    Said {
        /// What of the answer's `error` it is.
        what: What,
        /// Its words.
        cause: String,
    },
    /// The bridge failed.
    Bridge(Error),
}

/// What the bridge did not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// It tried, and failed.
    Failed,
    /// It does not take the settings.
    Invalid,
    /// It has no such technique any more.
    Missing,
}

impl What {
    /// `error`, `type` and `guidance` of the tool's answer.
    const fn words(self) -> [&'static str; 3] {
        match self {
            Self::Failed => [
                "technique_failed",
                "service_unavailable",
                "Try another technique; rag_health says how the service is.",
            ],
            Self::Invalid => {
                ["invalid_argument", "invalid_params", "Change the settings in params, or leave them out."]
            }
            Self::Missing => {
                ["unknown_technique", "not_found", "List the tools again: the service has others now."]
            }
        }
    }
}

/// A failed technique, as a tool answers it.
#[derive(Serialize)]
struct Told<'a> {
    error: &'static str,
    r#type: &'static str,
    technique: &'a str,
    message: String,
    guidance: &'static str,
    /// Each attempt costs; whether another one is worth it, the asker decides.
    retryable: bool,
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Failed {
    /// An error of HTTP. Some say no more than that the question was not to the bridge's liking.
    pub(super) fn of_http(error: Error) -> Self {
        match error {
            Error::Backend { status: 404 | 410, detail, .. } => {
                Self::Said { what: What::Missing, cause: detail }
            }
            Error::Backend { status: 400 | 413 | 422, detail, .. } => {
                Self::Said { what: What::Invalid, cause: detail }
            }
            other => Self::Bridge(other),
        }
    }

    /// Whether the list of techniques, or the key, may be another than we think.
    pub(super) const fn is_of_the_list(&self) -> bool {
        matches!(
            self,
            Self::Said { what: What::Missing, .. } | Self::Bridge(Error::Backend { status: 401 | 403, .. })
        )
    }

    /// What is told of it to whoever asked `technique`.
    pub(super) fn reply(self, technique: &str) -> Result<Reply, Error> {
        match self {
            Self::Refused(refusal) => Ok(Ok(refused(&refusal))),
            Self::Bridge(error) => Err(error),
            Self::Said { what, cause } => {
                let [error, r#type, guidance] = what.words();
                let message = format!("the technique {technique} gave no answer: {cause}");
                let told = Told { error, r#type, technique, message, guidance, retryable: false };
                Ok(Ok(failed(&Raw::of(&told))))
            }
        }
    }
}

/// The result in `answered`, or the cause that stands in its place, in which none of `secrets` is shown.
pub(super) fn read(answered: &Raw, secrets: &[SecretString]) -> Result<Raw, Failed> {
    let fault = |why: &str| Failed::Bridge(malformed(why));
    let Answered { success, error } =
        answered.read().map_err(|_| fault("`success` is neither true nor false"))?;
    if !success {
        return Err(Failed::Said { what: What::Failed, cause: cause(error.as_ref(), secrets) });
    }
    let result =
        answered.get("result").filter(Raw::is_object).ok_or_else(|| fault("there is no `result`"))?;
    let is_object =
        |name: &&str| result.get(name).is_none_or(|member| member.is_object() || member.is_null());
    let fits = OBJECTS.iter().all(is_object) && result.read::<Known>().is_ok();
    if result.part("answer").is_none() || !fits {
        return Err(fault("a member of `result` is of another type, or `answer` is missing"));
    }
    Ok(result)
}

/// The bridge's own words: a text, or one in an object.
fn cause(error: Option<&Value>, secrets: &[SecretString]) -> String {
    let said = error.and_then(|error| {
        let within = || ["message", "detail", "error"].iter().find_map(|name| error.get(*name)?.as_str());
        error.as_str().or_else(within)
    });
    let plain = plain(said.unwrap_or_default().to_owned(), secrets);
    if plain.is_empty() { SILENT.to_owned() } else { plain }
}
