//! Server requests during a call, on their way to the client and back. Every transport uses it; the table of open
//! requests finds the call.
//!
//! Invariants: every server request gets exactly one response under the server's own id, unless the server withdrew it
//! or the connection is gone. The reader of the channel never waits for it. A server request ends with its call. `ping`
//! is answered here. A client that did not declare the ability does not receive the request.
//!
//! At most 256 are open on one connection. Together they have at most 16 MiB, unless there is only one, and each keeps
//! its own text only. Further ones are dropped, and `telemetry::limit` has the pace of the log lines about them.
//!
//! Not here: how the client receives a request (`downstream`, `gateway::bridge::suspended_calls`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::inbound::Relevance;
use super::pending::{Attribution, Recipient};
use crate::connection::{ANSWER_LIMIT, Answer, EventSender, Hold, Owner, ServerRequests};
use crate::session_affinity::OpenRequest;
use json::Raw;
use protocol::abilities::Abilities;
use protocol::error::code;
use protocol::sanitize::shown;
use protocol::{
    ErrorObject, Message, Notification, Reply, Request, RequestId, Response, elicitation, method,
};
use runtime::memory::{self, Account, ChargeKind};
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;
use runtime::telemetry::pace::Pace;

/// The most open server requests of one connection.
const MAX_OPEN: usize = 256;
/// The most bytes of open server requests of one connection, if there are several.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Sends a response to the server. It may wait, within its own limits.
type Post = Box<dyn Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync>;

/// The open server requests of one connection. Clones share them.
#[derive(Clone)]
pub(super) struct Questions(Arc<QuestionsState>);

struct QuestionsState {
    server: Arc<str>,
    open: Mutex<QuestionTable>,
    post: Post,
    tasks: Shutdown,
    pace: Pace,
}

#[derive(Default)]
struct QuestionTable {
    open: HashMap<RequestId, OpenEntry>,
    /// The bytes of all requests, including those that were withdrawn a moment ago.
    bytes: usize,
}

/// One open request.
struct OpenEntry {
    since: Instant,
    withdrawn: CancellationToken,
    gives_way: CancellationToken,
}

impl Questions {
    /// Makes an empty set for `server`. Responses are sent with `post`, in tasks of `tasks`.
    pub(super) fn new(
        server: &Arc<str>,
        tasks: &Shutdown,
        post: impl Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(QuestionsState {
            server: Arc::clone(server),
            open: Mutex::default(),
            post: Box::new(post),
            tasks: tasks.clone(),
            pace: Pace::new(),
        }))
    }

    /// Handles a server request. Returns how it is counted. `attribute` finds its call, and another call of the same owner
    /// if that call ends first.
    pub(super) fn take(
        &self,
        request: Request,
        attribute: impl Fn(Option<Owner>) -> Attribution + Send + Sync + 'static,
    ) -> Relevance {
        let Some(open) = self.open(&request) else { return Relevance::Junk };
        // The buffer in which it arrived may be much larger.
        let request = Request {
            id: open.id.clone(),
            params: request.params.as_ref().map(Raw::detached),
            method: request.method,
        };
        // Sent now, so that it keeps its order among the notifications.
        let first = if request.method == method::PING {
            Put::Answered(Ok(Raw::empty_object()))
        } else if !elicitation::is_safe(&request.method, request.params.as_ref()) {
            let text = "the URL of an elicitation must be an http or https URL without credentials";
            Put::Answered(Err(ErrorObject::new(code::INVALID_PARAMS, text)))
        } else {
            ask(&self.0.server, &request, attribute(None))
        };
        let relevance = if matches!(first, Put::Answered(_)) { Relevance::Notice } else { Relevance::Wanted };
        let inner = Arc::clone(&self.0);
        self.0.tasks.spawn_until_end(async move {
            // A request outside of calls counts as open until the server has its response.
            let (id, mut counted) = (request.id.clone(), None);
            let followed = follow(&inner.server, first, (&request, &mut counted), &attribute);
            let answered = async {
                tokio::select! {
                    reply = followed => reply,
                    () = open.gives_way.cancelled() => {
                        Err(unanswered("the client did not answer, and others waited for its place"))
                    }
                }
            };
            if let Some(reply) = open.withdrawn.run_until_cancelled(answered).await {
                (inner.post)(inner.printed(&id, reply)).await;
            }
        });
        relevance
    }

    /// Whether `error_text` withdraws a server request. If so, the client is notified.
    pub(super) fn is_withdrawn_by(&self, notification: &Notification) -> bool {
        let named = || RequestId::from_raw(notification.params.as_ref()?.get("requestId")?);
        let Some(id) = (notification.method == method::CANCELLED).then(named).flatten() else { return false };
        let open = self.0.lock().open.remove(&id);
        open.inspect(|open| open.withdrawn.cancel()).is_some()
    }

    /// Adds a request. `None` if one with this id is open, because a resumed stream repeats it, or if too many are
    /// open. The oldest one gives way if nobody answered it for a minute.
    fn open(&self, request: &Request) -> Option<OpenQuestion> {
        let mut table = self.0.lock();
        if table.open.contains_key(&request.id) {
            return None;
        }
        let bytes = size(request);
        if table.open.len() >= MAX_OPEN {
            table.oldest_gives_way();
        }
        if table.open.len() >= MAX_OPEN || (table.bytes > 0 && table.bytes + bytes > MAX_BYTES) {
            drop(table);
            if let Some(suppressed) = self.0.pace.admit() {
                tracing::warn!(
                    suppressed,
                    "a server has more than 256 questions open, or 16 MiB of them; one was dropped"
                );
            }
            return Limit::ServerQuestions.met(None);
        }
        let (id, withdrawn) = (request.id.detached(), CancellationToken::new());
        let gives_way = CancellationToken::new();
        let (since, of_task) = (Instant::now(), (withdrawn.clone(), gives_way.clone()));
        table.open.insert(id.clone(), OpenEntry { since, withdrawn, gives_way });
        table.bytes += bytes;
        let (withdrawn, gives_way) = of_task;
        Some(OpenQuestion { questions: Arc::clone(&self.0), id, withdrawn, gives_way, bytes })
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().open.len()
    }
}

impl ServerRequests for Questions {
    fn unanswered_since(&self) -> Option<Instant> {
        self.0.lock().unanswered().map(|(_, open)| open.since)
    }

    fn end_unanswered(&self) {
        self.0.lock().oldest_gives_way();
    }
}

impl QuestionTable {
    /// The oldest request, if nobody answered it for as long as most servers wait.
    fn unanswered(&self) -> Option<(&RequestId, &OpenEntry)> {
        let oldest = self.open.iter().min_by_key(|(_, open)| open.since);
        oldest.filter(|(_, open)| open.since.elapsed() >= ANSWER_LIMIT)
    }

    /// Ends that request.
    fn oldest_gives_way(&mut self) {
        let oldest = self.unanswered().map(|(id, _)| id.clone());
        if let Some(open) = oldest.and_then(|id| self.open.remove(&id)) {
            open.gives_way.cancel();
        }
    }
}

impl QuestionsState {
    /// Encodes the response, charged to the server until it is sent. Without memory for it the server gets an error.
    fn printed(&self, id: &RequestId, reply: Reply) -> Bytes {
        let print = |reply| Message::Response(Response { id: Some(id.clone()), reply }).encode();
        let account = || Account::Server(Arc::clone(&self.server));
        memory::hold(print(reply), account, ChargeKind::Request)
            .unwrap_or_else(|_| print(Err(unanswered("the gateway has no memory for the client's answer"))))
    }

    fn lock(&self) -> MutexGuard<'_, QuestionTable> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open server request, removed when dropped.
struct OpenQuestion {
    questions: Arc<QuestionsState>,
    id: RequestId,
    withdrawn: CancellationToken,
    gives_way: CancellationToken,
    bytes: usize,
}

/// The approximate memory of an open request.
fn size(request: &Request) -> usize {
    let params = request.params.as_ref().map_or(0, |params| params.bytes().len());
    request.id.raw().bytes().len() + request.method.len() + params
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut table = self.questions.lock();
        table.bytes -= self.bytes;
        // It may be removed already, and its id in use again.
        if !self.withdrawn.is_cancelled() && !self.gives_way.is_cancelled() {
            table.open.remove(&self.id);
        }
    }
}

/// The state of a server request.
enum Put {
    Answered(Reply),
    Asked {
        answer: Answer,
        owner: Owner,
        over: CancellationToken,
        /// Pauses the deadlines of the other calls that may be meant.
        holds: Vec<Hold>,
        /// Counts it as open, if it was sent outside of calls.
        open: Option<OpenRequest>,
    },
    /// It is sent to a client when a call begins, and counts as open until then.
    Waits(watch::Receiver<u64>, Option<OpenRequest>),
}

fn ask(server: &Arc<str>, request: &Request, attribute: Attribution) -> Put {
    let refused = |code, text: &str| Put::Answered(Err(ErrorObject::new(code, text)));
    match attribute {
        Attribution::Of(Recipient { event_sender, owner, capabilities, over, beside, open }) => {
            let params = request.params.clone();
            if !Abilities::of(&capabilities).allows(&request.method, params.as_ref()) {
                let text = format!("the client cannot be asked \"{}\"", shown(&request.method));
                return refused(code::METHOD_NOT_FOUND, &text);
            }
            let holds = beside.iter().filter_map(EventSender::hold).collect();
            let answer = event_sender.ask_for(Some(Arc::clone(server)), request.method.clone(), params);
            Put::Asked { answer, owner, over, holds, open }
        }
        Attribution::OfNextCall(started, open) => Put::Waits(started, open),
        Attribution::Nobodys => refused(
            code::CONNECTION_CLOSED,
            "the client cannot be asked: no call is open here that the request could belong to",
        ),
        Attribution::Unclear => refused(
            code::CONNECTION_CLOSED,
            "the client cannot be asked: several clients have calls here that were not answered, and the request does not say whose it is",
        ),
    }
}

/// Returns the reply to a server request, from any call of its owner that is open meanwhile.
async fn follow(
    server: &Arc<str>,
    mut put: Put,
    (request, counted): (&Request, &mut Option<OpenRequest>),
    attribute: &(impl Fn(Option<Owner>) -> Attribution + Sync),
) -> Reply {
    loop {
        let (answer, owner, over, _holds) = match put {
            Put::Answered(reply) => return reply,
            Put::Asked { answer, owner, over, holds, open } => {
                *counted = open;
                (answer, owner, over, holds)
            }
            Put::Waits(mut started, open) => {
                *counted = open;
                if !matches!(timeout(ANSWER_LIMIT, started.changed()).await, Ok(Ok(()))) {
                    return Err(unanswered("no call began on which its client could be asked"));
                }
                put = ask(server, request, attribute(None));
                continue;
            }
        };
        tokio::select! {
            biased;
            reply = answer => match reply {
                Some(reply) => return reply,
                None if over.is_cancelled() => {}
                None => return Err(unanswered("the client did not answer")),
            },
            () = over.cancelled() => {}
        }
        put = match attribute(Some(owner)) {
            Attribution::Of(recipient) => ask(server, request, Attribution::Of(recipient)),
            Attribution::OfNextCall(started, open) => Put::Waits(started, open),
            Attribution::Nobodys | Attribution::Unclear => {
                return Err(unanswered("the call ended before its client answered"));
            }
        };
    }
}

fn unanswered(why: &str) -> ErrorObject {
    ErrorObject::new(code::CONNECTION_CLOSED, why)
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
