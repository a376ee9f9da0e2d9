//! Tests of the router: each route as the document describes it, roles, and the document itself.

use std::time::{Duration, UNIX_EPOCH};

use axum::http::{Method, Request};
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::fixture::{Dial, Gateway, request, server, server_with_tools};
use super::*;
use auth::Role;
use upstream::config::{Http, Transport};

/// Three servers: `docs` is up, `away` refuses connections, `off` is disabled.
async fn three() -> Gateway {
    let tools =
        r#"[{"x":1.0000000000000000001,"name":"find", "inputSchema":{"type":"object"}},{"name":"ping"}]"#;
    let (mut docs, up) = server_with_tools("docs", tools);
    let url = "https://user:s3cret@docs.example.org/mcp?key=s3cret";
    let http = Http::at(url.parse().expect("a URL"));
    (docs.transport, docs.target) = (Transport::Http(http), "https://docs.example.org/mcp".into());
    docs.description = Some("the documents".into());
    let away = server("away");
    away.1.dial(Dial::Refuse);
    let mut off = server("off");
    off.0.enabled = false;
    Gateway::of(vec![(docs, up), away, off]).await
}

#[tokio::test(start_paused = true)]
async fn servers_are_listed_with_their_state_and_without_secrets() {
    let answered = three().await.get("/api/v1/mcp/servers").await;
    assert!(!answered.text().contains("s3cret"));
    let servers = answered.json()["servers"].clone();
    let named = |name: &str| -> Value {
        let mut found = servers.as_array().expect("a list").iter().filter(|server| server["name"] == name);
        found.next().expect(name).clone()
    };
    let docs = named("docs");
    for (member, expected) in [
        ("transport", json!("http")),
        ("url", json!("https://docs.example.org/mcp")),
        ("enabled", json!(true)),
        ("state", json!("ready")),
        ("breaker", json!("closed")),
        ("tool_count", json!(2)),
        ("resource_count", json!(1)),
        ("template_count", json!(0)),
        ("prompt_count", json!(3)),
        ("protocol_version", json!("2025-11-25")),
        ("description", json!("the documents")),
        ("last_error", json!(null)),
        ("connections", json!(1)),
        (
            "counters",
            json!({"calls": 0, "failures": 0, "rpc_errors": 0, "tool_errors": 0, "refusals": 0, "retries": 0}),
        ),
    ] {
        assert_eq!(docs[member], expected, "{member}");
    }
    let away = named("away");
    assert_eq!((&away["state"], &away["protocol_version"]), (&json!("failed"), &json!(null)));
    assert_eq!(away["last_error"], "connection refused");
    assert_eq!((&named("off")["state"], &named("off")["enabled"]), (&json!("disabled"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn one_server_is_what_stands_in_the_list() {
    let gateway = three().await;
    let listed = gateway.get("/api/v1/mcp/servers").await.json()["servers"].clone();
    for (index, name) in ["docs", "away", "off"].into_iter().enumerate() {
        let one = gateway.get(&format!("/api/v1/mcp/servers/{name}")).await.json();
        assert_eq!((&one["name"], &one["server"]), (&name.into(), &name.into()));
        for member in ["name", "state", "tool_count", "last_error", "enabled"] {
            assert_eq!(one[member], listed[index][member], "{name}: {member}");
        }
    }
    let answered = gateway.get("/api/v1/mcp/servers/dosc").await;
    assert_eq!(answered.problem(), (404, "server_not_found".into()));
    assert_eq!(answered.json()["nearest"][0], "docs");
}

#[tokio::test(start_paused = true)]
async fn tools_are_listed_with_their_definitions_byte_for_byte() {
    let gateway = three().await;
    for path in ["/api/v1/mcp/tools", "/api/v1/mcp/servers/docs/tools"] {
        let answered = gateway.get(path).await;
        let find = r#"{"name":"find","server":"docs","tool":"find","definition":{"x":1.0000000000000000001,"name":"find", "inputSchema":{"type":"object"}},"sha256":""#;
        assert!(answered.text().contains(find), "{}", answered.text());
        assert_eq!(answered.json()["tools"].as_array().expect("a list").len(), 2);
    }
    let answered = gateway.get("/api/v1/mcp/servers/away/tools").await;
    assert_eq!(answered.json(), json!({"tools": []}));
    let answered = gateway.get("/api/v1/mcp/servers/dosc/tools").await;
    assert_eq!(answered.problem(), (404, "server_not_found".into()));
    assert_eq!(answered.json()["nearest"][0], "docs");
    assert_eq!(gateway.get("/api/v1/mcp/servers/%ff/tools").await.problem(), (400, "invalid_request".into()));
}

#[tokio::test(start_paused = true)]
async fn on_a_clash_the_exposed_names_carry_the_server() {
    let gateway = Gateway::of(vec![server("one"), server("two")]).await;
    let tools = gateway.get("/api/v1/mcp/tools").await.json()["tools"].clone();
    assert_eq!(tools[1]["name"], "two__echo");
    assert_eq!((&tools[1]["server"], &tools[1]["tool"]), (&json!("two"), &json!("echo")));
    assert_eq!(tools[1]["definition"]["name"], "two__echo");
}

#[tokio::test(start_paused = true)]
async fn health_tells_which_server_is_ill_and_why() {
    let health = three().await.get("/api/v1/mcp/health").await.json();
    assert_eq!(health["status"], "degraded", "a disabled server does not count");
    let [docs, away, off] = [0, 1, 2].map(|index| health["servers"][index].clone());
    assert_eq!((&docs["healthy"], &docs["state"]), (&json!(true), &json!("ready")));
    let seen = docs["last_seen"].as_str().expect("a date");
    assert!(seen.len() == 24 && seen.starts_with("20") && seen.ends_with('Z'), "{seen}");
    assert_eq!((&away["healthy"], &away["last_error"]), (&json!(false), &json!("connection refused")));
    assert!(away["last_seen"].is_null() && away["last_error_at"].is_string());
    assert_eq!((&off["healthy"], &off["enabled"]), (&json!(false), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn past_instant_is_reported_as_a_date() {
    let mut docs = Gateway::of(vec![server("docs")]).await.manager.server("docs").expect("it is there");
    docs.status.seen_ago = Some(Duration::from_hours(1));
    (docs.status.last_error, docs.status.last_error_ago) =
        (Some("gone".into()), Some(Duration::from_hours(2)));
    docs.status.latency = Some(Duration::from_micros(1500));
    let shown = view::ServerHealth::of(
        &gateway::manager::ServerEntry::Server(Box::new(docs)),
        UNIX_EPOCH + Duration::from_hours(25),
    );
    let shown = serde_json::to_value(shown).expect("JSON");
    assert_eq!(shown["last_seen"], "1970-01-02T00:00:00.000Z");
    assert_eq!(shown["last_error_at"], "1970-01-01T23:00:00.000Z");
    assert_eq!(shown["latency_ms"], 1.5);
}

#[tokio::test(start_paused = true)]
async fn the_overall_status_is_about_those_that_are_in_use() {
    let away = || {
        let away = server("away");
        away.1.dial(Dial::Refuse);
        away
    };
    for (servers, expected) in [
        (vec![], "healthy"),
        (vec![server("up")], "healthy"),
        (vec![server("up"), away()], "degraded"),
        (vec![away()], "unhealthy"),
    ] {
        let gateway = Gateway::of(servers).await;
        assert_eq!(gateway.get("/api/v1/mcp/health").await.json()["status"], expected);
        assert_eq!(gateway.get("/health").await.json()["status"], expected);
        let line = gateway.ask(request(Method::GET, "/", None, "")).await;
        let text = format!("switchyard {}: {expected}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!((line.status.as_u16(), line.text()), (200, text.as_str()));
        assert_eq!(line.header("content-type"), "text/plain; charset=utf-8");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_reconnected_and_discovered_again() {
    let (config, fake) = server("docs");
    let gateway = Gateway::of(vec![(config, fake.clone())]).await;
    fake.tools(&["echo", "fresh"]);
    let answered = gateway.post("/api/v1/mcp/servers/docs/reconnect", "").await;
    assert_eq!((answered.status.as_u16(), fake.connects()), (200, 2));
    assert_eq!(answered.json()["state"], "ready");
    fake.dial(Dial::Refuse);
    let answered = gateway.post("/api/v1/mcp/servers/docs/reconnect", "").await;
    assert_eq!(answered.problem(), (502, "connection_failed".into()));
    let answered = gateway.post("/api/v1/mcp/servers/nobody/reconnect", "").await;
    assert_eq!(answered.problem(), (404, "server_not_found".into()));
}

#[tokio::test(start_paused = true)]
async fn a_disabled_server_is_not_reconnected() {
    let answered = three().await.post("/api/v1/mcp/servers/off/reconnect", "").await;
    assert_eq!(answered.problem(), (503, "server_unavailable".into()));
}

#[tokio::test(start_paused = true)]
async fn without_a_registry_file_there_is_nothing_to_reload() {
    let router = router(three().await.manager.clone(), Options::default());
    let request_to_send = request(Method::POST, "/api/v1/mcp/reload", Some(Role::Superuser), "");
    let answered = router.oneshot(request_to_send).await.expect("infallible");
    assert_eq!(answered.status(), 404);
}

#[tokio::test(start_paused = true)]
async fn every_route_lets_in_whom_its_row_names() {
    let gateway = three().await.with_grants().await;
    let call = r#"{"server":"docs","tool":"ping"}"#;
    let rows = [
        (Method::GET, "/api/v1/mcp/servers", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/servers/docs", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/servers/docs/tools", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/tools", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/tools/find", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/resources", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/resources/templates", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/prompts", "", Some(Role::Reader)),
        (Method::POST, "/api/v1/mcp/resources/read", r#"{"uri":"memo:a"}"#, Some(Role::Caller)),
        (Method::POST, "/api/v1/mcp/prompts/a", "{}", Some(Role::Caller)),
        (Method::POST, "/api/v1/mcp/call/none/answer", r#"{"id":1,"result":{}}"#, Some(Role::Caller)),
        (Method::GET, "/api/v1/mcp/health", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/circuit-breakers", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/events?follow=false", "", Some(Role::Reader)),
        (Method::GET, "/api/v1/mcp/history", "", Some(Role::Reader)),
        (Method::POST, "/api/v1/mcp/call", call, Some(Role::Caller)),
        (Method::POST, "/api/v1/mcp/circuit-breakers/docs/reset", "", Some(Role::Superuser)),
        (Method::POST, "/api/v1/mcp/servers/docs/reconnect", "", Some(Role::Superuser)),
        (Method::POST, "/api/v1/mcp/servers/docs/disable", "", Some(Role::Superuser)),
        (Method::POST, "/api/v1/mcp/servers/docs/enable", "", Some(Role::Superuser)),
        (Method::POST, "/api/v1/mcp/servers/docs/forget", "", Some(Role::Superuser)),
        (Method::POST, "/api/v1/mcp/servers/docs/tools/approve?current=true", "", Some(Role::Superuser)),
        (Method::POST, "/api/v1/mcp/servers/docs/login", "", Some(Role::Caller)),
        (Method::GET, "/api/v1/mcp/servers/docs/login", "", Some(Role::Caller)),
        (Method::DELETE, "/api/v1/mcp/servers/docs/login", "", Some(Role::Caller)),
        (Method::GET, "/api/v1/mcp/logins", "", Some(Role::Caller)),
        (Method::GET, "/api/v1/mcp/secrets", "", Some(Role::Caller)),
        (Method::PUT, "/api/v1/mcp/secrets/KEY?principal=key:x", r#"{"value":"v"}"#, Some(Role::Superuser)),
        (Method::DELETE, "/api/v1/mcp/secrets/KEY?principal=key:x", "", Some(Role::Superuser)),
        (Method::POST, "/api/v1/mcp/reload", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/configuration", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/why?tool=find", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/views", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/views/support", "", Some(Role::Superuser)),
        (
            Method::PUT,
            "/api/v1/mcp/servers/new",
            r#"{"url":"https://a.example.org/mcp"}"#,
            Some(Role::Superuser),
        ),
        (Method::PATCH, "/api/v1/mcp/servers/docs?dry_run=true", "{}", Some(Role::Superuser)),
        (Method::DELETE, "/api/v1/mcp/servers/docs?dry_run=true", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/servers/docs/stderr", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/keys", "", Some(Role::Superuser)),
        (Method::PUT, "/api/v1/mcp/keys/new", r#"{"role":"reader"}"#, Some(Role::Superuser)),
        (Method::DELETE, "/api/v1/mcp/keys/new", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/grants", "", Some(Role::Reader)),
        (Method::DELETE, "/api/v1/mcp/grants/none", "", Some(Role::Reader)),
        (Method::DELETE, "/api/v1/mcp/grants?principal=key:x", "", Some(Role::Superuser)),
        (Method::GET, "/api/v1/mcp/clients", "", Some(Role::Superuser)),
        (Method::DELETE, "/api/v1/mcp/clients?client=none", "", Some(Role::Superuser)),
        (Method::GET, "/", "", None),
        (Method::GET, "/health", "", None),
        (Method::GET, "/health/live", "", None),
        (Method::GET, "/health/ready", "", None),
        (Method::GET, "/metrics", "", Some(Role::Reader)),
    ];
    assert_eq!(rows.len(), gateway.operations().len(), "every described route has a row");
    for (method, path, body, needed) in rows {
        for role in [None, Some(Role::Reader), Some(Role::Caller), Some(Role::Superuser)] {
            let answered = gateway.ask(request(method.clone(), path, role, body)).await;
            let strength = |role| Role::ALL.iter().position(|one| *one == role);
            let expected = match (needed, role) {
                (Some(_), None) => 401,
                (Some(needed), Some(role)) if strength(role) < strength(needed) => 403,
                _ if path.contains("none") => 404,
                _ => 200,
            };
            assert_eq!(answered.status, expected, "{method} {path} as {role:?}: {}", answered.text());
            let suggested = format!("use a credential with the role {}", needed.unwrap_or(Role::Reader));
            // A reader is refused its own first, which needs less.
            let is_of_others = path.contains("principal=");
            let is_advised = || is_of_others || answered.json()["hint"] == *suggested;
            assert!(expected != 403 || is_advised(), "{}", answered.text());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_servers_and_metrics_are_not_sent_again() {
    let gateway = three().await;
    for (path, is_changed_by_call) in [
        ("/api/v1/mcp/servers", true),
        ("/metrics?name[]=switchyard_server_calls_total", true),
        ("/metrics?name[]=switchyard_server_tools&name[]=switchyard_build_info", false),
    ] {
        let ask = async |tag: &str| {
            let mut request = request(Method::GET, path, Some(Role::Reader), "");
            request.headers_mut().insert("if-none-match", tag.parse().expect("a value"));
            let answer = gateway.open(request).await;
            let tag = answer.headers()["etag"].to_str().expect("text").to_owned();
            (answer.status().as_u16(), tag)
        };
        let (status, tag) = ask("\"none\"").await;
        assert!(status == 200 && tag.starts_with("W/\""), "{path}: {tag}");
        assert_eq!(ask(&tag).await, (304, tag.clone()), "{path}");
        gateway.call(r#"{"server":"docs","tool":"ping"}"#).await;
        // At the same instant of the paused clock, the text of the metrics would be that of before the call.
        tokio::time::advance(Duration::from_millis(1)).await;
        let (status, now) = ask(&tag).await;
        assert_eq!((status == 200, now != tag), (is_changed_by_call, is_changed_by_call), "{path}");
    }
    let part = gateway.get("/metrics?name[]=switchyard_server_tools&other=1").await;
    let samples = part.text().lines().filter(|line| !line.starts_with('#'));
    assert!(
        samples.clone().count() == 3
            && samples.clone().all(|line| line.starts_with("switchyard_server_tools{"))
    );
}

#[tokio::test(start_paused = true)]
async fn counters_are_reported_to_prometheus() {
    let gateway = three().await;
    gateway.call(r#"{"server":"docs","tool":"ping"}"#).await;
    gateway.manager.store().record("handbook", true);
    let answered = gateway.get("/metrics").await;
    for line in [
        "switchyard_server_calls_total{server=\"docs\"} 1",
        "switchyard_server_calls_total{server=\"away\"} 0",
        "switchyard_server_healthy{server=\"docs\"} 1",
        "switchyard_server_healthy{server=\"away\"} 0",
        "switchyard_server_state{server=\"off\",state=\"disabled\"} 1",
        "switchyard_server_state{server=\"off\",state=\"ready\"} 0",
        "switchyard_server_breaker_state{server=\"docs\",state=\"open\"} 0",
        "switchyard_server_call_duration_seconds_count{server=\"docs\",outcome=\"result\"} 1",
        "switchyard_server_call_duration_seconds_count{server=\"docs\",outcome=\"failed\"} 0",
        "switchyard_server_tools{server=\"docs\"} 2",
        "switchyard_cache_hits_total{area=\"handbook\"} 1",
        "switchyard_cache_available 1",
    ] {
        assert!(answered.text().lines().any(|found| found == line), "{line} is not in\n{}", answered.text());
    }
}

#[tokio::test(start_paused = true)]
async fn health_in_short_names_servers_to_readers_only() {
    let gateway = three().await;
    let reader = gateway.get("/health").await.json();
    assert_eq!(reader["servers"][1], json!({"name": "away", "server": "away", "state": "failed"}));
    let stranger = gateway.ask(request(Method::GET, "/health", None, "")).await.json();
    assert_eq!(stranger, json!({"status": "degraded", "version": env!("CARGO_PKG_VERSION")}));
}

#[tokio::test(start_paused = true)]
async fn ready_from_the_first_attempts_until_the_drain() {
    let slow = server("slow");
    slow.1.dial(Dial::Hang);
    let gateway = Gateway::starting(vec![server("docs"), slow]);
    let starting = gateway.get("/health/ready").await;
    assert_eq!((starting.status.as_u16(), starting.json()), (503, json!({"status": "starting"})));
    assert_eq!(gateway.get("/health/live").await.json(), json!({"status": "alive"}));
    tokio::time::sleep(Duration::from_millis(9_900)).await;
    assert_eq!(gateway.get("/health/ready").await.status, 503);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(gateway.get("/health/ready").await.json(), json!({"status": "ready"}), "whatever hangs");
    gateway.manager.settled(&gateway::manager::Scope::ALL, Duration::from_mins(5)).await;
    assert_eq!(gateway.get("/health/ready").await.json(), json!({"status": "ready"}));
    gateway.drain.begin();
    let draining = gateway.get("/health/ready").await;
    assert_eq!((draining.status.as_u16(), draining.json()), (503, json!({"status": "draining"})));
    assert_eq!(gateway.get("/health/live").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn unknown_path_is_a_problem_document_too() {
    let gateway = three().await;
    for path in ["/api/v1/mcp", "/api/v1/mcp/", "/api/v1/mcp/nothing", "/docs/nothing.js"] {
        assert_eq!(gateway.get(path).await.problem(), (404, "not_found".into()), "{path}");
    }
    for (method, path, allow) in [
        (Method::DELETE, "/api/v1/mcp/servers", "GET,HEAD"),
        (Method::GET, "/api/v1/mcp/call", "POST"),
        (Method::POST, "/health/live", "GET,HEAD"),
        (Method::PUT, "/openapi.json", "GET,HEAD"),
    ] {
        for role in [None, Some(Role::Reader)] {
            let answered = gateway.ask(request(method.clone(), path, role, "")).await;
            assert_eq!(answered.problem(), (405, "method_not_allowed".into()), "{method} {path}");
            assert_eq!(answered.header("allow"), allow, "{method} {path}");
        }
    }
}

#[test]
fn no_name_in_a_path_is_our_fault() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let gateway = runtime.block_on(Gateway::of(vec![server("docs")]));
    proptest!(ProptestConfig::with_cases(256), |(name in prop::collection::vec(any::<u8>(), 1..40))| {
        let name = percent_encoding::percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
        for (method, path) in [
            (Method::GET, format!("/api/v1/mcp/servers/{name}/tools")),
            (Method::POST, format!("/api/v1/mcp/servers/{name}/reconnect")),
            (Method::POST, format!("/api/v1/mcp/servers/{name}/tools/approve")),
            (Method::POST, format!("/api/v1/mcp/circuit-breakers/{name}/reset")),
        ] {
            let answered = runtime.block_on(gateway.ask(request(method, &path, Some(Role::Superuser), "")));
            prop_assert!(matches!(answered.status.as_u16(), 400 | 404), "{path}: {}", answered.status);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn the_page_works_without_the_internet() {
    let gateway = Gateway::of(vec![]).await;
    let moved = gateway.get("/docs").await;
    assert_eq!((moved.status.as_u16(), moved.header("location")), (308, "docs/"));
    let page = gateway.get("/docs/").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html"));
    assert!(!page.text().contains("http"), "nothing comes from elsewhere");
    assert!(page.header("content-security-policy").starts_with("default-src 'self'"));
    let start = gateway.get("/docs/swagger-initializer.js").await;
    assert!(
        start.text().contains("\"../openapi.json\"") && start.text().contains("\"validatorUrl\": \"none\"")
    );
    for file in ["swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-standalone-preset.js"] {
        assert!(gateway.get(&format!("/docs/{file}")).await.body.len() > 10_000, "{file}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_router_can_be_mounted_below_a_path() {
    let manager = Gateway::of(vec![server("docs")]).await.manager;
    let host = axum::Router::new().nest("/gateway", router(manager, Options::default()));
    let request = Request::get("/gateway/health").body(axum::body::Body::empty()).expect("a request");
    let answer = tower::ServiceExt::oneshot(host, request).await.expect("infallible");
    assert_eq!(answer.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_document_is_the_committed_one() {
    let served = Gateway::of(vec![]).await.get("/openapi.json").await;
    assert_eq!(served.header("content-type"), "application/json");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi/switchyard.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &served.body).expect("the file is written");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == served.text(), "openapi/switchyard.json is not the API's: run with UPDATE_GOLDEN=1");
}

#[test]
fn the_document_refers_to_nothing_that_is_missing() {
    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document = serde_json::to_value(operations::described()).expect("JSON");
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
}
