//! A call that is watched: its beginning, its attempts and its end.
//!
//! Invariants: this code runs only while somebody watches. A call whose future is dropped ends as cancelled. Arguments
//! and texts of errors are recorded only if the operator allowed it, without secrets of the server, and at most
//! [`MOST_TEXT`] of each.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::super::Manager;
use super::super::error::Error;
use super::super::routed_request::RoutedRequest;
use super::{CallEnd, EventKind, LiveEvents, ToolCall};
use protocol::{ErrorObject, Problem, Reply};
use runtime::telemetry::durations::Outcome;
use serde_json::Value;
use upstream::{CallSource, EndedAttempts, ServerResponse, Upstream};

/// Most bytes of arguments in an event, and of the text of an error.
const MOST_TEXT: usize = 4 * 1024;
/// The end of a text that was cut.
const CUT: char = '…';
/// Bytes that are searched for secrets. More than [`MOST_TEXT`], so that a secret at the end of
/// what is shown is found as a whole.
const SEARCHED: usize = 4 * MOST_TEXT;

/// A call that is watched. Dropping it records that the call was cancelled.
struct WatchedCall<'a> {
    events: &'a LiveEvents,
    request: &'a RoutedRequest,
    call: Arc<ToolCall>,
    /// The number of the event of its beginning.
    started: u64,
    is_over: bool,
}

impl<'a> WatchedCall<'a> {
    /// Records the beginning of a call.
    fn begin(events: &'a LiveEvents, request: &'a RoutedRequest, arguments: Option<String>) -> Self {
        let CallSource { request_id, is_rest } = request.call.source;
        let call = Arc::new(ToolCall {
            number: events.calls.fetch_add(1, Ordering::Relaxed) + 1,
            server: Arc::clone(request.server_name()),
            tool: Arc::clone(&request.subject),
            principal: request.call.principal.clone(),
            client: (!is_rest).then(|| events.client_names.lock().name(&request.call.sender.info)),
            request_id,
            arguments,
            end: OnceLock::new(),
        });
        let started = events.record(EventKind::CallStarted(Arc::clone(&call)));
        Self { events, request, call, started, is_over: false }
    }

    /// Records the end of the call.
    fn ended(mut self, result: &Result<ServerResponse, Error>) {
        self.is_over = true;
        let attempts = self.request.call.attempts.take();
        let buffered = result.as_ref().map(|response| response.body.as_buffered());
        let (outcome, code) = match &buffered {
            Ok(reply) => {
                let problem = reply.and_then(|reply| reply.as_ref().err()).and_then(ErrorObject::problem);
                let outcome = match self.request.outcome(Ok(*reply)) {
                    Outcome::Result => "ok",
                    other => other.as_str(),
                };
                (outcome, problem.map(Problem::code))
            }
            Err(error) => ("failed", Some(error.code())),
        };
        let has_error = self.events.has_errors.load(Ordering::Relaxed) && outcome != "ok";
        let error = has_error.then(|| text_of(buffered)).flatten();
        let error = error.map(|text| shown(&text, &self.request.server.upstream));
        self.record(CallEnd { outcome, code, error, duration: self.request.started.elapsed(), attempts });
    }

    fn record(&self, end: CallEnd) {
        // It is set once, because `is_over` is set before.
        let _ = self.call.end.set(end);
        self.events.record_end(self.started, Arc::clone(&self.call));
    }
}

impl Drop for WatchedCall<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let duration = self.request.started.elapsed();
            self.record(CallEnd {
                outcome: "cancelled",
                code: None,
                error: None,
                duration,
                attempts: EndedAttempts::new(),
            });
        }
    }
}

fn arguments(request: &RoutedRequest, upstream: &Upstream) -> Option<String> {
    let arguments = request.call.params.as_ref()?.get("arguments")?;
    let text = arguments.as_str();
    if text.len() > SEARCHED {
        return Some(shown(text, upstream));
    }
    // A watcher gets strings without the escapes that they came with, so secrets are searched in those.
    let text = arguments.read::<Value>().map_or_else(|_| text.to_owned(), |value| value.to_string());
    Some(shown(&text, upstream))
}

/// The text of the error of a failed call, with the number of the server's JSON-RPC error.
fn text_of(ended: Result<Option<&Reply>, &Error>) -> Option<String> {
    match ended {
        Ok(Some(Err(error))) => Some(format!("{}: {}", error.code(), error.message())),
        Ok(Some(Ok(result))) => {
            let content = result.get("content")?;
            content.elements().find_map(|block| block.text("text").map(Cow::into_owned))
        }
        Ok(None) => None,
        Err(error) => Some(error.to_string()),
    }
}

/// Returns the beginning of `text` without secrets of the server.
fn shown(text: &str, upstream: &Upstream) -> String {
    let mut text = if text.len() > SEARCHED {
        // The mark tells the search that the beginning of a secret may stand before it.
        upstream.redacted(&format!("{}{CUT}", &text[..text.floor_char_boundary(SEARCHED)]))
    } else {
        upstream.redacted(text)
    };
    if text.len() > MOST_TEXT {
        text.truncate(text.floor_char_boundary(MOST_TEXT));
        text.push(CUT);
        text.shrink_to_fit();
    }
    text
}

impl Manager {
    /// Returns the events for watchers.
    pub const fn live_events(&self) -> &Arc<LiveEvents> {
        &self.published.live
    }

    /// Makes a call, and records its beginning and its end. `call` is pinned by the caller, so that it is not moved.
    pub(in super::super) async fn call_watched(
        &self,
        request: &RoutedRequest,
        call: Pin<&mut impl Future<Output = Result<ServerResponse, Error>>>,
    ) -> Result<ServerResponse, Error> {
        let has_arguments = self.live_events().has_arguments.load(Ordering::Relaxed);
        let arguments = has_arguments.then(|| arguments(request, &request.server.upstream));
        let watched = WatchedCall::begin(self.live_events(), request, arguments.flatten());
        request.call.attempts.watch();
        let called = call.await;
        watched.ended(&called);
        called
    }
}
