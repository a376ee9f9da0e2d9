//! Calls during which a server may send requests to the client: `tools/call`, `prompts/get` and `resources/read`.
//!
//! | | server legacy | server modern |
//! |---|---|---|
//! | client legacy | requests pass on the stream of the call | [`legacy_client`] asks the client and makes the call again |
//! | client modern | [`modern_client`] answers `input_required`; the call waits in [`suspended_calls`] | requests pass in the result |
//!
//! Invariant: where the eras are the same, a large result of a tool may pass while it arrives.
//!
//! Requests are counted here for the limits of their caller, before anything is sent.
//!
//! Does not decide who owns a name (`manager`), and does not translate results and lists (`era`).
//! Source: 2026-07-28 `basic/patterns/mrtr`.

pub(crate) mod legacy_client;
pub(crate) mod modern_client;
pub(crate) mod suspended_calls;

use crate::caller::Caller;
use crate::manager::RoutedRequest;
use crate::{Gateway, era, error, tasks};
use json::envelope_stream::{Added, Terms};
use protocol::{Era, ErrorObject, Reply};
use upstream::{EventSender, ResponseBody, ResponseStream, ServerResponse};

/// A result that passes from a modern server to a modern client while it arrives. A task is not the
/// client's own before its id is exposed, and pages that a user is to open are checked.
const MODERN: Terms = Terms {
    refused: &["task", "input_required"],
    refused_objects: &["task", "inputRequests"],
    added: &[Added { name: "resultType", value: "\"complete\"", only_final: false }],
};
/// A result that passes from a legacy server to a legacy client while it arrives. A type that only the modern era
/// has would be acted on here.
const LEGACY: Terms = Terms { refused: &["task", "input_required"], refused_objects: &["task"], added: &[] };

/// Makes a request and answers it in the era of its client. Dropping the future cancels it at its server.
pub(super) async fn call(
    gateway: &Gateway,
    caller: &Caller,
    mut request: RoutedRequest,
    event_sender: &EventSender,
) -> ResponseBody {
    let client = caller.version.era();
    let server = request.server.offer.as_ref().map(|offer| offer.peer.version.era());
    // A request that resumes a suspended call does not count.
    let may_resume = client == Era::Modern && server != Some(Era::Modern) && !caller.reads_both_eras;
    if !may_resume && let Err(refusal) = admit(gateway, caller, &mut request).await {
        return ResponseBody::Buffered(Err(refusal));
    }
    if caller.reads_both_eras {
        return unchanged(gateway, caller, &request, event_sender).await;
    }
    let admission = request.admission.clone();
    if server == Some(client) && !request.can_clash {
        request.call.terms = terms(client, &request);
    }
    let answered = match (client, server) {
        (Era::Modern, Some(Era::Modern)) => pass(gateway, caller, &request, event_sender).await,
        // Boxed, so that a response that passes does not carry the room for them.
        (Era::Modern, Some(Era::Legacy) | None) => {
            Box::pin(modern_client::answer(gateway, caller, request, event_sender)).await.map(buffered)
        }
        // The call decides the era of a server that speaks both.
        (Era::Legacy, _) => Box::pin(legacy_client::answer(gateway, caller, request, event_sender)).await,
    };
    let mut body = answered.unwrap_or_else(|refusal| ResponseBody::Buffered(Err(refusal)));
    admission.keep_with(&mut body);
    body
}

/// Counts `request` for the limits of `caller`, or refuses it.
async fn admit(gateway: &Gateway, caller: &Caller, request: &mut RoutedRequest) -> Result<(), ErrorObject> {
    if !gateway.manager.has_limits() {
        return Ok(());
    }
    // Boxed: it is large, and only needed with limits.
    let admitted = Box::pin(gateway.manager.admit((&caller.principal, &caller.scope), request)).await;
    admitted.map_err(|refusal| error::object(&refusal, caller.version.era()))
}

/// Terms under which the result of a tool may pass while it arrives, where client and server speak the same `era`.
/// Without terms it is buffered, because some code here reads or changes it. No such code runs under terms:
///
/// - `era::answer`: the eras are the same, and the terms add the members that the modern era requires;
/// - `tasks::created`, `tasks::waited_for` and `legacy_client` look for types that the terms refuse; the result is
///   buffered for a legacy client that asks for a task (`params.task`);
/// - `legacy_client` wraps a structured result if the list of its legacy client says so (`wraps_result`);
/// - `references` looks for URIs only if some can clash, and then there are no terms.
fn terms(era: Era, request: &RoutedRequest) -> Option<Terms> {
    request.tool()?;
    match era {
        Era::Modern => Some(MODERN),
        Era::Legacy => (!request.wraps_result() && request.params().get("task").is_none()).then_some(LEGACY),
    }
}

/// The response to a client that reads both eras.
async fn unchanged(
    gateway: &Gateway,
    caller: &Caller,
    request: &RoutedRequest,
    event_sender: &EventSender,
) -> ResponseBody {
    let made = match gateway.manager.call(request, event_sender).await {
        Ok(response) => request.whole(response).await,
        Err(failure) => Err(failure),
    };
    let reply = made.map_err(|failure| error::object(&failure, caller.version.era()));
    ResponseBody::Buffered(reply.and_then(|response| response.body))
}

/// The response of a modern server to a modern client.
async fn pass(
    gateway: &Gateway,
    caller: &Caller,
    request: &RoutedRequest,
    event_sender: &EventSender,
) -> Result<ResponseBody, ErrorObject> {
    let done = match made(gateway, caller, request, event_sender).await? {
        Made::Streaming(stream) => return Ok(ResponseBody::Streaming(stream)),
        Made::Whole(response) => response,
    };
    let follows = tasks::has_extension(caller.capabilities());
    match tasks::created(gateway, caller, request.server_name(), &done, true) {
        Some(_) if !follows => Err(error::invalid_answer(
            "the server made a task, which the client did not say that it can follow",
        )),
        Some(task) => Ok(buffered(task)),
        None => era::answer(caller, &request.call.method, done.version, done.body).map(buffered),
    }
}

/// The response to one request of a call.
enum Made {
    /// A result in the client's era that may pass while it arrives.
    Streaming(Box<ResponseStream>),
    Whole(ServerResponse<Reply>),
}

/// Makes one request of a call.
async fn made(
    gateway: &Gateway,
    caller: &Caller,
    request: &RoutedRequest,
    event_sender: &EventSender,
) -> Result<Made, ErrorObject> {
    let era = caller.version.era();
    let whole = match gateway.manager.call(request, event_sender).await {
        Ok(ServerResponse { body: ResponseBody::Streaming(stream), version }) if version.era() == era => {
            return Ok(Made::Streaming(stream));
        }
        Ok(response) => request.whole(response).await,
        Err(failure) => Err(failure),
    };
    whole.map(Made::Whole).map_err(|failure| error::object(&failure, era))
}

const fn buffered(result: json::Raw) -> ResponseBody {
    ResponseBody::Buffered(Ok(result))
}
