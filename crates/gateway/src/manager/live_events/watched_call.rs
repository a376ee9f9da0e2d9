//! A call that is watched: its beginning, its attempts and its end.
//!
//! Invariants: this code runs only while somebody watches. A call whose future is dropped ends as cancelled. Arguments
//! are recorded only if the operator allowed it, without secrets of the server, and at most [`MOST_ARGUMENTS`] of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::Manager;
use super::super::error::Error;
use super::super::routed_request::{Called, RoutedRequest};
use super::{CallEnd, CallStart, EventContent, LiveEvents};
use protocol::ErrorCode;
use runtime::telemetry::{RequestId, untrusted};
use serde_json::Value;
use upstream::{Attempt, AttemptLog, Outlet, ResponseBody, Upstream};

/// Most bytes of arguments in an event.
const MOST_ARGUMENTS: usize = 4 * 1024;
/// The end of a text that was cut.
const CUT: char = '…';
/// Bytes of arguments that are searched for secrets. More than [`MOST_ARGUMENTS`], so that a secret at the end of
/// what is shown is found as a whole.
const SEARCHED: usize = 4 * MOST_ARGUMENTS;

tokio::task_local! {
    static SOURCE: CallSource;
}

/// The request that a call comes from.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallSource {
    /// The id of the HTTP request; none for a client over stdio.
    pub request_id: Option<RequestId>,
    /// Whether it came over REST, and not over MCP.
    pub is_rest: bool,
}

impl CallSource {
    /// Runs `work`, whose calls then come from this request.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        SOURCE.scope(self, work).await
    }

    fn current() -> Self {
        SOURCE.try_with(|source| *source).unwrap_or_default()
    }
}

/// A call that is watched. Dropping it records that the call was cancelled.
struct WatchedCall<'a> {
    events: &'a LiveEvents,
    request: &'a RoutedRequest,
    start: Arc<CallStart>,
    is_over: bool,
}

impl<'a> WatchedCall<'a> {
    /// Records the beginning of a call.
    fn begin(events: &'a LiveEvents, request: &'a RoutedRequest, upstream: Option<&Upstream>) -> Self {
        let CallSource { request_id, is_rest } = CallSource::current();
        let has_arguments = events.has_arguments.load(Ordering::Relaxed);
        let start = CallStart {
            number: events.calls.fetch_add(1, Ordering::Relaxed) + 1,
            tool: Arc::clone(&request.subject),
            principal: request.call.principal.clone(),
            client: if is_rest { "REST".to_owned() } else { client(request) },
            request_id,
            arguments: upstream.filter(|_| has_arguments).and_then(|upstream| arguments(request, upstream)),
        };
        let watched = Self { events, request, start: Arc::new(start), is_over: false };
        watched.record(None);
        watched
    }

    /// Records the end of the call.
    fn ended(mut self, result: &Result<Called<ResponseBody>, Error>, attempts: Vec<Attempt>) {
        self.is_over = true;
        let (outcome, code) = match result {
            Ok(called) => match called.reply.as_buffered() {
                Some(Err(_)) => ("failed", None),
                Some(Ok(result)) if result.get_as("isError") == Some(true) => ("tool_error", None),
                _ => ("ok", None),
            },
            Err(error) => ("failed", Some(error.class().code)),
        };
        self.record(Some((outcome, code, attempts)));
    }

    fn record(&self, end: Option<(&'static str, Option<ErrorCode>, Vec<Attempt>)>) {
        let duration = tokio::time::Instant::now().saturating_duration_since(self.request.begun);
        let end = end.map(|(outcome, code, attempts)| CallEnd { outcome, code, duration, attempts });
        self.events.changed(&self.request.server, EventContent::Call { call: Arc::clone(&self.start), end });
    }
}

impl Drop for WatchedCall<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.record(Some(("cancelled", None, Vec::new())));
        }
    }
}

/// Returns the name and version of the client, as in `User-Agent`.
fn client(request: &RoutedRequest) -> String {
    let info = &request.call.sender.info;
    let [name, version] = ["name", "version"].map(|member| info.text(member).unwrap_or_default());
    let [name, version] = [untrusted(&name), untrusted(&version)].map(|text| text.to_string());
    if version.is_empty() { name } else { format!("{name}/{version}") }
}

fn arguments(request: &RoutedRequest, upstream: &Upstream) -> Option<String> {
    let arguments = request.call.params.as_ref()?.get("arguments")?;
    let text = arguments.as_str();
    let text = if text.len() > SEARCHED {
        // The mark tells the search that the beginning of a secret may stand before it.
        format!("{}{CUT}", &text[..text.floor_char_boundary(SEARCHED)])
    } else {
        // A watcher gets strings without the escapes that they came with, so secrets are searched in those.
        arguments.read::<Value>().map_or_else(|_| text.to_owned(), |value| value.to_string())
    };
    let mut text = upstream.redacted(&text);
    if text.len() > MOST_ARGUMENTS {
        text.truncate(text.floor_char_boundary(MOST_ARGUMENTS));
        text.push(CUT);
        text.shrink_to_fit();
    }
    Some(text)
}

impl Manager {
    /// Returns the events for watchers.
    pub const fn live_events(&self) -> &Arc<LiveEvents> {
        &self.published.live
    }

    /// Makes a call, and records its beginning and its end.
    pub(in super::super) async fn call_watched(
        &self,
        request: &RoutedRequest,
        outlet: &Outlet,
    ) -> Result<Called<ResponseBody>, Error> {
        let snapshot = self.snapshot();
        let upstream = snapshot.server(&request.server).ok().map(|server| &*server.upstream);
        let watched = WatchedCall::begin(self.live_events(), request, upstream);
        let (called, attempts) = AttemptLog::during(self.call_unwatched(request, outlet)).await;
        watched.ended(&called, attempts);
        called
    }
}
