//! A modern client of a legacy server. Server requests during a call become `input_required`, the call is
//! suspended, and the retry with the answers resumes it.
//!
//! ```text
//! request ──► open ──server request──► suspended ──retry with answers──► open ──► result
//! ```
//!
//! Invariants: while a request of the client is open, the call lives in its future, so a client that leaves
//! cancels it. Otherwise it is in [`SuspendedCalls`](crate::bridge::suspended_calls). A server request that the
//! client did not declare is refused, and the server may continue without an answer. An unanswered server
//! request is repeated under its key. Answers that were not requested are ignored.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`. Not here: the table of suspended calls (`suspended_calls`).

use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::admit;
use crate::caller::Caller;
use crate::error::InvalidParam;
use crate::manager::RoutedRequest;
use crate::questions;
use crate::tasks::CallResult;
use crate::{Gateway, era, error, params, tasks};
use json::Raw;
use protocol::Abilities;
use protocol::{ErrorCode, ErrorObject, Reply};
use runtime::memory::Account;
use runtime::worker::at;
use upstream::{CallEvent, EventReceiver, EventSender, Question};

/// Most notifications of one call that wait for its client. Further ones are dropped and counted.
const NOTICES: usize = 128;
/// Server requests within this time are sent to the client together.
const JOINING: Duration = Duration::from_millis(20);
/// Members of a request that exist in the modern era only, and that Switchyard reads here.
const RESPONSES: &str = "inputResponses";
const STATE: &str = "requestState";

/// Makes a modern client's request, or resumes the call for which it has answers.
pub(super) async fn answer(
    gateway: &Gateway,
    caller: &Caller,
    mut request: RoutedRequest,
    event_sender: &EventSender,
) -> Reply {
    let given = RetryInput::of(&request.params())?;
    request.edit(&[(RESPONSES, None), (STATE, None)]);
    // A call that is resumed was counted when it began. If a limit is reached, the state can be sent again.
    if gateway.manager.has_limits() && given.begins_call(gateway, caller, &request) {
        admit(gateway, caller, &mut request).await?;
    }
    let place = RequestContext { gateway, caller, request: &request };
    let resumed = match given.state {
        None => None,
        Some(state) => place.taken(&state).await?.answered(given.responses.as_ref())?,
    };
    let mut call = resumed.unwrap_or_else(|| OpenCall::begin(gateway, request.clone()));
    match call.leg(caller, event_sender).await {
        LegEnd::Asks => place.suspend(SuspendedRequest::Call(call)),
        LegEnd::Ended(ended) => place.ended(ended, &call.lacking),
    }
}

/// The answers and the state of a retry.
struct RetryInput {
    responses: Option<Raw>,
    state: Option<String>,
}

impl RetryInput {
    fn of(params: &Raw) -> Result<Self, ErrorObject> {
        let present = |name| params.get(name).filter(|value| !value.is_null());
        let responses = present(RESPONSES);
        if responses.as_ref().is_some_and(|responses| !responses.is_object()) {
            let text = "params.inputResponses must be an object";
            return Err(params::bad(text, RESPONSES, responses.as_ref(), "an object"));
        }
        let bad =
            |state: &Raw| params::bad("params.requestState must be a string", STATE, Some(state), "a string");
        let read = |state: Raw| state.read::<String>().map_err(|_| bad(&state));
        let state = present(STATE).map(read).transpose()?;
        Ok(Self { responses, state })
    }

    /// Whether a call begins: without a state, or after the user has visited the pages of the suspended request.
    fn begins_call(&self, gateway: &Gateway, caller: &Caller, request: &RoutedRequest) -> bool {
        let Some(state) = &self.state else { return true };
        let pages = gateway.suspended.pages(&caller.principal, &purpose(request), state);
        pages.is_some_and(|pages| !is_declined(pages, self.responses.as_ref()))
    }
}

/// The context of a client's request.
struct RequestContext<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    /// The request in the form for its server.
    request: &'a RoutedRequest,
}

impl RequestContext<'_> {
    async fn taken(&self, state: &str) -> Result<SuspendedRequest, ErrorObject> {
        let taken = self.gateway.suspended.take(&self.caller.principal, &purpose(self.request), state).await;
        taken.ok_or_else(|| {
            let wrong = InvalidParam {
                field: "params.requestState",
                // A sealed state must not reveal why it was refused.
                found: None,
                valid: "what the last answer to this request gave, once and soon",
                suggestion: "begin again without requestState and inputResponses",
            };
            error::bad_input(
                "params.requestState is not of this request, was used already or is too old; \
                 begin again without requestState and inputResponses",
                wrong,
            )
        })
    }

    /// Suspends the call. Returns the result that requests input from the client.
    fn suspend(&self, waiting: SuspendedRequest) -> Reply {
        let requests = waiting.requests();
        let suspended =
            self.gateway.suspended.suspend(&self.caller.principal, &purpose(self.request), waiting);
        let state =
            suspended.map_err(|refused| error::input(ErrorCode::NotSuspended, &refused.to_string()))?;
        let result =
            Raw::empty_object().edit(&[("inputRequests", Some(&requests)), (STATE, Some(&Raw::of(&state)))]);
        Ok(era::own(self.caller, &result).with("resultType", &Raw::of("input_required")))
    }

    /// Returns the reply to the client for a call that has ended.
    fn ended(&self, ended: CallResult, lacking: &Raw) -> Reply {
        let done = ended.map_err(|failure| error::object(&failure, self.caller.version.era()))?;
        let follows = tasks::has_extension(self.caller.capabilities());
        if let Some(task) =
            tasks::created(self.gateway, self.caller, self.request.server_name(), &done, follows)
        {
            return Ok(task);
        }
        let Err(refusal) = &done.body else {
            return era::answer(self.caller, &self.request.call.method, done.version, done.body);
        };
        let Some(questions) = questions::of_error(refusal) else {
            // The server needed input that this client cannot give.
            let can_be_helped = lacking.bytes().as_ref() != b"{}";
            if can_be_helped {
                return Err(error::lacking(refusal, lacking));
            }
            return era::answer(self.caller, &self.request.call.method, done.version, done.body);
        };
        let by_url = questions::required_by_url();
        if !self.caller.abilities().covers(Abilities::of(&by_url)) {
            return Err(error::lacking(refusal, &by_url));
        }
        self.suspend(SuspendedRequest::Pages { refusal: refusal.clone(), questions })
    }
}

/// Returns the purpose to which a sealed state is bound, besides its principal: the server, the method, and a
/// digest of all parameters except `_meta`.
fn purpose(request: &RoutedRequest) -> String {
    let digest = params::digest(&request.params());
    format!("requestState\n{}\n{}\n{digest}", request.server_name(), request.call.method.as_str())
}

/// A suspended request.
pub(super) enum SuspendedRequest {
    /// A call that its server is working on.
    Call(OpenCall),
    /// No call: the server refused the request until the user has visited pages.
    Pages {
        /// The error of the server.
        refusal: ErrorObject,
        /// The entries of `inputRequests`.
        questions: Vec<Raw>,
    },
}

impl SuspendedRequest {
    /// Keeps the call running. Its messages wait in its inlet.
    pub(super) async fn go_on(&mut self) -> Infallible {
        if let Self::Call(call) = self {
            // The result is stored in the call until it is resumed.
            let _ = call.work.finish().await;
        }
        std::future::pending().await
    }

    /// Returns `inputRequests`.
    fn requests(&self) -> Raw {
        let mut requests = Raw::empty_object();
        match self {
            Self::Call(call) => {
                for (key, question) in &call.questions {
                    let entry = questions::for_modern(&question.method, question.params.as_ref());
                    requests = requests.with(key, &entry);
                }
            }
            Self::Pages { questions, .. } => {
                for (index, entry) in questions.iter().enumerate() {
                    requests = requests.with(&page_key(index), entry);
                }
            }
        }
        requests
    }

    /// Returns the call with the client's answers, or none if it has to be made again.
    fn answered(self, responses: Option<&Raw>) -> Result<Option<OpenCall>, ErrorObject> {
        match self {
            Self::Call(mut call) => {
                call.answer(responses);
                Ok(Some(call))
            }
            Self::Pages { refusal, questions } => {
                if is_declined(questions.len(), responses) {
                    Err(refusal)
                } else {
                    Ok(None)
                }
            }
        }
    }

    /// The number of pages that the user visits before the call is made again; `None` if a call waits.
    pub(super) fn pages(&self) -> Option<usize> {
        match self {
            Self::Call(_) => None,
            Self::Pages { questions, .. } => Some(questions.len()),
        }
    }
}

/// Whether the user does not want to visit one of as many `pages`.
fn is_declined(pages: usize, responses: Option<&Raw>) -> bool {
    let answer = |index| responses?.get(&page_key(index))?.get_as::<String>("action");
    (0..pages).filter_map(answer).any(|action| action != "accept")
}

fn page_key(index: usize) -> String {
    format!("page-{}", index + 1)
}

/// A call at a legacy server, with its open server requests. It keeps its place in the limits of the caller while it is
/// suspended.
pub(super) struct OpenCall {
    work: Work,
    receiver: EventReceiver,
    questions: Vec<(String, Question)>,
    pages: u32,
    /// Capabilities of the client that the server would have needed.
    lacking: Raw,
}

/// How one leg of a call ends.
enum LegEnd {
    /// The client has to answer first.
    Asks,
    /// The call is over.
    Ended(CallResult),
}

enum Work {
    Running(BoxFuture<'static, CallResult>),
    Over(CallResult),
}

impl Work {
    /// Waits for the result of the call.
    async fn finish(&mut self) -> CallResult {
        let ended = match self {
            Self::Running(call) => call.await,
            Self::Over(ended) => return ended.clone(),
        };
        *self = Self::Over(ended.clone());
        ended
    }
}

impl OpenCall {
    fn begin(gateway: &Gateway, request: RoutedRequest) -> Self {
        let (event_sender, receiver) =
            EventSender::paid_by(NOTICES, Account::of(request.call.principal.as_ref()));
        let follows = tasks::has_extension(&request.call.sender.capabilities);
        let hands = (gateway.manager.clone(), gateway.shutdown.clone());
        let call = tasks::call_as_task(hands, request, follows, event_sender);
        Self {
            work: Work::Running(Box::pin(call)),
            receiver,
            questions: Vec::new(),
            pages: 0,
            lacking: Raw::empty_object(),
        }
    }

    /// Sends the client's answers to the server. Server requests without an answer stay open.
    fn answer(&mut self, responses: Option<&Raw>) {
        for (key, question) in std::mem::take(&mut self.questions) {
            match responses.and_then(|responses| responses.get(&key)).filter(Raw::is_object) {
                Some(answer) => question.answer(Ok(answer)),
                None => self.questions.push((key, question)),
            }
        }
    }

    /// Runs the call until it ends or needs an answer of the client. Notifications go to `event_sender`.
    async fn leg(&mut self, caller: &Caller, event_sender: &EventSender) -> LegEnd {
        let mut joined_until = None;
        let ended = loop {
            self.questions.retain(|(_, question)| !question.is_withdrawn());
            match joined_until {
                _ if self.questions.is_empty() => joined_until = None,
                None => joined_until = Some(Instant::now() + JOINING),
                Some(end) if end <= Instant::now() => return LegEnd::Asks,
                Some(_) => {}
            }
            tokio::select! {
                biased;
                Some(event) = self.receiver.recv() => self.hear(event, caller, event_sender),
                ended = self.work.finish() => break ended,
                () = at(joined_until) => {}
            }
        };
        while let Ok(event) = self.receiver.try_recv() {
            if let CallEvent::Notice(notice) = event {
                event_sender.offer(notice);
            }
        }
        LegEnd::Ended(ended)
    }

    fn hear(&mut self, event: CallEvent, caller: &Caller, event_sender: &EventSender) {
        let question = match event {
            CallEvent::Notice(notice) => return event_sender.offer(notice),
            CallEvent::Question(question) => question,
            // A modern client does not poll.
            CallEvent::Pause(_) => return,
        };
        let (method, params) = (question.method.clone(), question.params.clone());
        if caller.abilities().allows(&method, params.as_ref()) {
            self.pages += 1;
            self.questions.push((format!("question-{}", self.pages), question));
        } else {
            for (name, value) in questions::required(&method, params.as_ref()).members() {
                self.lacking = self.lacking.with(&name, &value);
            }
            question.answer(Err(questions::refusal(&method)));
        }
    }
}

#[cfg(test)]
#[path = "modern_client_tests.rs"]
mod tests;
