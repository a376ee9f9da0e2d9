//! The record of a call: its beginning, its attempts and its end, for live events and for the history.
//!
//! Invariants: one record is made of a call, for both. Without a watcher nothing is made before the end of the call. A
//! call whose future is dropped ends as cancelled. Arguments and texts of errors are recorded only if the operator allowed
//! it, without secrets of the server, and at most [`MOST_TEXT`] of each.
//!
//! Not here: keeping the records (`live_events`, `history`).

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Manager;
use super::client_names::ClientNames;
use super::config::Config;
use super::error::Error;
use super::history::CallHistory;
use super::live_events::{CallEnd, EventKind, LiveEvents, ToolCall};
use super::routed_request::RoutedRequest;
use protocol::{ErrorObject, Problem, Reply};
use runtime::telemetry::client_calls::ClientCalls;
use runtime::telemetry::durations::Outcome;
use serde_json::Value;
use upstream::{CallSource, EndedAttempts, ServerResponse, Upstream};

/// Most bytes of arguments in a record, and of the text of an error.
const MOST_TEXT: usize = 4 * 1024;
/// The end of a text that was cut.
const CUT: char = '…';
/// Bytes that are searched for secrets. More than [`MOST_TEXT`], so that a secret at the end of
/// what is shown is found as a whole.
const SEARCHED: usize = 4 * MOST_TEXT;

/// Makes the records of calls.
#[derive(Debug)]
pub(super) struct Recorder {
    live: Arc<LiveEvents>,
    history: Arc<CallHistory>,
    /// Calls so far that were recorded.
    calls: AtomicU64,
    client_names: ClientNames,
    /// Tool calls by client.
    pub(super) client_calls: ClientCalls,
    /// Whether metrics have calls by the names of tools and clients.
    has_metrics_by_name: AtomicBool,
    /// Whether live events have the arguments.
    has_arguments: AtomicBool,
    /// Whether records of failed calls have the text of the error.
    has_errors: AtomicBool,
}

impl Recorder {
    pub(super) fn new(live: Arc<LiveEvents>, history: Arc<CallHistory>) -> Arc<Self> {
        Arc::new(Self {
            live,
            history,
            calls: AtomicU64::new(0),
            client_names: ClientNames::default(),
            client_calls: ClientCalls::default(),
            has_metrics_by_name: AtomicBool::new(true),
            has_arguments: AtomicBool::new(false),
            has_errors: AtomicBool::new(false),
        })
    }

    /// Sets what future records have.
    pub(super) fn configure(&self, config: &Config) {
        self.has_arguments.store(config.arguments_in_events, Ordering::Relaxed);
        self.has_errors.store(config.errors_in_events, Ordering::Relaxed);
        self.has_metrics_by_name.store(config.metrics_by_name, Ordering::Relaxed);
        self.history.configure(&config.history);
    }

    /// Whether calls are recorded.
    pub(super) fn is_on(&self) -> bool {
        self.history.is_on() || self.live.is_watched()
    }

    /// Makes the record of a call that runs.
    fn call(&self, request: &RoutedRequest, number: u64, has_arguments: bool) -> ToolCall {
        let CallSource { request_id, is_rest } = request.call.source;
        ToolCall {
            number,
            server: Arc::clone(request.server_name()),
            tool: Arc::clone(&request.subject),
            principal: request.call.principal.clone(),
            client: (!is_rest).then(|| self.client_names.lock().name(&request.call.sender.info)),
            request_id,
            arguments: if has_arguments { arguments(request, &request.server.upstream) } else { None },
            end: OnceLock::new(),
        }
    }
}

/// A call that is recorded. Dropping it records that the call was cancelled.
struct RecordedCall<'a> {
    recorder: &'a Recorder,
    request: &'a RoutedRequest,
    number: u64,
    /// The record for watchers and the number of the event of its beginning, if somebody watched then.
    started: Option<(Arc<ToolCall>, u64)>,
    is_over: bool,
}

impl<'a> RecordedCall<'a> {
    /// Begins the record of a call.
    fn begin(recorder: &'a Recorder, request: &'a RoutedRequest) -> Self {
        let number = recorder.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let started = recorder.live.is_watched().then(|| {
            let call = recorder.call(request, number, recorder.has_arguments.load(Ordering::Relaxed));
            let call = Arc::new(call);
            let started = recorder.live.record(EventKind::CallStarted(Arc::clone(&call)));
            (call, started)
        });
        Self { recorder, request, number, started, is_over: false }
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
        let has_error = self.recorder.has_errors.load(Ordering::Relaxed) && outcome != "ok";
        let error = has_error.then(|| text_of(buffered)).flatten();
        let error = error.map(|text| shown(&text, &self.request.server.upstream));
        self.record(CallEnd { outcome, code, error, duration: self.request.started.elapsed(), attempts });
    }

    fn record(&mut self, end: CallEnd) {
        let Recorder { live, history, .. } = self.recorder;
        let started = self.started.take();
        if history.is_on() {
            let has_arguments = history.has_arguments();
            let shared = started.as_ref().map(|(call, _)| call);
            if let Some(call) = shared.filter(|call| call.arguments.is_some() == has_arguments) {
                set(call, end);
                history.record(Arc::clone(call));
            } else {
                let call = Arc::new(self.recorder.call(self.request, self.number, has_arguments));
                if let Some((started, _)) = &started {
                    set(started, end.clone());
                }
                set(&call, end);
                history.record(call);
            }
        } else if let Some((started, _)) = &started {
            set(started, end);
        }
        if let Some((call, started)) = started {
            live.record_end(started, call);
        }
    }
}

/// Sets the end of a call. A record has one end, because [`RecordedCall::record`] runs once.
fn set(call: &ToolCall, end: CallEnd) {
    let _ = call.end.set(end);
}

impl Drop for RecordedCall<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let (duration, attempts) = (self.request.started.elapsed(), EndedAttempts::new());
            self.record(CallEnd { outcome: "cancelled", code: None, error: None, duration, attempts });
        }
    }
}

fn arguments(request: &RoutedRequest, upstream: &Upstream) -> Option<String> {
    let arguments = request.call.params.as_ref()?.get("arguments")?;
    let text = arguments.as_str();
    if text.len() > SEARCHED {
        return Some(shown(text, upstream));
    }
    // A reader gets strings without the escapes that they came with, so secrets are searched in those.
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

    /// Returns the last calls.
    pub fn history(&self) -> &Arc<CallHistory> {
        &self.published.recorder.history
    }

    /// Returns the tool calls of each client, unless the configuration forbids counts by name.
    pub fn client_calls(&self) -> Option<&ClientCalls> {
        let Recorder { client_calls, has_metrics_by_name, .. } = &*self.published.recorder;
        has_metrics_by_name.load(Ordering::Relaxed).then_some(client_calls)
    }

    /// Whether calls of tools are recorded, for watchers or for the history.
    pub fn records_calls(&self) -> bool {
        self.published.recorder.is_on()
    }

    /// Makes a call, and records its beginning and its end. `call` is pinned by the caller, so that it is not moved.
    pub(super) async fn call_recorded(
        &self,
        request: &RoutedRequest,
        call: Pin<&mut impl Future<Output = Result<ServerResponse, Error>>>,
    ) -> Result<ServerResponse, Error> {
        let recorded = RecordedCall::begin(&self.published.recorder, request);
        request.call.attempts.watch();
        let called = call.await;
        recorded.ended(&called);
        called
    }
}
