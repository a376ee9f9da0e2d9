//! Live events as watchers get them: their `data`, described for `OpenAPI`, and their text, one piece of an event stream.
//!
//! Invariants: the text of a call is what the document describes. A viewer without the role *superuser* sees no principal,
//! client, request, arguments or errors of attempts of calls that are not its own. It sees neither principal nor request of
//! such actions.
//!
//! Not here: printing a call (`gateway::manager::live_events::CallText`), the stream and its filters (`events`), recording
//! (`gateway::manager::live_events`).

use std::time::SystemTime;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::server_state::ServerState;
use super::view::{BreakerState, date};
use auth::Principal;
use gateway::manager::live_events::{CallText, EventContent, EventKind, LiveEvent, OtherEvent, SampledNames};
use json::Raw;
use net::sse::Event;
use protocol::ErrorCode;
use protocol::sanitize::clipped;
use runtime::telemetry::RequestId;

/// Room for the first events.
const BYTES: usize = 16 * 1024;

/// The schemas of this module, to which the media type of an event stream cannot refer.
#[cfg(test)]
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(
    CallStarted,
    CallEnded,
    ServerChanged,
    BreakerChanged,
    ToolsChanged,
    Acted,
    Gap
)))]
pub(super) struct Schemas;

/// `data` of the event `call_started`: a call of a tool began. It is left out if the call ended before it was sent and
/// the stream has `call_ended` too.
#[derive(Serialize, ToSchema)]
#[schema(as = CallStartedEvent)]
#[allow(dead_code)] // describes what `EventChunk` prints
struct CallStarted {
    /// When it happened.
    #[schema(format = DateTime)]
    at: String,
    /// The server that is called.
    server: String,
    /// The number of the call, which its `call_ended` has too.
    #[schema(minimum = 1)]
    call: u64,
    /// The name of the tool at the server.
    tool: String,
    /// The principal of the client. `null` if the watcher may not see it.
    #[schema(required = true)]
    principal: Option<String>,
    /// Name and version of the MCP client, or `REST`. `null` if it is unknown or the watcher may not see it.
    #[schema(required = true)]
    client: Option<String>,
    /// The id of the request, which the log has too. `null` if there is none or the watcher may not see it.
    #[schema(format = "uuid", required = true)]
    request_id: Option<String>,
    /// The arguments, if they are recorded; their beginning as a text if they are large.
    #[schema(required = false)]
    arguments: Option<Value>,
}

/// `data` of the event `call_ended`: the members of `call_started`, and how the call ended. It is the only event of a call
/// that ended before its `call_started` was sent.
#[derive(Serialize, ToSchema)]
#[schema(as = CallEndedEvent)]
#[allow(dead_code)] // describes what `EventChunk` prints
pub(super) struct CallEnded {
    #[serde(flatten)]
    start: CallStarted,
    #[schema(value_type = CallOutcome)]
    outcome: String,
    /// The code of the failure.
    #[schema(value_type = Option<ErrorCode>, required = true)]
    code: Option<ErrorCode>,
    /// The text of the error, if texts are recorded and the watcher may see it.
    #[schema(required = false)]
    error: Option<String>,
    /// From the request to the answer, waiting and retries included. The call began so long before `at`.
    #[schema(minimum = 0)]
    duration_ms: f64,
    /// The attempts, at most 16. Empty for a call that was cancelled or whose result was cached.
    attempts: Vec<EndedAttempt>,
}

/// How a call ended.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)] // describes the text that is recorded
enum CallOutcome {
    /// The tool answered.
    Ok,
    /// The tool reported an error.
    ToolError,
    /// The server answered with a JSON-RPC error.
    RpcError,
    /// The call failed between the gateway and the server.
    Failed,
    /// The client cancelled the call.
    Cancelled,
}

/// One attempt of a call.
#[derive(Serialize, ToSchema)]
#[schema(as = CallAttempt)]
#[allow(dead_code)] // describes what `EventChunk` prints
struct EndedAttempt {
    /// Its number, from 1.
    #[schema(minimum = 1)]
    attempt: usize,
    #[schema(value_type = AttemptOutcome)]
    outcome: String,
    #[schema(minimum = 0)]
    duration_ms: f64,
    /// Why it failed. `null` if the watcher may not see it.
    #[schema(required = true)]
    error: Option<String>,
}

/// How an attempt ended.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)] // describes the two words below
enum AttemptOutcome {
    /// The server answered.
    Answered,
    /// The attempt failed between the gateway and the server.
    Failed,
}

/// `data` of the event `server_changed`: the state of a server changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ServerChangedEvent)]
struct ServerChanged<'a> {
    /// When it happened.
    #[schema(format = DateTime)]
    at: String,
    server: &'a str,
    #[schema(value_type = ServerState)]
    state: &'static str,
    /// The last failure, if the state is one.
    #[schema(required = true)]
    reason: Option<String>,
}

/// `data` of the event `breaker_changed`: the circuit breaker of a server changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BreakerChangedEvent)]
struct BreakerChanged<'a> {
    /// When it happened.
    #[schema(format = DateTime)]
    at: String,
    server: &'a str,
    from: BreakerState,
    to: BreakerState,
    /// Failures in a row, up to now.
    consecutive_failures: u32,
    /// The last failure, if the breaker opened.
    #[schema(required = true)]
    reason: Option<String>,
}

/// `data` of the event `tools_changed`: the tools of a server changed, or their approval did. If only an approval changed,
/// all counts are 0.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolsChangedEvent)]
struct ToolsChanged<'a> {
    /// When it happened.
    #[schema(format = DateTime)]
    at: String,
    server: &'a str,
    /// Tools that the server has now.
    tools: usize,
    added: Names<'a>,
    removed: Names<'a>,
    /// Tools with another definition.
    changed: Names<'a>,
}

/// Names of tools.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolNames)]
struct Names<'a> {
    /// How many there are.
    count: usize,
    /// The first 16 of them.
    first: &'a [String],
}

/// `data` of the event `action`: an action of an operator ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ActionEvent)]
struct Acted<'a> {
    /// When it happened.
    #[schema(format = DateTime)]
    at: String,
    /// The server, if the action is about one.
    #[schema(required = true)]
    server: Option<&'a str>,
    /// The action, as the audit log names it.
    #[schema(examples("reset_breaker"))]
    action: &'static str,
    /// `done`, or the code of a failure.
    outcome: &'a str,
    /// The operator. `null` if the watcher may not see it.
    #[schema(required = true)]
    principal: Option<&'a str>,
    /// The id of the request. `null` if there is none or the watcher may not see it.
    #[schema(value_type = Option<String>, format = "uuid", required = true)]
    request_id: Option<RequestId>,
}

/// `data` of the event `gap`: the stream lost events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GapEvent)]
struct Gap {
    /// When it was noticed.
    #[schema(format = DateTime)]
    at: String,
    /// How many recorded events, two for each call. `null` if that is not known.
    #[schema(required = true)]
    missed: Option<u64>,
}

/// Prints the `data` of a gap.
fn gap(missed: Option<u64>) -> Bytes {
    print(&Gap { at: date(SystemTime::now()), missed })
}

/// Prints what `viewer` may see of an event that happened at `at`.
fn data(event: &OtherEvent, at: SystemTime, viewer: &Principal) -> Bytes {
    let at = date(at);
    let server = event.server.as_deref().unwrap_or_default();
    match &event.content {
        EventContent::Server { state, reason } => {
            print(&ServerChanged { at, server, state, reason: reason.clone().map(clipped) })
        }
        EventContent::Breaker { changed, reason } => print(&BreakerChanged {
            at,
            server,
            from: changed.from.into(),
            to: changed.to.into(),
            consecutive_failures: changed.failures,
            reason: reason.clone().map(clipped),
        }),
        EventContent::Tools { count, added, removed, changed } => {
            let [added, removed, changed] = [added, removed, changed].map(Names::of);
            print(&ToolsChanged { at, server, tools: *count, added, removed, changed })
        }
        EventContent::Action { action, principal, outcome, request_id } => {
            let is_shown = viewer.may_see(Some(principal));
            print(&Acted {
                at,
                server: event.server.as_deref(),
                action,
                outcome,
                principal: Some(&**principal).filter(|_| is_shown),
                request_id: request_id.filter(|_| is_shown),
            })
        }
    }
}

impl<'a> Names<'a> {
    fn of(names: &'a SampledNames) -> Self {
        Self { count: names.count, first: &names.first }
    }
}

fn print(data: &impl Serialize) -> Bytes {
    Raw::of(data).bytes().clone()
}

/// One piece of a stream, for one viewer.
pub(super) struct EventChunk<'v> {
    text: CallText,
    viewer: &'v Principal,
}

impl<'v> EventChunk<'v> {
    pub(super) fn new(viewer: &'v Principal) -> Self {
        Self { text: CallText::with_capacity(BYTES), viewer }
    }

    /// Appends an event.
    pub(super) fn event(&mut self, event: &LiveEvent) {
        if let EventKind::Other(other) = &event.what {
            self.framed(event.number, name(event), data(other, event.at, self.viewer));
        }
        let Some((call, end)) = event.call() else { return };
        let is_shown = self.viewer.may_see(call.principal.as_deref());
        self.text.put("id: ");
        self.text.json(&event.number);
        self.text.put(match end {
            None => "\nevent: call_started\ndata: {",
            Some(_) => "\nevent: call_ended\ndata: {",
        });
        self.text.call(event.at, call, end, is_shown);
        self.text.put("}\n\n");
    }

    /// Appends the event that some were missed, of which `last` is the number of the last one.
    pub(super) fn gap(&mut self, missed: Option<u64>, last: u64) {
        self.framed(last, "gap", gap(missed));
    }

    pub(super) fn len(&self) -> usize {
        self.text.bytes().len()
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.text.into_bytes().into()
    }

    fn framed(&mut self, number: u64, name: &'static str, data: Bytes) {
        let id = Some(number.to_string().into());
        let event = Event { id, name: Bytes::from_static(name.as_bytes()), ..Event::of(data) };
        self.text.put(event.encode());
    }
}

/// The name of an event.
pub(super) fn name(event: &LiveEvent) -> &'static str {
    match &event.what {
        EventKind::CallStarted(_) => "call_started",
        EventKind::CallEnded(_) => "call_ended",
        EventKind::Other(other) => match other.content {
            EventContent::Server { .. } => "server_changed",
            EventContent::Breaker { .. } => "breaker_changed",
            EventContent::Tools { .. } => "tools_changed",
            EventContent::Action { .. } => "action",
        },
    }
}

#[cfg(test)]
#[path = "event_data_tests.rs"]
mod tests;
