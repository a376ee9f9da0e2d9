//! A person logs in to a server: by the command, the REST API and a browser, through a login service of the test.

use std::process::{Output, Stdio};

use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use std::collections::HashMap;
use testkit::served::Served;
use url::Url;

use crate::support::browser::{Browser, Page};
use crate::support::gateway::Running;
use crate::support::{Gateway, Registry, api_keys, eventually};

const KEY: &str = "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef";
const TOKEN: &str = "canary-of-the-token";

/// An MCP server of the legacy era and its login service, at one origin.
fn protected() -> Served {
    let routes = Router::new()
        .route("/mcp", post(mcp))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/register", post(async || (StatusCode::CREATED, axum::Json(json!({"client_id": "c1"})))))
        .route("/authorize", get(authorize))
        .route("/token", post(token));
    let origin = std::sync::Arc::new(std::sync::OnceLock::new());
    let served = Served::start(routes.with_state(std::sync::Arc::clone(&origin)));
    origin.set(served.url()).expect("set once");
    served
}

type Origin = State<std::sync::Arc<std::sync::OnceLock<String>>>;

fn base(origin: &Origin) -> &str {
    origin.0.get().expect("it was set")
}

async fn resource(origin: Origin) -> axum::Json<Value> {
    let base = base(&origin);
    axum::Json(json!({"resource": format!("{base}/mcp"), "authorization_servers": [base],
        "scopes_supported": ["read"]}))
}

async fn metadata(origin: Origin) -> axum::Json<Value> {
    let base = base(&origin);
    axum::Json(json!({"issuer": base, "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true}))
}

/// The person agrees at once.
async fn authorize(origin: Origin, Query(query): Query<HashMap<String, String>>) -> Redirect {
    assert_eq!(query["code_challenge_method"], "S256");
    let mut back = Url::parse(&query["redirect_uri"]).expect("a URL");
    let answer = [("code", "the-code"), ("state", &query["state"]), ("iss", base(&origin))];
    back.query_pairs_mut().extend_pairs(answer);
    Redirect::to(back.as_str())
}

async fn token(body: String) -> axum::Json<Value> {
    let form: HashMap<_, _> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    assert_eq!((form["code"].as_str(), form["code_verifier"].len()), ("the-code", 43));
    axum::Json(json!({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, "scope": "read"}))
}

async fn mcp(origin: Origin, headers: HeaderMap, axum::Json(message): axum::Json<Value>) -> Response {
    if headers.get(AUTHORIZATION).is_none_or(|sent| sent != format!("Bearer {TOKEN}").as_str()) {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", base(&origin));
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
        return (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"}}),
        Some("tools/list") => json!({"tools": [{"name": "remember", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => json!({"content": [{"type": "text", "text": "noted"}]}),
        Some("ping") => json!({}),
        _ if message["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
                .into_response();
        }
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

/// Signs in, agrees, and goes to the login service and back. Returns the last page.
async fn log_in(browser: &Browser, link: &str) -> Page {
    let form = browser.get(link).await;
    let signed_in = browser.send(&form, &[("credential", KEY)]).await;
    assert_eq!(signed_in.status, 303, "{signed_in:?}");
    let consent = browser.get(link).await;
    assert_eq!(consent.status, 200, "{consent:?}");
    let agreed = browser.send(&consent, &[]).await;
    assert_eq!(agreed.status, 303, "{agreed:?}");
    browser.open(agreed.target.expect("the login service").as_str()).await
}

fn gateway(server: &Served) -> Gateway {
    let registry = Registry::new().http("notes", &format!("{}/mcp", server.url())).with("auth: oauth");
    let plain = registry.http("plain", &format!("{}/plain", server.url()));
    Gateway::of(&plain.setting(&format!("server: {{{}}}", api_keys(&[(KEY, "role: superuser")]))))
}

/// Runs a command against the running gateway.
fn command(gateway: &Running, key: &str, arguments: &[&str]) -> std::process::Command {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_switchyard"));
    program.args(arguments).env_clear().env("SWITCHYARD_URL", gateway.url("")).env("SWITCHYARD_KEY", key);
    program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

fn ended(output: Output) -> (Option<i32>, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("UTF-8"))
}

async fn run(gateway: &Running, key: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = command(gateway, key, arguments);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    ended(output.await.expect("it is waited for"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_logs_in_by_the_command_and_calls_a_tool() {
    let server = protected();
    let gateway = gateway(&server).start().await;
    let client = gateway.mcp().with_header("authorization", &format!("Bearer {KEY}"));
    let rest = client.to(&gateway.url("/api/v1/mcp/servers/notes/login"));
    let state = async || rest.bare(http::Method::GET, &[]).await.json()["state"].clone();
    eventually("a login is required", async || (state().await == "login_required").then_some(())).await;

    let mut login = command(&gateway, KEY, &["login", "notes", "--no-browser"]);
    let mut child = login.spawn().expect("it runs");
    let out = child.stdout.take().expect("it is piped");
    let (link, out) = tokio::task::spawn_blocking(move || {
        let mut out = std::io::BufReader::new(out);
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).expect("a link");
        (line.trim().to_owned(), out)
    })
    .await
    .expect("it ends");
    let page = log_in(&Browser::new(), &link).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text.contains("<h1>Logged in to notes</h1>") && !page.text.contains(TOKEN), "{page:?}");
    let (told, status) = tokio::task::spawn_blocking(move || {
        let told = std::io::read_to_string(out).expect("text");
        (told, child.wait().expect("it ends"))
    })
    .await
    .expect("it ends");
    assert!(status.success() && told.contains("logged in to notes as"), "{told}");
    assert!(told.contains("scopes: read; used by everybody here"), "{told}");

    gateway.offers_to("remember", &format!("Bearer {KEY}")).await;
    let answer = client.modern("tools/call", json!({"name": "remember", "arguments": {}})).await;
    assert_eq!(answer.text(), "noted");
    let (code, told) = run(&gateway, KEY, &["logout", "notes"]).await;
    assert_eq!((code, told.as_str()), (Some(0), "logged out of notes\n"));
    assert_eq!(state().await, "login_required");
    for action in ["log_in_for_all", "log_out_for_all"] {
        gateway.logs(action, |line| line["action"] == action && line["outcome"] == "done").await;
    }
    let log = gateway.log();
    assert!(!format!("{log:?}").contains(TOKEN) && !format!("{log:?}").contains(KEY));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_tell_why_nobody_can_log_in() {
    let server = protected();
    let gateway = gateway(&server).start().await;
    for (key, arguments, code, text) in [
        ("swy_ann_0", &["login", "notes"][..], 4, "SWITCHYARD_KEY"),
        (KEY, &["login", "plain"], 1, "no `auth: oauth`"),
        (KEY, &["logout", "nots"], 1, "notes"),
        (KEY, &["login", "notes", "--url", "http://127.0.0.1:1"], 3, "is it running?"),
    ] {
        let (found, told) = run(&gateway, key, arguments).await;
        assert_eq!(found, Some(code), "{arguments:?}: {told}");
        assert!(told.contains(text) && !told.contains(KEY), "{arguments:?}: {told}");
    }
    let stranger = Browser::new().get(&gateway.url("/oauth/callback?code=a&state=b")).await;
    assert_eq!(stranger.status, 403, "{stranger:?}");
}
