//! A login service: an OpenID provider, and GitHub at the same port. Everybody who comes to it agrees at once.
//!
//! It is strict where real ones are: a code works once, with its client, redirect URI and verifier, and the parameter
//! `resource` is refused. A test chooses the person, and what is wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use crate::served::Served;

/// The id of the only client.
pub const CLIENT: &str = "switchyard";
/// Its secret.
pub const SECRET: &str = "canary-of-the-login-secret";
/// The token for userinfo and for the API of GitHub.
const TOKEN: &str = "canary-of-the-login-token";

type Fields = HashMap<String, String>;

/// What the service says of the next person, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Script {
    /// Members of ID tokens beside the usual ones; `null` removes one.
    pub claims: Value,
    /// The answer of userinfo; `null` for a service without it.
    pub userinfo: Value,
    /// Members of the metadata beside the usual ones; `null` removes one.
    pub metadata: Value,
    /// The parameter `iss` of the answer in the browser, in the place of the right one; an empty text leaves it out.
    pub iss: Option<String>,
    /// The error in the place of a code.
    pub error: Option<String>,
    /// The status of every answer but the metadata.
    pub status: Option<u16>,
    /// Whether it signs with a key that it does not publish.
    pub signs_with_other_key: bool,
    /// The `kid` of its key. Another one is a new key.
    pub kid: String,
    /// The answers of the API of GitHub, by path.
    pub github: Value,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            claims: json!({"email": "ann@example.org", "email_verified": true}),
            userinfo: Value::Null,
            metadata: json!({}),
            iss: None,
            error: None,
            status: None,
            signs_with_other_key: false,
            kid: "1".to_owned(),
            github: json!({}),
        }
    }
}

/// A running login service.
#[derive(Debug)]
pub struct LoginService {
    served: Served,
    inside: Shared,
}

#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Inside>>);

#[derive(Debug)]
struct Inside {
    issuer: String,
    script: Script,
    /// The keys by their `kid`.
    keys: HashMap<String, Vec<u8>>,
    codes: HashMap<String, Fields>,
    count: usize,
    seen: Vec<String>,
    forms: Vec<Fields>,
}

impl LoginService {
    /// Starts it on its own port.
    pub fn start() -> Self {
        let inside = Shared(Arc::new(Mutex::new(Inside {
            issuer: String::new(),
            script: Script::default(),
            keys: HashMap::new(),
            codes: HashMap::new(),
            count: 0,
            seen: Vec::new(),
            forms: Vec::new(),
        })));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/authorize", get(authorize))
            .route("/login/oauth/authorize", get(authorize))
            .route("/token", post(token))
            .route("/login/oauth/access_token", post(token))
            .route("/userinfo", get(userinfo))
            .route("/api/v3/{*path}", get(github))
            .with_state(inside.clone());
        let served = Served::start(router);
        inside.lock().issuer = served.url();
        Self { served, inside }
    }

    /// Its issuer.
    pub fn issuer(&self) -> String {
        self.served.url()
    }

    /// Changes what it says.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.inside.lock().script);
    }

    /// Stops it like a crash.
    pub fn kill(&mut self) {
        self.served.kill();
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.served.restart();
    }

    /// The paths of all requests of the gateway.
    pub fn seen(&self) -> Vec<String> {
        self.inside.lock().seen.clone()
    }

    /// The forms that its token endpoint got.
    pub fn forms(&self) -> Vec<HashMap<String, String>> {
        self.inside.lock().forms.clone()
    }

    /// Agrees to the request that `page`, its own page, stands for. Returns where the browser goes.
    ///
    /// # Panics
    /// If the request is not complete.
    pub fn agree(&self, page: &Url) -> Url {
        self.inside.lock().agreed(&fields(page.query().unwrap_or_default().as_bytes()))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request to `path`. Returns the status that the script wants, if any.
    fn note(&self, path: &str) -> Option<Response> {
        let mut inside = self.lock();
        inside.seen.push(path.to_owned());
        let status = inside.script.status.map(|status| StatusCode::from_u16(status).expect("a status"));
        status.map(IntoResponse::into_response)
    }
}

impl Inside {
    fn agreed(&mut self, request: &Fields) -> Url {
        let is_github = !request.contains_key("nonce");
        for (name, value) in
            [("response_type", "code"), ("client_id", CLIENT), ("code_challenge_method", "S256")]
        {
            assert_eq!(request[name], value, "{request:?}");
        }
        assert!(!request.contains_key("resource"), "{request:?}");
        let mut back = Url::parse(&request["redirect_uri"]).expect("a URL");
        back.query_pairs_mut().append_pair("state", &request["state"]);
        let own = if is_github { String::new() } else { self.issuer.clone() };
        let iss = self.script.iss.clone().unwrap_or(own);
        if !iss.is_empty() {
            back.query_pairs_mut().append_pair("iss", &iss);
        }
        if let Some(error) = &self.script.error {
            back.query_pairs_mut().append_pair("error", error);
            return back;
        }
        self.count += 1;
        let code = format!("canary-code-{}", self.count);
        back.query_pairs_mut().append_pair("code", &code);
        self.codes.insert(code, request.clone());
        back
    }

    fn tokens(&mut self, form: &Fields, is_authenticated: bool) -> Result<Value, &'static str> {
        if !is_authenticated {
            return Err("invalid_client");
        }
        if form.contains_key("resource") {
            return Err("invalid_request");
        }
        let begun = form.get("code").and_then(|code| self.codes.remove(code)).ok_or("invalid_grant")?;
        let challenge = form.get("code_verifier").map(|verifier| digest(&SHA256, verifier.as_bytes()));
        let challenge = challenge.map(|hash| URL_SAFE_NO_PAD.encode(hash));
        let is_right = challenge.as_ref() == begun.get("code_challenge")
            && form.get("redirect_uri") == begun.get("redirect_uri");
        if !is_right {
            return Err("invalid_grant");
        }
        let mut answer = json!({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 600});
        if let Some(nonce) = begun.get("nonce") {
            answer["id_token"] = self.id_token(nonce).into();
        }
        Ok(answer)
    }

    fn id_token(&mut self, nonce: &str) -> String {
        let exp = jsonwebtoken::get_current_timestamp() + 300;
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT, "sub": "subject-1", "exp": exp, "iat": exp - 300, "nonce": nonce,
        });
        merge(&mut claims, &self.script.claims);
        let kid = self.script.kid.clone();
        let key = if self.script.signs_with_other_key { new_key() } else { self.key(&kid) };
        let header = Header { kid: Some(kid), ..Header::new(Algorithm::EdDSA) };
        encode(&header, &claims, &EncodingKey::from_ed_der(&key)).expect("signed")
    }

    fn key(&mut self, kid: &str) -> Vec<u8> {
        self.keys.entry(kid.to_owned()).or_insert_with(new_key).clone()
    }
}

fn new_key() -> Vec<u8> {
    let pair = Ed25519KeyPair::generate().expect("a key");
    pair.to_pkcs8v1().expect("a document").as_ref().to_vec()
}

async fn metadata(State(shared): State<Shared>) -> Response {
    shared.lock().seen.push("/.well-known/openid-configuration".to_owned());
    let inside = shared.lock();
    let issuer = &inside.issuer;
    let mut document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "authorization_response_iss_parameter_supported": true,
    });
    if !inside.script.userinfo.is_null() {
        document["userinfo_endpoint"] = format!("{issuer}/userinfo").into();
    }
    merge(&mut document, &inside.script.metadata);
    axum::Json(document).into_response()
}

async fn keys(State(shared): State<Shared>) -> Response {
    if let Some(answer) = shared.note("/keys") {
        return answer;
    }
    let mut inside = shared.lock();
    let kid = inside.script.kid.clone();
    let key = inside.key(&kid);
    drop(inside);
    let pair = Ed25519KeyPair::from_pkcs8(&key).expect("a key");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    axum::Json(json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": x}]}))
        .into_response()
}

async fn authorize(State(shared): State<Shared>, uri: Uri) -> Redirect {
    let location = shared.lock().agreed(&fields(uri.query().unwrap_or_default().as_bytes()));
    Redirect::to(location.as_str())
}

async fn token(State(shared): State<Shared>, headers: HeaderMap, uri: Uri, body: Bytes) -> Response {
    if let Some(answer) = shared.note(uri.path()) {
        return answer;
    }
    let form = fields(&body);
    let basic = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{SECRET}")));
    let is_basic = headers.get("authorization").is_some_and(|value| *value == *basic);
    let is_post = form.get("client_secret").is_some_and(|secret| secret == SECRET);
    let mut inside = shared.lock();
    inside.forms.push(form.clone());
    match inside.tokens(&form, is_basic || is_post) {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, axum::Json(json!({"error": error}))).into_response(),
    }
}

async fn userinfo(State(shared): State<Shared>, request: Request) -> Response {
    if let Some(answer) = shared.note("/userinfo") {
        return answer;
    }
    let document = shared.lock().script.userinfo.clone();
    of_person(request.headers(), document)
}

async fn github(State(shared): State<Shared>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if let Some(answer) = shared.note(&path) {
        return answer;
    }
    let document = shared.lock().script.github[path.trim_start_matches("/api/v3/")].clone();
    if document.is_null() {
        return StatusCode::NOT_FOUND.into_response();
    }
    of_person(request.headers(), document)
}

fn of_person(headers: &HeaderMap, document: Value) -> Response {
    let is_allowed = headers.get("authorization").is_some_and(|value| *value == *format!("Bearer {TOKEN}"));
    if is_allowed { axum::Json(document).into_response() } else { StatusCode::UNAUTHORIZED.into_response() }
}

fn merge(document: &mut Value, changes: &Value) {
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => drop(document.as_object_mut().expect("an object").remove(name)),
            value => document[name] = value.clone(),
        }
    }
}

fn fields(text: &[u8]) -> Fields {
    form_urlencoded::parse(text).into_owned().collect()
}
