//! Results of tools in the form of the REST API.
//!
//! Invariant: every value keeps the bytes that the server wrote, so large numbers, order and unknown
//! members survive. Not here: calls without an answer (`problem`).

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use super::view::in_ms;
use auth::Principal;
use gateway::manager::CallResponse;
use json::Raw;
use protocol::JsonObject;
use protocol::error::code::INVALID_PARAMS;
use protocol::error_code::CallCode;
use protocol::{ErrorCode, ErrorObject};
use runtime::memory::{Account, Charge, ChargeKind, Exhausted, SMALL};
use runtime::telemetry::RequestId;

/// Approximate size of an answer beside the text of the tool.
const ENVELOPE: usize = 512;

/// The answer of a tool.
#[derive(Debug, ToSchema)]
#[schema(as = CallAnswer)]
pub(super) struct Answer<'a> {
    /// Whether the tool did what it was asked to.
    success: bool,
    /// The tool's `structuredContent` when it has one; else the JSON value of a single text block
    /// that is JSON; else the text, several blocks joined with a line feed. `null` when there is no
    /// text, and for a failure that has a text only.
    #[schema(value_type = Value)]
    data: Raw,
    /// The tool's `structuredContent`. Only when it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    structured_content: Option<Raw>,
    /// The content blocks of MCP, untouched.
    #[schema(value_type = Vec<JsonObject>)]
    content: Raw,
    /// The failure as the tool or its server describes it. Only when `success` is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    error: Option<Raw>,
    /// The kind of failure. Only when `success` is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallCode, required = false)]
    code: Option<ErrorCode>,
    /// Advice for the caller. Only when `success` is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hint: Option<&'static str>,
    /// Whether the same call can succeed when it is made again. Only when `success` is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retryable: Option<bool>,
    /// The JSON-RPC error object of the server, as it sent it. Only with `rpc_error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = JsonObject)]
    rpc_error: Option<Raw>,
    /// The tool's name at its server.
    #[schema(examples("create_issue"))]
    tool: &'a str,
    /// The server that ran it.
    #[schema(examples("issues"))]
    server: &'a str,
    /// `tool` under its older name.
    #[schema(examples("create_issue"))]
    tool_name: &'a str,
    /// `server` under its older name.
    #[schema(examples("issues"))]
    server_name: &'a str,
    /// From the request to the answer, waiting and retries included.
    #[schema(examples(234.5), minimum = 0)]
    execution_time_ms: f64,
    /// The id of the request, which the gateway's log has too.
    #[schema(value_type = String, format = "uuid")]
    request_id: RequestId,
}

/// The server's answer, before its name and the duration are added.
struct AnswerParts {
    data: Option<Raw>,
    structured: Option<Raw>,
    content: Option<Raw>,
    failure: Option<(ErrorCode, Raw)>,
    rpc_error: Option<Raw>,
}

impl<'a> Answer<'a> {
    /// Returns the answer of a call; a problem if the server refused the arguments, or Switchyard its answer.
    pub(super) fn of(called: &'a CallResponse, tool: &'a str, id: RequestId) -> Result<Self, Problem> {
        if let Err(error) = &called.reply
            && let Some(problem) = error.problem().filter(|_| !needs_input(error))
        {
            return Err(problem.clone().into());
        }
        let parts = match &called.reply {
            Ok(result) if result.is_object() => of_result(result),
            Ok(_) => {
                let problem = not_an_object(Some(&called.server));
                return Err(problem.with(|problem| problem.tool = Some(tool.to_owned())));
            }
            Err(error) if needs_input(error) => {
                AnswerParts::failed(ErrorCode::InputRequired, Raw::of(&error.message()))
            }
            Err(error) if error.code() == INVALID_PARAMS => {
                let problem = Problem::new(ErrorCode::InvalidArguments, error.message());
                let problem = problem.answered_by(Some(&called.server), Some(error));
                return Err(problem.with(|problem| problem.tool = Some(tool.to_owned())));
            }
            Err(error) => of_error(error),
        };
        let (code, error) = parts.failure.unzip();
        Ok(Self {
            success: code.is_none(),
            data: parts.data.unwrap_or_else(null),
            content: parts.content.unwrap_or_else(|| Raw::of(&[(); 0])),
            error,
            code,
            hint: code.map(|code| code.row().action),
            retryable: code.map(ErrorCode::is_retryable),
            rpc_error: parts.rpc_error,
            structured_content: parts.structured,
            tool,
            server: &called.server,
            tool_name: tool,
            server_name: &called.server,
            execution_time_ms: in_ms(called.elapsed),
            request_id: id,
        })
    }

    /// Prints it, in about `size` bytes.
    fn print(&self, size: usize) -> Bytes {
        let mut out = PrintedMembers(Vec::with_capacity(size));
        out.own("success", Some(self.success));
        out.copied("data", Some(&self.data));
        out.copied("structured_content", self.structured_content.as_ref());
        out.copied("content", Some(&self.content));
        out.copied("error", self.error.as_ref());
        out.own("code", self.code);
        out.own("hint", self.hint);
        out.own("retryable", self.retryable);
        out.copied("rpc_error", self.rpc_error.as_ref());
        out.own("tool", Some(self.tool));
        out.own("server", Some(self.server));
        out.own("tool_name", Some(self.tool_name));
        out.own("server_name", Some(self.server_name));
        out.own("execution_time_ms", Some(self.execution_time_ms));
        out.own("request_id", Some(self.request_id));
        out.0.push(b'}');
        out.0.into()
    }
}

/// The printed members of an answer. The derived printer would read each value of a server once more.
struct PrintedMembers(Vec<u8>);

impl PrintedMembers {
    /// Adds a value of a server as it is.
    fn copied(&mut self, name: &str, value: Option<&Raw>) {
        if let Some(value) = value {
            self.name(name);
            self.0.extend_from_slice(value.bytes());
        }
    }

    fn own(&mut self, name: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.name(name);
            serde_json::to_writer(&mut self.0, &value).expect("own types print as JSON");
        }
    }

    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(if self.0.is_empty() { b"{\"" } else { b",\"" });
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }
}

/// Prints the answer of `called`, charged to `principal` if it is large.
pub(super) fn printed(
    called: &CallResponse,
    tool: &str,
    id: RequestId,
    principal: &Principal,
) -> Result<Bytes, Problem> {
    let size = called.reply.as_ref().unwrap_or_else(|error| error.raw()).bytes().len();
    let mut charge = Charge::open(Account::Principal(Arc::clone(principal.id())), ChargeKind::Answer);
    // While it is printed, the text of a tool is in memory five times: by itself, as a value, and three times in the
    // answer.
    if 2 * size >= SMALL {
        charge.cover(5 * size).map_err(exhausted)?;
    }
    let printed = Answer::of(called, tool, id)?.print(2 * size + ENVELOPE);
    if printed.len() < SMALL { Ok(printed) } else { charge.hold(printed).map_err(exhausted) }
}

/// The tool has run, so this is not the refusal of a request.
pub(super) fn exhausted(_: Exhausted) -> Problem {
    gateway::error::answer_discarded().into()
}

/// The answer of `server` is no result.
pub(super) fn not_an_object(server: Option<&str>) -> Problem {
    Problem::new(ErrorCode::InvalidAnswer, "the result is not an object").answered_by(server, None)
}

/// Whether the call failed because the server needs input that it did not get.
pub(super) fn needs_input(error: &ErrorObject) -> bool {
    use ErrorCode as C;
    let codes = [C::InputRefused, C::ClientCannotBeAsked, C::TooManyRounds, C::TooManyQuestions];
    error.problem().is_some_and(|problem| codes.contains(&problem.code()))
}

fn of_result(result: &Raw) -> AnswerParts {
    let content = result.get("content").filter(|content| !content.is_null());
    let kind = result.text("resultType");
    match kind.as_deref() {
        None | Some("complete") => of_complete(result, content),
        Some("input_required") => {
            let text = "the tool asks for input, which a REST call cannot give: call it over MCP";
            AnswerParts::failed(ErrorCode::InputRequired, Raw::of(text))
        }
        Some(other) => {
            let text =
                format!("the server answered with a result of type {other:?}, which REST cannot follow");
            AnswerParts::failed(ErrorCode::UnsupportedResult, Raw::of(&text))
        }
    }
}

fn of_complete(result: &Raw, content: Option<Raw>) -> AnswerParts {
    let texts = texts(content.as_ref());
    let content = content.filter(|content| content.bytes().starts_with(b"["));
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    let is_error = result.get_as("isError") == Some(true);
    let value = structured.clone().or_else(|| json_in(&texts, is_error));
    if is_error {
        let text = joined(&texts).unwrap_or_else(|| Raw::of("the tool reported an error without a text"));
        return AnswerParts {
            data: value,
            structured,
            content,
            failure: Some((ErrorCode::ToolError, text)),
            rpc_error: None,
        };
    }
    AnswerParts {
        data: value.or_else(|| joined(&texts)),
        structured,
        content,
        failure: None,
        rpc_error: None,
    }
}

fn of_error(error: &ErrorObject) -> AnswerParts {
    AnswerParts {
        rpc_error: Some(error.raw().clone()),
        ..AnswerParts::failed(ErrorCode::RpcError, Raw::of(&text_of(error)))
    }
}

/// The message of a server's error, which may have none.
pub(super) fn text_of(error: &ErrorObject) -> String {
    match error.message() {
        text if text.is_empty() => format!("the server answered with the error {}", error.code()),
        text => text,
    }
}

impl AnswerParts {
    fn failed(code: ErrorCode, text: Raw) -> Self {
        Self { data: None, structured: None, content: None, failure: Some((code, text)), rpc_error: None }
    }
}

/// Returns the texts of the text blocks, as JSON strings. Some servers send a block in the place of the list, or a text in
/// the place of a block.
fn texts(content: Option<&Raw>) -> Vec<Raw> {
    let Some(content) = content else { return Vec::new() };
    let is_list = content.bytes().starts_with(b"[");
    let blocks = if is_list { content.elements().collect() } else { vec![content.clone()] };
    let is_text = |block: &Raw| block.part("type").is_some_and(|kind| kind.bytes() == b"\"text\"");
    let text = |block: Raw| if is_text(&block) { block.get("text") } else { Some(block) };
    blocks.into_iter().filter_map(text).filter(|text| text.bytes().starts_with(b"\"")).collect()
}

/// Returns the value of a single text that is JSON. An error may have further texts for people after an object.
fn json_in(texts: &[Raw], is_error: bool) -> Option<Raw> {
    let (text, others) = texts.split_first()?;
    let text = text.as_part().text()?;
    let value = Raw::parse(&text.into_owned().into()).ok()?;
    (others.is_empty() || is_error && value.is_object()).then_some(value)
}

/// Joins all texts with line feeds. They are joined in their JSON spelling, escapes included, so that
/// a text that is not valid Unicode passes too.
fn joined(texts: &[Raw]) -> Option<Raw> {
    let inner = |text: &Raw| text.as_str().get(1..text.as_str().len() - 1).unwrap_or_default().to_owned();
    match texts {
        [] => None,
        [text] => Some(text.clone()),
        texts => {
            let all = texts.iter().map(inner).collect::<Vec<_>>().join("\\n");
            Raw::parse(&format!("\"{all}\"").into()).ok()
        }
    }
}

fn null() -> Raw {
    Raw::of(&())
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
