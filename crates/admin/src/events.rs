//! `/events`: calls and states of servers as they happen, as an event stream.
//!
//! Invariants: a watcher without the role *superuser* sees no principal, client, request, arguments or errors of attempts
//! of calls and actions that are not its own. A stream ends when the gateway shuts down, or when the credential is revoked.
//!
//! Not here: recording, limits and memory of the events (`gateway::manager::live_events`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::IntoParams;

use super::Api;
use super::openapi::QueryProblems;
use super::problem::{Problem, clipped};
use super::view::{date, in_ms};
use auth::{Principal, Role};
use gateway::manager::live_events::{Happened, LiveEvent, Next, Watcher};
use net::sse::{Event, KEEP_ALIVE};
use protocol::ErrorCode;
use runtime::shutdown::Shutdown;
use upstream::Attempt;

/// Pause after which a comment shows that the stream is alive.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Which events are sent.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Only events of this server.
    #[param(nullable = false)]
    server: Option<String>,
    /// Only calls of this tool, by its name at its server.
    #[param(nullable = false)]
    tool: Option<String>,
    /// Only these kinds of events, separated by commas.
    #[param(nullable = false, example = "call_started,call_ended")]
    kind: Option<String>,
    /// Only calls that ended so: `ok`, `tool_error`, `failed` or `cancelled`.
    #[param(nullable = false)]
    outcome: Option<String>,
    /// Whether the stream continues with future events. `false`: it ends after the recorded ones.
    #[param(nullable = false)]
    follow: Option<bool>,
}

/// Watch events
///
/// Calls of tools, actions of operators, and changes of servers, breakers and tools as they happen. `Last-Event-ID` resumes a stream; the event `gap` says
/// that some were missed. Nothing is recorded while nobody watches. Needs the role *reader*. Only a *superuser* sees
/// the principals, clients and arguments of the calls of others.
#[utoipa::path(
    get, path = "/events", tag = "gateway", operation_id = "watch_events", params(EventsQuery),
    responses(
        (status = 200, description = "Events; `data` is a JSON object", body = String,
         content_type = "text/event-stream"),
        QueryProblems
    ),
    security((), ("bearer" = []), ("api_key" = []))
)]
pub(super) async fn watch(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    wanted: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(wanted) = wanted.map_err(|error| Problem::new(ErrorCode::InvalidRequest, error.body_text()))?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    // A request for the recorded events alone begins with the oldest.
    let seen = if wanted.follow == Some(false) { seen.or(Some(0)) } else { seen };
    let watcher = api.manager.live_events().watch(principal.id(), seen).ok_or_else(|| {
        Problem::new(ErrorCode::TooManyConnections, "too many streams of events are open")
            .hinting("close one of the streams, and send this request again")
    })?;
    let stream = Stream { watcher, principal, wanted, drain: api.options.drain.clone(), is_begun: false };
    let body = Body::from_stream(unfold(stream, Stream::next));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// The stream of one watcher.
struct Stream {
    watcher: Watcher,
    principal: Principal,
    wanted: EventsQuery,
    drain: Shutdown,
    is_begun: bool,
}

impl Stream {
    /// Returns the next piece of the stream, and the rest of the stream.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let bytes = self.bytes().await?;
        Some((Ok(bytes), self))
    }

    async fn bytes(&mut self) -> Option<Bytes> {
        if !self.is_begun {
            self.is_begun = true;
            // The head is then sent at once.
            return Some(KEEP_ALIVE);
        }
        loop {
            let next = if self.wanted.follow == Some(false) {
                Some(self.watcher.try_next()?)
            } else {
                self.wait().await?
            };
            match next {
                None => return Some(KEEP_ALIVE),
                Some(Next::Gap(missed, last)) => {
                    let data = json!({"at": date(SystemTime::now()), "missed": missed});
                    return Some(printed(last, "gap", &data));
                }
                Some(Next::Event(event)) if self.wanted.has(&event) => {
                    return Some(printed(event.number, name(&event), &data(&event, &self.principal)));
                }
                Some(Next::Event(_)) => {}
            }
        }
    }

    /// Waits for the next event; none if the stream has to end.
    async fn wait(&mut self) -> Option<Option<Next>> {
        if self.drain.is_begun() || self.principal.is_taken_back() {
            return None;
        }
        let (drain, principal) = (self.drain.clone(), self.principal.clone());
        let over = async {
            futures_util::future::select(Box::pin(drain.requested()), Box::pin(principal.taken_back())).await;
        };
        match futures_util::future::select(Box::pin(self.watcher.next(KEEP_ALIVE_EVERY)), Box::pin(over))
            .await
        {
            futures_util::future::Either::Left((next, _)) => Some(next),
            futures_util::future::Either::Right(_) => None,
        }
    }
}

impl EventsQuery {
    fn has(&self, event: &LiveEvent) -> bool {
        let fits = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
        };
        let (tool, outcome) = match &event.what {
            Happened::Call { call, end } => (Some(&*call.tool), end.as_ref().map(|end| end.outcome)),
            _ => (None, None),
        };
        let kinds = self.kind.as_deref();
        kinds.is_none_or(|kinds| kinds.split(',').any(|kind| kind.trim() == name(event)))
            && fits(&self.server, event.server.as_deref())
            && fits(&self.tool, tool)
            && fits(&self.outcome, outcome)
    }
}

const fn name(event: &LiveEvent) -> &'static str {
    match &event.what {
        Happened::Call { end: None, .. } => "call_started",
        Happened::Call { end: Some(_), .. } => "call_ended",
        Happened::Server { .. } => "server_changed",
        Happened::Breaker { .. } => "breaker_changed",
        Happened::Tools { .. } => "tools_changed",
        Happened::Action { .. } => "action",
    }
}

/// Returns what `viewer` may see of `event`.
fn data(event: &LiveEvent, viewer: &Principal) -> Value {
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| data.insert(name.to_owned(), value);
    put("at", date(event.at).into());
    put("server", event.server.as_deref().into());
    let is_shown = |of: Option<&Arc<str>>| viewer.role() == Role::Superuser || of == Some(viewer.id());
    match &event.what {
        Happened::Call { call, end } => {
            put("call", call.number.into());
            put("tool", (*call.tool).into());
            let is_shown = is_shown(call.principal.as_ref());
            put("principal", call.principal.as_deref().filter(|_| is_shown).into());
            put("client", Some(&*call.client).filter(|name| is_shown && !name.is_empty()).into());
            put("request_id", call.request_id.filter(|_| is_shown).map(|id| id.to_string()).into());
            if let Some(text) = call.arguments.as_deref().filter(|_| is_shown) {
                put("arguments", arguments(text));
            }
            if let Some(end) = end {
                put("attempts", attempts(&end.attempts, is_shown));
                put("outcome", end.outcome.into());
                put("code", end.code.map(|code| code.to_string()).into());
                put("duration_ms", in_ms(end.duration).into());
            }
        }
        Happened::Server { state, reason } => {
            put("state", (*state).into());
            put("reason", reason.clone().map(clipped).into());
        }
        Happened::Breaker { changed, reason } => {
            put("from", changed.from.as_str().into());
            put("to", changed.to.as_str().into());
            put("consecutive_failures", changed.failures.into());
            put("reason", reason.clone().map(clipped).into());
        }
        Happened::Tools { count, added, removed, changed } => {
            put("tools", (*count).into());
            for (member, names) in [("added", added), ("removed", removed), ("changed", changed)] {
                put(member, json!({"count": names.count, "first": names.first}));
            }
        }
        Happened::Action { action, principal, outcome, request_id } => {
            let is_shown = is_shown(Some(principal));
            put("action", (*action).into());
            put("outcome", (**outcome).into());
            put("principal", Some(&**principal).filter(|_| is_shown).into());
            put("request_id", request_id.filter(|_| is_shown).map(|id| id.to_string()).into());
        }
    }
    Value::Object(data)
}

/// Returns arguments as JSON, or their beginning as a text if they were cut.
fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Returns attempts in their order. An error may quote the call, so only those who may see the caller see it.
fn attempts(attempts: &[Attempt], has_errors: bool) -> Value {
    let shown = |(index, attempt): (usize, &Attempt)| {
        json!({
            "attempt": index + 1,
            "outcome": if attempt.error.is_none() { "answered" } else { "failed" },
            "duration_ms": in_ms(attempt.duration),
            "error": attempt.error.as_ref().filter(|_| has_errors),
        })
    };
    attempts.iter().enumerate().map(shown).collect()
}

fn printed(number: u64, name: &'static str, data: &Value) -> Bytes {
    let id = Some(number.to_string().into());
    Event { id, name: Bytes::from_static(name.as_bytes()), ..Event::of(data.to_string().into()) }.encode()
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
