//! Results of `tools/call`.

use serde::Serialize;

use super::refusal::Refusal;
use json::Raw;
use protocol::{Reply, caching};
use upstream::api::Error;

/// Why a tool has no result.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The arguments were refused. The client may correct them.
    Refused(Refusal),
    /// The service that the tool needs failed.
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

/// Converts the outcome of a tool to the return value of `Builtin::call`.
pub(super) fn reply(outcome: Result<Raw, Failure>) -> Result<Reply, Error> {
    match outcome {
        Ok(answer) => Ok(Ok(result(&answer))),
        Err(Failure::Refused(refusal)) => Ok(Ok(refused(&refusal))),
        Err(Failure::Failed(error)) => Err(error),
    }
}

/// Marks a result that is valid only now, so that it is not cached, even if an operator enabled caching for
/// the server.
pub(super) fn passing(reply: Reply) -> Reply {
    reply.map(|result| result.with(caching::TTL, &Raw::of(&0)))
}

/// A tool result, with members in this order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    content: &'a [TextContent<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Raw>,
    is_error: bool,
}

#[derive(Serialize)]
struct TextContent<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// Makes a result of `answer`, an object that fits the tool's output schema. Repeats it as text for clients
/// without support for structured content.
pub(super) fn result(answer: &Raw) -> Raw {
    let content = [TextContent { r#type: "text", text: answer.as_str() }];
    Raw::of(&ToolResult { content: &content, structured_content: Some(answer), is_error: false })
}

/// Makes an error result of a refusal.
pub(super) fn refused(refusal: &Refusal) -> Raw {
    failed(&refusal.raw())
}

/// Makes an error result of `why`, an object. It has no `structuredContent`, which would have to fit the
/// tool's output schema.
pub(super) fn failed(why: &Raw) -> Raw {
    failed_with(&[why.as_str()])
}

/// Makes an error result of a refusal by `tool`. Beside the JSON it has a line for people, which begins with
/// `Error in TOOL:` (specification of `chroma`).
pub(super) fn refused_by(tool: &str, refusal: &Refusal) -> Raw {
    let message = refusal.message();
    let text = format!("Error in {tool}: {}", message.strip_prefix(&format!("{tool}: ")).unwrap_or(message));
    failed_with(&[refusal.raw().as_str(), &text])
}

fn failed_with(texts: &[&str]) -> Raw {
    let content: Vec<_> = texts.iter().map(|text| TextContent { r#type: "text", text }).collect();
    Raw::of(&ToolResult { content: &content, structured_content: None, is_error: true })
}
