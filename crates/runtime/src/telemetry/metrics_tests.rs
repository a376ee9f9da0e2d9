//! The exact text for Prometheus, and that the docs name every metric and every limit.

use tokio::time::Instant;

use super::super::durations::Outcome;
use super::*;

/// Lines of the text that are expected.
const LINES: &[&str] = &[
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
    "switchyard_server_state{server=\"a\\\"b\",state=\"failed\"} 0",
    "switchyard_server_breaker_state{server=\"a\\\"b\",state=\"half_open\"} 1",
    "switchyard_server_breaker_state{server=\"a\\\"b\",state=\"closed\"} 0",
    "# TYPE switchyard_server_call_duration_seconds histogram",
    "# UNIT switchyard_server_call_duration_seconds seconds",
    "switchyard_server_call_duration_seconds_sum{server=\"a\\\"b\",outcome=\"failed\"} 601.153",
    "switchyard_server_call_duration_seconds_count{server=\"a\\\"b\",outcome=\"failed\"} 4",
    "switchyard_server_call_duration_seconds_bucket{le=\"0.005\",server=\"a\\\"b\",outcome=\"failed\"} 1",
    "switchyard_server_call_duration_seconds_bucket{le=\"0.1\",server=\"a\\\"b\",outcome=\"failed\"} 3",
    "switchyard_server_call_duration_seconds_bucket{le=\"600.0\",server=\"a\\\"b\",outcome=\"failed\"} 3",
    "switchyard_server_call_duration_seconds_bucket{le=\"+Inf\",server=\"a\\\"b\",outcome=\"failed\"} 4",
    "switchyard_server_call_duration_seconds_count{server=\"a\\\"b\",outcome=\"result\"} 1",
    "switchyard_tool_call_duration_seconds_count{server=\"a\\\"b\",tool=\"one\\\\u{202e}\\\"tool\",outcome=\"failed\"} 4",
    "switchyard_tool_call_duration_seconds_bucket{le=\"0.1\",server=\"a\\\"b\",tool=\"one\\\\u{202e}\\\"tool\",outcome=\"failed\"} 3",
    "switchyard_tool_call_duration_seconds_count{server=\"a\\\"b\",tool=\"other\",outcome=\"result\"} 1",
    "switchyard_client_calls_total{client=\"my \\\"client\\\"\\\\n\"} 1",
    "switchyard_client_calls_total{client=\"other\"} 0",
    "switchyard_requests_refused_total{status=\"403\"} 18",
    "process_cpu_seconds_total 1.5",
    "switchyard_server_health_check_seconds{server=\"a\\\"b\"} 0.25",
    "switchyard_cache_hits_total{area=\"r2r\"} 1",
    "switchyard_cache_misses_total{area=\"r2r\"} 2",
    "switchyard_cache_faults_total{area=\"r2r\"} 3",
    "switchyard_cache_available 0",
    "switchyard_clients 11",
    "switchyard_sessions 12",
    "switchyard_replay_bytes 13",
    "switchyard_limit_hits_total{limit=\"max_sessions\"} 1",
    "switchyard_requests_limited_total{name=\"support\",reached=\"requests_per_minute\"} 20",
    "switchyard_authorization_grants 22",
    "switchyard_authorization_clients 23",
    "switchyard_authorization_requests_total{endpoint=\"token\",outcome=\"refreshed\"} 24",
    "switchyard_authorization_reuses_total 26",
    "switchyard_authorization_store_failures_total 25",
    "switchyard_memory_budget_bytes 14",
    "switchyard_memory_used_bytes 15",
    "switchyard_memory_refusals_total{kind=\"answers\"} 16",
    "switchyard_panics_total 0",
    "switchyard_client_sockets 17",
    "switchyard_client_sockets_yielded_total 18",
    "switchyard_tls_handshake_failures_total 19",
];

#[test]
fn the_text_is_what_prometheus_reads() {
    let durations = Durations::default();
    let started = Instant::now();
    for millis in [3, 70, 80, 601_000] {
        let time = (started, Duration::from_millis(millis));
        durations.ended(Outcome::Failed, time, Some(&"one\u{202e}\"tool".into()));
    }
    durations.ended(Outcome::Result, (started, Duration::ZERO), Some(&OTHER.into()));
    let client_calls = ClientCalls::default();
    client_calls.count("my \"client\"\n");
    let server = Server {
        name: "a\"b",
        state: OneOf { now: "ready", all: &["ready", "failed"] },
        breaker: OneOf { now: "half_open", all: &["closed", "half_open"] },
        is_healthy: true,
        calls: Calls { all: 7, failed: 2, refused: 1 },
        durations: &durations,
        retries: 3,
        load: Load { running: 4, waiting: 5 },
        connections: 6,
        sockets: Some(Sockets { in_use: 9, idle: 10 }),
        tools: 8,
        changed: Changed { all: 9, held_back: 10 },
        latency: Some(Duration::from_millis(250)),
    };
    let cache = CacheUsage { area: "r2r", hits: 1, misses: 2, faults: 3 };
    let memory = MemoryUsage { limit: 14, used: 15, refusals: vec![("answers", 16)] };
    let authorization = AuthorizationUsage {
        stored: Some(Stored { grants: 22, clients: 23 }),
        requests: vec![EndpointRequests { endpoint: "token", outcome: "refreshed", requests: 24 }],
        reuses: 26,
        store_failures: 25,
    };
    Limit::Sessions.met(());
    let figures = Figures {
        servers: &[server],
        clients: Some(clients()),
        client_calls: Some(&client_calls),
        caller_limits: &[CallerLimit { name: "support".into(), requests: 20, calls: 21 }],
        authorization: Some(&authorization),
        memory: &memory,
        caches: &[cache],
        cache_is_there: false,
        process: ProcessUsage { cpu: Duration::from_millis(1_500), ..ProcessUsage::default() },
    };
    let text = text(&figures).expect("it is printed");
    let without_names = super::text(&Figures { client_calls: None, ..figures }).expect("it is printed");
    for name in ["tool_call_duration", "client_calls"] {
        assert!(text.contains(name) && !without_names.contains(name), "{name}");
    }
    for line in LINES {
        assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert_docs_name_all_of(&text);
}

fn clients() -> Clients {
    let refused = [(401, 17), (403, 18), (429, 19)];
    Clients {
        clients: 11,
        sessions: 12,
        kept_bytes: 13,
        sockets: 17,
        yielded_sockets: 18,
        failed_handshakes: 19,
        refused,
    }
}

fn assert_docs_name_all_of(text: &str) {
    let docs = concat!(
        include_str!("../../../../docs/operate/monitor.md"),
        include_str!("../../../../docs/operate/limits.md")
    );
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').expect("a name and a kind");
        let total = if kind == "counter" { "_total" } else { "" };
        assert!(docs.contains(&format!("`{name}{total}`")), "{name} is not told of");
    }
    for (limit, _) in Limit::all() {
        assert!(docs.contains(&format!("| `{limit}` |")), "{limit} is not told of");
    }
}
