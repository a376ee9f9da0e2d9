//! `/events`: calls and states of servers as they happen, as an event stream.
//!
//! Invariant: a stream ends when the gateway shuts down, or when the credential is revoked.
//!
//! Not here: what a watcher sees of an event, and its text (`event_data`); recording, limits and memory of
//! the events (`gateway::manager::live_events`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::Api;
use super::event_data::{EventChunk, name};
use super::openapi::QueryProblems;
use super::parameters::{Parameters, unreadable};
use super::problem::Problem;
use auth::Principal;
use gateway::manager::Manager;
use gateway::manager::live_events::{LiveEvent, Next, Watcher};
use net::sse::KEEP_ALIVE;
use protocol::ErrorCode;
use runtime::shutdown::Shutdown;

/// Pause after which a comment shows that the stream is alive.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Pause between two pieces of a stream. Events that happen meanwhile are sent together, because waking the watcher and
/// writing to its socket costs more than printing an event. The pause ends early if much happens, and after a full piece
/// there is none, because more events wait.
const PAUSE: Duration = Duration::from_millis(50);
/// Most events that are taken at once.
const BATCH: usize = 16;
/// Most batches of one piece, also of events that are not wanted.
const MOST_BATCHES: usize = 64;
/// A piece ends with the batch that makes it as large.
const MOST_BYTES: usize = 64 * 1024;

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
    /// Only calls that ended so, separated by commas: `ok`, `tool_error`, `rpc_error`, `failed` or `cancelled`.
    #[param(nullable = false)]
    outcome: Option<String>,
    /// Whether the stream continues with future events. `false`: it ends after the recorded ones.
    #[param(nullable = false)]
    follow: Option<bool>,
}

/// Where a stream continues.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)] // describes the header, which is read from the request
struct Resumed {
    /// The `id` of the last event that was seen. The stream continues after it.
    #[param(rename = "Last-Event-ID", nullable = false)]
    last_event_id: Option<String>,
}

/// Watch events
///
/// Calls of tools, actions of operators, and changes of servers, breakers and tools as they happen. `Last-Event-ID`
/// resumes a stream; the event `gap` says that some were missed. A call that ended before its `call_started` was sent has
/// one event, `call_ended`. Nothing is recorded here while nobody watches; `/history` has past calls. Needs the role
/// *reader*. Only a *superuser* sees the principals, clients and arguments of the calls of others.
#[utoipa::path(
    get, path = "/events", tag = "gateway", operation_id = "watch_events", params(EventsQuery, Resumed),
    responses(
        (status = 200, body = Value, content_type = "text/event-stream", description =
            "Events. The schemas of `data` are `CallStartedEvent`, `CallEndedEvent`, `ServerChangedEvent`, \
             `BreakerChangedEvent`, `ToolsChangedEvent`, `ActionEvent` and `GapEvent`"),
        QueryProblems
    )
)]
pub(super) async fn watch(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    query: Parameters<EventsQuery>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|rejection| unreadable(rejection.body_text()))?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    // A request for the recorded events alone begins with the oldest.
    let seen = if query.follow == Some(false) { seen.or(Some(0)) } else { seen };
    let watcher = api.manager.live_events().watch(principal.id(), seen).ok_or_else(|| {
        Problem::new(ErrorCode::TooManyConnections, "too many streams of events are open")
            .hinting("close one of the streams, and send this request again")
    })?;
    let watcher = if query.has_kind("call_ended") { watcher.told_by_ends() } else { watcher };
    let manager = Arc::clone(&api.manager);
    let stream = Stream { watcher, manager, principal, query, drain: api.options.drain.clone(), next: None };
    let body = Body::from_stream(unfold(stream, Stream::next));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// The stream of one watcher.
struct Stream {
    watcher: Watcher,
    manager: Arc<Manager>,
    principal: Principal,
    query: EventsQuery,
    drain: Shutdown,
    /// When the next piece may be sent; none at the beginning.
    next: Option<Instant>,
}

impl Stream {
    /// Returns the next piece of the stream, and the rest of the stream.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let piece = if self.next.is_some() {
            self.piece().await?
        } else {
            // The head is sent at once.
            self.next = Some(Instant::now() + PAUSE);
            KEEP_ALIVE
        };
        Some((Ok(piece), self))
    }

    async fn piece(&mut self) -> Option<Bytes> {
        // Events that are not wanted do not postpone it.
        let keep_alive_at = Instant::now() + KEEP_ALIVE_EVERY;
        loop {
            let next = if self.query.follow == Some(false) {
                Some(self.watcher.try_next()?)
            } else {
                self.wait(keep_alive_at).await?
            };
            let Some(first) = next else { return Some(KEEP_ALIVE) };
            let piece = self.printed(first);
            if !piece.is_empty() {
                return Some(piece);
            }
        }
    }

    /// Prints the wanted events among `first` and those recorded since, at most as many as a piece has.
    fn printed(&mut self, first: Next) -> Bytes {
        let (mut piece, mut batch, mut room) = (EventChunk::new(&self.principal), vec![first], MOST_BATCHES);
        while !batch.is_empty() {
            for next in batch.drain(..) {
                match next {
                    Next::Gap(missed, last) => piece.gap(missed, last),
                    Next::Event(event) if self.query.has(&event) && self.sees(&event) => piece.event(&event),
                    Next::Event(_) => {}
                }
            }
            room -= 1;
            if room > 0 && piece.len() < MOST_BYTES {
                self.watcher.take(&mut batch, BATCH);
            }
        }
        let is_full = room == 0 || piece.len() >= MOST_BYTES;
        self.next = Some(Instant::now() + if is_full { Duration::ZERO } else { PAUSE });
        piece.into_bytes()
    }

    /// Whether the watcher may know of `event`. A credential that is bound to a view gets events of its
    /// servers and of own calls only.
    fn sees(&self, event: &LiveEvent) -> bool {
        let Some(view) = self.principal.view() else { return true };
        match event.call() {
            Some((start, _)) => self.principal.may_see(start.principal.as_deref()),
            None => {
                event.is_about_a_server()
                    && event
                        .server()
                        .is_some_and(|server| self.manager.seen_through(Some(view)).server(server).is_ok())
            }
        }
    }

    /// Waits for the next event, at most until `end`; none if the stream has to end.
    async fn wait(&mut self, end: Instant) -> Option<Option<Next>> {
        if self.drain.is_begun() || self.principal.is_revoked() {
            return None;
        }
        let (drain, principal) = (self.drain.clone(), self.principal.clone());
        let over = async {
            futures_util::future::select(Box::pin(drain.requested()), Box::pin(principal.revoked())).await;
        };
        let at = self.next.filter(|at| *at > Instant::now());
        let next = async {
            if let Some(at) = at {
                self.watcher.pause(at).await;
            }
            self.watcher.next(end.saturating_duration_since(Instant::now())).await
        };
        match futures_util::future::select(Box::pin(next), Box::pin(over)).await {
            futures_util::future::Either::Left((next, _)) => Some(next),
            futures_util::future::Either::Right(_) => None,
        }
    }
}

impl EventsQuery {
    fn has_kind(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(|kinds| has_word(kinds, kind))
    }

    fn has(&self, event: &LiveEvent) -> bool {
        let fits = |expected: &Option<String>, is: Option<&str>| {
            expected.as_deref().is_none_or(|expected| is == Some(expected))
        };
        let call = event.call();
        let tool = call.map(|(start, _)| &*start.tool);
        let outcome = call.and_then(|(_, end)| end).map(|end| end.outcome);
        self.has_kind(name(event))
            && fits(&self.server, event.server())
            && fits(&self.tool, tool)
            && self.outcome.as_deref().is_none_or(|words| outcome.is_some_and(|word| has_word(words, word)))
    }
}

/// Whether `word` is among `words`, which are separated by commas.
fn has_word(words: &str, word: &str) -> bool {
    words.split(',').any(|expected| expected.trim() == word)
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
