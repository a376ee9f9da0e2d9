//! A fresh checkout, served with the configuration file that it contains.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::rmcp_peer::{self, Era};
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry};

fn handbook() -> Registry {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let docs = format!("handbook: {{path: {}}}", docs.display());
    let lines = ["transport: builtin".to_owned(), "builtin: handbook".to_owned(), docs];
    Registry::new().server("handbook", &lines)
}

fn has_hits(result: &Value) -> bool {
    result.to_string().contains("breaker")
}

#[tokio::test]
async fn the_handbook_answers_on_every_way_in() {
    let question = json!({"query": "circuit breaker"});
    let gateway = Gateway::of(&handbook()).start().await;
    gateway.offers(&["search_handbook"]).await;
    let rest =
        gateway.post("/call", &json!({"tool": "search_handbook", "arguments": question}).to_string()).await;
    assert!(rest.status == 200 && has_hits(&rest.json()["data"]), "{rest:?}");
    let modern = gateway.mcp().call("search_handbook", question.clone()).await;
    assert!(has_hits(&modern.result()), "{modern:?}");
    let session = gateway.mcp().legacy().await;
    assert_eq!(session.server["serverInfo"]["name"], "switchyard", "{}", session.server);
    let legacy = session.call("search_handbook", question.clone()).await;
    assert!(has_hits(&legacy.result()), "{legacy:?}");
    let mut stdio = Gateway::of(&handbook()).start_stdio();
    stdio.initialize();
    let answer = stdio.request("tools/call", &json!({"name": "search_handbook", "arguments": question}));
    assert!(has_hits(&answer["result"]), "{answer}");
    let client = rmcp_peer::http_client(&gateway.url("/mcp/handbook"), Era::Modern).await;
    assert!(rmcp_peer::call(&client, "ping", &json!({})).await.contains("pong"));
}

/// `transport: both`: one process and one set of servers, with two channels for clients.
#[tokio::test]
async fn a_pipe_and_http_are_served_by_one_process_and_the_end_of_the_pipe_ends_nobody_else() {
    let question = json!({"query": "circuit breaker"});
    let yaml = |transport: &str| format!("{}server:\n  transport: {transport}\n", handbook().yaml());
    let mut piped = Gateway::with_config(&yaml("both")).start_piped_and_listening();
    let address = piped.address().await;
    let http = Client::at(&format!("http://{address}/mcp"));
    assert_eq!(piped.initialize()["serverInfo"]["name"], "switchyard");
    let asked = json!({"name": "search_handbook", "arguments": question});
    assert!(has_hits(&piped.request("tools/call", &asked)["result"]));
    assert!(has_hits(&http.call("search_handbook", question.clone()).await.result()));
    piped.close_input();
    assert!(has_hits(&http.call("search_handbook", question).await.result()), "others are served");
    assert!(!piped.has_ended());
    assert!(piped.stop().await.success());
    // `stdio` alone is the same as `switchyard stdio`, and ends with its input.
    let alone = Gateway::with_config(&yaml("stdio")).env("SWITCHYARD_LISTEN", "127.0.0.1:0");
    let mut alone = alone.start_piped();
    alone.initialize();
    assert!(has_hits(&alone.request("tools/call", &asked)["result"]));
    let (rest, status) = alone.finish();
    assert!(rest.is_empty() && status.success(), "{rest:?} {status}");
}

#[test]
fn an_address_on_the_command_line_of_a_pipe_stops_the_start() {
    let yaml = format!("{}server:\n  transport: stdio\n  listen: 127.0.0.1:9\n", handbook().yaml());
    let gateway = Gateway::with_config(&yaml);
    for command in [&["serve"][..], &[]] {
        let refused = gateway.output(&[command, &["--listen", "127.0.0.1:0"]].concat());
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert_eq!(
            text,
            "--listen 127.0.0.1:0 asks for an address, and `server.transport: stdio` in mcp_servers.yaml opens \
             none: leave --listen out, or write `transport: both` (or `http`) there\n"
        );
    }
    assert!(gateway.output(&["serve"]).status.success(), "the one in the file waits for another transport");
}

#[tokio::test]
async fn the_example_file_serves_in_a_second_and_is_valid() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp_servers.yaml");
    let text = std::fs::read_to_string(example).expect("the example file");
    let docs = format!("path: {}", Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").display());
    let gateway = Gateway::with_config(&text.replace("path: docs", &docs));
    let check = gateway.output(&["check"]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    let began = Instant::now();
    let gateway = gateway.start().await;
    gateway.offers(&["search_handbook"]).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn health_and_the_api_document_are_served() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    for path in ["/", "/health", "/health/live", "/health/ready", "/openapi.json", "/docs"] {
        let answer = gateway.mcp().to(&gateway.url(path)).bare(http::Method::GET, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    let servers = gateway.get("/servers").await.json();
    let one = &servers["servers"][0];
    assert_eq!(one["name"], "one", "{servers}");
    assert_eq!((&one["protocol_version"], &one["tool_count"]), (&json!("2026-07-28"), &json!(1)));
    let tools = gateway.get("/servers/one/tools").await.json();
    assert_eq!(tools["tools"][0]["name"], "a", "{tools}");
    assert_eq!(gateway.post("/servers/one/reconnect", "").await.status, 200);
    gateway.offers(&["a"]).await;
    assert!(server.seen_calling("server/discover").len() >= 2, "rebuilt");
}

#[tokio::test]
async fn a_file_that_is_wrong_stops_the_start_and_shows_no_secret() {
    let registry = Registry::new()
        .http("one", "http://127.0.0.1:1/mcp")
        .with("headers: {Authorization: \"${SOME_TOKEN} ${NOT_SET}\"}")
        .with("tiemout: 3")
        .setting("server: {header_tiemout: 3}");
    let gateway = Gateway::of(&registry).env("SOME_TOKEN", "a-very-secret-value");
    let start = ["--config", "mcp_servers.yaml", "--listen", "127.0.0.1:0"];
    for arguments in [&["check", "mcp_servers.yaml"][..], &start] {
        let output = gateway.output(arguments);
        assert_eq!(output.status.code(), Some(2));
        let printed =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        for part in ["mcp_servers.yaml", "tiemout", "header_tiemout", "NOT_SET"] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        assert!(!printed.contains("a-very-secret-value"), "{printed}");
    }
}

// RULES S17
/// The client's own headers and the environment of Switchyard do not reach any server.
#[tokio::test]
async fn servers_are_told_nothing_that_is_not_theirs() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("environment");
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let print = format!("env > {}; exec sleep 60", record.display());
    let registry = Registry::new()
        .http("one", &server.url())
        .with("headers: {X-Own: \"${OWN}\"}")
        .command("two", "sh", &["-c", &print])
        .with("env: {GIVEN: yes-please}");
    let gateway =
        Gateway::of(&registry).env("OWN", "mine").env("CANARY", "canary-of-the-environment").start().await;
    gateway.offers(&["a"]).await;
    let canary = "canary-of-the-client";
    let names: Vec<&str> = "authorization proxy-authorization proxy-authenticate cookie cookie2 set-cookie x-api-key api-key apikey x-auth-token \
        x-access-token x-csrf-token x-xsrf-token x-amz-security-token x-amz-date x-goog-api-key x-goog-iam-authorization-token \
        x-ms-token-aad-access-token x-ms-client-principal x-functions-key x-vault-token x-gitlab-token private-token \
        job-token x-github-token x-hub-signature x-slack-signature x-stripe-signature dpop signature signature-input \
        forwarded x-forwarded-for x-forwarded-host x-forwarded-user x-forwarded-email x-forwarded-access-token \
        x-forwarded-client-cert x-real-ip x-client-ip true-client-ip cf-connecting-ip x-remote-user remote-user x-user-id \
        x-tenant-id x-original-url x-rewrite-url x-http-method-override via referer from user-agent accept-language \
        x-request-id x-correlation-id x-b3-traceid mcp-session-id last-event-id x-canary if-none-match"
        .split(' ')
        .collect();
    assert!(names.len() >= 60, "{}", names.len());
    let client = names.iter().fold(gateway.mcp(), |client, name| client.with_header(name, canary));
    client.call("a", json!({})).await;
    gateway.mcp().call("a", json!({})).await;
    assert!(server.runs("a") >= 1);
    for seen in server.seen() {
        let text = format!("{:?} {}", seen.headers, seen.body);
        assert!(!text.contains("canary"), "{text}");
        assert_eq!(seen.header("x-own"), Some("mine"));
    }
    let environment = crate::support::eventually("the child has started", async || {
        std::fs::read_to_string(&record).ok().filter(|text| text.contains("GIVEN=yes-please"))
    })
    .await;
    assert!(!environment.contains("canary"), "{environment}");
}
