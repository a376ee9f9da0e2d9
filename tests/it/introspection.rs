//! Opaque tokens of clients, about which a login service is asked (RFC 7662).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use testkit::served::Served;

use crate::support::gateway::Running;
use crate::support::{Client, Gateway, eventually};

/// A login service and what it says about each token; `None` while it is out of order.
struct Service {
    served: Served,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    tokens: Option<Value>,
    asked: usize,
}

impl Service {
    fn start(tokens: Value) -> Self {
        let state = Arc::new(Mutex::new(State { tokens: Some(tokens), asked: 0 }));
        let shared = Arc::clone(&state);
        let answer = move |headers: HeaderMap, body: Bytes| {
            let mut state = shared.lock().expect("lock");
            state.asked += 1;
            let answer = answered(state.tokens.as_ref(), &headers, &body);
            async move { answer }
        };
        Self { served: Served::start(Router::new().route("/introspect", post(answer))), state }
    }

    fn request_count(&self) -> usize {
        self.state.lock().expect("lock").asked
    }

    async fn gateway(&self, mode: &str) -> Running {
        let origin = self.served.url();
        let yaml = format!(
            "server:\n  auth_mode: {mode}\n  jwt:\n    issuer: https://issuer.example\n    audience: gw\n    \
             require: [exp]\n    authorization_servers: [\"https://login.example\"]\n    introspection: {{url: \
             \"{origin}/introspect\", client_id: gateway, client_secret: \"${{SECRET}}\"}}\nmcp_servers: {{}}\n"
        );
        Gateway::with_config(&yaml).env("SECRET", "canary-secret-0123").start().await
    }
}

fn answered(tokens: Option<&Value>, headers: &HeaderMap, body: &[u8]) -> (StatusCode, String) {
    let Some(tokens) = tokens else { return (StatusCode::SERVICE_UNAVAILABLE, "out of order".into()) };
    // `gateway:canary-secret-0123`
    let credentials = "Basic Z2F0ZXdheTpjYW5hcnktc2VjcmV0LTAxMjM=";
    if headers.get("authorization").is_none_or(|sent| sent != credentials) {
        return (StatusCode::UNAUTHORIZED, String::new());
    }
    let fields: HashMap<_, _> = url::form_urlencoded::parse(body).into_owned().collect();
    let said = tokens.get(&fields["token"]).cloned().unwrap_or_else(|| json!({"active": false}));
    (StatusCode::OK, said.to_string())
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

async fn with(gateway: &Running, token: &str) -> u16 {
    let client = Client::at(&gateway.url("/api/v1/mcp/tools"));
    let client = client.with_header("authorization", &format!("Bearer {token}"));
    client.bare(Method::GET, &[]).await.status
}

#[tokio::test]
async fn an_opaque_token_opens_as_far_as_the_login_service_says() {
    let good = json!({"active": true, "sub": "ann", "scope": "caller", "exp": now() + 600});
    let but = |name: &str, value: Value| {
        let mut changed = good.clone();
        changed[name] = value;
        changed
    };
    let mut endless = good.clone();
    endless.as_object_mut().expect("an object").remove("exp");
    let service = Service::start(json!({
        "good": good, "named": but("iss", json!("https://issuer.example")),
        "listed": but("aud", json!(["x", "gw"])), "endless": endless,
        "text": but("active", json!("true")), "off": but("active", json!(false)),
        "over": but("exp", json!(now() - 1)), "early": but("nbf", json!(now() + 600)),
        "foreign": but("iss", json!("https://evil.example")), "other": but("aud", json!("else")),
        "nobody": but("sub", json!("")), "roleless": but("scope", json!("profile")),
    }));
    let gateway = service.gateway("jwt").await;
    for (token, expected) in [
        ("good", 200),
        ("named", 200),
        ("listed", 200),
        ("endless", 200),
        ("text", 401),
        ("off", 401),
        ("over", 401),
        ("early", 401),
        ("foreign", 401),
        ("other", 401),
        ("nobody", 401),
        ("roleless", 403),
        ("unknown", 401),
        ("a.b.c", 401),
    ] {
        assert_eq!(with(&gateway, token).await, expected, "{token}");
    }
    // Every answer is known for a while, refusals too.
    let asked = service.request_count();
    for _ in 0..10 {
        assert_eq!(with(&gateway, "good").await, 200);
    }
    assert_eq!(service.request_count(), asked);
    // A service that is down lets nobody in, and takes no known token away.
    service.state.lock().expect("lock").tokens = None;
    assert_eq!((with(&gateway, "good").await, with(&gateway, "new").await), (200, 503));
    // The log is written by a thread of its own.
    let log = eventually("the line of the log", async || {
        let log = gateway.log().iter().map(ToString::to_string).collect::<String>();
        log.contains("cannot be asked about tokens").then_some(log)
    })
    .await;
    assert!(!log.contains("canary"), "{log}");
    // The metadata for clients names the login service, apart from the issuer.
    let document = Client::at(&gateway.url("/.well-known/oauth-protected-resource/mcp"));
    let document = document.bare(Method::GET, &[]).await.json();
    assert_eq!(document["authorization_servers"], json!(["https://login.example"]), "{document}");
}

#[tokio::test]
async fn keys_of_switchyard_are_never_sent_to_the_login_service() {
    let service = Service::start(json!({}));
    let keys = "any\n  api_keys: [{id: ci, role: reader, hash: \"sha256:\
                0000000000000000000000000000000000000000000000000000000000000000\"}]";
    let gateway = service.gateway(keys).await;
    assert_eq!(with(&gateway, &format!("swy_ci_{}", "0".repeat(48))).await, 401);
    let key = Client::at(&gateway.url("/api/v1/mcp/tools")).with_header("x-api-key", "opaque");
    assert_eq!(key.bare(Method::GET, &[]).await.status, 401);
    assert_eq!(service.request_count(), 0);
    assert_eq!((with(&gateway, "opaque").await, service.request_count()), (401, 1));
}
