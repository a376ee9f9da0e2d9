//! An MCP server that chooses its login service, and login services that record what is sent to them.
//!
//! The server stands for a compromised one: the test changes the login service that it names while the gateway
//! runs. Tokens end at once, so each request to the server needs a new one.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};
use testkit::served::Served;

type Record = Arc<Mutex<Vec<String>>>;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An MCP server that demands a token. With a token it is not available, so the gateway tries again.
#[derive(Debug)]
pub struct DemandingServer {
    served: Served,
    metadata: Arc<Mutex<Value>>,
    challenge: Arc<Mutex<String>>,
    lacking: Arc<Mutex<Option<String>>>,
    credentials: Record,
}

impl DemandingServer {
    /// Starts a server that names `issuer`.
    pub fn naming(issuer: &str) -> Self {
        let metadata = Arc::new(Mutex::new(json!({"authorization_servers": [issuer]})));
        let (challenge, lacking) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(None)));
        let credentials = Record::default();
        let (published, record) = (Arc::clone(&metadata), Arc::clone(&credentials));
        let (added, lacks) = (Arc::clone(&challenge), Arc::clone(&lacking));
        let serve = move |headers: HeaderMap, uri: Uri| {
            let credential = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            lock(&record).extend(credential.map(str::to_owned));
            let host = headers[HOST].to_str().expect("a host").to_owned();
            let mut metadata = lock(&published).clone();
            metadata["resource"] = format!("http://{host}/mcp").into();
            let added: String = lock(&added).clone();
            let challenge = format!("Bearer resource_metadata=\"http://{host}/metadata\"{added}");
            let lacks: Option<String> = lock(&lacks).clone().filter(|_| credential.is_some());
            std::future::ready(match uri.path() {
                "/metadata" if metadata["authorization_servers"].is_null() => {
                    StatusCode::NOT_FOUND.into_response()
                }
                "/metadata" => axum::Json(metadata).into_response(),
                "/mcp" if lacks.is_some() => {
                    let scope = lacks.unwrap_or_default();
                    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                    (StatusCode::FORBIDDEN, [(WWW_AUTHENTICATE, challenge)]).into_response()
                }
                "/mcp" if credential.is_some() => StatusCode::SERVICE_UNAVAILABLE.into_response(),
                "/mcp" => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)]).into_response(),
                _ => StatusCode::NOT_FOUND.into_response(),
            })
        };
        Self {
            served: Served::start(Router::new().fallback(serve)),
            metadata,
            challenge,
            lacking,
            credentials,
        }
    }

    /// Adds a parameter to its challenge.
    pub fn challenges_with(&self, parameter: &str) {
        *lock(&self.challenge) = format!(", {parameter}");
    }

    /// Refuses every token because it lacks `scope`.
    pub fn lacks_scope(&self, scope: &str) {
        *lock(&self.lacking) = Some(scope.to_owned());
    }

    /// The credentials that were sent to it.
    pub fn credentials(&self) -> Vec<String> {
        lock(&self.credentials).clone()
    }

    /// Publishes other metadata of the protected resource.
    pub fn publishes(&self, metadata: Value) {
        *lock(&self.metadata) = metadata;
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.served.url())
    }
}

/// A login service that gives a token to everybody.
#[derive(Debug)]
pub struct TokenService {
    served: Served,
    metadata: Arc<Mutex<Value>>,
    granted: Arc<Mutex<Value>>,
    seen: Record,
}

impl TokenService {
    /// Starts it on its own port.
    pub fn start() -> Self {
        let (metadata, granted) = (Arc::new(Mutex::new(json!({}))), Arc::new(Mutex::new(json!({}))));
        let seen = Record::default();
        let (published, token, record) = (Arc::clone(&metadata), Arc::clone(&granted), Arc::clone(&seen));
        let serve = move |headers: HeaderMap, uri: Uri, body: Bytes| {
            let credential = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let body = String::from_utf8_lossy(&body);
            lock(&record).push(format!("{} {} {body}", uri.path(), credential.unwrap_or_default()));
            let host = headers[HOST].to_str().expect("a host").to_owned();
            let (published, token) = (lock(&published).clone(), lock(&token).clone());
            std::future::ready(answer(&uri, &format!("http://{host}"), &published, &token))
        };
        let served = Served::start(Router::new().fallback(serve));
        Self { served, metadata, granted, seen }
    }

    /// Its issuer.
    pub fn issuer(&self) -> String {
        self.served.url()
    }

    /// Adds `members` to its metadata.
    pub fn publishes(&self, members: Value) {
        *lock(&self.metadata) = members;
    }

    /// Adds `members` to the tokens that it gives.
    pub fn grants(&self, members: Value) {
        *lock(&self.granted) = members;
    }

    /// The requests to `path`: path, credential and body.
    pub fn seen(&self, path: &str) -> Vec<String> {
        let seen = lock(&self.seen);
        seen.iter().filter(|request| request.split(' ').next() == Some(path)).cloned().collect()
    }

    /// Whether its metadata was read.
    pub fn was_found(&self) -> bool {
        !self.seen("/.well-known/oauth-authorization-server").is_empty()
    }
}

fn answer(uri: &Uri, issuer: &str, published: &Value, token: &Value) -> Response {
    let with = |mut base: Value, more: &Value| {
        let members = more.as_object().expect("an object").clone();
        base.as_object_mut().expect("an object").extend(members);
        axum::Json(base).into_response()
    };
    match uri.path() {
        "/.well-known/oauth-authorization-server" => {
            let metadata = json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "revocation_endpoint": format!("{issuer}/revoke"),
                "code_challenge_methods_supported": ["S256"],
            });
            with(metadata, published)
        }
        "/register" => (StatusCode::CREATED, axum::Json(json!({"client_id": "registered"}))).into_response(),
        "/authorize" => authorized(uri),
        "/exchange" => {
            let kind = "urn:ietf:params:oauth:token-type:id-jag";
            let exchanged =
                json!({"access_token": "canary-jag", "token_type": "N_A", "issued_token_type": kind});
            axum::Json(exchanged).into_response()
        }
        "/token" => with(
            json!({
                "access_token": "canary-token", "token_type": "Bearer", "expires_in": 1,
                "refresh_token": "canary-refresh",
            }),
            token,
        ),
        "/revoke" => StatusCode::OK.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Agrees at once.
fn authorized(uri: &Uri) -> Response {
    let query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let query: std::collections::HashMap<_, _> = query.collect();
    let mut back = url::Url::parse(&query["redirect_uri"]).expect("a URL");
    back.query_pairs_mut().append_pair("code", "canary-code").append_pair("state", &query["state"]);
    Redirect::to(back.as_str()).into_response()
}
