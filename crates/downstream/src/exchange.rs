//! One request of a client, as the stream of messages that ends in its response, and server requests outside of calls.
//!
//! Every transport serves requests through this: the messages of the call come first and in order, the response last.
//!
//! Invariants: no message follows the response. A cancelled request has no response. A notice carries the
//! client's own progress token or does not arrive. A server request that the client does not support is refused. One
//! that is open at the end of the call is cancelled before the response. One that belongs to no call comes on a stream that the
//! client reads all the time, and is asked elsewhere or refused when that ends. A response is charged to the memory budget as
//! soon as it is made, because it may wait for its client.
//!
//! The owner of a running request differs by era. A modern client's request dies with this object, because there a closed
//! stream means "stop"; it lives in it too, until its answer becomes a stream ([`Exchange::keep_going`]). A legacy
//! client's runs in a task of its own, because there it does not, and only `notifications/cancelled` ends it.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument, Span};

use super::audited::Audited;
use super::message_encoder::MessageEncoder;
use super::questions::{End, OpenQuestion, Questions};
use super::sessions::SessionRequest;
use crate::admission::Slot;
use auth::Action;
use gateway::error::{audit_full, internal, memory_exhausted, revoked};
use gateway::{Caller, Gateway, era};
use json::Raw;
use protocol::{Closed, Era, ErrorObject, Message, Reply, Request, RequestId, Response, meta, method};
use runtime::memory::Account;
use runtime::shutdown::Shutdown;
use runtime::telemetry;
use runtime::telemetry::untrusted;
use runtime::worker::WorkBudget;
use upstream::{
    CallEvent, CallSource, EventReceiver, EventSender, Question, ResponseBody, ResponseStream, SenderLoan,
};

/// Notices of one call that may wait for a slow reader; further ones are dropped and counted.
const NOTICES: usize = 128;
/// Bytes that a message to the client counts for in the work of its stream.
const PRINTED: usize = 1024;

/// The HTTP request in which a message came; none over a pipe.
pub(super) type HttpRequestId = Option<telemetry::RequestId>;

/// One request being answered.
pub struct Exchange {
    gateway: Gateway,
    caller: Arc<Caller>,
    id: RequestId,
    named: HttpRequestId,
    token: Option<Raw>,
    receiver: EventReceiver,
    /// Keeps the inlet open, because the end of the call comes with its answer.
    #[allow(dead_code)] // held for its drop
    event_sender: EventSender,
    /// The books of what its client is asked; none where it cannot be.
    questions: Option<Arc<Questions>>,
    /// Server requests that the client was sent during this call and has not answered.
    open_requests: Vec<OpenQuestion>,
    answer: AnswerState,
    /// Whether the answer runs in a task of its own.
    is_in_task: bool,
    /// Ends the task of [`Exchange::keep_going`] together with the exchange.
    #[allow(dead_code)] // held for its drop
    life: Option<DropGuard>,
    /// That of its client, where the client has no session.
    #[allow(dead_code)] // held for its drop
    place: Option<Slot>,
    work: WorkBudget,
}

/// The next event on the stream of a request.
pub enum Step {
    /// A message for the client.
    Message(Message),
    /// The server lets its client go and come back after this time.
    Pause(Duration),
    /// The response, whose result is still arriving.
    Stream(Box<ResponseStream>),
}

enum AnswerState {
    Pending(BoxFuture<'static, Option<ResponseBody>>),
    Ready(Option<ResponseBody>),
    Given,
}

impl Exchange {
    /// Answers `request`, which came in the HTTP request `named`, for as long as the exchange is kept.
    pub(crate) fn attached(
        gateway: &Gateway,
        caller: Arc<Caller>,
        request: Request,
        named: HttpRequestId,
    ) -> Self {
        let (event_sender, receiver) =
            EventSender::paid_by(NOTICES, Account::of(Some(caller.principal.id())));
        let (id, token) = (request.id.clone(), meta::progress_token(request.params.as_ref()));
        let (answering, asker, telling) = (gateway.clone(), caller.clone(), event_sender.clone());
        let answer = async move { Some(answer(&answering, &asker, (&request, named), &telling).await) };
        Self {
            gateway: gateway.clone(),
            caller,
            id,
            named,
            token,
            receiver,
            event_sender,
            questions: None,
            open_requests: Vec::new(),
            answer: AnswerState::Pending(answer.boxed()),
            is_in_task: false,
            life: None,
            place: None,
            work: WorkBudget::new(),
        }
    }

    /// Keeps `place` for as long as there is the exchange.
    pub fn hold(&mut self, place: Slot) {
        self.place = Some(place);
    }

    /// Answers `request` in a task, until it is answered or `running` is cancelled. Questions go to
    /// the client of the session.
    pub(crate) fn detached(
        gateway: &Gateway,
        caller: Arc<Caller>,
        (request, named): (Request, HttpRequestId),
        running: SessionRequest,
        tasks: &Shutdown,
    ) -> Self {
        let mut exchange = Self::attached(gateway, caller, request, named);
        exchange.questions = Some(Arc::clone(running.questions()));
        exchange.go_on(running.cancel.clone(), running, tasks);
        exchange
    }

    /// Lets the answer continue in a task while nobody asks for the next message, so that a reader who
    /// stops reading cannot stop the call's deadline. Dropping the exchange still cancels it, unless
    /// it is detached, and then it is in a task already.
    pub(crate) fn keep_going(&mut self, tasks: &Shutdown) {
        if self.is_in_task {
            return;
        }
        self.collect();
        self.end_with_credential();
        let cancel = CancellationToken::new();
        self.go_on(cancel.clone(), (), tasks);
        self.life = Some(cancel.drop_guard());
    }

    /// Buffers the response.
    fn collect(&mut self) {
        let era = self.caller.version.era();
        self.answer = match std::mem::replace(&mut self.answer, AnswerState::Given) {
            AnswerState::Pending(running) => {
                let whole =
                    async move { Some(ResponseBody::Buffered(gateway::collect(running.await?, era).await)) };
                AnswerState::Pending(whole.boxed())
            }
            // It came together with the first message. One that is buffered already needs no task, so it is written
            // together with that message.
            AnswerState::Ready(Some(body @ ResponseBody::Streaming(_))) => AnswerState::Pending(
                async move { Some(ResponseBody::Buffered(gateway::collect(body, era).await)) }.boxed(),
            ),
            answer => answer,
        };
    }

    /// Replaces the answer by a refusal, and drops the work for it, once the credential is revoked. The requests of
    /// a session end with the session. The listener handles requests that were not answered yet.
    fn end_with_credential(&mut self) {
        let AnswerState::Pending(answer) = &mut self.answer else { return };
        let running = std::mem::replace(answer, std::future::pending().boxed());
        let principal = self.caller.principal.clone();
        let lasting = async move {
            tokio::select! {
                biased;
                reply = running => reply,
                () = principal.revoked() => Some(ResponseBody::Buffered(Err(revoked()))),
            }
        };
        *answer = lasting.boxed();
    }

    /// Moves the answer into a task that `cancel` ends; the task keeps `held` as long as it runs.
    fn go_on<T: Send + 'static>(&mut self, cancel: CancellationToken, held: T, tasks: &Shutdown) {
        let AnswerState::Pending(answer) = &mut self.answer else { return };
        let (sender, receiver) = oneshot::channel();
        let waiting = receiver.map(|reply| reply.ok().flatten()).boxed();
        let running = std::mem::replace(answer, waiting);
        self.is_in_task = true;
        tasks.spawn(async move {
            let reply = cancel.run_until_cancelled(running).await.flatten();
            drop(held);
            // The client may be gone; the call was completed all the same.
            let _ = sender.send(reply);
        });
    }

    /// Whether a client with a token of this gateway sent the request, and its scopes allow no calls.
    pub(super) fn lacks_scope(&self) -> bool {
        let principal = &self.caller.principal;
        principal.is_of_grant() && !principal.may(Action::Call)
    }

    /// Whether its client speaks the modern era.
    pub fn is_modern(&self) -> bool {
        self.caller.version.is_modern()
    }

    /// The next message for the client, responses buffered; none after the last one.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            match self.step().await? {
                Step::Message(message) => return Some(message),
                Step::Stream(stream) => return Some(self.collected(stream).await),
                Step::Pause(_) => {}
            }
        }
    }

    /// The response of which `stream` is the result, as one message.
    pub(super) async fn collected(&mut self, stream: Box<ResponseStream>) -> Message {
        // Boxed: it is large, and most responses are buffered.
        let reply =
            Box::pin(gateway::collect(ResponseBody::Streaming(stream), self.caller.version.era())).await;
        self.response(reply)
    }

    fn response(&self, reply: Reply) -> Message {
        let reply = reply.map_err(|error| error.of_request(self.named));
        Message::Response(Response { id: Some(self.id.clone()), reply })
    }

    /// Returns the encoder of messages for its client.
    pub(super) fn encoder(&self) -> MessageEncoder {
        MessageEncoder::new(self.caller.principal.id(), self.caller.version.era())
    }

    /// The account of its client.
    pub(super) fn account(&self) -> Account {
        Account::of(Some(self.caller.principal.id()))
    }

    /// The era of its client.
    pub(super) fn era(&self) -> Era {
        self.caller.version.era()
    }

    /// Which request it is.
    pub const fn id(&self) -> &RequestId {
        &self.id
    }

    /// The HTTP request in which it came.
    pub(super) const fn named(&self) -> HttpRequestId {
        self.named
    }

    /// The next step; none after the last one.
    pub async fn step(&mut self) -> Option<Step> {
        loop {
            // Before anything is taken: a future that is dropped here loses nothing.
            self.work.yield_if_spent().await;
            match &mut self.answer {
                AnswerState::Given => return None,
                AnswerState::Pending(answer) => {
                    tokio::select! {
                        biased;
                        Some(event) = self.receiver.recv() => {
                            self.work.charge(PRINTED);
                            if let CallEvent::Pause(pause) = event {
                                return Some(Step::Pause(pause));
                            }
                            if let Some(message) = self.passed(event) {
                                return Some(Step::Message(message));
                            }
                        }
                        message = withdrawn(&mut self.open_requests) => return Some(Step::Message(message)),
                        reply = answer => self.answer = AnswerState::Ready(reply),
                    }
                }
                AnswerState::Ready(_) => {
                    // Messages that were sent before the answer arrive before it.
                    while let Ok(event) = self.receiver.try_recv() {
                        self.work.charge(PRINTED);
                        if let CallEvent::Notice(_) = event
                            && let Some(message) = self.passed(event)
                        {
                            return Some(Step::Message(message));
                        }
                    }
                    if let Some(message) = self.unanswered() {
                        return Some(Step::Message(message));
                    }
                    return match std::mem::replace(&mut self.answer, AnswerState::Given) {
                        AnswerState::Ready(Some(ResponseBody::Buffered(reply))) => {
                            Some(Step::Message(self.response(reply)))
                        }
                        AnswerState::Ready(Some(ResponseBody::Streaming(stream))) => {
                            Some(Step::Stream(stream))
                        }
                        _ => None,
                    };
                }
            }
        }
    }

    /// The end of a question that is open although its call is over.
    fn unanswered(&mut self) -> Option<Message> {
        self.open_requests.retain(OpenQuestion::is_open);
        self.open_requests.pop().map(OpenQuestion::cancel)
    }

    fn passed(&mut self, event: CallEvent) -> Option<Message> {
        match event {
            CallEvent::Notice(notice) => {
                era::notice(&self.caller, notice, self.token.as_ref()).map(Message::Notification)
            }
            CallEvent::Question(question) => {
                // One that is dropped is refused.
                let questions = self.questions.as_ref().filter(|_| era::can_ask(&self.caller, &question))?;
                self.gateway.note_question(&self.caller, &question);
                let (open_requests, request) = questions.ask(question)?;
                self.open_requests.push(open_requests);
                Some(request)
            }
            CallEvent::Pause(_) => None,
        }
    }
}

/// Resolves when one of the server requests is withdrawn, with the notification for its client.
pub(super) async fn withdrawn(open_requests: &mut Vec<OpenQuestion>) -> Message {
    std::future::poll_fn(|cx| poll_withdrawn(open_requests, cx)).await.cancel()
}

fn poll_withdrawn(open_requests: &mut Vec<OpenQuestion>, cx: &mut Context<'_>) -> Poll<OpenQuestion> {
    let mut at = 0;
    while let Some(one) = open_requests.get(at) {
        match one.poll_end(cx) {
            Poll::Ready(End::Withdrawn) => return Poll::Ready(open_requests.swap_remove(at)),
            Poll::Ready(End::Answered) => drop(open_requests.swap_remove(at)),
            Poll::Pending => at += 1,
        }
    }
    Poll::Pending
}

/// The answer to a request that needs no exchange, because it is known already. A panic on the way is caught
/// where requests are accepted.
pub(super) fn at_once(
    gateway: &Gateway,
    caller: &Caller,
    request: &Request,
) -> Option<Result<Closed, ErrorObject>> {
    span(caller, request, None).in_scope(|| gateway.at_once(caller, request))
}

/// The tracing span of one request. It exists at the level `debug` only, because its fields are printed at once.
fn span(caller: &Caller, request: &Request, named: HttpRequestId) -> Span {
    let (method, principal) = (untrusted(&request.method), untrusted(caller.principal.id()));
    let request_id = named.map(tracing::field::display);
    tracing::debug_span!("request", request_id, %method, %principal)
}

/// Answers one request; a panic on the way is this request's alone.
async fn answer(
    gateway: &Gateway,
    caller: &Caller,
    (request, named): (&Request, HttpRequestId),
    event_sender: &EventSender,
) -> ResponseBody {
    let span = span(caller, request, named);
    let work = async {
        let audited = match Audited::begin(gateway, caller, request, named) {
            Ok(audited) => audited,
            Err(full) => return ResponseBody::Buffered(Err(audit_full(full, caller.version.era()))),
        };
        // The record of a call names its request. A session has one caller for all its requests.
        let is_recorded = request.method == method::TOOLS_CALL
            && caller.request_id() != named
            && gateway.manager().records_calls();
        let own =
            is_recorded.then(|| caller.clone().in_request(CallSource { request_id: named, is_rest: false }));
        let received = gateway.handle(own.as_ref().unwrap_or(caller), request, event_sender).await;
        // It does not matter if a server made it, the cache, or an edit on the way.
        let charged = received.charged(Some(caller.principal.id()));
        let mut received =
            charged.unwrap_or_else(|_| ResponseBody::Buffered(Err(memory_exhausted(caller.version.era()))));
        audited.end(&mut received);
        received
    };
    let handled = std::panic::AssertUnwindSafe(work.instrument(span));
    handled.catch_unwind().await.unwrap_or_else(|_| {
        let id = named.unwrap_or_else(telemetry::RequestId::new); // a message over a pipe has none
        telemetry::panics::caught(id, Some(&request.method));
        let text = "the gateway failed on this request; its log says more under request_id";
        ResponseBody::Buffered(Err(internal(text, id)))
    })
}

/// Server requests that may wait for a slow reader.
const WAITING: usize = 16;

/// The server requests of one session that belong to no call.
pub(super) struct OutsideCalls {
    gateway: Gateway,
    caller: Arc<Caller>,
    questions: Arc<Questions>,
    receiver: EventReceiver,
    open_requests: Vec<OpenQuestion>,
    /// So that the inlet does not end.
    #[allow(dead_code)] // held for its drop
    event_sender: EventSender,
    #[allow(dead_code)] // held for its drop
    loan: Option<SenderLoan>,
}

impl OutsideCalls {
    /// Those of `caller`, for as long as this is kept.
    pub(super) fn of(gateway: &Gateway, caller: &Arc<Caller>, questions: &Arc<Questions>) -> Self {
        let (event_sender, receiver) =
            EventSender::paid_by(WAITING, Account::of(Some(caller.principal.id())));
        let loan = gateway.lend(caller, &event_sender);
        let (gateway, caller, questions) = (gateway.clone(), Arc::clone(caller), Arc::clone(questions));
        Self { gateway, caller, questions, receiver, open_requests: Vec::new(), event_sender, loan }
    }

    /// The next message for the client. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Message {
        loop {
            tokio::select! {
                biased;
                Some(event) = self.receiver.recv() => {
                    if let CallEvent::Question(question) = event
                        && let Some(request) = self.ask(question)
                    {
                        return request;
                    }
                }
                message = withdrawn(&mut self.open_requests) => return message,
            }
        }
    }

    /// The request for the client; `None` refuses the question.
    fn ask(&mut self, question: Question) -> Option<Message> {
        let question = Some(question).filter(|question| era::can_ask(&self.caller, question))?;
        self.gateway.note_question(&self.caller, &question);
        let (open_requests, request) = self.questions.ask(question)?;
        self.open_requests.push(open_requests);
        Some(request)
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
