//! A legacy client of a modern server. Each `input_required` becomes requests to the client, and the call is
//! repeated with its answers.
//!
//! Invariants: a call has at most 16 rounds. The server gets its `requestState` back unchanged. The time in
//! which the client answers does not count for the server. A round is never retried automatically, because
//! each may have effects.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, sleep};

use super::{Begun, begun, buffered};
use crate::caller::Caller;
use crate::manager::RoutedRequest;
use crate::{Gateway, era, error, tasks};
use json::{Part, Raw};
use protocol::feature::Effect;
use protocol::{ErrorCode, ErrorObject, Method, Reply, Version, method, output_schema};
use upstream::{Outlet, ResponseBody};

/// Most rounds of one request.
const MAX_ROUNDS: u32 = 16;
/// Most server requests of one round.
const MAX_QUESTIONS: usize = 64;
/// Most server requests of one round that are open at a time.
const AT_A_TIME: usize = 8;
/// First pause before a request is repeated for a server that needs no input. It doubles each time.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Makes a legacy client's request, in as many rounds as the server needs.
pub(super) async fn answer(
    gateway: &Gateway,
    caller: &Caller,
    mut request: RoutedRequest,
    outlet: &Outlet,
) -> Result<ResponseBody, ErrorObject> {
    let follows = request.params().part("task").is_some_and(Part::is_object);
    if follows {
        request.call.sender.capabilities = tasks::declared(&request.call.sender.capabilities);
    }
    for round in 0..=MAX_ROUNDS {
        let mut done = match begun(gateway, caller, &request, outlet).await? {
            Begun::Streaming(stream) => return Ok(ResponseBody::Streaming(stream)),
            Begun::Done(done) => done,
        };
        request.call.terms = None;
        done.reply = done.reply.map(|result| as_announced(&request, done.version, result));
        if tasks::is_required(&done.reply) && !tasks::has_extension(&request.call.sender.capabilities) {
            // The server refused, so nothing was done. The call becomes a task, and this waits for the task.
            request.call.sender.capabilities = tasks::declared(&request.call.sender.capabilities);
            continue;
        }
        if let Some(result) = tasks::created(gateway, caller, &done, follows) {
            return Ok(buffered(result));
        }
        if let Some(reply) = tasks::waited_for(gateway, caller, &done, outlet).await {
            let reply = reply.map(|result| as_announced(&request, done.version, result));
            return era::answer(caller, &request.call.method, done.version, reply).map(buffered);
        }
        let Some(wanted) = RequiredInput::of(&done.reply)? else {
            let reply = era::answer(caller, &request.call.method, done.version, done.reply);
            gateway.note_answer(caller, &request.server, &reply);
            return reply.map(buffered);
        };
        if round == MAX_ROUNDS {
            break;
        }
        let responses = wanted.responses(caller, &mut request, outlet, round).await?;
        request.edit(&[("inputResponses", responses.as_ref()), ("requestState", wanted.state.as_ref())]);
        request.call.effect = Effect::Unsafe;
    }
    let text = format!("the server asked for more input {} times, which is the limit", MAX_ROUNDS + 1);
    Err(error::input(ErrorCode::TooManyRounds, &text))
}

/// Returns a structured result in the form of the announced output schema.
fn as_announced(request: &RoutedRequest, version: Version, result: Raw) -> Raw {
    match request.wraps_result {
        true if version.has_any_output() => output_schema::wrap_result(&result),
        // The server knows older clients and wraps results itself. Results that it did not wrap are wrapped
        // here.
        true => output_schema::wrap_unannounced(&result),
        false => result,
    }
}

/// The input that a modern server needs before it continues.
pub(crate) struct RequiredInput {
    requests: Vec<(String, Raw)>,
    state: Option<Raw>,
}

impl RequiredInput {
    /// Reads an `input_required` result. Returns none for other replies.
    fn of(reply: &Reply) -> Result<Option<Self>, ErrorObject> {
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

    fn bounded(self) -> Result<Self, ErrorObject> {
        let number = self.requests.len();
        if number > MAX_QUESTIONS {
            let text = format!("the server asks {number} questions at once, {MAX_QUESTIONS} are allowed");
            return Err(error::input(ErrorCode::TooManyQuestions, &text));
        }
        Ok(self)
    }

    /// Returns the client's answers under the server's keys, or none if nothing was requested. The clock of
    /// the request is stopped meanwhile.
    async fn responses(
        &self,
        caller: &Caller,
        request: &mut RoutedRequest,
        outlet: &Outlet,
        round: u32,
    ) -> Result<Option<Raw>, ErrorObject> {
        if self.requests.is_empty() {
            sleep(MAX_PAUSE.min(PAUSE * 2_u32.pow(round))).await;
            return Ok(None);
        }
        let begun = Instant::now();
        let responses = self.asked(caller, &request.server, outlet).await?;
        request.begun += begun.elapsed();
        Ok(Some(responses))
    }

    /// Sends the requests of `server` to the client. Returns the answers under the server's keys.
    pub(crate) async fn asked(&self, caller: &Caller, server: &Arc<str>, outlet: &Outlet) -> Reply {
        let questions = self.requests.iter().map(|(_, request)| InputRequest::of(caller, request));
        let questions = questions.collect::<Result<Vec<_>, _>>()?;
        let mut answers = stream::iter(questions).map(|asked| asked.put(server, outlet)).buffered(AT_A_TIME);
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
        let params = params.map(|params| era::questions::for_legacy(caller.version, &method, params));
        Ok(Self { method, params })
    }

    /// Sends the request to the client. Returns its result, or why the call cannot continue.
    async fn put(self, server: &Arc<str>, outlet: &Outlet) -> Result<Raw, ErrorObject> {
        let reply = outlet.ask_for(Some(Arc::clone(server)), self.method.clone(), self.params).await;
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

#[cfg(test)]
#[path = "legacy_client_tests.rs"]
mod tests;
