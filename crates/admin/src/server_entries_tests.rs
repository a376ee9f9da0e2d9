//! Tests of the routes that change servers of the configuration file.

use std::sync::Mutex;

use axum::http::{Method, Request};
use serde_json::json;
use tower::ServiceExt;

use super::super::fixture::{Gateway, request};
use super::super::router;
use super::*;
use auth::Role;

const SERVER: &str = "/api/v1/mcp/servers/new";
const URL: &str = r#"{"url":"https://a.example.org/mcp"}"#;

fn requested(method: &Method, query: &str, body: &str) -> Request<Body> {
    request(method.clone(), &format!("{SERVER}{query}"), Some(Role::Superuser), body)
}

/// Status and body of the answer of a gateway whose file is edited by `edit`.
async fn answer(
    gateway: &Gateway,
    edit: Option<EditEntry>,
    request: Request<Body>,
) -> (u16, serde_json::Value) {
    let options = Options { edit_entry: edit, ..gateway.options.clone() };
    let response = router(gateway.manager.clone(), options).oneshot(request).await.expect("infallible");
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("in memory");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

#[tokio::test]
async fn change_is_planned_or_written_and_reloaded() {
    let gateway = Gateway::of(vec![]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let edit: EditEntry = Arc::new(move |name, change, dry_run| {
        noted.lock().expect("whole").push((name.to_owned(), change.clone(), dry_run));
        let after = Some(Raw::of(&json!({"url": "https://a.example.org/mcp"})));
        Ok(EditedEntry { after, written: !dry_run, backup: Some("backup".into()), ..EditedEntry::default() })
    });
    let body = r#"{"url":"https://a.example.org/mcp","headers":{"A":"b"},"oauth":true,"enabled":false}"#;
    let (status, planned) =
        answer(&gateway, Some(edit.clone()), requested(&Method::PUT, "?dry_run=true", body)).await;
    assert_eq!((status, &planned["written"], &planned["reloaded"]), (200, &json!(false), &json!(null)));
    let (status, made) = answer(&gateway, Some(edit.clone()), requested(&Method::PUT, "", body)).await;
    assert_eq!(
        (status, &made["written"], &made["reloaded"]["added"]),
        (200, &json!(true), &json!([])),
        "{made}"
    );
    let (status, _) =
        answer(&gateway, Some(edit.clone()), requested(&Method::PATCH, "?dry_run=false", "{}")).await;
    assert_eq!(status, 200);
    let (status, _) = answer(&gateway, Some(edit), requested(&Method::DELETE, "", "")).await;
    assert_eq!(status, 200);
    let seen = seen.lock().expect("whole");
    let settings = EntrySettings {
        url: Some("https://a.example.org/mcp".into()),
        headers: Some(BTreeMap::from([("A".into(), "b".into())])),
        oauth: Some(true),
        description: None,
        enabled: Some(false),
    };
    assert_eq!(seen[0], ("new".to_owned(), EntryChange::Add(settings.clone()), true));
    assert_eq!(seen[1], ("new".to_owned(), EntryChange::Add(settings), false));
    assert_eq!(seen[2].1, EntryChange::Edit(EntrySettings::default()));
    assert_eq!(seen[3].1, EntryChange::Remove);
}

#[tokio::test]
async fn client_can_name_no_program_and_no_file() {
    let gateway = Gateway::of(vec![]).await;
    for body in [
        r#"{"command":"sh","args":["-c","id"]}"#,
        r#"{"url":"https://a.example.org","command":"sh"}"#,
        r#"{"url":"https://a.example.org","env_file":"/etc/passwd"}"#,
        r#"{"url":"https://a.example.org","auth":{"bearer_file":"/etc/passwd"}}"#,
        r#"{"url":"https://a.example.org","tls":{"ca":"/etc/passwd"}}"#,
        r#"{"url":"https://a.example.org","builtin":"rag"}"#,
        r#"{"url":"https://a.example.org","public_only":false}"#,
        r#"{"url":["https://a.example.org"]}"#,
        r#"{"url":"https://a.example.org","headers":{"A":{"B":"c"}}}"#,
        r#"{"url":"https://a.example.org","headers":{"A":"b","A":"c"}}"#,
        r#"{"url":"https://a.example.org","oauth":"oauth"}"#,
        r#"{"url":""}"#,
        "{}",
        "[]",
    ] {
        let answered = gateway.ask(requested(&Method::PUT, "", body)).await;
        assert_eq!(answered.problem(), (400, "invalid_request".into()), "{body}");
        if body != "{}" && body != "[]" {
            let answered = gateway.ask(requested(&Method::PATCH, "", body)).await;
            assert_eq!(answered.problem(), (400, "invalid_request".into()), "{body}");
        }
    }
    for query in ["?dry_run=1", "?dry_run=true&dry_run=false", "?dryrun=true"] {
        let answered = gateway.ask(requested(&Method::PUT, query, URL)).await;
        assert_eq!(answered.problem(), (400, "invalid_request".into()), "{query}");
    }
}

#[tokio::test]
async fn file_is_not_changed_without_a_credential() {
    let gateway = Gateway::of(vec![]).await;
    let edit: EditEntry = Arc::new(|_, _, _| panic!("the file is not touched"));
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        for query in ["", "?dry_run=true"] {
            let mut request = requested(&method, query, URL);
            request.extensions_mut().insert(Principal::anonymous());
            let (status, body) = answer(&gateway, Some(edit.clone()), request).await;
            assert_eq!((status, &body["code"]), (403, &json!("forbidden")), "{method}");
            let (status, _) = answer(&gateway, None, requested(&method, query, URL)).await;
            assert_eq!(status, 404, "{method}");
        }
    }
    for (reason, status) in [
        (NotEdited::Invalid("a".into()), 400),
        (NotEdited::Unknown("b".into()), 404),
        (NotEdited::Conflict("c".into()), 409),
    ] {
        let edit: EditEntry = Arc::new(move |_, _, _| Err(reason.clone()));
        assert_eq!(answer(&gateway, Some(edit), requested(&Method::PATCH, "", "{}")).await.0, status);
    }
}
