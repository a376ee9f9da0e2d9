//! The metrics of the gateway, as Prometheus reads them: their names, their labels and what they mean.
//!
//! Invariant: they cost nothing on the way of a call. Whoever is asked for them hands in what is counted
//! already, and the text is made of that. Label values are names out of the registry file, words of ours,
//! and areas of the cache, of which there are few; nothing that a client sends becomes one.
//!
//! Not here: what is counted (`upstream::status`, `store`), who may read it (`admin`).

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::limit::{Limit, Socket, panics};

/// The media type of the text: `OpenMetrics` 1.0, which Prometheus has read since 2.5.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type Fraction = Gauge<f64, AtomicU64>;

/// One server at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its state in one word.
    pub state: &'static str,
    /// Its breaker in one word.
    pub breaker: &'static str,
    /// Whether it is ready and calls pass.
    pub is_healthy: bool,
    /// Client calls since the start: all, failed, refused by ourselves.
    pub calls: [u64; 3],
    /// Attempts beyond the first.
    pub retries: u64,
    /// Calls that run, and calls that wait for their place.
    pub load: [usize; 2],
    /// Connections that are open: sessions, or processes.
    pub connections: usize,
    /// Sockets to it that are in use, and those that are idle; none where there are no sockets.
    pub sockets: Option<[usize; 2]>,
    /// Tools that are offered.
    pub tools: usize,
    /// Tools whose definition is not the trusted one, and how many of them are held back for that.
    pub changed: [usize; 2],
    /// How long the last health check took.
    pub latency: Option<Duration>,
}

/// One area of the cache since the start.
#[derive(Debug, Clone, Copy)]
pub struct Cache<'a> {
    /// Its name.
    pub area: &'a str,
    /// Answers that were there.
    pub hits: u64,
    /// Answers that were not.
    pub misses: u64,
    /// What the cache failed to do.
    pub faults: u64,
}

/// Who is there at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Clients {
    /// Sessions, and requests that belong to none.
    pub clients: usize,
    /// Sessions.
    pub sessions: usize,
    /// Bytes that ended streams of sessions keep.
    pub kept_bytes: usize,
}

/// Everything at a moment, in text.
pub fn text(
    servers: &[Server<'_>],
    clients: Option<Clients>,
    caches: &[Cache<'_>],
    cache_is_there: bool,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("switchyard");
    let build = [(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1)];
    gauge(&mut registry, "build_info", "The version of the gateway that runs; always 1", build);
    of_clients(&mut registry, clients);
    of_servers(&mut registry, servers);
    of_caches(&mut registry, caches, cache_is_there);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn of_clients(registry: &mut Registry, clients: Option<Clients>) {
    if let Some(Clients { clients, sessions, kept_bytes }) = clients {
        let help = "Clients that are there: open sessions, and calls and streams that belong to none";
        alone(registry, "clients", help, count(clients));
        alone(registry, "sessions", "Open sessions of older clients", count(sessions));
        let help = "What ended streams keep for clients that come back";
        alone(registry, "replay_bytes", help, count(kept_bytes));
    }
    alone(registry, "client_sockets", "Sockets of clients that are open", count(Socket::count()));
    let met = Limit::all().map(|(limit, times)| (vec![("limit", limit.to_owned())], times));
    let help = "How often a limit was met: what came then was refused, or dropped where it was a notice";
    counter(registry, "limit_hits", help, met);
    let help = "Faults of the gateway itself, each of which ended one request or task";
    let panicked: Counter = Counter::default();
    panicked.inc_by(panics());
    registry.register("panics", help, panicked);
}

fn of_servers(registry: &mut Registry, servers: &[Server<'_>]) {
    let label = |server: &Server<'_>| vec![("server", server.name.to_owned())];
    let with =
        |server: &Server<'_>, name, word: &str| [label(server), vec![(name, word.to_owned())]].concat();
    let all =
        |value: fn(&Server<'_>) -> u64| servers.iter().map(move |server| (label(server), value(server)));

    let states = servers.iter().map(|server| (with(server, "state", server.state), 1));
    gauge(registry, "server_state", "The state of the server: 1 for the one that it is in", states);
    let breakers = servers.iter().map(|server| (with(server, "state", server.breaker), 1));
    gauge(
        registry,
        "server_breaker_state",
        "The state of its circuit breaker: 1 for the one it is in",
        breakers,
    );
    gauge(
        registry,
        "server_healthy",
        "1 when the server is ready and calls pass",
        all(|s| s.is_healthy.into()),
    );
    counter(registry, "server_calls", "Calls of clients", all(|server| server.calls[0]));
    let help = "Calls of clients that failed between the gateway and the server";
    counter(registry, "server_call_failures", help, all(|server| server.calls[1]));
    let help = "Calls of clients that the gateway refused: breaker, limits, not available";
    counter(registry, "server_call_refusals", help, all(|server| server.calls[2]));
    let help = "Attempts beyond the first, those of health checks included";
    counter(registry, "server_retries", help, all(|server| server.retries));
    gauge(registry, "server_calls_running", "Calls of clients that run now", all(|s| count(s.load[0])));
    let help = "Calls of clients that wait for one of those to end";
    gauge(registry, "server_calls_waiting", help, all(|server| count(server.load[1])));
    of_connections(registry, servers);
    gauge(
        registry,
        "server_tools",
        "Tools of the server that are offered",
        all(|server| count(server.tools)),
    );
    let help = "Tools of the server whose definition is not the one that was approved";
    gauge(registry, "server_tools_changed", help, all(|server| count(server.changed[0])));
    let help = "Of those, tools that are held back until an operator approves them";
    gauge(registry, "server_tools_held_back", help, all(|server| count(server.changed[1])));
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
    let sockets = sockets.flat_map(|(label, counts)| {
        let with = move |(state, number)| ([label.clone(), vec![("state", state)]].concat(), count(number));
        ["in_use".to_owned(), "idle".to_owned()].into_iter().zip(counts).map(with)
    });
    let help = "Sockets to a server over HTTP that are open: one for each call and event stream that runs, \
                and those that are kept for the next";
    gauge(registry, "server_sockets", help, sockets);
}

fn of_caches(registry: &mut Registry, caches: &[Cache<'_>], is_there: bool) {
    let label = |cache: &Cache<'_>| vec![("area", cache.area.to_owned())];
    let all = |value: fn(&Cache<'_>) -> u64| caches.iter().map(move |cache| (label(cache), value(cache)));
    counter(registry, "cache_hits", "Answers that were given again", all(|cache| cache.hits));
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

/// A counter; its name gets `_total` where it is printed.
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

/// One that has no labels.
fn alone(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let alone: Gauge = Gauge::default();
    alone.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, alone);
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let server = Server {
            name: "a\"b",
            state: "ready",
            breaker: "half_open",
            is_healthy: true,
            calls: [7, 2, 1],
            retries: 3,
            load: [4, 5],
            connections: 6,
            sockets: Some([9, 10]),
            tools: 8,
            changed: [9, 10],
            latency: Some(Duration::from_millis(250)),
        };
        let cache = Cache { area: "r2r", hits: 1, misses: 2, faults: 3 };
        let clients = Clients { clients: 11, sessions: 12, kept_bytes: 13 };
        Limit::Sessions.met(());
        let text = text(&[server], Some(clients), &[cache], false).expect("it is printed");
        for line in [
            "# HELP switchyard_server_calls Calls of clients.",
            "# TYPE switchyard_server_calls counter",
            "switchyard_server_calls_total{server=\"a\\\"b\"} 7",
            "switchyard_server_call_failures_total{server=\"a\\\"b\"} 2",
            "switchyard_server_call_refusals_total{server=\"a\\\"b\"} 1",
            "switchyard_server_retries_total{server=\"a\\\"b\"} 3",
            "switchyard_server_calls_running{server=\"a\\\"b\"} 4",
            "switchyard_server_calls_waiting{server=\"a\\\"b\"} 5",
            "switchyard_server_connections{server=\"a\\\"b\"} 6",
            "switchyard_server_sockets{server=\"a\\\"b\",state=\"in_use\"} 9",
            "switchyard_server_sockets{server=\"a\\\"b\",state=\"idle\"} 10",
            "switchyard_server_tools{server=\"a\\\"b\"} 8",
            "switchyard_server_tools_changed{server=\"a\\\"b\"} 9",
            "switchyard_server_tools_held_back{server=\"a\\\"b\"} 10",
            "switchyard_server_healthy{server=\"a\\\"b\"} 1",
            "switchyard_server_state{server=\"a\\\"b\",state=\"ready\"} 1",
            "switchyard_server_breaker_state{server=\"a\\\"b\",state=\"half_open\"} 1",
            "switchyard_server_health_check_seconds{server=\"a\\\"b\"} 0.25",
            "switchyard_cache_hits_total{area=\"r2r\"} 1",
            "switchyard_cache_misses_total{area=\"r2r\"} 2",
            "switchyard_cache_faults_total{area=\"r2r\"} 3",
            "switchyard_cache_available 0",
            "switchyard_clients 11",
            "switchyard_sessions 12",
            "switchyard_replay_bytes 13",
            "switchyard_limit_hits_total{limit=\"max_sessions\"} 1",
            "switchyard_panics_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let docs = include_str!("../../docs/operations.md");
        for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = family.split_once(' ').expect("a name and a kind");
            let total = if kind == "counter" { "_total" } else { "" };
            assert!(docs.contains(&format!("`{name}{total}`")), "{name} is not told of");
        }
        for (limit, _) in Limit::all() {
            assert!(docs.contains(&format!("| `{limit}` |")), "{limit} is not told of");
        }
    }
}
