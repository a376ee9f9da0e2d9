//! Authentication of the fake R2R: accounts, tokens and keys.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use uuid::Uuid;

use super::recorded_results;
use super::routes::{ParsedRequest, Reply};
use super::{EMAIL, KEY, PASSWORD};

#[derive(Debug)]
pub(super) struct Users {
    pub password: String,
    pub key: Option<String>,
    pub lifetime: Duration,
    pub is_open: bool,
    /// Valid tokens, with the end of their validity.
    pub access: HashMap<String, Instant>,
    pub refresh: HashMap<String, Instant>,
}

impl Users {
    pub(super) fn new() -> Self {
        Self {
            password: PASSWORD.to_owned(),
            key: Some(KEY.to_owned()),
            lifetime: Duration::from_hours(1),
            is_open: false,
            access: HashMap::new(),
            refresh: HashMap::new(),
        }
    }

    pub(super) fn log_in(&mut self, request: &ParsedRequest) -> Reply {
        let fields: HashMap<String, String> =
            url::form_urlencoded::parse(&request.body).into_owned().collect();
        let (Some(name), Some(password)) = (fields.get("username"), fields.get("password")) else {
            return Reply::recorded("login-json-body");
        };
        if name != EMAIL {
            return Reply::recorded("login-unknown-user");
        }
        if *password != self.password {
            return Reply::recorded("login-wrong-password");
        }
        self.pair()
    }

    pub(super) fn renew(&mut self, request: &ParsedRequest) -> Reply {
        let Ok(token) = serde_json::from_slice::<String>(&request.body) else {
            return Reply::recorded("refresh-object-body");
        };
        match self.refresh.remove(&token) {
            Some(end) if end > Instant::now() => self.pair(),
            _ if self.access.contains_key(&token) => Reply::recorded("refresh-with-access-token"),
            _ => Reply::recorded("refresh-reused"),
        }
    }

    fn pair(&mut self) -> Reply {
        let (access, refresh) = (token("access", self.lifetime), token("refresh", self.lifetime * 7));
        self.access.insert(access.clone(), Instant::now() + self.lifetime);
        self.refresh.insert(refresh.clone(), Instant::now() + self.lifetime * 7);
        let mut results = recorded_results("login");
        results["access_token"]["token"] = json!(access);
        results["refresh_token"]["token"] = json!(refresh);
        Reply::of(200, &json!({ "results": results }))
    }

    /// Invalidates the token of `request`.
    pub(super) fn log_out(&mut self, request: &ParsedRequest) -> Reply {
        if let Some(token) = request.bearer() {
            self.access.remove(token);
        }
        Reply::recorded("logout")
    }

    /// Refuses a request with invalid credentials.
    pub(super) fn refusal(&self, request: &ParsedRequest) -> Option<Reply> {
        let key = request.header("x-api-key");
        let shown = match (request.bearer(), key) {
            (Some(_), Some(_)) => return Some(Reply::recorded("auth-api-key-and-bearer")),
            (Some(shown), None) | (None, Some(shown)) => shown,
            (None, None) if self.is_open => return None,
            (None, None) => return Some(Reply::recorded("auth-missing")),
        };
        let is_key = self.key.as_deref() == Some(shown);
        let good =
            |tokens: &HashMap<String, Instant>| tokens.get(shown).is_some_and(|end| *end > Instant::now());
        // R2R does not check which kind of token it is.
        let is_good = is_key || good(&self.access) || good(&self.refresh);
        (!is_good).then(|| Reply::recorded("auth-bad-token"))
    }
}

/// Makes a token in the form of the recorded claims, with fractional seconds.
fn token(kind: &str, life: Duration) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let claims = json!({
        "sub": EMAIL, "token_type": kind, "exp": now + life.as_secs_f64(), "iat": now, "nbf": now,
        "jti": Uuid::new_v4().to_string(), "nonce": Uuid::new_v4().to_string(),
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2ln", part(&json!({"alg": "HS256", "typ": "JWT"})), part(&claims))
}
