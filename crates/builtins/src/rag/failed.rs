//! Why a technique gave no answer: what kind of failure it is, and all that the bridge tells of it.
//!
//! Invariants: the facts of the bridge reach the caller, cleaned (`rest::facts`). Its words are one short line
//! without the key of the bridge and without a trace. A refused key is never a reason to try another technique.
//!
//! Not here: how the bridge is asked (`bridge`), and what counts for the circuit breaker.

use serde::Serialize;

use crate::answer::{failed, refused};
use crate::refusal::Refusal;
use crate::rest::{Cleaner, facts};
use json::Raw;
use protocol::Reply;
use protocol::problem::USUAL_WAIT;
use runtime::secret::SecretString;
use upstream::api::Error;

/// The message of a bridge that gives no reason.
const SILENT: &str = "it did not say why";
/// Texts that tell a missing technique, in lower case.
const MISSING: [&str; 2] = ["unknown technique", "no such technique"];
/// Texts that tell refused credentials, in lower case.
const DENIED: [&str; 7] = [
    "unauthorized",
    "unauthorised",
    "not authenticated",
    "not authorized",
    "authentication failed",
    "authentication required",
    "invalid credentials",
];
/// Texts for a key, and what is wrong with it. A text that has one of each tells refused credentials.
const KEY: [&str; 5] = ["api key", "api-key", "api_key", "apikey", "access token"];
const WRONG: [&str; 9] =
    ["invalid", "incorrect", "missing", "wrong", "expired", "revoked", "required", "unknown", "not valid"];

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum AskFailure {
    /// The arguments cannot be sent to the bridge.
    Refused(Refusal),
    /// The bridge does not do what was asked, and says why.
    Reported(Box<Reported>),
    /// The bridge failed.
    Bridge(Error),
}

/// A failure as the bridge tells it.
#[derive(Debug)]
pub(super) struct Reported {
    kind: FailureKind,
    /// Its words, cleaned.
    cause: String,
    /// Its other facts, an object.
    facts: Option<Raw>,
}

/// The kinds of failure that callers handle differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureKind {
    /// The technique ran and failed.
    Failed,
    /// The bridge has a bug. Its log has more below the id that it gave.
    Internal,
    /// The bridge does not take an argument.
    Invalid,
    /// The bridge does not have the technique any more.
    Missing,
    /// The bridge, or a service that it uses, refuses credentials.
    Denied,
    /// Too many questions.
    Limited,
    /// The technique took too long.
    Late,
}

impl FailureKind {
    /// `error`, `type` and `guidance` of the tool's answer.
    const fn words(self) -> [&'static str; 3] {
        match self {
            Self::Failed => [
                "technique_failed",
                "service_unavailable",
                "Try another technique; rag_health says how the service is.",
            ],
            Self::Internal => [
                "internal_error",
                "internal_error",
                "Do not repeat it. An operator finds the cause by `error_id`, if there is one, in the log of the bridge.",
            ],
            Self::Invalid => {
                ["invalid_argument", "invalid_params", "Change the settings in params, or leave them out."]
            }
            Self::Missing => {
                ["unknown_technique", "not_found", "List the tools again: the service has others now."]
            }
            Self::Denied => [
                "authentication_failed",
                "authentication_error",
                "An operator has to check `rag.api_key` of this server, and the keys that the service itself uses. \
                 Every technique fails until then.",
            ],
            Self::Limited => ["rate_limited", "rate_limited", "Wait before you ask again."],
            Self::Late => ["technique_timed_out", "timeout", "Ask for less, such as a smaller top_k."],
        }
    }

    /// The kind that `code` names, if it is one of HTTP or JSON-RPC, or a usual word.
    fn of_code(code: &Raw) -> Option<Self> {
        if let Ok(number) = code.read::<i64>() {
            return Self::of_number(number);
        }
        let word = code.read::<String>().ok()?.to_lowercase().replace(['-', ' '], "_");
        let says = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
        match () {
            () if says(&["authent", "unauthor", "api_key", "invalid_token", "forbidden", "auth_"]) => {
                Some(Self::Denied)
            }
            () if says(&["not_found", "unknown_technique"]) => Some(Self::Missing),
            () if says(&["rate_limit", "too_many"]) => Some(Self::Limited),
            () if says(&["timeout", "timed_out", "deadline"]) => Some(Self::Late),
            () if says(&["invalid", "validation", "bad_request"]) => Some(Self::Invalid),
            () if says(&["internal"]) => Some(Self::Internal),
            () if says(&["unavailable", "failed"]) => Some(Self::Failed),
            () => None,
        }
    }

    const fn of_number(code: i64) -> Option<Self> {
        match code {
            400 | 413 | 422 | -32600 | -32602 => Some(Self::Invalid),
            401 | 403 => Some(Self::Denied),
            404 | 410 | -32601 => Some(Self::Missing),
            408 | 504 => Some(Self::Late),
            429 => Some(Self::Limited),
            -32603 => Some(Self::Internal),
            500..=599 => Some(Self::Failed),
            _ => None,
        }
    }

    /// The kind that `text` tells.
    fn of_text(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
        match () {
            () if says(&MISSING) => Some(Self::Missing),
            () if says(&DENIED) || (says(&KEY) && says(&WRONG)) => Some(Self::Denied),
            () => None,
        }
    }

    /// The kind that `facts` and `cause` tell together. The most exact source comes first.
    fn of(facts: Option<&Raw>, cause: &str) -> Self {
        let fact = |name: &str| facts.and_then(|facts| facts.get(name));
        let word = || fact("data").and_then(|data| Self::of_code(&data.get("type")?));
        let has_field = || (fact("field").or_else(|| fact("valid_range"))).map(|_| Self::Invalid);
        let code = || fact("code").and_then(|code| Self::of_code(&code));
        word().or_else(code).or_else(|| Self::of_text(cause)).or_else(has_field).unwrap_or(Self::Failed)
    }
}

impl Reported {
    /// The failure in `answered`, an object with `success: false`. None of `secrets` is in it.
    pub(super) fn of(answered: &Raw, secrets: &[SecretString]) -> Self {
        let cleaner = Cleaner::new(secrets);
        let facts = facts(answered, &cleaner);
        let cause = cleaner.line(words(answered).unwrap_or_default());
        Self {
            kind: FailureKind::of(facts.as_ref(), &cause),
            cause: if cause.is_empty() { SILENT.to_owned() } else { cause },
            facts,
        }
    }

    /// The words of a bridge that refuses credentials; none of any other failure.
    pub(super) fn into_denial(self) -> Option<String> {
        (self.kind == FailureKind::Denied).then_some(self.cause)
    }

    /// The answer of the tool of `technique`: the facts of the bridge beside what Switchyard says of the kind.
    fn result_for(&self, technique: &str) -> Raw {
        let [error, r#type, guidance] = self.kind.words();
        let fact = |name: &str| self.facts.as_ref().and_then(|facts| facts.get(name));
        let result = Raw::of(&FailedTechnique {
            error,
            r#type,
            technique,
            message: format!("the technique {technique} gave no answer: {}", self.cause),
            guidance: fact("guidance").unwrap_or_else(|| Raw::of(guidance)),
            retryable: fact("retryable").unwrap_or_else(|| Raw::of(&fact("retry_after_seconds").is_some())),
            retry_after_seconds: (self.kind == FailureKind::Failed)
                .then(|| fact("retry_after_seconds").unwrap_or_else(|| Raw::of(&USUAL_WAIT))),
        });
        let others = self.facts.iter().flat_map(Raw::members);
        let others = others.filter(|(name, _)| result.part(name).is_none());
        others.fold(result.clone(), |result, (name, fact)| result.with(&name, &fact))
    }
}

/// The words of a failure: a text, or the text in an object.
fn words(answered: &Raw) -> Option<String> {
    let text =
        |object: &Raw| ["message", "detail", "error"].iter().find_map(|name| object.get_as::<String>(name));
    let error = answered.get("error").filter(|error| !error.is_null());
    match error {
        Some(error) => error.read().ok().or_else(|| text(&error)),
        None => text(answered),
    }
}

/// A failed technique, as its tool answers. The facts of the bridge are added to it.
#[derive(Serialize)]
struct FailedTechnique<'a> {
    error: &'static str,
    r#type: &'static str,
    technique: &'a str,
    message: String,
    guidance: Raw,
    /// False unless the bridge says otherwise: each attempt costs.
    retryable: Raw,
    /// Specification of `rag`: `service_unavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<Raw>,
}

impl From<Refusal> for AskFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl AskFailure {
    /// An error of HTTP. Some of them only say that the bridge does not take the question.
    pub(super) fn of_http(error: Error) -> Self {
        match error {
            Error::Backend { status: status @ (400 | 404 | 410 | 413 | 422), detail, facts, .. } => {
                let kind =
                    if matches!(status, 404 | 410) { FailureKind::Missing } else { FailureKind::Invalid };
                Self::Reported(Box::new(Reported { kind, cause: detail, facts: facts.map(|facts| *facts) }))
            }
            other => Self::Bridge(other),
        }
    }

    /// Whether the cached list of techniques, or the key, may be out of date.
    pub(super) fn is_of_the_list(&self) -> bool {
        match self {
            Self::Reported(said) => matches!(said.kind, FailureKind::Missing | FailureKind::Denied),
            Self::Bridge(error) => matches!(error, Error::Backend { status: 401 | 403, .. }),
            Self::Refused(_) => false,
        }
    }

    /// The reply to the caller of `technique`.
    pub(super) fn reply(self, technique: &str) -> Result<Reply, Error> {
        match self {
            Self::Refused(refusal) => Ok(Ok(refused(&refusal))),
            Self::Bridge(error) => Err(error),
            Self::Reported(said) => Ok(Ok(failed(&said.result_for(technique)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(error: &serde_json::Value) -> FailureKind {
        Reported::of(&Raw::of(&json!({"success": false, "error": error})), &[]).kind
    }

    #[test]
    fn the_kind_of_a_failure_is_told_by_its_code_its_words_or_its_facts() {
        for (error, expected) in [
            (json!("the retriever has no index"), FailureKind::Failed),
            (json!("no passage tells how to rotate an API key"), FailureKind::Failed),
            (json!("Invalid API key"), FailureKind::Denied),
            (json!("Incorrect API key provided: sk-…"), FailureKind::Denied),
            (json!("Authentication failed"), FailureKind::Denied),
            (json!("Unknown technique: hyde"), FailureKind::Missing),
            (json!({"code": "INVALID_API_KEY", "message": "no"}), FailureKind::Denied),
            (json!({"code": "INVALID_PARAMETER", "message": "no"}), FailureKind::Invalid),
            (json!({"code": "RATE_LIMITED", "message": "no"}), FailureKind::Limited),
            (json!({"code": "PIPELINE_TIMEOUT", "message": "no"}), FailureKind::Late),
            (json!({"code": -32602, "message": "no"}), FailureKind::Invalid),
            (json!({"code": 503, "message": "no"}), FailureKind::Failed),
            (json!({"code": 7, "message": "no", "data": {"field": "x"}}), FailureKind::Invalid),
            (json!({"code": "E7", "message": "no", "data": {"type": "timeout"}}), FailureKind::Late),
            (json!({"code": "INTERNAL_ERROR", "message": "no"}), FailureKind::Internal),
            (json!({"code": -32603, "message": "no"}), FailureKind::Internal),
            (
                json!({"message": "no", "data": {"type": "internal_error", "error_id": "e-1"}}),
                FailureKind::Internal,
            ),
            (json!(7), FailureKind::Failed),
        ] {
            assert_eq!(kind(&error), expected, "{error}");
        }
    }
}
