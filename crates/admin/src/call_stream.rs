//! `POST /call` with `Accept: text/event-stream`: a call as a stream of events, and the `data` of these events.
//!
//! Invariants: the first event is `call`, the last one `result` or `error`. A client that reads slowly loses only
//! progress and log messages, because the channel of the call is bounded. A client that disconnects drops the body, and
//! that cancels the call and refuses its questions. A call ends with its credential. An event is charged to the principal
//! until it was written; without room, a notification is dropped and a question refused.
//!
//! Not here: answers to questions (`call_questions`), the call itself (`gateway`), and the `data` of the last event, which is
//! an answer (`answer`) or a problem (`problem`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};
use serde::Serialize;
use serde_json::json;
use tokio::time::sleep;
use utoipa::ToSchema;

use super::answer::exhausted;
use super::body::CallRequest;
use super::call_questions::OpenCall;
use super::logins::host;
use super::problem::Problem;
use super::{Api, rest_call};
use auth::Principal;
use gateway::manager::CallResponse;
use gateway::{Caller, Gateway};
use json::Raw;
use net::sse::{Event, KEEP_ALIVE};
use protocol::JsonObject;
use protocol::{Accept, ErrorCode, Notification, meta, method};
use runtime::memory::{Account, Charge, ChargeKind, Exhausted, SMALL};
use runtime::telemetry::audit::AuditRecord;
use runtime::telemetry::limit::Limit;
use runtime::telemetry::{RequestId, panics};
use upstream::{CallEvent, EventReceiver, EventSender, Question};

/// The most messages that wait for a slow client.
const WAITING: usize = 64;
/// After this time without an event, the client gets a comment, so that no proxy ends the stream.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
const EVENT_STREAM: &str = "text/event-stream";

/// Whether the client prefers an event stream: `Accept` names it, and JSON neither before it nor with a higher weight.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = Accept::of(headers.get_all(ACCEPT).iter().filter_map(|list| list.to_str().ok()));
    accept.prefers_named_events()
}

/// Begins a call and returns its stream.
pub(super) fn begin(
    api: &Api,
    principal: &Principal,
    (headers, request): (&HeaderMap, CallRequest),
    id: RequestId,
) -> Result<Response, Problem> {
    let caller = Arc::new(rest_call::caller(api, principal, (headers, &request), id, Some(capabilities()))?);
    let record =
        rest_call::begin_record((principal, id), request.server.as_deref(), || request.tool.clone())?;
    let open = api.calls.begin(principal.id())?;
    let account = Account::Principal(Arc::clone(principal.id()));
    let (event_sender, receiver) = EventSender::paid_by(WAITING, account.clone());
    let (gateway, host) = (api.gateway.clone(), host(headers).map(str::to_owned));
    let run = {
        let (gateway, caller) = (gateway.clone(), Arc::clone(&caller));
        let meta = Raw::of(&json!({meta::PROGRESS_TOKEN: 1}));
        async move {
            rest_call::run(&gateway, &caller, request, host.as_deref(), Some(&meta), &event_sender).await
        }
        .boxed()
    };
    let first = event("call", Raw::of(&CallStart { call: open.id() }).bytes());
    let ready = VecDeque::from([first]);
    let call = Running { ready, open, receiver, caller, account, gateway, run: Some(run), id, record };
    let events = stream::unfold(Box::new(call), |mut call| async move {
        let bytes = call.next().await?;
        Some((Ok::<_, Infallible>(bytes), call))
    });
    Ok(([(CONTENT_TYPE, EVENT_STREAM)], Body::from_stream(events)).into_response())
}

/// The server requests that the client of a stream can answer.
fn capabilities() -> Raw {
    Raw::of(&json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}))
}

/// A call, and where its stream is.
struct Running {
    /// Events that are sent next.
    ready: VecDeque<Bytes>,
    open: OpenCall,
    receiver: EventReceiver,
    caller: Arc<Caller>,
    /// The payer for events that were not written yet.
    account: Account,
    gateway: Gateway,
    /// None once it has ended.
    run: Option<BoxFuture<'static, CallResponse>>,
    id: RequestId,
    record: Option<Box<AuditRecord>>,
}

impl Running {
    /// The next bytes of the stream; none after the last event.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let run = self.run.as_mut()?;
            let ended = tokio::select! {
                biased;
                Some(received) = self.receiver.recv() => {
                    if let Some(event) = self.event_of(received) {
                        return Some(event);
                    }
                    continue;
                }
                id = withdrawn(&self.open) => {
                    return Some(event("question_withdrawn", Raw::of(&Withdrawn { id }).bytes()));
                }
                ended = AssertUnwindSafe(run).catch_unwind() => ended.map_err(|_| self.panicked()),
                () = self.caller.principal.revoked() => Err(revoked()),
                () = sleep(KEEP_ALIVE_EVERY) => return Some(KEEP_ALIVE),
            };
            self.run = None;
            self.end(ended.as_ref().map_err(Clone::clone));
        }
    }

    /// The event of one message of the server, if there is one.
    fn event_of(&self, event: CallEvent) -> Option<Bytes> {
        match event {
            CallEvent::Notice(notice) => self.notice(notice),
            CallEvent::Question(question) => self.question(question),
            CallEvent::Pause(_) => None,
        }
    }

    fn question(&self, question: Question) -> Option<Bytes> {
        // One that is dropped is refused.
        if !gateway::era::can_ask(&self.caller, &question) {
            return None;
        }
        let kind = match &*question.method {
            method::ELICITATION_CREATE => "elicitation",
            method::SAMPLING_CREATE_MESSAGE => "sampling",
            method::ROOTS_LIST => "roots",
            _ => return None,
        };
        self.gateway.note_question(&self.caller, &question);
        let request =
            question.params.as_ref().map_or_else(Raw::empty_object, |params| params.without("_meta"));
        let server = question.server.clone();
        let id = self.open.ask(question)?;
        let data = Raw::of(&ServerRequestData { id, kind, server: server.as_deref(), request });
        self.charged("question", data.bytes()).inspect_err(|_| self.open.refuse(id)).ok()
    }

    /// The event of one notification, if there is one. Without room for it, it is dropped and counted.
    fn notice(&self, notice: Notification) -> Option<Bytes> {
        let params = notice.params?;
        let (name, params) = match &*notice.method {
            method::PROGRESS => ("progress", params.without(meta::PROGRESS_TOKEN).without("_meta")),
            method::LOG_MESSAGE => ("message", params.without("_meta")),
            _ => return None,
        };
        self.charged(name, params.bytes()).or_else(|_| Limit::CallNotices.met(Err(()))).ok()
    }

    /// An event that is charged until it was written. Room is found before it is printed.
    fn charged(&self, name: &'static str, data: &Bytes) -> Result<Bytes, Exhausted> {
        if data.len() < SMALL {
            return Ok(event(name, data));
        }
        let mut charge = Charge::open(self.account.clone(), ChargeKind::Answer);
        charge.resize(2 * data.len())?;
        charge.hold(event(name, data))
    }

    /// Adds the last events, for what was received before the end also comes before it.
    fn end(&mut self, ended: Result<&CallResponse, Problem>) {
        while let Ok(received) = self.receiver.try_recv() {
            if let CallEvent::Notice(notice) = received {
                self.ready.extend(self.notice(notice));
            }
        }
        let response = ended.as_ref().ok().copied();
        let result = ended.and_then(|response| {
            let result = rest_call::result(&self.gateway, &self.caller, response, self.id)?;
            self.charged("result", &result).map_err(exhausted)
        });
        rest_call::end_record(self.record.take(), response, result.as_ref().err());
        self.ready.push_back(result.unwrap_or_else(|problem| self.failed(&problem)));
    }

    fn failed(&self, problem: &Problem) -> Bytes {
        tracing::debug!(request_id = %self.id, code = %problem.code(), "streaming call failed");
        let small =
            || event("error", &Problem::new(problem.code(), &*problem.detail).print(self.id, &self.account));
        self.charged("error", &problem.print(self.id, &self.account)).unwrap_or_else(|_| small())
    }

    fn panicked(&self) -> Problem {
        panics::caught(self.id, None);
        Problem::new(ErrorCode::InternalError, "the request could not be completed")
    }
}

async fn withdrawn(open: &OpenCall) -> u64 {
    std::future::poll_fn(|cx| open.poll_withdrawn(cx)).await
}

fn revoked() -> Problem {
    Problem::new(ErrorCode::Unauthorized, "the credential was revoked while the call ran")
}

/// Prints one event. Line feeds between the tokens of `data` become spaces, because each of them would begin another
/// field; inside of strings there are none.
fn event(name: &'static str, data: &Bytes) -> Bytes {
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let data = if data.iter().any(is_line_end) {
        data.iter().map(|byte| if is_line_end(byte) { b' ' } else { *byte }).collect()
    } else {
        data.clone()
    };
    Event { name: Bytes::from_static(name.as_bytes()), ..Event::of(data) }.encode()
}

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
#[allow(dead_code)] // describes the words of `Running::question`
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
