//! Open streaming calls and their server requests; `POST /call/{call}/answer`.
//!
//! ```text
//!         ask                    POST /call/{call}/answer
//! question ─▶ open under its id ───────────────────────────▶ answered
//!                │  the server withdraws it, or the call ends
//!                └─────────────────────────────────────────▶ gone
//! ```
//!
//! Invariants: only the principal that made a call can answer its questions; for all others it does not exist. Calls
//! and questions are bounded for each principal and in sum, and further ones are refused. A question that is dropped is
//! refused at its server.
//!
//! Not here: the events (`call_stream`), how long a question stays open (`upstream::call_events`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use utoipa::ToSchema;

use super::Api;
use super::body::{self, received};
use super::openapi::AnswerProblems;
use super::parameters::PathName;
use super::problem::Problem;
use auth::Principal;
use json::Raw;
use protocol::JsonObject;
use protocol::error::code::INTERNAL_ERROR;
use protocol::{ErrorCode, ErrorObject, Reply};
use runtime::telemetry::RequestId;
use upstream::Question;

/// The most streaming calls of one principal, and of all. Without authentication, all clients are one principal.
const MAX_CALLS: (usize, usize) = (256, 2048);
/// The most open questions of one principal, and of all.
const MAX_QUESTIONS: (usize, usize) = (256, 2048);
/// The most open questions of one call.
const MAX_OF_CALL: usize = 16;
/// The longest message of an error, in bytes.
const MAX_MESSAGE: usize = 2000;

/// The streaming calls that run.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenCalls(Arc<Mutex<HashMap<String, Entry>>>);

#[derive(Debug)]
struct Entry {
    principal: Arc<str>,
    last_id: u64,
    questions: HashMap<u64, Question>,
}

/// One streaming call. Dropping it refuses its open questions.
#[derive(Debug)]
pub(super) struct OpenCall {
    calls: OpenCalls,
    id: String,
}

impl OpenCalls {
    /// Begins a call of `principal`.
    pub(super) fn begin(&self, principal: &Arc<str>) -> Result<OpenCall, Problem> {
        let mut calls = self.lock();
        let own = calls.values().filter(|entry| entry.principal == *principal).count();
        if own >= MAX_CALLS.0 || calls.len() >= MAX_CALLS.1 {
            let detail = format!("{own} streaming calls of this principal run, and {} of all", calls.len());
            return Err(Problem::new(ErrorCode::Overloaded, detail)
                .hinting("wait until streaming calls end, or call without `Accept: text/event-stream`"));
        }
        let id = RequestId::new().to_string();
        let entry = Entry { principal: Arc::clone(principal), last_id: 0, questions: HashMap::new() };
        calls.insert(id.clone(), entry);
        drop(calls);
        Ok(OpenCall { calls: self.clone(), id })
    }

    /// Takes the open question `id` of a call of `principal`.
    fn take(&self, principal: &Arc<str>, call: &str, id: u64) -> Option<Question> {
        let mut calls = self.lock();
        let entry = calls.get_mut(call).filter(|entry| entry.principal == *principal)?;
        entry.questions.remove(&id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenCall {
    /// The id of the call.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Opens a question and returns its id; none, which refuses it, if too many are open.
    pub(super) fn ask(&self, question: Question) -> Option<u64> {
        let mut calls = self.calls.lock();
        let principal = Arc::clone(&calls.get(&self.id)?.principal);
        let open = |entry: &Entry| entry.questions.len();
        let own: usize = calls.values().filter(|entry| entry.principal == principal).map(open).sum();
        let all: usize = calls.values().map(open).sum();
        let entry = calls.get_mut(&self.id)?;
        if own >= MAX_QUESTIONS.0 || all >= MAX_QUESTIONS.1 || entry.questions.len() >= MAX_OF_CALL {
            return None;
        }
        entry.last_id += 1;
        entry.questions.insert(entry.last_id, question);
        Some(entry.last_id)
    }

    /// Refuses the open question `id`, which its client was not asked.
    pub(super) fn refuse(&self, id: u64) {
        let question = self.calls.lock().get_mut(&self.id).and_then(|entry| entry.questions.remove(&id));
        drop(question); // without the lock
    }

    /// Polls for a question that its server withdrew, and returns its id.
    pub(super) fn poll_withdrawn(&self, cx: &mut Context<'_>) -> Poll<u64> {
        let mut calls = self.calls.lock();
        let Some(entry) = calls.get_mut(&self.id) else { return Poll::Pending };
        let mut open = entry.questions.iter_mut();
        let over = open.find_map(|(id, question)| question.poll_withdrawn(cx).is_ready().then_some(*id));
        let Some(id) = over else { return Poll::Pending };
        entry.questions.remove(&id);
        Poll::Ready(id)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let entry = self.calls.lock().remove(&self.id);
        drop(entry);
    }
}

/// The answer to a question of a running call: `result` or `error`.
#[derive(Debug, ToSchema)]
#[schema(min_properties = 2, max_properties = 2)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // describes the body, which `body::members` reads
struct QuestionAnswer {
    /// The `id` of the event `question`.
    #[schema(minimum = 1, examples(1))]
    id: u64,
    /// The result that the server asked for, such as `{"action": "accept", "content": {…}}` for an elicitation.
    #[schema(value_type = Option<JsonObject>, nullable = false)]
    result: Option<Raw>,
    /// Refuses to answer.
    #[schema(nullable = false)]
    error: Option<QuestionRefusal>,
}

/// Why a question is not answered.
#[derive(Debug, ToSchema)]
#[allow(dead_code)] // describes the body, too
struct QuestionRefusal {
    /// A JSON-RPC error code; -32603 when it is left out.
    #[schema(minimum = -32768, maximum = 32767, nullable = false)]
    code: Option<i64>,
    /// The reason in words.
    #[schema(min_length = 1, max_length = 2000)]
    message: String,
}

/// Answer a question of a running call
///
/// `call` and `id` are those of the events `call` and `question` of a call with `Accept: text/event-stream`. Only the
/// principal that made the call can answer. Needs the role *caller*.
#[utoipa::path(
    post, path = "/call/{call}/answer", tag = "tools", operation_id = "answer_question",
    params(("call" = String, Path, description = "The id of the call",
            example = "550e8400-e29b-41d4-a716-446655440000")),
    request_body(content = QuestionAnswer, examples(
        ("accepted" = (summary = "What a person filled in", value = json!({
            "id": 1, "result": {"action": "accept", "content": {"name": "Ann"}}}))),
        ("refused" = (summary = "A refusal", value = json!({"id": 1, "error": {"message": "not now"}}))),
    )),
    responses((status = 204, description = "The server gets the answer"), AnswerProblems)
)]
pub(super) async fn answer(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(call): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let body = received(body, api.options.max_body).await?;
    let [id, result, error] = body::members(&headers, &body, ["id", "result", "error"])?;
    let id = id
        .and_then(|id| u64::try_from(body::integer(&id)?).ok())
        .ok_or_else(|| wrong("`id` is not the number of a question"))?;
    let reply = reply(result, error)?;
    let question = api.calls.take(principal.id(), &call, id).ok_or_else(|| {
        Problem::new(ErrorCode::NotFound, "no such question is open")
            .hinting("answer each question once, in time")
    })?;
    question.answer(reply);
    Ok(StatusCode::NO_CONTENT)
}

fn reply(result: Option<Raw>, error: Option<Raw>) -> Result<Reply, Problem> {
    let (result, error) = (body::optional_object(result, "result")?, body::optional_object(error, "error")?);
    match (result, error) {
        // Copied, so that it does not keep the buffer of the request.
        (Some(result), None) => Ok(Ok(result.detached())),
        (None, Some(error)) => {
            let of_rpc = |code: &i64| i16::try_from(*code).is_ok();
            let code =
                error.get("code").map_or(Some(INTERNAL_ERROR), |code| body::integer(&code).filter(of_rpc));
            let code = code.ok_or_else(|| wrong("`error.code` is not a number of a JSON-RPC error"))?;
            let message = body::required_text(error.get("message").as_ref(), "error.message", MAX_MESSAGE)?;
            Ok(Err(ErrorObject::new(code, &message)))
        }
        _ => Err(wrong("one of `result` and `error` is needed")),
    }
}

fn wrong(detail: &str) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, detail)
}
