//! Tests of the request checks without a socket: accepted requests, the order of checks, and the form
//! of refusals.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{any, get};
use axum::{Extension, Router};
use http::StatusCode;
use http::header::RETRY_AFTER;
use secrecy::ExposeSecret;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::bodies::BodyTimedOut;
use crate::http_service::HttpService;
use crate::refusal::AnswerFormat;
use auth::{ApiKey, Denied, KeyHash, Role, generate};
use runtime::telemetry::RequestId;

#[path = "guard_probe_tests.rs"]
mod probes;

const PATHS: [&str; 5] = ["/mcp", "/mcp/files", "/api/v1/mcp/call", "/health", "/nowhere"];

fn door(config: &Config) -> Router {
    let who = |principal: Extension<Principal>, id: Extension<RequestId>, body: Bytes| async move {
        format!("{} {} {}", principal.id(), id.0, body.len())
    };
    let router = Router::new()
        .route("/mcp", any(who))
        .route("/mcp/files", any(who))
        .route("/api/v1/mcp/call", any(who))
        .route("/", get(|| async { "fine" }))
        .route("/health", get(|| async { "fine" }).post(|| async { "not for everybody" }))
        .route("/health/live", get(|| async { "alive" }).post(|| async { "not for everybody" }))
        .route("/health/ready", get(|| async { "ready" }))
        .route("/panic", get(|| async { assert_eq!(1, 2, "a bug") }));
    HttpService::new(Guard::new(config).expect("no key files"), router).into_router()
}

fn with_key() -> (Config, String) {
    let (key, hash) = generate("ci");
    let hash = KeyHash::Sha256(hash);
    let entry = ApiKey { id: "ci".into(), hash, role: Role::Reader, expires: None, view: None };
    (
        Config { auth: auth::Config::ApiKey(vec![entry].into()), ..Config::default() },
        key.expose_secret().to_owned(),
    )
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> http::request::Builder {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
}

async fn ask(door: &Router, request: Request) -> Response {
    door.clone().oneshot(request).await.expect("infallible")
}

async fn get_from(door: &Router, path: &str, headers: &[(&str, &str)]) -> Response {
    ask(door, request("GET", path, headers).body(Body::empty()).expect("a request")).await
}

async fn json(response: Response) -> Value {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

/// `Host`, `Origin`, and whether the request is accepted by default.
const FORMS: &[(&str, Option<&str>, bool)] = &[
    ("localhost", None, true),
    ("localhost:8080", None, true),
    ("LOCALHOST:8080", None, true),
    ("127.0.0.1", None, true),
    ("127.0.0.1:8080", None, true),
    ("[::1]", None, true),
    ("[::1]:8080", None, true),
    ("localhost:8080", Some("http://localhost:8080"), true),
    ("localhost:8080", Some("http://localhost:5173"), true),
    ("localhost:8080", Some("https://127.0.0.1"), true),
    ("127.0.0.1:8080", Some("http://[::1]:3000"), true),
    ("[::1]:8080", Some("HTTP://LocalHost"), true),
    ("evil.example", None, false),
    ("evil.example:8080", None, false),
    ("localhost.evil.example", None, false),
    ("127.0.0.1.evil.example", None, false),
    ("evil.example#localhost", None, false),
    ("localhost@evil.example", None, false),
    ("evil.example@localhost", None, false),
    ("user:pw@localhost", None, false),
    ("localhost.", None, false),
    ("localhost.:8080", None, false),
    ("localhost:", None, false),
    ("localhost:0", None, false),
    ("localhost:99999", None, false),
    ("localhost:8080:8080", None, false),
    ("localhost,evil.example", None, false),
    ("http://localhost", None, false),
    ("0.0.0.0:8080", None, false),
    ("[::]", None, false),
    ("[::ffff:127.0.0.1]", None, false),
    ("[::1%25lo]", None, false),
    ("::1", None, false),
    ("127.1", None, false),
    ("2130706433", None, false),
    ("0x7f.0.0.1", None, false),
    ("0177.0.0.1", None, false),
    ("10.0.0.1", None, false),
    ("169.254.169.254", None, false),
    ("", None, false),
    ("löcalhost", None, false),
    ("localhost:8080", Some("http://evil.example"), false),
    ("localhost:8080", Some("https://evil.example:8080"), false),
    ("localhost:8080", Some("http://localhost.evil.example"), false),
    ("localhost:8080", Some("http://localhost@evil.example"), false),
    ("localhost:8080", Some("http://evil.example/localhost"), false),
    ("localhost:8080", Some("http://127.0.0.1.nip.io"), false),
    ("localhost:8080", Some("null"), false),
    ("localhost:8080", Some(""), false),
    ("localhost:8080", Some("http://localhost/"), false),
    ("localhost:8080", Some("http://localhost."), false),
    ("localhost:8080", Some("file://"), false),
    ("localhost:8080", Some("chrome-extension://localhost"), false),
    ("localhost:8080", Some("http://localhost http://evil.example"), false),
    ("localhost:8080", Some("localhost"), false),
    ("evil.example", Some("http://evil.example"), false),
    ("evil.example", Some("http://localhost:8080"), false),
];

// RULES S9
#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_everywhere() {
    let door = door(&Config::default());
    for (host, origin, allowed) in FORMS {
        for path in PATHS {
            let mut headers = vec![("host", *host)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            let response = get_from(&door, path, &headers).await;
            let status = response.status();
            let is_served = *allowed || path == "/health" && matches!(*host, "10.0.0.1" | "169.254.169.254");
            assert_eq!(status != StatusCode::FORBIDDEN, is_served, "{host} {origin:?} {path}: {status}");
            let cors = response.headers().get("access-control-allow-origin");
            assert_eq!(
                cors.map(|value| value.to_str().expect("text")),
                origin.filter(|_| *allowed),
                "{host}"
            );
        }
    }
}

#[tokio::test]
async fn a_request_has_exactly_one_host() {
    let door = door(&Config::default());
    let status = |uri: &str, version, hosts: &[&str]| {
        let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        let request = request("GET", uri, &headers).version(version).body(Body::empty()).expect("a request");
        let door = door.clone();
        async move { ask(&door, request).await.status().as_u16() }
    };
    for (uri, version, hosts, expected) in [
        ("/health", Version::HTTP_11, &[][..], 400),
        ("/health", Version::HTTP_10, &[], 400),
        ("/health", Version::HTTP_2, &[], 400),
        ("/health", Version::HTTP_11, &["localhost", "localhost"], 400),
        ("/health", Version::HTTP_11, &["localhost", "evil.example"], 400),
        ("http://localhost/health", Version::HTTP_11, &[], 400),
        ("http://localhost/health", Version::HTTP_2, &[], 200),
        ("http://localhost/health", Version::HTTP_11, &["localhost"], 200),
        ("http://localhost:80/health", Version::HTTP_2, &["localhost:80"], 200),
        ("http://evil.example/health", Version::HTTP_2, &[], 403),
        ("http://evil.example/health", Version::HTTP_11, &["localhost"], 403),
        ("http://localhost/health", Version::HTTP_11, &["evil.example"], 403),
        ("http://localhost:1/health", Version::HTTP_2, &["localhost:2"], 403),
        ("http://a@localhost/health", Version::HTTP_2, &[], 403),
    ] {
        assert_eq!(status(uri, version, hosts).await, expected, "{uri} {version:?} {hosts:?}");
    }
    let twice = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")];
    assert_eq!(get_from(&door, "/health", &twice).await.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn only_health_is_public() {
    let (config, key) = with_key();
    let door = door(&config);
    let bearer = format!("Bearer {key}");
    for (method, path, credential, expected) in [
        ("GET", "/health", None, 200),
        ("HEAD", "/health", None, 200),
        ("GET", "/health", Some("Bearer wrong"), 200),
        ("POST", "/health", None, 401),
        ("GET", "/health/", None, 401),
        ("GET", "//health", None, 401),
        ("GET", "/health/../mcp", None, 401),
        ("GET", "/Health", None, 401),
        ("GET", "/health%2flive", None, 401),
        ("GET", "/health?x", None, 200),
        ("GET", "/", None, 200),
        ("HEAD", "/", Some("Bearer wrong"), 200),
        ("POST", "/", None, 401),
        ("GET", "//", None, 401),
        ("GET", "/?x", None, 200),
        ("GET", "/mcp", None, 401),
        ("POST", "/mcp/files", Some("Bearer wrong"), 401),
        ("OPTIONS", "/mcp", None, 401),
        ("DELETE", "/nowhere", None, 401),
        ("GET", "/nowhere", Some(bearer.as_str()), 404),
        ("POST", "/mcp", Some(bearer.as_str()), 200),
    ] {
        let mut headers = vec![("host", "localhost")];
        headers.extend(credential.map(|credential| ("authorization", credential)));
        let request = request(method, path, &headers).body(Body::empty()).expect("a request");
        let response = ask(&door, request).await;
        assert_eq!(response.status().as_u16(), expected, "{method} {path}");
        let challenge = response.headers().get("www-authenticate").map(|value| value.to_str().expect("text"));
        let expected = (expected == 401).then_some(if credential.is_some() {
            "Bearer error=\"invalid_token\""
        } else {
            "Bearer"
        });
        assert_eq!(challenge, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn route_without_authentication_ignores_a_bad_credential_and_uses_a_valid_one() {
    let (config, key) = with_key();
    let who = |principal: Option<Extension<Principal>>| async move {
        principal.map_or_else(|| "nobody".to_owned(), |principal| principal.id().to_string())
    };
    let guard = Guard::new(&config).expect("no key files");
    let door = HttpService::new(guard, Router::new().route("/health", get(who))).into_router();
    for (key, expected) in [(None, "nobody"), (Some("wrong"), "nobody"), (Some(key.as_str()), "key:ci")] {
        let mut headers = vec![("host", "localhost")];
        headers.extend(key.map(|key| ("x-api-key", key)));
        let response = get_from(&door, "/health", &headers).await;
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(body, expected);
    }
}

#[tokio::test]
async fn credential_for_one_endpoint_is_refused_at_the_others() {
    let guard = Guard::of_host(&Config::default()).expect("no key files");
    let router = Router::new().route("/mcp", any(|| async {})).route("/mcp/files", any(|| async {}));
    let door = HttpService::new(guard, router).into_router();
    let bound = Principal::new("ann", Role::Caller).at_endpoint(Some("/mcp/files".into()));
    for (path, expected) in [
        ("/mcp/files", StatusCode::OK),
        ("/mcp", StatusCode::UNAUTHORIZED),
        ("/mcp/other", StatusCode::UNAUTHORIZED),
        ("/api/v1/mcp/tools", StatusCode::UNAUTHORIZED),
    ] {
        let request = request("GET", path, &[("host", "localhost")]).extension(bound.clone());
        let response = ask(&door, request.body(Body::empty()).expect("a request")).await;
        assert_eq!(response.status(), expected, "{path}");
    }
}

#[tokio::test]
async fn a_route_gets_principal_id_and_body() {
    let (config, key) = with_key();
    let headers = [("host", "localhost"), ("x-api-key", key.as_str()), ("x-request-id", "of-the-client")];
    let request = request("POST", "/mcp", &headers).body(Body::from("12345")).expect("a request");
    let response = ask(&door(&config), request).await;
    let id = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    assert_ne!(id, "of-the-client");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(body, format!("key:ci {id} 5"));
}

fn chunked(pieces: &[&'static str]) -> Body {
    let pieces: Vec<Result<&'static str, std::io::Error>> = pieces.iter().map(|piece| Ok(*piece)).collect();
    Body::from_stream(futures_util::stream::iter(pieces))
}

#[tokio::test]
async fn a_body_is_complete_and_small_or_refused() {
    let door = door(&Config { max_body_bytes: 10, ..Config::default() });
    let cut = futures_util::stream::iter([Ok("1234"), Err(std::io::Error::other("gone"))]);
    let late = futures_util::stream::iter([Err::<&str, _>(BodyTimedOut)]);
    for (body, declared, expected) in [
        (Body::from("1234567890"), None, "200"),
        (chunked(&["12345", "67890"]), None, "200"),
        (chunked(&["12345", "", "67890"]), None, "200"),
        (Body::from("12345678901"), None, "413 body_too_large"),
        (chunked(&["12345", "67890", "1"]), None, "413 body_too_large"),
        (Body::empty(), Some("11"), "413 body_too_large"),
        (Body::empty(), Some("99999999999999999999"), "200"), // not a length; hyper refuses it before
        (Body::from_stream(cut), None, "400 body_incomplete"),
        (Body::from_stream(late), None, "408 body_timeout"),
    ] {
        let mut headers = vec![("host", "localhost")];
        headers.extend(declared.map(|length| ("content-length", length)));
        let response =
            ask(&door, request("POST", "/api/v1/mcp/call", &headers).body(body).expect("a request")).await;
        let status = response.status().as_u16();
        let found = if status == 200 {
            "200".to_owned()
        } else {
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            format!("{status} {}", json(response).await["code"].as_str().expect("a code"))
        };
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn nothing_is_read_for_somebody_who_is_not_let_in() {
    let (config, _) = with_key();
    let endless =
        futures_util::stream::iter(std::iter::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(65_536))));
    let headers = [("host", "localhost"), ("expect", "100-continue")];
    let request = request("POST", "/mcp", &headers).body(Body::from_stream(endless)).expect("a request");
    let response = ask(&door(&config), request).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(json(response).await["error"]["data"]["code"], "unauthorized");
}

#[tokio::test]
async fn the_order_is_host_origin_size_credential() {
    let (config, _) = with_key();
    let door = door(&Config { max_body_bytes: 10, ..config });
    for (host, origin, length, code) in [
        ("evil.example", "http://evil.example", "11", "host_not_allowed"),
        ("localhost", "http://evil.example", "11", "origin_not_allowed"),
        ("localhost", "http://localhost", "11", "body_too_large"),
        ("localhost", "http://localhost", "10", "unauthorized"),
    ] {
        let headers = [("host", host), ("origin", origin), ("content-length", length)];
        let response =
            ask(&door, request("POST", "/x", &headers).body(Body::empty()).expect("a request")).await;
        assert_eq!(json(response).await["code"], code);
    }
}

// RULES S10
#[tokio::test]
async fn listed_pages_get_what_they_need_and_no_others() {
    let (config, _) = with_key();
    let origins = Origins::Listed(vec![Origin::parse("https://app.example").expect("an origin")]);
    let door = door(&Config { origins, ..config });
    let preflight = |origin: &'static str| {
        let headers = [
            ("host", "localhost"),
            ("origin", origin),
            ("access-control-request-method", "POST"),
            (
                "access-control-request-headers",
                "Authorization, mcp-param-x, Last-Event-ID,cookie , x-evil, if-none-match",
            ),
        ];
        let request = request("OPTIONS", "/mcp", &headers).body(Body::empty()).expect("a request");
        let door = door.clone();
        async move { ask(&door, request).await }
    };
    let granted = preflight("https://app.example").await;
    assert_eq!(granted.status(), StatusCode::NO_CONTENT);
    let header = |response: &Response, name: &str| {
        response.headers().get(name).map(|value| value.to_str().expect("text").to_owned())
    };
    assert_eq!(header(&granted, "access-control-allow-origin").as_deref(), Some("https://app.example"));
    assert_eq!(
        header(&granted, "access-control-allow-headers").as_deref(),
        Some("authorization, mcp-param-x, last-event-id, if-none-match")
    );
    assert_eq!(
        header(&granted, "access-control-allow-methods").as_deref(),
        Some("GET, POST, PUT, PATCH, DELETE, OPTIONS")
    );
    assert_eq!(header(&granted, "access-control-allow-credentials"), None);
    for foreign in ["https://evil.example", "http://app.example", "http://localhost:8080"] {
        let refused = preflight(foreign).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        assert!(
            refused.headers().keys().all(|name| !name.as_str().starts_with("access-control")),
            "{foreign}"
        );
    }
    let refused = get_from(&door, "/mcp", &[("host", "localhost"), ("origin", "https://app.example")]).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let exposed = header(&refused, "access-control-expose-headers").expect("so that a page sees why");
    assert!(exposed.contains("mcp-session-id") && exposed.contains("x-request-id"));
    assert_eq!(header(&refused, "vary").as_deref(), Some("origin"));
    let program = get_from(&door, "/health", &[("host", "localhost")]).await;
    assert!(program.headers().keys().all(|name| !name.as_str().starts_with("access-control")));
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    let response = get_from(&door(&Config::default()), "/panic", &[("host", "localhost")]).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let id = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    let problem = json(response).await;
    assert_eq!((&problem["code"], &problem["request_id"]), (&"internal_error".into(), &id.into()));
    assert!(!problem.to_string().contains("bug"));
}

/// A key of another system is checked against its slow hash at its first request.
#[tokio::test]
async fn a_key_with_a_slow_hash_gets_in_at_its_first_request_and_a_wrong_one_does_not() {
    let key = "legacy-key-of-another-system";
    let hash = KeyHash::parse(&bcrypt::hash(key, 4).expect("hashed")).expect("a hash").expect("taken");
    let entry = ApiKey { id: "old".into(), hash, role: Role::Reader, expires: None, view: None };
    let door = door(&Config { auth: auth::Config::ApiKey(vec![entry].into()), ..Config::default() });
    for _ in 0..2 {
        let answer = get_from(&door, "/mcp", &[("host", "localhost"), ("x-api-key", key)]).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let text = answer.into_body().collect().await.expect("a body").to_bytes();
        assert!(text.starts_with(b"key:old "), "{text:?}");
        let wrong = [("host", "localhost"), ("authorization", "Bearer legacy-key-of-another-systen")];
        assert_eq!(get_from(&door, "/mcp", &wrong).await.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(get_from(&door, "/health", &wrong).await.status(), StatusCode::OK);
    }
    let busy = Refusal::Denied(Denied::Busy).response(AnswerFormat::Rest, RequestId::new());
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.headers()[RETRY_AFTER], "1");
}
