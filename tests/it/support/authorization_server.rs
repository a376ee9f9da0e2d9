//! A small OAuth authorization server: everybody who comes to it agrees at once. The account is the one that comes
//! next.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::response::Redirect;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};

use super::scripted::Server;
use super::{Background, listen};

/// How long a rotating login service takes for a renewal: long enough for a second one to arrive meanwhile.
const RENEWAL_TIME: Duration = Duration::from_millis(100);

type Fields = HashMap<String, String>;

/// A running authorization server. Dropping it ends the server.
#[derive(Debug)]
pub struct AuthorizationServer {
    address: SocketAddr,
    state: Shared,
    _task: Background,
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    issuer: String,
    next: Vec<String>,
    /// The account of each code.
    codes: HashMap<String, String>,
    rotation: Option<Rotation>,
    has_revoked: bool,
    seen: Vec<(&'static str, Fields)>,
}

/// Tokens that end soon, and refresh tokens that work once.
#[derive(Debug)]
struct Rotation {
    /// The server that accepts the tokens.
    server: Arc<Server>,
    lifetime: Duration,
    /// Tokens that have not ended.
    valid: Vec<(Instant, String)>,
    /// The number of the last token.
    last: usize,
}

impl AuthorizationServer {
    /// Starts it on its own port.
    pub fn start() -> Self {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into());
        let address = listener.local_addr().expect("an address");
        let state = Shared::default();
        state.with(|inside| inside.issuer = format!("http://{address}"));
        let router = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .with_state(state.clone());
        let task = Background::run(move || async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            axum::serve(listener, router).await.expect("it serves");
        });
        Self { address, state, _task: task }
    }

    /// Its issuer.
    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The accounts of the next logins, in their order. The token of an account is `canary-{account}`.
    pub fn accounts(&self, accounts: &[&str]) {
        let next = accounts.iter().rev().map(|account| (*account).to_owned()).collect();
        self.state.with(|inside| inside.next = next);
    }

    /// From now on a token ends after `lifetime`, and a refresh token works once. A second use ends the login. The tokens
    /// of an account are `canary-{account}-1` and so on, and `server` accepts those that have not ended.
    pub fn rotates(&self, lifetime: Duration, server: &Arc<Server>) {
        server.wants_tokens(&[]);
        let rotation = Rotation { server: Arc::clone(server), lifetime, valid: Vec::new(), last: 0 };
        self.state.with(|inside| inside.rotation = Some(rotation));
    }

    /// Makes refresh tokens useless.
    pub fn revoke_all(&self) {
        self.state.with(|inside| inside.has_revoked = true);
    }

    /// Requests to the endpoint `path`.
    pub fn seen(&self, path: &str) -> Vec<Fields> {
        let of_path = |(seen, fields): &(&str, Fields)| (*seen == path).then(|| fields.clone());
        self.state.with(|inside| inside.seen.iter().filter_map(of_path).collect())
    }
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut Inside) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, path: &'static str, fields: &Fields) {
        self.with(|inside| inside.seen.push((path, fields.clone())));
    }
}

async fn metadata(State(state): State<Shared>) -> Json<Value> {
    let issuer = state.with(|inside| inside.issuer.clone());
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    }))
}

async fn register(State(state): State<Shared>, Json(client): Json<Value>) -> (StatusCode, Json<Value>) {
    state.note("/register", &Fields::new());
    let answer = json!({"client_id": "registered", "redirect_uris": client["redirect_uris"]});
    (StatusCode::CREATED, Json(answer))
}

async fn authorize(State(state): State<Shared>, Query(query): Query<Fields>) -> Redirect {
    state.note("/authorize", &query);
    let (code, issuer) = state.with(|inside| {
        let account = inside.next.pop().unwrap_or_else(|| "somebody".into());
        let code = format!("code-{}", inside.codes.len());
        inside.codes.insert(code.clone(), account);
        (code, inside.issuer.clone())
    });
    let mut back = url::Url::parse(&query["redirect_uri"]).expect("a URL");
    back.query_pairs_mut().append_pair("code", &code).append_pair("state", &query["state"]);
    back.query_pairs_mut().append_pair("iss", &issuer);
    Redirect::to(back.as_str())
}

async fn token(State(state): State<Shared>, body: Bytes) -> (StatusCode, Json<Value>) {
    let form = fields(&body);
    state.note("/token", &form);
    if form.contains_key("refresh_token") && state.with(|inside| inside.rotation.is_some()) {
        tokio::time::sleep(RENEWAL_TIME).await;
    }
    match state.with(|inside| inside.granted(&form)) {
        Some(token) => (StatusCode::OK, Json(token)),
        None => (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))),
    }
}

impl Inside {
    fn granted(&mut self, form: &Fields) -> Option<Value> {
        let mut account = match form.get("code") {
            Some(code) => self.codes.get(code)?.clone(),
            None if self.has_revoked => return None,
            None => form.get("refresh_token")?.strip_prefix("refresh-")?.to_owned(),
        };
        let mut lifetime = Duration::from_hours(1);
        if let Some(rotation) = &mut self.rotation {
            lifetime = rotation.lifetime;
            let Some(next) = rotation.next(&account) else {
                self.has_revoked = true;
                return None;
            };
            account = next;
        }
        Some(json!({
            "access_token": format!("canary-{account}"), "token_type": "Bearer",
            "expires_in": lifetime.as_secs(), "refresh_token": format!("refresh-{account}"),
        }))
    }
}

impl Rotation {
    /// The account with the number of its next token. `account` has that of the last one, after a login none.
    fn next(&mut self, account: &str) -> Option<String> {
        let (account, last) = account.rsplit_once('-').unwrap_or((account, ""));
        if !last.is_empty() && last != self.last.to_string() {
            return None;
        }
        self.last += 1;
        let next = format!("{account}-{}", self.last);
        self.valid.retain(|(since, _)| since.elapsed() < self.lifetime);
        self.valid.push((Instant::now(), format!("canary-{next}")));
        self.server.wants_tokens(&self.valid.iter().map(|(_, token)| token.as_str()).collect::<Vec<_>>());
        Some(next)
    }
}

async fn revoke(State(state): State<Shared>, body: Bytes) -> StatusCode {
    let form = fields(&body);
    state.note("/revoke", &form);
    StatusCode::OK
}

fn fields(body: &[u8]) -> Fields {
    url::form_urlencoded::parse(body).into_owned().collect()
}
