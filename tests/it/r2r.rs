//! R2R behind the program: gone and back under load, and an account that it refuses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use crate::support::r2r::{EMAIL, PASSWORD, R2r};
use crate::support::{Gateway, PATIENCE, Registry, eventually};

const TOOL: &str = "r2r_list_collections";
const LOGIN: &str = "POST /v3/users/login";

/// A registry with R2R in it, whose answers are not kept.
fn registry(r2r: &R2r, password: &str) -> Registry {
    Registry::new().server(
        "r2r",
        &[
            "transport: builtin".to_owned(),
            "builtin: r2r".to_owned(),
            format!("url: {}", r2r.url()),
            "timeout: 5".to_owned(),
            "circuit_breaker_threshold: 3".to_owned(),
            "circuit_breaker_timeout: 1".to_owned(),
            format!(
                "r2r: {{email: {EMAIL:?}, password: {password:?}, project: my-app, cache_ttl: {{list: 0}}, \
                 collection_mapping_file: projects.json}}"
            ),
        ],
    )
}

#[tokio::test]
async fn r2r_is_killed_and_comes_back_under_load_and_no_call_hangs() {
    let mut r2r = R2r::start();
    let gateway = Gateway::of(&registry(&r2r, PASSWORD)).start().await;
    gateway.offers(&[TOOL]).await;
    let (is_over, good, refused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let load = join_all((0..16).map(|number| {
        let (gateway, is_over, good, refused) = (&gateway, &is_over, &good, &refused);
        async move {
            while !is_over.load(Ordering::Relaxed) {
                let call = gateway.call("r2r", TOOL, json!({"offset": number}));
                let answer = timeout(PATIENCE, call).await.expect("every call ends");
                match (answer.status, answer.json()["code"].as_str()) {
                    (200, _) => good.fetch_add(1, Ordering::Relaxed),
                    (502, Some("connection_failed" | "outcome_unknown")) | (503, Some("circuit_open")) => {
                        refused.fetch_add(1, Ordering::Relaxed)
                    }
                    other => panic!("{other:?}: {answer:?}"),
                };
            }
        }
    }));
    let answered = async |more| {
        let before = good.load(Ordering::Relaxed);
        eventually("calls are answered", async || {
            (good.load(Ordering::Relaxed) > before + more).then_some(())
        })
        .await;
    };
    let story = async {
        for _ in 0..3 {
            answered(50).await;
            r2r.kill();
            eventually("the breaker opens", async || {
                let breakers = gateway.get("/circuit-breakers").await.json();
                breakers.to_string().contains(r#""state":"open""#).then_some(())
            })
            .await;
            r2r.restart();
        }
        answered(50).await;
        is_over.store(true, Ordering::Relaxed);
    };
    timeout(PATIENCE * 3, async { tokio::join!(load, story) }).await.expect("it recovers");
    assert!(refused.load(Ordering::Relaxed) > 0);
    assert!(r2r.count(LOGIN) < 20, "{} logins", r2r.count(LOGIN));
}

#[tokio::test]
async fn a_refused_account_parks_the_server_and_says_why_in_both_eras() {
    let r2r = R2r::start();
    let gateway = Gateway::of(&registry(&r2r, "not-it")).start().await;
    let refused = async || {
        let servers = gateway.get("/servers").await.json();
        servers.to_string().contains(r#""state":"auth_failed""#).then_some(servers)
    };
    let servers = eventually("it waits for an operator", refused).await.to_string();
    assert!(servers.contains("Incorrect email or password") && !servers.contains("not-it"), "{servers}");
    for _ in 0..5 {
        let answer = gateway.call("r2r", TOOL, json!({})).await;
        let problem = answer.json();
        assert_eq!((answer.status, &problem["code"]), (503, &json!("auth_failed")), "{answer:?}");
        assert_eq!(
            (&problem["type"], &problem["retryable"]),
            (&json!("/docs/errors#auth_failed"), &json!(false))
        );
    }
    let modern = gateway.mcp_of("r2r").call(TOOL, json!({})).await;
    let legacy = gateway.mcp_of("r2r").legacy().await.call(TOOL, json!({})).await;
    for (answer, number) in [(modern, -31002), (legacy, -32002)] {
        let error = answer.error();
        assert_eq!((answer.error_code(), &error["data"]["code"]), (number, &json!("auth_failed")), "{error}");
        assert_eq!(error["data"]["type"], "authentication_error");
        assert!(error["data"]["detail"].as_str().is_some_and(|text| text.contains("Incorrect")), "{error}");
    }
    assert_eq!(r2r.count(LOGIN), 1, "it is not asked again by itself");

    let refused = gateway.post("/servers/r2r/reconnect", "").await;
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("auth_failed")), "{refused:?}");
    assert_eq!(r2r.count(LOGIN), 2, "once for the operator");
    r2r.change_password("not-it");
    assert_eq!(gateway.post("/servers/r2r/reconnect", "").await.status, 200);
    gateway.offers(&[TOOL]).await;
    assert_eq!(gateway.call("r2r", TOOL, json!({})).await.status, 200);
    assert!(!gateway.log().iter().any(|line| line.to_string().contains("not-it")), "nothing of it is logged");
}

#[tokio::test]
async fn refused_credentials_are_not_tried_again_after_one_more_login() {
    let r2r = R2r::start();
    let gateway = Gateway::of(&registry(&r2r, PASSWORD)).start().await;
    gateway.offers(&[TOOL]).await;
    r2r.change_password("another");
    let before = r2r.count(LOGIN);
    let calls = join_all((0..16).map(|number| gateway.call("r2r", TOOL, json!({"offset": number})))).await;
    assert!(calls.iter().all(|answer| answer.status != 200));
    eventually("it waits for an operator", async || {
        let servers = gateway.get("/servers").await.json();
        servers.to_string().contains(r#""state":"auth_failed""#).then_some(())
    })
    .await;
    assert!(r2r.count(LOGIN) - before <= 2, "{} logins", r2r.count(LOGIN) - before);
}
