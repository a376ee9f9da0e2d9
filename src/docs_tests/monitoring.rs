//! `deploy/alerts.yaml`, the page about it, and `deploy/grafana.json`: made from two tables, whose expressions name metrics
//! that are there.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// One alert.
struct Alert {
    name: &'static str,
    expression: &'static str,
    /// How long it must be so.
    duration: Option<&'static str>,
    severity: &'static str,
    meaning: &'static str,
    /// The words and the place of what to do, from the folder of the page.
    runbook: (&'static str, &'static str),
}

const ALERTS: &[Alert] = &[
    Alert {
        name: "SwitchyardDown",
        expression: r#"up{job="switchyard"} == 0"#,
        duration: Some("1m"),
        severity: "page",
        meaning: "`/metrics` does not answer",
        runbook: ("the gateway is down", "runbooks.md#the-gateway-is-down"),
    },
    Alert {
        name: "SwitchyardRestarts",
        expression: r#"changes(process_start_time_seconds{job="switchyard"}[30m]) > 2"#,
        duration: None,
        severity: "page",
        meaning: "the process started more than twice in half an hour",
        runbook: ("the gateway is down", "runbooks.md#the-gateway-is-down"),
    },
    Alert {
        name: "SwitchyardServerUnhealthy",
        expression: r#"switchyard_server_healthy == 0 unless on (server) switchyard_server_state{state=~"disabled|disconnected"} == 1"#,
        duration: Some("5m"),
        severity: "ticket",
        meaning: "a server is not ready, or its breaker lets no call pass",
        runbook: ("a server failed", "../troubleshooting.md#a-server-stays-in-state-failed"),
    },
    Alert {
        name: "SwitchyardServerNotConfigured",
        expression: r#"switchyard_server_state{state="not_configured"} == 1"#,
        duration: Some("1m"),
        severity: "ticket",
        meaning: "the entry of a server in the configuration file has a mistake",
        runbook: ("servers with mistakes", "../operate/reload.md#servers-with-mistakes-in-the-file"),
    },
    Alert {
        name: "SwitchyardBreakerOpen",
        expression: r#"switchyard_server_breaker_state{state="open"} == 1"#,
        duration: Some("2m"),
        severity: "ticket",
        meaning: "calls of one server are refused",
        runbook: ("breaker open", "runbooks.md#breaker-open"),
    },
    Alert {
        name: "SwitchyardLoginRequired",
        expression: r#"switchyard_server_state{state=~"login_required|auth_failed"} == 1"#,
        duration: Some("1m"),
        severity: "ticket",
        meaning: "a server needs a login, or refuses its credential",
        runbook: ("login required", "runbooks.md#login-required"),
    },
    Alert {
        name: "SwitchyardCallsFail",
        expression: "rate(switchyard_server_call_failures_total[5m]) / (rate(switchyard_server_calls_total[5m]) > 0) > 0.05",
        duration: Some("10m"),
        severity: "ticket",
        meaning: "more than 5 % of the calls of a server fail on the way",
        runbook: ("the server failed", "../troubleshooting.md#error-the-server-failed-server_error"),
    },
    Alert {
        name: "SwitchyardServerAnswersErrors",
        expression: r#"sum by (server) (rate(switchyard_server_call_duration_seconds_count{outcome=~"rpc_error|tool_error"}[15m])) / (rate(switchyard_server_calls_total[15m]) > 0) > 0.5"#,
        duration: Some("15m"),
        severity: "ticket",
        meaning: "more than half of the calls of a server end with an error of the server or of a tool",
        runbook: ("a server answers with errors", "runbooks.md#a-server-answers-with-errors"),
    },
    Alert {
        name: "SwitchyardCallsWait",
        expression: "switchyard_server_calls_waiting > 0",
        duration: Some("5m"),
        severity: "ticket",
        meaning: "a server is slower than its callers",
        runbook: ("limits of a server", "../resilience.md#limits-per-server-the-bulkhead"),
    },
    Alert {
        name: "SwitchyardMemoryRefused",
        expression: "increase(switchyard_memory_refusals_total[5m]) > 0",
        duration: None,
        severity: "page",
        meaning: "the memory budget had no room",
        runbook: ("memory exhausted", "runbooks.md#memory-exhausted"),
    },
    Alert {
        name: "SwitchyardFilesRunOut",
        expression: r#"process_open_fds{job="switchyard"} / process_max_fds{job="switchyard"} > 0.8"#,
        duration: Some("5m"),
        severity: "page",
        meaning: "four fifths of the files and sockets that the process may open are open",
        runbook: ("when all sockets are taken", "../operate/limits.md#when-all-sockets-are-taken"),
    },
    Alert {
        name: "SwitchyardToolsChanged",
        expression: "switchyard_server_tools_changed > 0",
        duration: None,
        severity: "ticket",
        meaning: "a tool is not what was approved",
        runbook: (
            "tools that changed",
            "../security/changed-tools.md#tools-that-change-after-they-were-seen",
        ),
    },
    Alert {
        name: "SwitchyardClientsRefused",
        expression: r#"increase(switchyard_limit_hits_total{limit=~"max_sockets|max_connections|max_sessions|audit_lines"}[5m]) > 0"#,
        duration: None,
        severity: "page",
        meaning: "a limit of the listener was reached",
        runbook: ("limits", "../operate/limits.md#limits-and-what-happens-beyond-them"),
    },
    Alert {
        name: "SwitchyardCredentialsRefused",
        expression: r#"rate(switchyard_requests_refused_total{status="401"}[5m]) > 1"#,
        duration: Some("10m"),
        severity: "ticket",
        meaning: "more than one request in a second has no valid credential",
        runbook: ("keys are refused", "runbooks.md#credentials-are-refused"),
    },
    Alert {
        name: "SwitchyardHandshakesFail",
        expression: "rate(switchyard_tls_handshake_failures_total[5m]) > 1",
        duration: Some("10m"),
        severity: "ticket",
        meaning: "clients cannot agree on TLS, or their certificates ended",
        runbook: ("certificate expired", "runbooks.md#certificate-expired"),
    },
    Alert {
        name: "SwitchyardGrantsUnavailable",
        expression: "increase(switchyard_authorization_store_failures_total[5m]) > 0",
        duration: None,
        severity: "page",
        meaning: "the store of the authorization server failed: nobody can log in, clients get no new tokens, and their tokens end within ten minutes",
        runbook: ("the store of grants fails", "runbooks.md#the-store-of-grants-fails"),
    },
    Alert {
        name: "SwitchyardTokenReused",
        expression: "increase(switchyard_authorization_reuses_total[15m]) > 0",
        duration: None,
        severity: "ticket",
        meaning: "a code or a refresh token was used twice: it was probably stolen, and its login has ended",
        runbook: ("a token was used twice", "runbooks.md#a-token-was-used-twice"),
    },
    Alert {
        name: "SwitchyardPanicked",
        expression: "increase(switchyard_panics_total[15m]) > 0",
        duration: None,
        severity: "ticket",
        meaning: "a fault of Switchyard ended a request or task",
        runbook: ("report the lines `panicked` of the log", "../troubleshooting.md#report-a-bug"),
    },
];

/// One panel of the dashboard, with its unit in Grafana and its expressions with their legends.
struct Panel {
    title: &'static str,
    unit: &'static str,
    targets: &'static [(&'static str, &'static str)],
}

const PANELS: &[Panel] = &[
    Panel {
        title: "Servers that are not healthy",
        unit: "none",
        targets: &[(r#"switchyard_server_healthy{server=~"$server"} == 0"#, "{{server}}")],
    },
    Panel {
        title: "Breakers that are not closed",
        unit: "none",
        targets: &[(
            r#"switchyard_server_breaker_state{server=~"$server",state!="closed"} == 1"#,
            "{{server}} {{state}}",
        )],
    },
    Panel {
        title: "Calls by server",
        unit: "reqps",
        targets: &[(
            r#"rate(switchyard_server_calls_total{server=~"$server"}[$__rate_interval])"#,
            "{{server}}",
        )],
    },
    Panel {
        title: "Calls that did not end with a result",
        unit: "reqps",
        targets: &[(
            r#"sum by (server, outcome) (rate(switchyard_server_call_duration_seconds_count{server=~"$server",outcome!="result"}[$__rate_interval]))"#,
            "{{server}} {{outcome}}",
        )],
    },
    Panel {
        title: "Duration of calls",
        unit: "s",
        targets: &[
            (
                r#"histogram_quantile(0.5, sum by (le, server) (rate(switchyard_server_call_duration_seconds_bucket{server=~"$server"}[$__rate_interval])))"#,
                "{{server}} p50",
            ),
            (
                r#"histogram_quantile(0.99, sum by (le, server) (rate(switchyard_server_call_duration_seconds_bucket{server=~"$server"}[$__rate_interval])))"#,
                "{{server}} p99",
            ),
        ],
    },
    Panel {
        title: "Calls that run and wait",
        unit: "none",
        targets: &[
            (r#"switchyard_server_calls_running{server=~"$server"}"#, "{{server}} run"),
            (r#"switchyard_server_calls_waiting{server=~"$server"} > 0"#, "{{server}} wait"),
        ],
    },
    Panel {
        title: "The ten tools with the most calls",
        unit: "reqps",
        targets: &[(
            r#"topk(10, sum by (server, tool) (rate(switchyard_tool_call_duration_seconds_count{server=~"$server"}[$__rate_interval])))"#,
            "{{server}} {{tool}}",
        )],
    },
    Panel {
        title: "The ten tools with the most errors",
        unit: "reqps",
        targets: &[(
            r#"topk(10, sum by (server, tool, outcome) (rate(switchyard_tool_call_duration_seconds_count{server=~"$server",outcome!="result"}[$__rate_interval])))"#,
            "{{server}} {{tool}} {{outcome}}",
        )],
    },
    Panel {
        title: "Tool calls by client",
        unit: "reqps",
        targets: &[("rate(switchyard_client_calls_total[$__rate_interval])", "{{client}}")],
    },
    Panel {
        title: "Requests that were refused",
        unit: "reqps",
        targets: &[
            ("rate(switchyard_requests_refused_total[$__rate_interval])", "HTTP {{status}}"),
            ("rate(switchyard_limit_hits_total[$__rate_interval]) > 0", "{{limit}}"),
        ],
    },
    Panel {
        title: "Clients",
        unit: "none",
        targets: &[
            ("switchyard_clients", "clients"),
            ("switchyard_sessions", "sessions"),
            ("switchyard_client_sockets", "sockets"),
        ],
    },
    Panel {
        title: "Connections to servers",
        unit: "none",
        targets: &[
            (r#"switchyard_server_connections{server=~"$server"}"#, "{{server}} connections"),
            (r#"sum by (server) (switchyard_server_sockets{server=~"$server"})"#, "{{server}} sockets"),
        ],
    },
    Panel {
        title: "Memory",
        unit: "bytes",
        targets: &[
            (r#"process_resident_memory_bytes{job="switchyard"}"#, "process"),
            ("switchyard_memory_used_bytes", "messages in flight"),
            ("switchyard_memory_budget_bytes", "their budget"),
        ],
    },
    Panel {
        title: "CPU",
        unit: "none",
        targets: &[(r#"rate(process_cpu_seconds_total{job="switchyard"}[$__rate_interval])"#, "cores")],
    },
    Panel {
        title: "Authorization server",
        unit: "reqps",
        targets: &[(
            "sum by (endpoint, outcome) (rate(switchyard_authorization_requests_total[$__rate_interval])) > 0",
            "{{endpoint}} {{outcome}}",
        )],
    },
    Panel {
        title: "Hits of the cache",
        unit: "percentunit",
        targets: &[(
            "rate(switchyard_cache_hits_total[$__rate_interval]) / (rate(switchyard_cache_hits_total[$__rate_interval]) + rate(switchyard_cache_misses_total[$__rate_interval]))",
            "{{area}}",
        )],
    },
    Panel {
        title: "Files and sockets",
        unit: "none",
        targets: &[
            (r#"process_open_fds{job="switchyard"}"#, "open"),
            (r#"process_max_fds{job="switchyard"}"#, "most"),
        ],
    },
];

const PAGE_INTRO: &str = "<!-- Made from src/docs_tests/monitoring.rs. Renew it with UPDATE_GOLDEN=1. -->

# Alerts for Prometheus, and a dashboard for Grafana

`deploy/alerts.yaml` has alerting rules for Prometheus, and `deploy/grafana.json` a dashboard for Grafana. Both use the
[metrics](../reference/metrics.md) of `/metrics`, and expect the job name `switchyard`.
[Monitor](../operate/monitor.md#metrics-for-prometheus) says how Prometheus reads them. Name the file of rules under
`rule_files` of Prometheus, import the other one in Grafana, and adapt the thresholds to your traffic.

An alert about a server has its name in the label `server`. Begin with `switchyard status` and
`switchyard servers`, which show its state and last error. Then follow the row:

| alert | when | what it means | what to do |
|---|---|---|---|
";

const PAGE_END: &str = "
The counters start at 0 when the process starts, which `rate` and `increase` take into account.
";

#[test]
fn the_alerts_and_their_page_are_what_the_table_says() {
    let mut rules = "# Made from src/docs_tests/monitoring.rs. Renew it with UPDATE_GOLDEN=1.\n\
                     groups:\n  - name: switchyard\n    rules:\n"
        .to_owned();
    let mut page = PAGE_INTRO.to_owned();
    for Alert { name, expression, duration, severity, meaning, runbook: (words, place) } in ALERTS {
        let wait = duration.map_or_else(String::new, |time| format!("        for: {time}\n"));
        // YAML in one line: single quotes, in which only they themselves are doubled.
        let [quoted, summary] = [*expression, *meaning].map(|text| format!("'{}'", text.replace('\'', "''")));
        let path = place.strip_prefix("../").map_or_else(|| format!("operate/{place}"), str::to_owned);
        write!(
            rules,
            "      - alert: {name}\n        expr: {quoted}\n{wait}        labels: {{severity: {severity}}}\n        \
             annotations:\n          summary: {summary}\n          runbook: docs/{path}\n"
        )
        .expect("a string");
        let when = duration.map_or_else(|| "at once".to_owned(), |time| format!("for {time}"));
        writeln!(page, "| `{name}` | {when}, {severity} | {meaning} | [{words}]({place}) |")
            .expect("a string");
    }
    super::compare("deploy/alerts.yaml", &rules);
    super::compare("docs/operate/alerts.md", &(page + PAGE_END));
}

#[test]
fn the_dashboard_of_grafana_is_what_the_table_says() {
    let source = json!({"type": "prometheus", "uid": "${source}"});
    let panel = |(at, Panel { title, unit, targets }): (usize, &Panel)| {
        let targets = targets.iter().zip('A'..).map(|((expression, legend), letter)| {
            json!({"refId": letter.to_string(), "datasource": source, "expr": expression, "legendFormat": legend})
        });
        json!({
            "id": at + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": at % 2 * 12, "y": at / 2 * 8},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
            "targets": targets.collect::<Vec<Value>>(),
        })
    };
    let servers = "label_values(switchyard_server_healthy, server)";
    let dashboard = json!({
        "title": "Switchyard",
        "uid": "switchyard",
        "tags": ["mcp"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [
            {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            {
                "name": "server", "type": "query", "datasource": source, "query": servers, "refresh": 2,
                "includeAll": true, "multi": true, "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            },
        ]},
        "panels": PANELS.iter().enumerate().map(panel).collect::<Vec<Value>>(),
    });
    let text = serde_json::to_string_pretty(&dashboard).expect("JSON") + "\n";
    super::compare("deploy/grafana.json", &text);
}

#[test]
fn alerts_and_panels_name_metrics_that_are_there() {
    let alerts = ALERTS.iter().map(|alert| (alert.name, alert.expression));
    let panels = PANELS.iter().flat_map(|panel| panel.targets.iter().map(|target| (panel.title, target.0)));
    for (title, expression) in alerts.chain(panels) {
        let wrong = super::metrics::unknown_names(expression);
        assert!(wrong.is_empty(), "{title}: {wrong:?}");
    }
    assert_eq!(super::metrics::unknown_names("rate(switchyard_calls[5m])"), ["switchyard_calls"]);
}
