//! Tests of the routes for API keys.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use axum::http::{HeaderMap, Method};
use serde_json::json;
use tower::ServiceExt;

use super::super::fixture::{Answered, Gateway, request};
use super::super::router;
use super::*;

const KEYS: &str = "/api/v1/mcp/keys";

async fn ask(gateway: &Gateway, method: Method, name: &str, body: &str) -> Answered {
    gateway.ask(request(method, &format!("{KEYS}/{name}"), Some(Role::Superuser), body)).await
}

async fn list(gateway: &Gateway) -> serde_json::Value {
    gateway.ask(request(Method::GET, KEYS, Some(Role::Superuser), "")).await.json()
}

#[tokio::test]
async fn key_is_made_shown_once_accepted_listed_and_revoked() {
    let gateway = Gateway::of(vec![]).await;
    let made = ask(&gateway, Method::PUT, "laptop", r#"{"role":"reader","expires":"2099-01-01"}"#).await;
    assert_eq!((made.status.as_u16(), made.header("cache-control")), (200, "no-store"), "{}", made.text());
    let key = made.json()["key"].as_str().expect("a key").to_owned();
    let headers = HeaderMap::from_iter([(auth::API_KEY_HEADER, key.parse().expect("a value"))]);
    let authenticator = gateway.options.authenticator.clone().expect("there is one");
    let principal = authenticator.authenticate(&headers).expect("it is accepted at once");
    assert_eq!(principal, Principal::new("key:laptop", Role::Reader));

    let all = list(&gateway).await;
    assert_eq!(all["keys"][0], json!({"id": "listed", "role": "caller", "stored_in": "api_keys"}));
    let stored = &all["keys"][1];
    assert_eq!((&stored["id"], &stored["expires"]), (&json!("laptop"), &json!("2099-01-01")));
    assert!(
        all["can_change"] == true && !all.to_string().contains("sha256") && !all.to_string().contains(&key)
    );

    let twice = ask(&gateway, Method::PUT, "laptop", r#"{"role":"reader"}"#).await;
    assert_eq!(twice.problem(), (409, "file_not_changed".into()));
    assert_eq!(ask(&gateway, Method::DELETE, "laptop", "").await.status, 200);
    assert!(authenticator.authenticate(&headers).is_err() && principal.is_revoked(), "it is refused at once");
    assert_eq!(ask(&gateway, Method::DELETE, "laptop", "").await.problem(), (404, "not_found".into()));
}

#[tokio::test]
async fn request_for_a_key_that_is_not_valid_changes_nothing() {
    let gateway = Gateway::of(vec![]).await;
    for (name, body) in [
        ("Laptop", r#"{"role":"reader"}"#),
        ("a_b", r#"{"role":"reader"}"#),
        ("a", "{}"),
        ("a", r#"{"role":"king"}"#),
        ("a", r#"{"role":"reader","expires":"soon"}"#),
        ("a", r#"{"role":"reader","expires":5}"#),
        ("a", r#"{"role":"reader","hash":"x"}"#),
        ("a", "[]"),
    ] {
        let answered = ask(&gateway, Method::PUT, name, body).await;
        assert_eq!(answered.problem(), (400, "invalid_request".into()), "{name} {body}");
    }
    for method in [Method::PUT, Method::DELETE] {
        let answered = ask(&gateway, method, "listed", r#"{"role":"reader"}"#).await;
        assert_eq!(answered.problem(), (409, "file_not_changed".into()));
    }
    let path = gateway.folder.path().join("keys.json");
    assert!(!path.exists());
    fs::write(&path, r#"{"keys": []}"#).expect("written");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("set");
    let answered = ask(&gateway, Method::PUT, "a", r#"{"role":"reader"}"#).await;
    assert_eq!(answered.problem(), (409, "file_not_changed".into()));
}

#[tokio::test]
async fn keys_change_only_with_a_file_of_keys_and_a_credential() {
    let gateway = Gateway::of(vec![]).await;
    let mut anonymous = request(Method::PUT, &format!("{KEYS}/a"), None, r#"{"role":"reader"}"#);
    anonymous.extensions_mut().insert(Principal::anonymous());
    assert_eq!(gateway.ask(anonymous).await.problem(), (403, "forbidden".into()));
    let without = |config| {
        let authenticator = Some(Arc::new(Authenticator::new(&config).expect("no file")));
        super::super::Options { authenticator, ..gateway.options.clone() }
    };
    for (options, status) in [
        (without(auth::Config::None), [404, 404]),
        (without(auth::Config::ApiKey(Vec::new().into())), [200, 404]),
        (super::super::Options { authenticator: None, ..gateway.options.clone() }, [404, 404]),
    ] {
        let router = router(gateway.manager.clone(), options);
        for (request, status) in [
            (request(Method::GET, KEYS, Some(Role::Superuser), ""), status[0]),
            (
                request(Method::PUT, &format!("{KEYS}/a"), Some(Role::Superuser), r#"{"role":"reader"}"#),
                status[1],
            ),
        ] {
            assert_eq!(router.clone().oneshot(request).await.expect("infallible").status(), status);
        }
    }
}
