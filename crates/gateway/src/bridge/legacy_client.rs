//! A legacy client of a modern server. Each `input_required` becomes requests to the client, and the call is
//! repeated with its answers.
//!
//! Invariants: a call has at most 16 rounds. The server gets its `requestState` back unchanged. The time in
//! which the client answers does not count for the server. A round is never retried automatically, because
//! each may have effects.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Made, buffered, made};
use crate::caller::Caller;
use crate::manager::RoutedRequest;
use crate::required_input::RequiredInput;
use crate::{Gateway, era, error, tasks};
use json::{Part, Raw};
use protocol::feature::Effect;
use protocol::{ErrorCode, ErrorObject, Version, output_schema};
use upstream::{EventSender, ResponseBody};

/// Most rounds of one request.
const MAX_ROUNDS: u32 = 16;
/// First pause before a request is repeated for a server that needs no input. It doubles each time.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Makes a legacy client's request, in as many rounds as the server needs.
pub(super) async fn answer(
    gateway: &Gateway,
    caller: &Caller,
    mut request: RoutedRequest,
    event_sender: &EventSender,
) -> Result<ResponseBody, ErrorObject> {
    let follows = request.params().part("task").is_some_and(Part::is_object);
    if follows {
        request.call.sender.capabilities = tasks::declared(&request.call.sender.capabilities);
    }
    for round in 0..=MAX_ROUNDS {
        if round > 0 {
            let renewed = gateway.manager.renewed(request);
            request = renewed.map_err(|failure| error::object(&failure, caller.version.era()))?;
        }
        let mut done = match made(gateway, caller, &request, event_sender).await? {
            Made::Streaming(stream) => return Ok(ResponseBody::Streaming(stream)),
            Made::Whole(response) => response,
        };
        request.call.terms = None;
        done.body = done.body.map(|result| as_announced(&request, done.version, result));
        if tasks::is_required(&done.body) && !tasks::has_extension(&request.call.sender.capabilities) {
            // The server refused, so nothing was done. The call becomes a task, and this waits for the task.
            request.call.sender.capabilities = tasks::declared(&request.call.sender.capabilities);
            continue;
        }
        if let Some(result) = tasks::created(gateway, caller, request.server_name(), &done, follows) {
            return Ok(buffered(result));
        }
        if let Some(reply) =
            tasks::waited_for(gateway, caller, (request.server_name(), &done.body), event_sender).await
        {
            let reply = reply.map(|result| as_announced(&request, done.version, result));
            return era::answer(caller, &request.call.method, done.version, reply).map(buffered);
        }
        let Some(required_input) = RequiredInput::of(&done.body)? else {
            let reply = era::answer(caller, &request.call.method, done.version, done.body);
            gateway.note_answer(caller, request.server_name(), &reply);
            return reply.map(buffered);
        };
        if round == MAX_ROUNDS {
            break;
        }
        let responses = responses(&required_input, caller, &mut request, event_sender, round).await?;
        request.edit(&[("inputResponses", responses.as_ref()), ("requestState", required_input.state())]);
        request.call.effect = Effect::Unsafe;
    }
    let text = format!("the server asked for more input {} times, which is the limit", MAX_ROUNDS + 1);
    Err(error::input(ErrorCode::TooManyRounds, &text))
}

/// Returns the client's answers under the server's keys, or none if nothing was requested. The clock of the request is
/// stopped meanwhile.
async fn responses(
    required_input: &RequiredInput,
    caller: &Caller,
    request: &mut RoutedRequest,
    event_sender: &EventSender,
    round: u32,
) -> Result<Option<Raw>, ErrorObject> {
    if required_input.is_empty() {
        sleep(MAX_PAUSE.min(PAUSE * 2_u32.pow(round))).await;
        return Ok(None);
    }
    let started = Instant::now();
    let responses = required_input.ask_client(caller, request.server_name(), event_sender).await?;
    request.started += started.elapsed();
    Ok(Some(responses))
}

/// Returns a structured result in the form of the announced output schema.
fn as_announced(request: &RoutedRequest, version: Version, result: Raw) -> Raw {
    match request.wraps_result() {
        true if version.has_any_output() => output_schema::wrap_result(&result),
        // The server knows older clients and wraps results itself. Results that it did not wrap are wrapped
        // here.
        true => output_schema::wrap_unannounced(&result),
        false => result,
    }
}

#[cfg(test)]
#[path = "legacy_client_tests.rs"]
mod tests;
