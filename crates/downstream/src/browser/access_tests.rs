//! Sessions of browsers as credentials of REST: where they count, and attacks from other sites.

use axum::body::Body;
use axum::extract::Request;
use axum::routing::any;
use axum::{Extension, Router};
use http::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use tower::ServiceExt;

use super::*;
use crate::guard::Guard;
use crate::http_service::HttpService;
use auth::{ApiKey, KeyHash, Role, generate};

const HOST_NAME: &str = "127.0.0.1:8080";
const OWN: (&str, &str) = ("origin", "http://127.0.0.1:8080");

/// A gateway with one key, and its session.
struct Site {
    router: Router,
    key: String,
    cookie: String,
    csrf: String,
    sessions: Arc<BrowserSessions>,
}

impl Site {
    async fn new() -> Self {
        let (key, hash) = generate("ops");
        let entry = ApiKey {
            id: "ops".into(),
            hash: KeyHash::Sha256(hash),
            role: Role::Superuser,
            expires: None,
            view: None,
        };
        let config = Config { auth: auth::Config::ApiKey(vec![entry].into()), ..Config::default() };
        let guard = Guard::new(&config).expect("no files");
        let sessions = guard.browser().sessions();
        let Ok(new) = sessions.sign_in(SecretString::from(key.expose_secret())).await else {
            panic!("refused")
        };
        let who = |principal: Option<Extension<Principal>>| async move {
            principal.map_or_else(|| "nobody".to_owned(), |Extension(principal)| principal.id().to_string())
        };
        let rest = Router::new()
            .route("/api/v1/mcp/reload", any(who))
            .route("/health", any(who))
            .route("/mcp", any(who));
        Self {
            router: HttpService::new(guard, rest).into_router(),
            key: key.expose_secret().to_owned(),
            cookie: format!("switchyard-session-8080={}", new.cookie.expose_secret()),
            csrf: new.session.csrf().to_owned(),
            sessions,
        }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(path).header("host", HOST_NAME);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (status, String::from_utf8(body.to_vec()).expect("UTF-8"))
    }

    async fn post(&self, headers: &[(&str, &str)]) -> (u16, String) {
        let (status, body) = self.send("POST", "/api/v1/mcp/reload", headers).await;
        (status.as_u16(), body)
    }
}

#[tokio::test]
async fn a_session_reads_and_changes_with_its_token_only() {
    let site = Site::new().await;
    let (cookie, csrf) = (("cookie", site.cookie.as_str()), ("x-switchyard-csrf", site.csrf.as_str()));
    let read = site.send("GET", "/api/v1/mcp/reload", &[cookie]).await;
    assert_eq!(read, (StatusCode::OK, "key:ops".to_owned()));
    assert_eq!(site.post(&[cookie, csrf, OWN]).await, (200, "key:ops".to_owned()));
    let same = ("sec-fetch-site", "same-origin");
    for headers in [
        &[cookie, OWN][..],
        &[cookie, OWN, same, ("x-switchyard-csrf", "")],
        &[cookie, OWN, same, ("x-switchyard-csrf", "wrong")],
        &[cookie, OWN, same, csrf, csrf],
        &[cookie, csrf],
        &[cookie, csrf, ("origin", "http://127.0.0.1:3000")],
        &[cookie, csrf, ("origin", "http://localhost:8080")],
    ] {
        let (status, body) = site.post(headers).await;
        assert_eq!(status, 403, "{headers:?}");
        assert!(body.contains("csrf_token_required"), "{headers:?}: {body}");
    }
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(site.send(method, "/api/v1/mcp/reload", &[cookie, OWN]).await.0, StatusCode::FORBIDDEN);
    }
    let (status, body) = site.post(&[cookie, csrf, ("origin", "https://evil.example")]).await;
    assert!(status == 403 && body.contains("origin_not_allowed"), "{body}");
}

#[tokio::test]
async fn a_request_of_another_site_has_no_session() {
    let site = Site::new().await;
    let cookie = ("cookie", site.cookie.as_str());
    for (from, expected) in [("same-origin", 200), ("none", 200), ("same-site", 401), ("cross-site", 401)] {
        let headers = [cookie, ("sec-fetch-site", from), ("sec-fetch-dest", "document")];
        let (status, _) = site.send("GET", "/api/v1/mcp/reload", &headers).await;
        assert_eq!(status.as_u16(), expected, "{from}");
        let (status, body) = site.send("GET", "/health", &headers).await;
        let who = if expected == 200 { "key:ops" } else { "nobody" };
        assert_eq!((status.as_u16(), body.as_str()), (200, who), "{from}");
    }
    let csrf = ("x-switchyard-csrf", site.csrf.as_str());
    assert_eq!(site.post(&[cookie, csrf, OWN, ("sec-fetch-site", "cross-site")]).await.0, 401);
    let embedded = [cookie, ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "image")];
    assert_eq!(site.send("GET", "/health", &embedded).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_session_does_not_count_for_mcp_and_not_beside_a_credential() {
    let site = Site::new().await;
    let (cookie, csrf) = (("cookie", site.cookie.as_str()), ("x-switchyard-csrf", site.csrf.as_str()));
    assert_eq!(site.send("POST", "/mcp", &[cookie, csrf, OWN]).await.0, StatusCode::UNAUTHORIZED);
    let wrong = ("authorization", "Bearer swy_ops_0");
    assert_eq!(site.post(&[cookie, csrf, OWN, wrong]).await.0, 401, "a wrong key is refused");
    let right = format!("Bearer {}", site.key);
    assert_eq!(site.post(&[cookie, ("authorization", &right)]).await.0, 200, "a key needs no token");
}

#[tokio::test]
async fn an_ended_session_counts_no_longer() {
    let site = Site::new().await;
    let cookie = ("cookie", site.cookie.as_str());
    let value = site.cookie.split_once('=').expect("a pair").1;
    let session = site.sessions.find(value, None).await.expect("a session");
    site.sessions.end(&session);
    assert_eq!(site.send("GET", "/api/v1/mcp/reload", &[cookie]).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(site.send("GET", "/health", &[cookie]).await, (StatusCode::OK, "nobody".to_owned()));
}
