//! The metrics of Switchyard in the format of Prometheus: their names, labels and meaning.
//!
//! Invariant: a call pays only for the counting (`durations`). Each request for metrics collects the current counts and
//! formats them. Label values are names from the configuration file, words of Switchyard, areas of the cache, names of
//! listed tools, and names that clients give themselves. There is a limit on the number of the last two (`durations`).
//!
//! Not here: the counts (`upstream::status`, `store`), who may read them (`admin`).

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::durations::{
    BOUNDS_MS, BUCKETS, ClientCalls, Counted, Durations, OTHER, TOOL_BOUNDS_MS, TOOL_BUCKETS,
};
use super::limit::{Limit, panics};
use super::process::ProcessUsage;
use protocol::visible::visible;

/// The media type of the text: `OpenMetrics` 1.0, which Prometheus has read since 2.5.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type Fraction = Gauge<f64, AtomicU64>;

/// The state of one server at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its state.
    pub state: OneOf<'a>,
    /// The state of its circuit breaker.
    pub breaker: OneOf<'a>,
    /// Whether it is ready and its breaker lets calls pass.
    pub is_healthy: bool,
    /// Client calls since the start.
    pub calls: Calls,
    /// The durations of calls.
    pub durations: &'a Durations,
    /// Attempts after the first one.
    pub retries: u64,
    /// Current calls.
    pub load: Load,
    /// Open connections: sessions, or processes.
    pub connections: usize,
    /// Open sockets to it; `None` for a transport without sockets.
    pub sockets: Option<Sockets>,
    /// Tools that are offered.
    pub tools: usize,
    /// Tools with a definition that is not the trusted one.
    pub changed: Changed,
    /// The duration of the last health check.
    pub latency: Option<Duration>,
}

/// A state, and all possible states.
#[derive(Debug, Clone, Copy)]
pub struct OneOf<'a> {
    /// The current state, which is one of `all`.
    pub now: &'static str,
    /// All possible states.
    pub all: &'a [&'static str],
}

/// Calls of clients since the start.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    /// All calls.
    pub all: u64,
    /// Calls that failed between Switchyard and the server.
    pub failed: u64,
    /// Calls that Switchyard refused.
    pub refused: u64,
}

/// Current calls of clients.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Running calls.
    pub running: usize,
    /// Calls that wait for a slot.
    pub waiting: usize,
}

/// Open sockets to one server.
#[derive(Debug, Clone, Copy)]
pub struct Sockets {
    /// Sockets that serve a call or an event stream.
    pub in_use: usize,
    /// Sockets that wait for the next call.
    pub idle: usize,
}

/// Tools with a definition that is not the trusted one.
#[derive(Debug, Clone, Copy)]
pub struct Changed {
    /// All such tools.
    pub all: usize,
    /// Those that are blocked for this reason.
    pub held_back: usize,
}

/// One area of the cache since the start.
#[derive(Debug, Clone, Copy)]
pub struct CacheUsage<'a> {
    /// Its name.
    pub area: &'a str,
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Failed operations of the cache.
    pub faults: u64,
}

/// The clients at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Clients {
    /// Sessions, and requests without a session.
    pub clients: usize,
    /// Sessions.
    pub sessions: usize,
    /// Bytes that ended streams of sessions hold.
    pub kept_bytes: usize,
    /// Requests that were refused, by HTTP status.
    pub refused: [(u16, u64); 3],
    /// Open sockets of the listener.
    pub sockets: usize,
    /// Sockets that were closed for new ones.
    pub yielded_sockets: u64,
    /// TLS handshakes that failed.
    pub failed_handshakes: u64,
}

/// A limit of callers since the start.
#[derive(Debug, Clone)]
pub struct CallerLimit {
    /// Its name.
    pub name: String,
    /// Requests beyond those of a minute.
    pub requests: u64,
    /// Requests beyond the calls at a time.
    pub calls: u64,
}

/// The authorization server at a moment.
#[derive(Debug, Clone)]
pub struct AuthorizationUsage {
    /// The stored grants, and the stored registrations of clients; none if the store fails.
    pub stored: Option<Stored>,
    /// The requests to each endpoint since the start, by their outcome.
    pub requests: Vec<EndpointRequests>,
    /// How many grants ended because a code or a refresh token was used twice.
    pub reuses: u64,
    /// How often the store failed.
    pub store_failures: u64,
}

/// The contents of the store of the authorization server.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    /// Grants.
    pub grants: usize,
    /// Clients that registered themselves.
    pub clients: usize,
}

/// Requests to one endpoint of the authorization server with one outcome.
#[derive(Debug, Clone, Copy)]
pub struct EndpointRequests {
    /// The endpoint.
    pub endpoint: &'static str,
    /// The outcome: a success, or the code of an error.
    pub outcome: &'static str,
    /// The number of requests.
    pub requests: u64,
}

/// The memory budget at a moment.
#[derive(Debug, Clone)]
pub struct MemoryUsage {
    /// The limit in bytes.
    pub limit: usize,
    /// Bytes in use.
    pub used: usize,
    /// How often memory was refused, by purpose.
    pub refusals: Vec<(&'static str, u64)>,
}

/// The gateway at a moment.
#[derive(Debug)]
pub struct Figures<'a> {
    /// The servers.
    pub servers: &'a [Server<'a>],
    /// The clients; `None` without a listener.
    pub clients: Option<Clients>,
    /// The calls of each client; `None` if neither clients nor tools are counted by name.
    pub client_calls: Option<&'a ClientCalls>,
    /// The limits of callers.
    pub caller_limits: &'a [CallerLimit],
    /// The authorization server; none if there is none.
    pub authorization: Option<&'a AuthorizationUsage>,
    /// The memory budget.
    pub memory: &'a MemoryUsage,
    /// The areas of the cache.
    pub caches: &'a [CacheUsage<'a>],
    /// Whether the cache can be reached.
    pub cache_is_there: bool,
    /// The process.
    pub process: ProcessUsage,
}

/// Formats all metrics as text.
pub fn text(figures: &Figures<'_>) -> Result<String, fmt::Error> {
    let mut all = Registry::default();
    of_process(&mut all, figures.process);
    let registry = all.sub_registry_with_prefix("switchyard");
    let build = [(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1)];
    gauge(registry, "build_info", "The version of the gateway that runs; always 1", build);
    of_clients(registry, figures.clients);
    if let Some(client_calls) = figures.client_calls {
        of_client_calls(registry, client_calls);
    }
    of_caller_limits(registry, figures.caller_limits);
    if let Some(usage) = figures.authorization {
        of_authorization(registry, usage);
    }
    of_memory(registry, figures.memory);
    of_servers(registry, figures.servers);
    if figures.client_calls.is_some() {
        registry.register_collector(Box::new(CallDurations::of_tools(figures.servers)));
    }
    of_caches(registry, figures.caches, figures.cache_is_there);
    let mut text = String::new();
    encode(&mut text, &all)?;
    Ok(text)
}

/// The names are those of all Prometheus clients.
fn of_process(registry: &mut Registry, process: ProcessUsage) {
    let cpu: Counter<f64, AtomicU64> = Counter::default();
    cpu.inc_by(process.cpu.as_secs_f64());
    let help = "CPU time of the gateway in user and system mode";
    registry.register_with_unit("process_cpu", help, Unit::Seconds, cpu);
    if let Some(started) = process.started_at() {
        let start = Fraction::default();
        start.set(started);
        let help = "When the gateway started, in seconds since 1970";
        registry.register_with_unit("process_start_time", help, Unit::Seconds, start);
    }
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Memory that the gateway uses", process.resident_bytes),
        ("process_virtual_memory_bytes", "Address space of the gateway", process.virtual_bytes),
        ("process_open_fds", "Open files and sockets of the gateway", process.open_fds),
        ("process_max_fds", "Files and sockets that the gateway may open", process.max_fds),
        ("process_threads", "Threads of the gateway", process.threads),
    ] {
        if let Some(value) = value {
            alone(registry, name, help, value);
        }
    }
}

fn of_client_calls(registry: &mut Registry, client_calls: &ClientCalls) {
    let (named, others) = client_calls.counted();
    let named = named.iter().map(|(name, calls)| (visible(name).to_string(), *calls));
    let all = named.chain([(OTHER.to_owned(), others)]);
    let help = "Tool calls of clients, by the name that the client gives itself; `rest` for programs";
    counter(registry, "client_calls", help, all.map(|(name, calls)| (vec![("client", name)], calls)));
}

fn of_clients(registry: &mut Registry, clients: Option<Clients>) {
    if let Some(Clients {
        clients,
        sessions,
        kept_bytes,
        refused,
        sockets,
        yielded_sockets,
        failed_handshakes,
    }) = clients
    {
        let help = "Clients that are there: open sessions, and calls and streams that belong to none";
        alone(registry, "clients", help, count(clients));
        alone(registry, "sessions", "Open sessions of older clients", count(sessions));
        let help = "What ended streams keep for clients that come back";
        alone(registry, "replay_bytes", help, count(kept_bytes));
        let refused = refused.map(|(status, times)| (vec![("status", status.to_string())], times));
        let help = "Requests over HTTP that were refused: 401 for their credential, 403 for what it may do or where \
                    they came from, 429 for their number";
        counter(registry, "requests_refused", help, refused);
        alone(registry, "client_sockets", "Sockets of clients that are open", count(sockets));
        let help = "Sockets of clients that were closed for new ones while they waited for their client";
        total(registry, "client_sockets_yielded", help, yielded_sockets);
        total(registry, "tls_handshake_failures", "TLS handshakes of clients that failed", failed_handshakes);
    }
    let met = Limit::all().map(|(limit, times)| (vec![("limit", limit.to_owned())], times));
    let help = "How often a limit was met: what came then was refused, or dropped where it was a notice";
    counter(registry, "limit_hits", help, met);
    let help = "Faults of the gateway itself, each of which ended one request or task";
    total(registry, "panics", help, panics());
}

fn of_caller_limits(registry: &mut Registry, limits: &[CallerLimit]) {
    let refused = limits.iter().flat_map(|CallerLimit { name, requests, calls }| {
        [("requests_per_minute", *requests), ("calls_at_a_time", *calls)]
            .map(|(reached, times)| (vec![("name", name.clone()), ("reached", reached.to_owned())], times))
    });
    let help = "Requests that a limit of their caller refused, by the name of the limit";
    counter(registry, "requests_limited", help, refused);
}

fn of_authorization(registry: &mut Registry, usage: &AuthorizationUsage) {
    if let Some(Stored { grants, clients }) = usage.stored {
        let help = "Grants of people to clients that the authorization server has; each ends by revocation or after 90 \
                    days without use";
        alone(registry, "authorization_grants", help, count(grants));
        let help = "Clients that registered themselves at the authorization server";
        alone(registry, "authorization_clients", help, count(clients));
    }
    let requests = usage.requests.iter().map(|EndpointRequests { endpoint, outcome, requests }| {
        (vec![("endpoint", (*endpoint).to_owned()), ("outcome", (*outcome).to_owned())], *requests)
    });
    let help = "Requests to the endpoints of the authorization server, by what came of them: a success, or the code of an \
                error";
    counter(registry, "authorization_requests", help, requests);
    let help = "Grants that ended because a code or a refresh token of theirs was used twice, so that it was probably stolen";
    total(registry, "authorization_reuses", help, usage.reuses);
    let help = "Reads and writes of the store of the authorization server that failed";
    total(registry, "authorization_store_failures", help, usage.store_failures);
}

fn of_memory(registry: &mut Registry, memory: &MemoryUsage) {
    let help = "Bytes that messages in flight may take together";
    alone(registry, "memory_budget_bytes", help, count(memory.limit));
    let help = "Bytes that messages in flight take of the memory budget";
    alone(registry, "memory_used_bytes", help, count(memory.used));
    let refusals = memory.refusals.iter().map(|(kind, times)| (vec![("kind", (*kind).to_owned())], *times));
    let help = "How often the memory budget had no room; requests and answers were refused, notices dropped";
    counter(registry, "memory_refusals", help, refusals);
}

fn of_servers(registry: &mut Registry, servers: &[Server<'_>]) {
    let label = |server: &Server<'_>| vec![("server", server.name.to_owned())];
    let all =
        |value: fn(&Server<'_>) -> u64| servers.iter().map(move |server| (label(server), value(server)));

    let states = servers.iter().flat_map(|server| in_states(server, server.state));
    let help = "The state of the server: 1 for the one that it is in, 0 for the others";
    gauge(registry, "server_state", help, states);
    let breakers = servers.iter().flat_map(|server| in_states(server, server.breaker));
    let help = "The state of its circuit breaker: 1 for the one that it is in, 0 for the others";
    gauge(registry, "server_breaker_state", help, breakers);
    gauge(
        registry,
        "server_healthy",
        "1 when the server is ready and calls pass",
        all(|s| s.is_healthy.into()),
    );
    counter(registry, "server_calls", "Calls of clients", all(|server| server.calls.all));
    let help = "Calls of clients that failed between the gateway and the server";
    counter(registry, "server_call_failures", help, all(|server| server.calls.failed));
    let help = "Calls of clients that the gateway refused: breaker, limits, not available";
    counter(registry, "server_call_refusals", help, all(|server| server.calls.refused));
    let help = "Attempts beyond the first, those of health checks included";
    counter(registry, "server_retries", help, all(|server| server.retries));
    gauge(registry, "server_calls_running", "Calls of clients that run now", all(|s| count(s.load.running)));
    let help = "Calls of clients that wait for one of those to end";
    gauge(registry, "server_calls_waiting", help, all(|server| count(server.load.waiting)));
    registry.register_collector(Box::new(CallDurations::of_servers(servers)));
    of_connections(registry, servers);
    gauge(
        registry,
        "server_tools",
        "Tools of the server that are offered",
        all(|server| count(server.tools)),
    );
    let help = "Tools of the server whose definition is not the one that was approved";
    gauge(registry, "server_tools_changed", help, all(|server| count(server.changed.all)));
    let help = "Of those, tools that are blocked until an operator approves them";
    gauge(registry, "server_tools_held_back", help, all(|server| count(server.changed.held_back)));
    let latencies = servers.iter().filter_map(|server| Some((label(server), server.latency?)));
    let family = Family::<Labels, Fraction>::default();
    for (labels, latency) in latencies {
        family.get_or_create(&labels).set(latency.as_secs_f64());
    }
    let help = "How long the last health check that went well took";
    registry.register_with_unit("server_health_check", help, Unit::Seconds, family);
}

fn of_connections(registry: &mut Registry, servers: &[Server<'_>]) {
    let label = |server: &Server<'_>| vec![("server", server.name.to_owned())];
    let sessions = servers.iter().map(|server| (label(server), count(server.connections)));
    let help = "MCP connections to the server that are open: sessions over HTTP, processes on stdio";
    gauge(registry, "server_connections", help, sessions);
    let sockets = servers.iter().filter_map(|server| Some((label(server), server.sockets?)));
    let sockets = sockets.flat_map(|(label, Sockets { in_use, idle })| {
        [("in_use", in_use), ("idle", idle)].map(|(state, number)| {
            ([label.clone(), vec![("state", state.to_owned())]].concat(), count(number))
        })
    });
    let help = "Sockets to a server over HTTP that are open: one for each call and event stream that runs, \
                and those that are kept for the next";
    gauge(registry, "server_sockets", help, sockets);
}

fn of_caches(registry: &mut Registry, caches: &[CacheUsage<'_>], is_there: bool) {
    let label = |cache: &CacheUsage<'_>| vec![("area", cache.area.to_owned())];
    let all =
        |value: fn(&CacheUsage<'_>) -> u64| caches.iter().map(move |cache| (label(cache), value(cache)));
    counter(registry, "cache_hits", "Answers that came from the cache", all(|cache| cache.hits));
    counter(
        registry,
        "cache_misses",
        "Answers that were looked for and not there",
        all(|cache| cache.misses),
    );
    let help = "Looks, writes and drops that the cache failed to do; no call fails with them";
    counter(registry, "cache_faults", help, all(|cache| cache.faults));
    let help = "1 when answers can be kept, 0 while a Redis is away";
    alone(registry, "cache_available", help, u64::from(is_there));
}

/// One line for each possible state.
fn in_states<'a>(server: &'a Server<'_>, state: OneOf<'a>) -> impl Iterator<Item = (Labels, u64)> + 'a {
    state.all.iter().map(move |word| {
        let labels = vec![("server", server.name.to_owned()), ("state", (*word).to_owned())];
        (labels, u64::from(*word == state.now))
    })
}

/// A histogram of the recorded durations of calls. Those of the library would count by themselves, behind a lock.
#[derive(Debug)]
struct CallDurations<const BUCKETS: usize> {
    name: &'static str,
    help: &'static str,
    bounds: &'static [u64],
    counted: Vec<(Labels, Counted<BUCKETS>)>,
}

impl CallDurations<BUCKETS> {
    fn of_servers(servers: &[Server<'_>]) -> Self {
        let of_server = |server: &Server<'_>| {
            let server_name = server.name.to_owned();
            server.durations.counted().map(|counted| {
                let outcome = counted.outcome.as_str().to_owned();
                (vec![("server", server_name.clone()), ("outcome", outcome)], counted)
            })
        };
        Self {
            name: "server_call_duration",
            help: "How long calls of clients took, by how they ended",
            bounds: &BOUNDS_MS,
            counted: servers.iter().flat_map(of_server).collect(),
        }
    }
}

impl CallDurations<TOOL_BUCKETS> {
    /// Only of outcomes that a tool had: the others would be most of the text.
    fn of_tools(servers: &[Server<'_>]) -> Self {
        let mut counted = Vec::new();
        for server in servers {
            for tool in server.durations.counted_tools() {
                let name = tool.tool.map_or(OTHER.to_owned(), |name| visible(&name).to_string());
                let ended =
                    tool.counted.into_iter().filter(|counted| counted.buckets.iter().any(|calls| *calls > 0));
                counted.extend(ended.map(|counted| {
                    let labels =
                        [("server", server.name), ("tool", &name), ("outcome", counted.outcome.as_str())];
                    (labels.map(|(label, value)| (label, value.to_owned())).to_vec(), counted)
                }));
            }
        }
        Self {
            name: "tool_call_duration",
            help: "How long calls of each tool took, by how they ended. Of each server 100 tools have their name, \
                   further ones are `other`",
            bounds: &TOOL_BOUNDS_MS,
            counted,
        }
    }
}

impl<const BUCKETS: usize> Collector for CallDurations<BUCKETS> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut metric = encoder.encode_descriptor(self.name, self.help, Some(&Unit::Seconds), kind)?;
        for (labels, counted) in &self.counted {
            let ends = self.bounds.iter().map(|bound| Duration::from_millis(*bound).as_secs_f64());
            let ends = ends.chain(std::iter::once(f64::INFINITY));
            let buckets: Vec<(f64, u64)> = ends.zip(counted.buckets).collect();
            let (sum, calls) = (counted.sum.as_secs_f64(), counted.buckets.iter().sum());
            metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, calls, &buckets, None)?;
        }
        Ok(())
    }
}

/// Registers a counter. Its name gets the suffix `_total` in the text.
fn counter(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
    let family = Family::<Labels, Counter>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).inc_by(value);
    }
    registry.register(name, help, family);
}

fn gauge(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
    let family = Family::<Labels, Gauge>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
    }
    registry.register(name, help, family);
}

/// Registers a gauge without labels.
fn alone(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let alone: Gauge = Gauge::default();
    alone.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, alone);
}

/// Registers a counter without labels.
fn total(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let total: Counter = Counter::default();
    total.inc_by(value);
    registry.register(name, help, total);
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
