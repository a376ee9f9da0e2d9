//! What a tool answers, as the result of `tools/call`.

use serde::Serialize;

use super::refusal::Refusal;
use json::Raw;
use protocol::{Reply, caching};
use upstream::api::Error;

/// Why a tool has no answer.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// What was asked can not be done: the caller may do better.
    Refused(Refusal),
    /// What is needed for it failed.
    Failed(Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What came of a tool, for `Builtin::call`.
pub(super) fn reply(outcome: Result<Raw, Failure>) -> Result<Reply, Error> {
    match outcome {
        Ok(answer) => Ok(Ok(result(&answer))),
        Err(Failure::Refused(refusal)) => Ok(Ok(refused(&refusal))),
        Err(Failure::Failed(error)) => Err(error),
    }
}

/// An answer that is true only now: it is kept nowhere, also where an operator has those of its server kept.
pub(super) fn passing(reply: Reply) -> Reply {
    reply.map(|result| result.with(caching::TTL, &Raw::of(&0)))
}

/// A tool's answer, members in this order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    content: [Text<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Raw>,
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// `answer`, an object that fits the tool's output schema, with the same as text for clients that know
/// nothing of structure.
pub(super) fn result(answer: &Raw) -> Raw {
    let content = [Text { r#type: "text", text: answer.as_str() }];
    Raw::of(&ToolResult { content, structured_content: Some(answer), is_error: false })
}

/// What can not be done, with all that helps to do better.
pub(super) fn refused(refusal: &Refusal) -> Raw {
    failed(&refusal.raw())
}

/// `why`, an object, in place of an answer. No `structuredContent`: it would have to fit the tool's
/// output schema.
pub(super) fn failed(why: &Raw) -> Raw {
    let content = [Text { r#type: "text", text: why.as_str() }];
    Raw::of(&ToolResult { content, structured_content: None, is_error: true })
}
