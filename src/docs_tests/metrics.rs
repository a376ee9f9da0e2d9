//! `docs/reference/metrics.md` is what the registry of metrics prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use runtime::telemetry::durations::{ClientCalls, Durations, Outcome};
use runtime::telemetry::metrics::{
    self, AuthorizationUsage, CacheUsage, CallerLimit, Calls, Changed, Clients, EndpointRequests, Figures,
    Load, MemoryUsage, OneOf, Server, Sockets, Stored,
};
use runtime::telemetry::process::ProcessUsage;
use tokio::time::Instant;
use upstream::breaker;

const INTRO: &str = "<!-- Made from crates/runtime/src/telemetry/metrics.rs. Renew it with UPDATE_GOLDEN=1. -->

# Reference: metrics

`GET /metrics` returns these metrics in the text format of Prometheus, `OpenMetrics` 1.0. It needs the role *reader*.
[Monitor](../operate/monitor.md#metrics-for-prometheus) says how to scrape it and what each count means in detail.
The name of a counter ends with `_total`. A histogram has the
samples `_bucket`, `_sum` and `_count`.

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
";

/// Labels whose values are names of the configuration file or versions.
const OPEN: [&str; 7] = ["server", "area", "version", "le", "tool", "client", "name"];

/// More values than this are listed below the table.
const MAX_VALUES: usize = 8;

/// One metric as the text describes it.
#[derive(Default)]
struct Metric {
    kind: String,
    unit: String,
    help: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

fn text() -> String {
    let states = upstream::State::ALL.map(upstream::State::as_str);
    let breakers = breaker::State::ALL.map(breaker::State::as_str);
    let durations = Durations::default();
    for outcome in Outcome::ALL {
        durations.ended(outcome, (Instant::now(), Duration::ZERO), Some(&"search".into()));
    }
    let server = Server {
        name: "one",
        state: OneOf { now: states[0], all: &states },
        breaker: OneOf { now: breakers[0], all: &breakers },
        is_healthy: true,
        calls: Calls { all: 0, failed: 0, refused: 0 },
        durations: &durations,
        retries: 0,
        load: Load { running: 0, waiting: 0 },
        connections: 0,
        sockets: Some(Sockets { in_use: 0, idle: 0 }),
        tools: 0,
        changed: Changed { all: 0, held_back: 0 },
        latency: Some(Duration::ZERO),
    };
    let refused = [401, 403, 429].map(|status| (status, 0));
    let clients = Clients {
        clients: 0,
        sessions: 0,
        kept_bytes: 0,
        sockets: 0,
        yielded_sockets: 0,
        failed_handshakes: 0,
        refused,
    };
    let refusals = runtime::memory::budget().refusals().collect();
    let cache = CacheUsage { area: "tools", hits: 0, misses: 0, faults: 0 };
    let memory = MemoryUsage { limit: 0, used: 0, refusals };
    let counts = authorization::RequestCounts::default();
    let requests = counts.all();
    let authorization = AuthorizationUsage {
        stored: Some(Stored { grants: 0, clients: 0 }),
        requests: requests
            .map(|(endpoint, outcome, requests)| EndpointRequests { endpoint, outcome, requests })
            .collect(),
        reuses: 0,
        store_failures: 0,
    };
    let figures = Figures {
        servers: &[server],
        clients: Some(clients),
        client_calls: Some(&ClientCalls::default()),
        caller_limits: &[CallerLimit { name: "support".to_owned(), requests: 0, calls: 0 }],
        authorization: Some(&authorization),
        memory: &memory,
        caches: &[cache],
        cache_is_there: true,
        process: ProcessUsage::now(),
    };
    metrics::text(&figures).expect("text")
}

/// Reads the descriptions, and the labels of the samples below them.
fn read(text: &str) -> Vec<(String, Metric)> {
    let mut found: Vec<(String, Metric)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        if let ["#", what, name, rest] = words[..] {
            if found.last().is_none_or(|(last, _)| last != name) {
                found.push((name.to_owned(), Metric::default()));
            }
            let Some((_, metric)) = found.last_mut() else { continue };
            match what {
                "HELP" => rest.trim_end_matches('.').clone_into(&mut metric.help),
                "TYPE" => rest.clone_into(&mut metric.kind),
                _ => rest.clone_into(&mut metric.unit),
            }
        } else if let (Some((_, metric)), Some((_, rest))) = (found.last_mut(), line.split_once('{')) {
            for label in rest.split('}').next().unwrap_or_default().split(',') {
                let (name, value) = label.split_once('=').unwrap_or_default();
                let value = value.trim_matches('"').to_owned();
                metric.labels.entry(name.to_owned()).or_default().insert(value);
            }
        }
    }
    found
}

fn label((name, values): (&String, &BTreeSet<String>)) -> String {
    if OPEN.contains(&name.as_str()) {
        return format!("`{name}`");
    }
    if values.len() > MAX_VALUES {
        return format!("`{name}`, see below");
    }
    let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    format!("`{name}`: {}", values.join(" "))
}

/// The lists of values that are too long for a cell.
fn long_lists(metrics: &[(String, Metric)]) -> String {
    let labels = metrics.iter().flat_map(|(_, metric)| &metric.labels);
    let long = labels.filter(|(name, values)| !OPEN.contains(&name.as_str()) && values.len() > MAX_VALUES);
    let lists = long.map(|(name, values)| {
        let items: Vec<String> = values.iter().map(|value| format!("- `{value}`")).collect();
        format!("\n## Values of `{name}`\n\n{}\n", items.join("\n"))
    });
    lists.collect()
}

#[test]
fn the_page_of_metrics_is_what_the_registry_prints() {
    let metrics = read(&text());
    assert!(metrics.len() > 25, "only {} metrics", metrics.len());
    let mut page = INTRO.to_owned();
    for (name, metric) in &metrics {
        let Metric { kind, unit, help, labels } = metric;
        let shown = labels.iter().filter(|(name, _)| *name != "le").map(label);
        let labels = shown.collect::<Vec<_>>().join("<br>");
        let end = if kind == "counter" { "_total" } else { "" };
        writeln!(page, "| `{name}{end}` | {kind} | {unit} | {labels} | {help} |").expect("a string");
    }
    page += &long_lists(&metrics);
    super::compare("docs/reference/metrics.md", &page);
}

/// Names of metrics in `text` that the registry does not print.
pub(super) fn unknown_names(text: &str) -> Vec<&str> {
    let metrics = read(&self::text());
    let ends = ["", "_total", "_bucket", "_sum", "_count"];
    let is_there = |name: &str| {
        metrics.iter().any(|(known, _)| ends.iter().any(|end| name.strip_suffix(end) == Some(known)))
    };
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let of_metrics = names.filter(|name| name.starts_with("switchyard_") || name.starts_with("process_"));
    of_metrics.filter(|name| !is_there(name)).collect()
}

#[test]
fn every_metric_that_pages_for_operators_name_is_there() {
    for page in ["alerts", "limits", "monitor", "runbooks", "sizing"] {
        let page = &format!("docs/operate/{page}.md");
        let page_text = std::fs::read_to_string(super::file(page)).expect("it is committed");
        let wrong = unknown_names(&page_text);
        assert!(wrong.is_empty(), "{page}: {wrong:?}");
    }
}
