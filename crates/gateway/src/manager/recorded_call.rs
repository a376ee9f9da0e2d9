//! The record of a call: its beginning, its attempts and its end, for live events and for the history.
//!
//! Invariants: one record is made of a call, for both. Without a watcher nothing is made before the end of the call. A
//! call whose future is dropped ends as cancelled. Arguments and texts of errors are recorded only if the operator allowed
//! it, without secrets of the server and arguments that the view gave, and at most [`MOST_TEXT`] of each.
//!
//! Not here: keeping the records (`live_events`, `history`).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

use super::Manager;
use super::config::Config;
use super::error::Error;
use super::history::CallHistory;
use super::live_events::{CallEnd, EventKind, LiveEvents, ToolCall};
use super::routed_request::{RequestEnd, RoutedRequest};
use super::snapshot::Server;
use json::Raw;
use protocol::{Problem, Reply};
use runtime::telemetry::durations::{ClientCalls, Outcome};
use runtime::telemetry::untrusted;
use upstream::{CallSource, EndedAttempts, ForwardedHeaders, ServerResponse};

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
    client_calls: ClientCalls,
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

    /// Whether calls are counted by the names of tools and clients.
    fn counts_names(&self) -> bool {
        self.has_metrics_by_name.load(Ordering::Relaxed)
    }

    /// Returns the name of the client of a call; none for a program.
    fn client(&self, request: &RoutedRequest) -> Option<ClientName> {
        let is_rest = request.call.source.is_rest;
        (!is_rest).then(|| self.client_names.lock().name(&request.call.sender.info))
    }

    /// Counts a request to `server` that ended.
    pub(super) fn ended(&self, request: &RoutedRequest, server: &Server, end: RequestEnd) {
        // The name of a tool that is in no list is text of the client.
        let listed = request.route.as_ref().filter(|_| self.counts_names()).map(|_| &request.subject);
        server.durations.ended(end.outcome, (request.started, end.duration), listed);
    }
}

impl RecordedCall<'_> {
    /// Makes the record of the call, with its end if it has ended.
    fn call(&self, has_arguments: bool, end: OnceLock<CallEnd>) -> Arc<ToolCall> {
        let Self { request, number, .. } = *self;
        let CallSource { request_id, .. } = request.call.source;
        Arc::new(ToolCall {
            number,
            server: Arc::clone(request.server_name()),
            tool: Arc::clone(&request.subject),
            principal: request.call.principal.clone(),
            client: self.client.clone(),
            request_id,
            arguments: if has_arguments { arguments(request) } else { None },
            end,
        })
    }
}

/// A call that is recorded. Dropping it records that the call was cancelled.
struct RecordedCall<'a> {
    recorder: &'a Recorder,
    request: &'a RoutedRequest,
    /// Name and version of its client.
    client: Option<Arc<str>>,
    number: u64,
    /// The record for watchers and the number of the event of its beginning, if somebody watched then.
    started: Option<(Arc<ToolCall>, u64)>,
    is_over: bool,
}

impl<'a> RecordedCall<'a> {
    /// Begins the record of a call.
    fn begin(recorder: &'a Recorder, request: &'a RoutedRequest, client: Option<Arc<str>>) -> Self {
        let number = recorder.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut guard = Self { recorder, request, client, number, started: None, is_over: false };
        if recorder.live.is_watched() {
            let call = guard.call(recorder.has_arguments.load(Ordering::Relaxed), OnceLock::new());
            let started = recorder.live.record(EventKind::CallStarted(Arc::clone(&call)));
            guard.started = Some((call, started));
        }
        request.call.attempts.watch();
        guard
    }

    /// Records the end of the call.
    fn ended(mut self, result: &Result<(ServerResponse, RequestEnd), Error>) {
        self.is_over = true;
        let attempts = self.request.call.attempts.take().unwrap_or_default();
        let buffered = result.as_ref().map(|(response, _)| response.body.as_buffered());
        let outcome = match result {
            Ok((_, RequestEnd { outcome: Outcome::Result, .. })) => "ok",
            Ok((_, end)) => end.outcome.as_str(),
            Err(_) => "failed",
        };
        let duration =
            result.as_ref().map_or_else(|_| self.request.started.elapsed(), |(_, end)| end.duration);
        let code = match &buffered {
            Ok(Some(Err(error))) => error.problem().map(Problem::code),
            Ok(_) => None,
            Err(error) => Some(error.code()),
        };
        let has_error = self.recorder.has_errors.load(Ordering::Relaxed) && outcome != "ok";
        let error = has_error.then(|| text_of(buffered)).flatten();
        let error = error.map(|text| shown(&text, self.request, self.request.call.forwarded.as_ref()));
        self.record(CallEnd { outcome, code, error, duration, attempts });
    }

    fn record(&mut self, end: CallEnd) {
        let Recorder { live, history, .. } = self.recorder;
        let mut shared = None;
        if let Some((call, started)) = self.started.take() {
            call.end.get_or_init(|| end.clone());
            live.record_end(started, Arc::clone(&call));
            shared = Some(call);
        }
        if history.is_on() {
            let has_arguments = history.has_arguments();
            let shared = shared.filter(|call| call.arguments.is_some() == has_arguments);
            history.record(shared.unwrap_or_else(|| self.call(has_arguments, OnceLock::from(end))));
        }
    }
}

impl Drop for RecordedCall<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let (duration, attempts) = (self.request.started.elapsed(), EndedAttempts::new());
            self.record(CallEnd { outcome: "cancelled", code: None, error: None, duration, attempts });
        }
    }
}

/// The arguments of the client, without those that the view gives. Headers of the client stay in them: with a header of its
/// choice, it could hide what it sends.
fn arguments(request: &RoutedRequest) -> Option<String> {
    let mut arguments = request.call.params.as_ref()?.get("arguments")?;
    let given: Vec<_> = request.given.iter().map(|name| (&**name, None)).collect();
    if !given.is_empty() {
        arguments = arguments.edit(&given);
    }
    let text = arguments.as_str();
    if text.len() > SEARCHED {
        return Some(shown(text, request, None));
    }
    // A reader gets strings without the escapes that they came with, so secrets are searched in those.
    let text = arguments.read::<Value>().map_or_else(|_| text.to_owned(), |value| value.to_string());
    Some(shown(&text, request, None))
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

/// Returns the beginning of `text` without secrets of the server, and without the headers `forwarded` of the client.
fn shown(text: &str, request: &RoutedRequest, forwarded: Option<&ForwardedHeaders>) -> String {
    let redacted = |text: &str| request.server.upstream.redacted(text, forwarded);
    let mut text = if text.len() > SEARCHED {
        // The mark tells the search that the beginning of a secret may stand before it.
        redacted(&format!("{}{CUT}", &text[..text.floor_char_boundary(SEARCHED)]))
    } else {
        redacted(text)
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
        let recorder = &self.published.recorder;
        recorder.counts_names().then_some(&recorder.client_calls)
    }

    /// Whether calls of tools are recorded, for watchers or for the history.
    pub fn records_calls(&self) -> bool {
        self.published.recorder.is_on()
    }

    /// Calls a tool, and records it for metrics, watchers and the history. `call` is pinned by the caller, so that it is not
    /// moved.
    pub(super) async fn call_recorded(
        &self,
        request: &RoutedRequest,
        call: Pin<&mut impl Future<Output = Result<(ServerResponse, RequestEnd), Error>>>,
    ) -> Result<(ServerResponse, RequestEnd), Error> {
        let recorder = &self.published.recorder;
        let (is_recorded, counts_names) = (recorder.is_on(), recorder.counts_names());
        let client = if is_recorded || counts_names { recorder.client(request) } else { None };
        if counts_names {
            recorder.client_calls.count(client.as_ref().map_or("rest", |client| &client.name));
        }
        if !is_recorded {
            return call.await;
        }
        let guard = RecordedCall::begin(recorder, request, client.map(|client| client.with_version));
        let called = call.await;
        guard.ended(&called);
        called
    }
}

/// Most descriptions that are kept.
const MOST: usize = 16;
/// Most bytes of one of them.
const MOST_BYTES: usize = 512;

/// The names of the last clients.
///
/// A client describes itself in each request, so the names of the last clients are kept by their descriptions. At most
/// [`MOST`] descriptions of at most [`MOST_BYTES`] are kept; a longer one is read each time.
#[derive(Debug, Default)]
pub(super) struct ClientNames(Mutex<KnownNames>);

/// Descriptions and names, the newest last.
#[derive(Debug, Default)]
pub(super) struct KnownNames(VecDeque<(Box<[u8]>, ClientName)>);

/// The name that a client gives itself.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientName {
    /// Its name alone.
    pub(super) name: Arc<str>,
    /// Its name and version, as in `User-Agent`.
    pub(super) with_version: Arc<str>,
}

impl ClientNames {
    pub(super) fn lock(&self) -> MutexGuard<'_, KnownNames> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownNames {
    /// Returns the name of the client that describes itself with `info`.
    pub(super) fn name(&mut self, info: &Raw) -> ClientName {
        let described: &[u8] = info.bytes();
        if let Some((_, name)) = self.0.iter().find(|(known, _)| **known == *described) {
            return name.clone();
        }
        let name = read(info);
        if described.len() <= MOST_BYTES {
            if self.0.len() == MOST {
                self.0.pop_front();
            }
            self.0.push_back((described.into(), name.clone()));
        }
        name
    }
}

fn read(info: &Raw) -> ClientName {
    let [raw_name, version] = ["name", "version"].map(|member| info.text(member).unwrap_or_default());
    let [name, version] = [untrusted(&raw_name), untrusted(&version)].map(|text| text.to_string());
    let with_version = if version.is_empty() { name } else { format!("{name}/{version}") };
    ClientName { name: (&*raw_name).into(), with_version: with_version.into() }
}

#[cfg(test)]
mod client_names_tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_descriptions_and_few_are_kept() {
        let clients = ClientNames::default();
        let named = |info: &str| {
            let info = Raw::parse(&bytes::Bytes::copy_from_slice(info.as_bytes())).expect("JSON");
            clients.lock().name(&info).with_version.to_string()
        };
        for _ in 0..2 {
            assert_eq!(named(r#"{"name":"a","version":"1"}"#), "a/1");
            assert_eq!(named(r#"{"name":"a\u001b","version":""}"#), "a\\u{1b}");
            assert_eq!(named("{}"), "");
        }
        assert_eq!(clients.lock().0.len(), 3);
        let long = "n".repeat(MOST_BYTES);
        assert!(named(&format!(r#"{{"name":"{long}"}}"#)).starts_with("nnn"));
        assert_eq!(clients.lock().0.len(), 3, "a long description is not kept");
        for number in 0..2 * MOST {
            assert_eq!(named(&format!(r#"{{"name":"{number}"}}"#)), number.to_string());
        }
        assert_eq!(clients.lock().0.len(), MOST);
    }
}
