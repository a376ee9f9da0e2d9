//! The `data` of the events of a streaming call: serializable, and described for `OpenAPI`.
//!
//! Not here: the stream (`call_stream`), and its last event, which is an answer (`answer`) or a problem (`problem`).

use serde::Serialize;
use utoipa::ToSchema;

use json::Raw;
use protocol::error_code::JsonObject;

/// `data` of the event `call`, which is the first one of a call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallEvent)]
pub(super) struct CallStart<'a> {
    /// The id of the call, with which its questions are answered.
    #[schema(format = "uuid")]
    pub(super) call: &'a str,
}

/// `data` of the event `progress`: what the server says of the progress, with members of its own.
#[derive(ToSchema)]
#[schema(as = ProgressEvent)]
#[allow(dead_code)] // describes what the server writes
pub(super) struct Advance {
    /// How far the call is.
    progress: f64,
    /// How far it has to go.
    #[schema(nullable = false)]
    total: Option<f64>,
    /// The state in words.
    #[schema(nullable = false)]
    message: Option<String>,
}

/// `data` of the event `message`: a log message of the server, with members of its own.
#[derive(ToSchema)]
#[schema(as = MessageEvent)]
#[allow(dead_code)] // describes what the server writes
pub(super) struct Message {
    /// The level of MCP.
    #[schema(examples("info"))]
    level: String,
    /// The part of the server that wrote it.
    #[schema(nullable = false)]
    logger: Option<String>,
    /// The message.
    data: serde_json::Value,
}

/// `data` of the event `question`: a request of the server, which `POST /call/{call}/answer` answers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuestionEvent)]
pub(super) struct ServerRequestData<'a> {
    /// Its number in this call.
    #[schema(minimum = 1)]
    pub(super) id: u64,
    #[schema(value_type = QuestionKind)]
    pub(super) kind: &'static str,
    /// The server that asks.
    #[schema(required = true)]
    pub(super) server: Option<&'a str>,
    /// The parameters of MCP.
    #[schema(value_type = JsonObject)]
    pub(super) request: Raw,
}

/// The kind of a question.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)] // describes the words of `call_stream`
enum QuestionKind {
    /// A person fills in a form, or opens a page.
    Elicitation,
    /// A model writes a message.
    Sampling,
    /// The folders that the client works in.
    Roots,
}

/// `data` of the event `question_withdrawn`: the server no longer waits for an answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuestionWithdrawnEvent)]
pub(super) struct Withdrawn {
    /// The number of the question.
    #[schema(minimum = 1)]
    pub(super) id: u64,
}
