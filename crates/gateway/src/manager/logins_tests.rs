//! Logins to a server over HTTP, whose login service is at the same origin: calls that wait, and the time after a login
//! has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};
use testkit::served::Served;
use tokio::time::{advance, timeout};

use super::super::config::Config;
use super::*;
use json::Raw;
use runtime::shutdown::Shutdown;
use settings::{Node, Problems, Setting};

const TOKEN: &str = "token-of-the-test";

/// The server `notes` with the tool `remember`, which demands the token of a login.
struct Protected {
    served: Served,
    state: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    is_revoked: bool,
    /// Each request: its path, and the grant or the method.
    seen: Vec<String>,
}

impl Protected {
    fn start() -> Self {
        let state = Arc::<Mutex<Script>>::default();
        let served = Served::start(Router::new().fallback(serve).with_state(Arc::clone(&state)));
        Self { served, state }
    }

    fn manager(&self) -> Arc<Manager> {
        let url = format!("{}/mcp", self.served.url());
        let file = json!({"mcp_servers": {"notes": {"url": url, "auth": "oauth"}}});
        let (file, problems) = (Node::from(file), Problems::default());
        let mut fields = Setting::root(&file, &problems).fields().expect("a mapping");
        let config = Config::read(&mut fields, &[]);
        fields.finish();
        Manager::initialize(config, &Shutdown::new()).expect("a configuration without problems")
    }

    /// The grant is withdrawn: neither the token nor a renewal is accepted.
    fn revoke(&self) {
        self.state.lock().expect("a lock").is_revoked = true;
    }

    fn seen(&self) -> Vec<String> {
        self.state.lock().expect("a lock").seen.clone()
    }

    fn count(&self, request: &str) -> usize {
        self.seen().iter().filter(|seen| *seen == request).count()
    }
}

async fn serve(
    Shared(state): Shared<Arc<Mutex<Script>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut state = state.lock().expect("a lock");
    let base = format!("http://{}", headers[HOST].to_str().expect("a host"));
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let form: HashMap<_, _> = url::form_urlencoded::parse(&body).into_owned().collect();
    let what = message["method"].as_str().or_else(|| form.get("grant_type").map(String::as_str));
    state.seen.push(format!("{} {}", uri.path(), what.unwrap_or_default()));
    let answer = match uri.path() {
        "/.well-known/oauth-protected-resource/mcp" => {
            json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]})
        }
        "/.well-known/oauth-authorization-server" => json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
        }),
        "/register" => return (StatusCode::CREATED, axum::Json(json!({"client_id": "c"}))).into_response(),
        "/token" if state.is_revoked => {
            return (StatusCode::BAD_REQUEST, axum::Json(json!({"error": "invalid_grant"}))).into_response();
        }
        "/token" => {
            json!({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 600, "refresh_token": "to-renew-it"})
        }
        "/mcp"
            if state.is_revoked
                || headers
                    .get(AUTHORIZATION)
                    .is_none_or(|sent| sent != format!("Bearer {TOKEN}").as_str()) =>
        {
            let challenge = [(WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")];
            return (StatusCode::UNAUTHORIZED, challenge).into_response();
        }
        "/mcp" => return answered(&message),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    axum::Json(answer).into_response()
}

fn answered(message: &Value) -> Response {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"}}),
        Some("tools/list") => json!({"tools": [{"name": "remember", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => json!({"content": []}),
        Some("ping") => json!({}),
        _ if message["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => return StatusCode::BAD_REQUEST.into_response(),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

fn ann() -> Principal {
    Principal::new("key:ann", auth::Role::Superuser)
}

/// Waits in steps of real time, whatever the clock of the test shows.
#[allow(clippy::disallowed_methods)] // no other task of this thread runs meanwhile
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        settle().await;
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

/// Lets tasks run that can.
async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

fn state(manager: &Manager) -> State {
    manager.server("notes").expect("it is there").status.state
}

async fn started(manager: &Manager) -> String {
    until("a login is required", || state(manager) == State::LoginRequired).await;
    let callback = "http://127.0.0.1:8000/oauth/callback".parse().expect("a URL");
    let own = OwnClient { redirect_uri: callback, client_metadata_url: None };
    let sealed = Arc::<Mutex<String>>::default();
    let sealed_copy = Arc::clone(&sealed);
    let seal = move |pending: &str| {
        pending.clone_into(&mut sealed_copy.lock().expect("a lock"));
        String::new()
    };
    manager.start("notes", &ann(), &own, Box::new(seal)).await.expect("a login service");
    sealed.lock().expect("a lock").clone()
}

async fn finished(manager: &Manager, pending: &str) {
    let response = CodeResponse { code: "c0de", iss: None };
    manager.finish("notes", &ann(), pending, response).await.expect("a login");
}

async fn called(manager: &Manager) -> Result<(), String> {
    let called = manager.route_tool("remember", &Raw::empty_object(), None).await;
    called.map(drop).map_err(|error| error.to_string())
}

/// Snapshots are built on the one blocking thread of this runtime, which the test holds for a while.
#[test]
fn a_call_that_waited_for_a_login_finds_the_tools() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().expect("a runtime");
    let server = Protected::start();
    runtime.block_on(async {
        let manager = server.manager();
        let pending = started(&manager).await;
        let (release, held) = std::sync::mpsc::channel::<()>();
        let thread = tokio::task::spawn_blocking(move || held.recv());
        finished(&manager, &pending).await;
        until("the server is ready", || state(&manager) == State::Ready).await;
        let ann = ann();
        let mut waiting = Box::pin(manager.logged_in("notes", &ann));
        let soon = timeout(Duration::from_millis(200), waiting.as_mut()).await;
        assert!(soon.is_err(), "its tools are not in the catalog yet");
        release.send(()).expect("it waits");
        let _ = thread.await.expect("it ends");
        waiting.await;
        called(&manager).await.expect("the tool is there");
        assert_eq!(server.count("/mcp initialize"), 2, "once without a token, once with it");
    });
}

#[tokio::test]
#[allow(clippy::disallowed_methods)] // real time, in which a request arrives
async fn a_revoked_grant_costs_one_renewal_and_no_request_in_the_hour_after_it() {
    let server = Protected::start();
    let manager = server.manager();
    let pending = started(&manager).await;
    finished(&manager, &pending).await;
    manager.logged_in("notes", &ann()).await;
    called(&manager).await.expect("a tool");
    // While a blocking thread works, the paused clock moves only when the test moves it, and sockets can be waited for.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let thread = tokio::task::spawn_blocking(move || held.recv());
    tokio::time::pause();

    server.revoke();
    advance(Duration::from_secs(3)).await; // a token this young is not renewed
    let refused = called(&manager).await.expect_err("the grant was revoked");
    assert!(refused.contains("needs a login"), "{refused}");
    until("a login is required", || state(&manager) == State::LoginRequired).await;
    assert_eq!(server.count("/token refresh_token"), 1, "{:?}", server.seen());

    let (before, began) = (server.seen(), Instant::now());
    for second in 0..3_600 {
        advance(Duration::from_secs(1)).await;
        settle().await;
        if second % 10 == 0 {
            let refused = called(&manager).await.expect_err("nobody has logged in again");
            assert!(refused.contains("needs a login"), "{refused}");
        }
    }
    assert_eq!(began.elapsed(), Duration::from_hours(1));
    std::thread::sleep(Duration::from_millis(100)); // a request on its way arrives
    assert_eq!(server.seen(), before, "neither server was asked anything");
    assert_eq!(state(&manager), State::LoginRequired);
    release.send(()).expect("it waits");
    let _ = thread.await.expect("it ends");
}
