//! `/metrics`: the counters, for Prometheus, and their text, which costs CPU time for each server.
//!
//! Invariants: the text is made at most once in each [`PERIOD`], and not on a thread that serves clients. No reader gets a text
//! that is older than its request: one that asks sooner waits, and all that wait get the same text.
//!
//! Not here: the names (`telemetry::metrics`), and counting.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use super::charged::text_for;
use super::entity_tag::{self, IfNoneMatch};
use super::openapi::QueryProblems;
use super::parameters::{Parameters, unreadable};
use super::problem::Problem;
use super::{Api, CountClients};
use authorization::AuthorizationServer;
use gateway::manager::{LimitUsage, Manager, NotConfigured, ServerEntry, ServerStatus};
use protocol::ErrorCode;
use runtime::memory::{Account, budget};
use runtime::telemetry::durations::Durations;
use runtime::telemetry::metrics::{
    self, AuthorizationUsage, CacheUsage, CallerLimit, Calls, Changed, EndpointRequests, Figures, Load,
    MEDIA_TYPE, MemoryUsage, OneOf, Server, Sockets, Stored,
};
use runtime::telemetry::process::ProcessUsage;
use upstream::breaker;

/// How long the metrics wait for the store of grants.
const STORE_TIME: Duration = Duration::from_secs(1);
/// The least time between the beginnings of two texts.
const PERIOD: Duration = Duration::from_secs(1);

/// Metrics
///
/// In the text format of Prometheus (`OpenMetrics` 1.0). With `name[]`, only those metrics, with an entity tag. Needs the role
/// *reader*.
#[utoipa::path(
    get, path = "/metrics", tag = "gateway", operation_id = "metrics",
    params(
        ("name[]" = Option<Vec<String>>, Query, description = "Only metrics of these names, as samples have them",
            example = json!(["switchyard_sessions"])),
        IfNoneMatch
    ),
    responses(
        (
            status = 200, description = "What is counted", body = String,
            content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        (status = 304, description = "The metrics of `name[]` are as `If-None-Match` names them"),
        QueryProblems
    )
)]
pub(super) async fn metrics(
    State(api): State<Api>,
    query: Parameters<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // Prometheus may send parameters of its own, which say nothing here.
    let Query(parameters) = query.map_err(|rejection| unreadable(rejection.body_text()))?;
    let names: Vec<&str> =
        parameters.iter().filter(|(key, _)| key == "name[]").map(|(_, name)| name.as_str()).collect();
    let Api { manager, options, metrics, .. } = api;
    let (grants, runtime) = (options.grants, Handle::current());
    let usage = move || grants.map(|server| runtime.block_on(usage(&server)));
    let made = metrics.fetch(move || printed(&manager, options.count_clients, usage().as_ref())).await;
    let not_printed = || Problem::new(ErrorCode::InternalError, "the metrics could not be printed");
    let text = made.ok_or_else(not_printed)?;
    let part = (!names.is_empty()).then(|| text.only(&names));
    let tag = part.as_deref().map(|part| entity_tag::weak(sorted(part).as_bytes()));
    let text = part.map_or(Some(text), Text::new);
    let text = text.ok_or_else(not_printed)?;
    let is_compressed = accepts_gzip(&headers);
    // Not to the principal: the metrics are needed most while that has no room for anything else.
    let body = if is_compressed { text.gzip } else { text.plain };
    let mut response = text_for(Account::Nobody, MEDIA_TYPE, body)?;
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(match tag {
        Some(tag) => entity_tag::answer(&headers, tag, || response),
        None => response,
    })
}

/// The lines of `text` in one order. The samples of a metric come in any order.
fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Whether the client takes gzip (RFC 9110 section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let weights = codings.flat_map(|value| value.split(',')).filter_map(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let name = name.trim();
        let is_gzip = name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip");
        let weight: f32 = weight.trim().strip_prefix("q=")?.parse().ok()?;
        (is_gzip || name == "*").then_some((is_gzip, weight))
    });
    // A weight of gzip by name overrides that of `*`.
    weights.max_by_key(|(is_gzip, _)| *is_gzip).is_some_and(|(_, weight)| weight > 0.0)
}

/// The text of the current metrics.
fn printed(
    manager: &Manager,
    count_clients: Option<CountClients>,
    authorization: Option<&AuthorizationUsage>,
) -> Option<Text> {
    let (entries, store) = (manager.entries(), manager.store());
    let words = Words {
        states: upstream::State::ALL.map(upstream::State::as_str),
        breakers: breaker::State::ALL.map(breaker::State::as_str),
    };
    let no_calls = Durations::default();
    let servers: Vec<Server<'_>> = entries.iter().map(|one| entry(one, &words, &no_calls)).collect();
    let counts = store.counts();
    let caches: Vec<CacheUsage<'_>> = counts
        .iter()
        .map(|(area, counts)| CacheUsage {
            area,
            hits: counts.hits,
            misses: counts.misses,
            faults: counts.faults,
        })
        .collect();
    let clients = count_clients.map(|count| count());
    let limits = manager.limit_usage().into_iter();
    let limits: Vec<CallerLimit> = limits
        .map(|LimitUsage { name, requests, calls }| CallerLimit { name: name.to_string(), requests, calls })
        .collect();
    let figures = Figures {
        servers: &servers,
        clients,
        client_calls: manager.client_calls(),
        caller_limits: &limits,
        authorization,
        memory: &in_memory(),
        caches: &caches,
        cache_is_there: store.is_there(),
        process: ProcessUsage::now(),
    };
    metrics::text(&figures).ok().and_then(Text::new)
}

/// Returns the counts of the authorization server.
async fn usage(server: &AuthorizationServer) -> AuthorizationUsage {
    // A failure is counted with the others of the store. Other metrics do not wait for a store that hangs.
    let counted = timeout(STORE_TIME, server.stored()).await;
    if counted.is_err() {
        server.counts().store_failed();
    }
    let stored = counted.ok().and_then(Result::ok).map(|(grants, clients)| Stored { grants, clients });
    let of = |(endpoint, outcome, requests)| EndpointRequests { endpoint, outcome, requests };
    AuthorizationUsage {
        stored,
        requests: server.counts().all().map(of).collect(),
        reuses: server.counts().reuses(),
        store_failures: server.counts().store_failures(),
    }
}

fn in_memory() -> MemoryUsage {
    let (usage, refusals) = (budget().usage(), budget().refusals().collect());
    MemoryUsage { limit: usage.limit, used: usage.used, refusals }
}

/// The states of servers and breakers.
struct Words {
    states: [&'static str; upstream::State::ALL.len()],
    breakers: [&'static str; breaker::State::ALL.len()],
}

fn entry<'a>(entry: &'a ServerEntry, words: &'a Words, no_calls: &'a Durations) -> Server<'a> {
    match entry {
        ServerEntry::Server(one) => server(one, words),
        ServerEntry::NotConfigured(wrong) => not_configured(wrong, words, no_calls),
    }
}

/// A server without calls and connections.
fn not_configured<'a>(wrong: &'a NotConfigured, words: &'a Words, no_calls: &'a Durations) -> Server<'a> {
    Server {
        name: &wrong.name,
        state: OneOf { now: wrong.state().as_str(), all: &words.states },
        breaker: OneOf { now: breaker::State::Closed.as_str(), all: &words.breakers },
        is_healthy: false,
        calls: Calls { all: 0, failed: 0, refused: 0 },
        durations: no_calls,
        retries: 0,
        load: Load { running: 0, waiting: 0 },
        connections: 0,
        sockets: None,
        tools: 0,
        changed: Changed { all: 0, held_back: 0 },
        latency: None,
    }
}

fn server<'a>(server: &'a ServerStatus, words: &'a Words) -> Server<'a> {
    let (status, held_back) = (&server.status, server.trust.blocked());
    Server {
        name: &server.config.name,
        state: OneOf { now: status.state.as_str(), all: &words.states },
        breaker: OneOf { now: status.breaker.state.as_str(), all: &words.breakers },
        is_healthy: status.is_healthy(),
        calls: Calls {
            all: status.counters.calls,
            failed: status.counters.failures,
            refused: status.counters.refusals,
        },
        durations: &server.durations,
        retries: status.counters.retries,
        load: Load { running: status.running, waiting: status.waiting },
        connections: status.connections,
        sockets: status
            .sockets
            .map(|sockets| Sockets { in_use: sockets.open.saturating_sub(sockets.idle), idle: sockets.idle }),
        tools: server.tools,
        changed: Changed { all: server.changed_tools(), held_back },
        latency: status.latency,
    }
}

/// The last text. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricsText(Arc<Mutex<Option<LastText>>>);

#[derive(Debug)]
struct LastText {
    /// When it was begun.
    started: Instant,
    /// None if it failed, or if the request for it was dropped.
    text: Option<Text>,
}

/// The text, as it is and compressed, for Prometheus asks for that.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Text {
    plain: Bytes,
    gzip: Bytes,
}

impl Text {
    /// Compresses `plain`; `None` if that fails.
    fn new(plain: String) -> Option<Self> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain.as_bytes()).ok()?;
        Some(Self { plain: plain.into(), gzip: encoder.finish().ok()?.into() })
    }

    /// The part about the metrics whose samples have one of `names`, with its descriptions and the end.
    fn only(&self, names: &[&str]) -> String {
        let (mut part, mut described) = (String::new(), String::new());
        for line in String::from_utf8_lossy(&self.plain).lines() {
            if line == "# EOF" {
                part += line;
                part.push('\n');
            } else if line.starts_with('#') {
                if line.starts_with("# HELP") {
                    described.clear();
                }
                described.extend([line, "\n"]);
            } else {
                let end = line.find(['{', ' ']).unwrap_or(line.len());
                if names.contains(&&line[..end]) {
                    part += &std::mem::take(&mut described);
                    part.extend([line, "\n"]);
                }
            }
        }
        part
    }
}

impl MetricsText {
    /// Returns a text that was begun after this was called, and that `make` makes if nobody else does.
    async fn fetch(&self, make: impl FnOnce() -> Option<Text> + Send + 'static) -> Option<Text> {
        let requested_at = Instant::now();
        let mut last = self.0.lock().await;
        if let Some(LastText { started, text }) = &*last {
            if *started >= requested_at && text.is_some() {
                return text.clone();
            }
            sleep_until(*started + PERIOD).await;
        }
        let started = Instant::now();
        // Recorded before, because the work continues if this future is dropped.
        *last = Some(LastText { started, text: None });
        let text = tokio::task::spawn_blocking(make).await.ok().flatten();
        *last = Some(LastText { started, text: text.clone() });
        text
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
