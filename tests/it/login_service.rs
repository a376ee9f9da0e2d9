//! A login service whose keys are fetched: found by its metadata, rotated, unreachable at the start.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use testkit::scripted::{ReceivedRequest, TestServer, full, json as answer};

use crate::support::gateway::Running;
use crate::support::{Gateway, eventually};

/// A key of the login service.
struct Key {
    kid: &'static str,
    jwk: Value,
    signs: EncodingKey,
}

impl Key {
    fn new(kid: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate().expect("generates");
        let private: Pkcs8V1Der<'_> = pair.as_der().expect("DER");
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid, "x": x});
        Self { kid, jwk, signs: EncodingKey::from_ed_der(private.as_ref()) }
    }

    fn token(&self, issuer: &str, kid: &str) -> String {
        self.token_with(issuer, kid, &json!({}))
    }

    /// A token with `changes` to its claims.
    fn token_with(&self, issuer: &str, kid: &str, changes: &Value) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
        let mut claims = json!({"iss": issuer, "aud": "switchyard", "sub": "alice", "exp": now + 600,
            "realm_access": {"roles": ["mcp-users"]}});
        let changes = changes.as_object().expect("members").clone();
        claims.as_object_mut().expect("members").extend(changes);
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
        jsonwebtoken::encode(&header, &claims, &self.signs).expect("signs")
    }
}

/// A login service with one key; none while it is out of order.
struct Service {
    server: TestServer,
    issuer: String,
    key: Arc<Mutex<Option<Value>>>,
}

impl Service {
    async fn start(key: Option<&Key>) -> Self {
        let key = Arc::new(Mutex::new(key.map(|key| key.jwk.clone())));
        let shown = Arc::clone(&key);
        let server = TestServer::new(move |seen: &ReceivedRequest| {
            let issuer = format!("http://{}/realm", seen.header("host").unwrap_or_default());
            let is_metadata = seen.line.starts_with("GET /realm/.well-known/openid-configuration");
            match &*shown.lock().expect("lock") {
                None => vec![full(200, "content-type: text/html\r\n", "<html>out of order</html>")],
                Some(_) if is_metadata => {
                    let metadata = json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")});
                    vec![answer(200, &metadata.to_string())]
                }
                Some(jwk) => vec![answer(200, &json!({"keys": [jwk]}).to_string())],
            }
        })
        .await;
        let issuer = format!("{}/realm", server.url.origin().ascii_serialization());
        Self { server, issuer, key }
    }

    fn shows(&self, key: &Key) {
        *self.key.lock().expect("lock") = Some(key.jwk.clone());
    }

    /// How often the key set was fetched.
    fn fetches(&self) -> usize {
        self.server.seen().iter().filter(|seen| seen.line.starts_with("GET /realm/keys")).count()
    }

    async fn gateway(&self) -> Running {
        self.gateway_with("").await
    }

    /// Starts a gateway with further settings of `jwt`.
    async fn gateway_with(&self, settings: &str) -> Running {
        let yaml = format!(
            "server:\n  auth_mode: jwt\n  jwt:\n    issuer: {}\n    audience: switchyard\n    algorithm: EdDSA\n    \
             roles_claim: realm_access.roles\n    role_map: {{mcp-users: caller}}\n{settings}mcp_servers: {{}}\n",
            self.issuer
        );
        Gateway::with_config(&yaml).start().await
    }
}

/// The status of a request with `token`.
async fn status(gateway: &Running, token: &str) -> u16 {
    let request = reqwest::Client::new().get(gateway.url("/api/v1/mcp/tools")).bearer_auth(token);
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn keys_are_found_by_the_issuer_and_a_rotated_one_works_at_once() {
    let (one, two, evil) = (Key::new("one"), Key::new("two"), Key::new("evil"));
    let service = Service::start(Some(&one)).await;
    let gateway = service.gateway().await;
    let first = one.token(&service.issuer, one.kid);
    let fetched = |line: &Value| line["message"] == "the keys of the login service were fetched";
    // A token that comes sooner waits, but would use up the one fetch in a minute.
    gateway.logs("that the keys are fetched", fetched).await;
    assert_eq!(status(&gateway, &first).await, 200);
    assert_eq!(status(&gateway, &evil.token(&service.issuer, "one")).await, 401, "a forged signature");
    let fetched = service.fetches();
    service.shows(&two);
    let started = std::time::Instant::now();
    assert_eq!(status(&gateway, &two.token(&service.issuer, two.kid)).await, 200);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    for number in 0..200 {
        let answered = status(&gateway, &evil.token(&service.issuer, &format!("k{number}"))).await;
        assert!([401, 503].contains(&answered), "{answered}");
    }
    let minutes = usize::try_from(started.elapsed().as_secs() / 60).expect("a small number");
    let more = service.fetches() - fetched;
    assert!((1..=1 + minutes).contains(&more), "one fetch in a minute: {more} in {:?}", started.elapsed());
    assert_eq!(status(&gateway, &two.token(&service.issuer, two.kid)).await, 200);
}

#[tokio::test]
async fn a_service_that_is_out_of_order_at_the_start_delays_its_tokens_only() {
    let one = Key::new("one");
    let service = Service::start(None).await;
    let gateway = service.gateway().await;
    assert_eq!(gateway.get("/servers").await.status, 401);
    let token = one.token(&service.issuer, one.kid);
    assert_eq!(status(&gateway, &token).await, 503);
    let reason = "the keys of the login service are not known, or not current";
    gateway.logs(reason, |line: &Value| line.to_string().contains(reason)).await;
    let warned =
        |line: &Value| line["message"].to_string().contains("keys of the login service cannot be fetched");
    gateway.logs("the warning", warned).await;
    service.shows(&one);
    eventually("it has recovered", async || (status(&gateway, &token).await == 200).then_some(())).await;
}

#[tokio::test]
async fn refused_token_has_its_reason_in_the_log() {
    let (one, unknown) = (Key::new("one"), Key::new("unknown"));
    let service = Service::start(Some(&one)).await;
    let gateway = service.gateway().await;
    let token = |changes: Value| one.token_with(&service.issuer, one.kid, &changes);
    // A token that comes sooner would use up the one fetch in a minute, which that of the unknown key causes.
    let fetched = |line: &Value| line["message"] == "the keys of the login service were fetched";
    gateway.logs("that the keys are fetched", fetched).await;
    for (token, expected, reason) in [
        (token(json!({"iss": format!("{}/", service.issuer)})), 401, "foreign issuer"),
        (token(json!({"aud": "another"})), 401, "foreign audience"),
        ("no-token".to_owned(), 401, "malformed token"),
        (unknown.token(&service.issuer, unknown.kid), 401, "unknown token key"),
        (token(json!({"realm_access": {"roles": []}})), 403, "the token names no role that is known here"),
    ] {
        assert_eq!(status(&gateway, &token).await, expected, "{reason}");
        gateway.logs(reason, |line: &Value| line.to_string().contains(reason)).await;
    }

    let strict = service.gateway_with("    azp: [desk]\n").await;
    strict.logs("that the keys are fetched", fetched).await;
    assert_eq!(status(&strict, &token(json!({"azp": "desk"}))).await, 200);
    assert_eq!(status(&strict, &token(json!({"azp": "another"}))).await, 401);
    let reason = "issued to a client that is not listed in `azp`";
    strict.logs(reason, |line: &Value| line.to_string().contains(reason)).await;
}
