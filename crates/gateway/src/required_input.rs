//! The input that a modern server needs before it continues a call or a task, and its requests to a legacy client.
//!
//! Invariant: the requests are bounded in number, and few are open at a time.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`. Not here: repeating the call with the answers (`bridge`, `tasks`).

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};

use super::caller::Caller;
use super::{error, questions};
use json::Raw;
use protocol::{ErrorCode, ErrorObject, Method, Reply, method};
use upstream::EventSender;

/// Most server requests of one round.
const MAX_QUESTIONS: usize = 64;
/// Most server requests of one round that are open at a time.
const AT_A_TIME: usize = 8;

/// The input that a modern server needs before it continues.
pub(crate) struct RequiredInput {
    requests: Vec<(String, Raw)>,
    state: Option<Raw>,
}

impl RequiredInput {
    /// Reads an `input_required` result. Returns none for other replies.
    pub(crate) fn of(reply: &Reply) -> Result<Option<Self>, ErrorObject> {
        let Ok(result) = reply else { return Ok(None) };
        if result.text("resultType").as_deref() != Some("input_required") {
            return Ok(None);
        }
        let state = result.get("requestState").filter(|state| !state.is_null());
        let requests = requests(result);
        if requests.is_empty() && state.is_none() {
            return Err(error::invalid_answer("the server asks for more input but not for which"));
        }
        Self { requests, state }.bounded().map(Some)
    }

    /// Returns the input that a task waits for, without what is in `answered` already. Returns none if
    /// nothing is left.
    pub(crate) fn of_task(task: &Raw, answered: &mut HashSet<String>) -> Result<Option<Self>, ErrorObject> {
        let mut requests = requests(task);
        requests.retain(|(key, _)| !answered.contains(key));
        answered.extend(requests.iter().map(|(key, _)| key.clone()));
        if requests.is_empty() {
            return Ok(None);
        }
        Self { requests, state: None }.bounded().map(Some)
    }

    /// Whether the server only wants the request again.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The state that the server gets back with the answers.
    pub(crate) const fn state(&self) -> Option<&Raw> {
        self.state.as_ref()
    }

    fn bounded(self) -> Result<Self, ErrorObject> {
        let number = self.requests.len();
        if number > MAX_QUESTIONS {
            let text = format!("the server asks {number} questions at once, {MAX_QUESTIONS} are allowed");
            return Err(error::input(ErrorCode::TooManyQuestions, &text));
        }
        Ok(self)
    }

    /// Sends the requests of `server` to the client. Returns the answers under the server's keys.
    pub(crate) async fn ask_client(
        &self,
        caller: &Caller,
        server: &Arc<str>,
        event_sender: &EventSender,
    ) -> Reply {
        let requests = self.requests.iter().map(|(_, request)| InputRequest::of(caller, request));
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        let mut answers =
            stream::iter(requests).map(|requests| requests.put(server, event_sender)).buffered(AT_A_TIME);
        let mut responses = Raw::empty_object();
        for (key, _) in &self.requests {
            // The first answer that ends the request withdraws the other requests.
            let Some(answer) = answers.next().await else { break };
            responses = responses.with(key, &answer?);
        }
        Ok(responses)
    }
}

/// Returns the entries of `inputRequests`.
fn requests(of: &Raw) -> Vec<(String, Raw)> {
    let requests = of.get("inputRequests");
    requests.iter().flat_map(Raw::members).map(|(key, request)| (key.into_owned(), request)).collect()
}

/// One entry of `inputRequests`.
struct InputRequest {
    method: Method,
    params: Option<Raw>,
}

impl InputRequest {
    fn of(caller: &Caller, request: &Raw) -> Result<Self, ErrorObject> {
        let method = Method::from(&*request.text("method").unwrap_or_default());
        let params = request.get("params").filter(Raw::is_object);
        let is_known = caller.version.has_question(&method, params.as_ref());
        if !(is_known && caller.abilities().allows(&method, params.as_ref())) {
            let shown: String = method.chars().take(64).collect();
            let text =
                format!("the server needs {shown:?}, which this client did not say that it can answer");
            return Err(error::input(ErrorCode::ClientCannotBeAsked, &text));
        }
        let params = params.map(|params| questions::for_legacy(caller.version, &method, params));
        Ok(Self { method, params })
    }

    /// Sends the request to the client. Returns its result, or why the call cannot continue.
    async fn put(self, server: &Arc<str>, event_sender: &EventSender) -> Result<Raw, ErrorObject> {
        let reply = event_sender.ask_for(Some(Arc::clone(server)), self.method.clone(), self.params).await;
        match reply {
            Some(Ok(result)) if result.is_object() => Ok(result),
            // The protocol can report a missing answer of a user, and no other failure.
            Some(_) if self.method == method::ELICITATION_CREATE => {
                Ok(Raw::empty_object().with("action", &Raw::of("cancel")))
            }
            Some(Ok(_)) => Err(refused(&self.method, "the answer is not an object")),
            Some(Err(refusal)) => Err(refused(&self.method, &refusal.message())),
            None => Err(refused(&self.method, "nobody answered")),
        }
    }
}

fn refused(method: &str, reason: &str) -> ErrorObject {
    let reason: String = reason.chars().take(256).collect();
    error::input(ErrorCode::InputRefused, &format!("the server needs an answer to {method:?}: {reason}"))
}
