//! The routes of logins: roles, links, and servers that nobody logs in to.

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use axum::http::header::HOST;
use axum::http::{Method, StatusCode};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use super::super::fixture::{Answered, Gateway, request, server};
use super::*;
use auth::{Role, Sealer};
use gateway::login_links::LoginLinks;
use gateway::logins::{CodeResponse, Consent, ErrorResponse, LoginService, OwnClient, SealState};

/// Logins in memory: each principal has an own one at `docs`, and all share the one at `wiki`.
#[derive(Default)]
struct Fake {
    is_out: Mutex<bool>,
}

impl LoginService for Fake {
    fn per(&self, server: &str) -> Option<Per> {
        match server {
            "docs" => Some(Per::Principal),
            "wiki" => Some(Per::Shared),
            _ => None,
        }
    }

    fn start<'a>(
        &'a self,
        _: &'a str,
        _: &'a Principal,
        _: &'a OwnClient,
        _: SealState<'a>,
    ) -> BoxFuture<'a, Result<Consent, LoginError>> {
        async { Err(LoginError::NotOffered) }.boxed()
    }

    fn finish<'a>(
        &'a self,
        _: &'a str,
        _: &'a Principal,
        _: &'a str,
        _: CodeResponse<'a>,
    ) -> BoxFuture<'a, Result<LoginStatus, LoginError>> {
        async { Err(LoginError::NotOffered) }.boxed()
    }

    fn abandon(&self, _: &str, _: &Principal, _: &str, _: ErrorResponse<'_>) -> Result<(), LoginError> {
        Err(LoginError::NotOffered)
    }

    fn log_out<'a>(&'a self, _: &'a str, _: &'a Principal) -> BoxFuture<'a, Result<(), LoginError>> {
        *self.is_out.lock().expect("no panic") = true;
        async { Ok(()) }.boxed()
    }

    fn status(&self, server: &str, _: &Principal) -> Option<LoginStatus> {
        let per = self.per(server)?;
        let is_out = *self.is_out.lock().expect("no panic");
        let reason = is_out.then(|| "nobody has logged in".to_owned());
        let state = if is_out { LoginState::LoginRequired } else { LoginState::LoggedIn };
        let (account, scopes) = (Some("ann@example.org".to_owned()), vec!["read".to_owned()]);
        let expires_at = Some(UNIX_EPOCH + Duration::from_hours(24));
        Some(LoginStatus { state, account, scopes, expires_at, reason, failure: None, per })
    }
}

/// The logins of the gateway that the tests of this crate use.
pub(in super::super) fn in_memory() -> LoginContext {
    let links = Arc::new(LoginLinks::new(Arc::new(Sealer::random()), None));
    LoginContext { service: Arc::new(Fake::default()), links }
}

async fn three() -> Gateway {
    Gateway::of(vec![server("docs"), server("wiki"), server("plain")]).await
}

async fn ask(gateway: &Gateway, method: Method, name: &str, role: Role, host: &str) -> Answered {
    let mut request = request(method, &format!("/api/v1/mcp/servers/{name}/login"), Some(role), "");
    request.headers_mut().insert(HOST, host.parse().expect("a host"));
    gateway.ask(request).await
}

#[tokio::test(start_paused = true)]
async fn a_link_opens_the_page_for_its_principal() {
    let gateway = three().await;
    let link = ask(&gateway, Method::POST, "docs", Role::Caller, "127.0.0.1:8080").await.json();
    let url = link["url"].as_str().expect("a URL");
    assert!(url.starts_with("http://127.0.0.1:8080/oauth/start?login="), "{url}");
    assert!(!url.contains("docs") && !url.contains("somebody"), "the ticket is sealed");
    let unknown = ask(&gateway, Method::POST, "docs", Role::Caller, "gw.example").await;
    assert_eq!(unknown.problem(), (409, "login_not_possible".into()));
    assert!(unknown.json()["hint"].as_str().expect("a hint").contains("public_url"));
}

#[tokio::test(start_paused = true)]
async fn a_shared_login_is_changed_by_superusers_only() {
    let gateway = three().await;
    for (method, name, role, status) in [
        (Method::POST, "docs", Role::Reader, 403),
        (Method::GET, "docs", Role::Reader, 403),
        (Method::DELETE, "docs", Role::Reader, 403),
        (Method::POST, "docs", Role::Caller, 200),
        (Method::GET, "docs", Role::Caller, 200),
        (Method::POST, "wiki", Role::Caller, 403),
        (Method::GET, "wiki", Role::Caller, 200),
        (Method::DELETE, "wiki", Role::Caller, 403),
        (Method::POST, "wiki", Role::Superuser, 200),
        (Method::DELETE, "wiki", Role::Superuser, 200),
        (Method::DELETE, "docs", Role::Caller, 200),
    ] {
        let answered = ask(&gateway, method.clone(), name, role, "localhost").await;
        assert_eq!(answered.status.as_u16(), status, "{method} {name} {role}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_is_shown_until_it_ends() {
    let gateway = three().await;
    let shown = ask(&gateway, Method::GET, "wiki", Role::Caller, "localhost").await.json();
    let expected = json!({"server": "wiki", "state": "logged_in", "account": "ann@example.org", "scopes": ["read"],
        "expires_at": "1970-01-02T00:00:00.000Z", "per": "shared"});
    assert_eq!(shown, expected);
    let ended = ask(&gateway, Method::DELETE, "wiki", Role::Superuser, "localhost").await.json();
    assert_eq!(
        (&ended["state"], &ended["reason"]),
        (&json!("login_required"), &json!("nobody has logged in"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_oauth_has_no_login() {
    let gateway = three().await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let plain = ask(&gateway, method.clone(), "plain", Role::Superuser, "localhost").await;
        assert_eq!(plain.problem(), (409, "login_not_possible".into()), "{method}");
        assert_eq!(plain.json()["server"], "plain");
        let none = ask(&gateway, method, "none", Role::Superuser, "localhost").await;
        assert_eq!(none.problem(), (404, "server_not_found".into()));
        assert_eq!(none.status, StatusCode::NOT_FOUND);
    }
}
