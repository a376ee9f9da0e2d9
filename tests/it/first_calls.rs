//! The `timeout` of a call bounds everything that it waits for, also the first connection of its client.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::scripted::{Step, TestServer, full, result};

use crate::support::{Answer, Registry, Running, at_once, eventually, odd};

/// The `timeout` of the servers, in seconds.
const TIMEOUT: u64 = 3;
/// The most time of a call until its client has the answer. Two waits of a call would take longer.
const LONGEST: Duration = Duration::from_millis(TIMEOUT * 1_000 + 2_900);

const INITIALIZED: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{}},
    "serverInfo":{"name":"odd","version":"1"}}"#;

/// A server with sessions. Once it `hangs`, it does not answer `method` on a session that is new then. If that is
/// `initialize`, it knows no session any more.
async fn hanging(method: &'static str, hangs: &Arc<AtomicBool>) -> TestServer {
    let (hangs, fine) = (Arc::clone(hangs), Mutex::new(HashSet::new()));
    odd::http(move |seen| {
        let is_hung = hangs.load(Ordering::Relaxed);
        let session = seen.header("mcp-session-id").unwrap_or_default();
        let is_old = fine.lock().expect("no panic").contains(session);
        if is_hung && !is_old && seen.method() == method {
            return Some(vec![Step::Hang]);
        }
        if is_hung && method == "initialize" {
            return Some(vec![full(404, "", "")]);
        }
        let answer = match seen.method().as_str() {
            "initialize" => {
                let id = format!("s{}", seen.connection);
                if !is_hung {
                    fine.lock().expect("no panic").insert(id.clone());
                }
                return Some(vec![odd::opened(seen, &id, INITIALIZED)]);
            }
            "prompts/list" => r#"{"prompts":[{"name":"p"}]}"#,
            "resources/list" => r#"{"resources":[{"name":"r","uri":"file:///r"}]}"#,
            _ => return None,
        };
        Some(vec![result(seen, answer)])
    })
    .await
}

/// Makes a request of a new MCP session, which ends within the timeout.
async fn ends_in_time(gateway: &Running, method: &str, params: &Value, what: &str) -> Answer {
    let session = gateway.mcp().legacy().await;
    let started = Instant::now();
    let answer = session.request(method, params.clone()).await;
    assert!(started.elapsed() < LONGEST, "{what}: {method} took {:?}: {answer:?}", started.elapsed());
    answer
}

#[tokio::test]
async fn first_request_of_a_session_at_a_hanging_server_ends_at_its_timeout() {
    let requests = [
        ("tools/call", json!({"name": "fine", "arguments": {}})),
        ("prompts/get", json!({"name": "p"})),
        ("resources/read", json!({"uri": "file:///r"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
        ),
    ];
    // One after another: the start of a gateway would delay the clock of the requests.
    for hung in ["initialize", "notifications/initialized", "tools/list"] {
        let hangs = Arc::<AtomicBool>::default();
        let server = hanging(hung, &hangs).await;
        let registry = Registry::new().http("one", server.url.as_str()).with(&format!("timeout: {TIMEOUT}"));
        let gateway = odd::ready(&registry).await;
        eventually("its prompts and resources are there", async || {
            let status = gateway.get("/servers/one").await.json();
            (status["prompt_count"] == 1 && status["resource_count"] == 1).then_some(())
        })
        .await;
        hangs.store(true, Ordering::Relaxed);
        at_once(requests.clone(), async |(method, params)| {
            let answer = ends_in_time(&gateway, method, &params, hung).await;
            // A call needs no list.
            assert!(hung == "tools/list" || answer.body.contains("error"), "{hung}: {answer:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn first_call_of_a_session_at_a_hanging_process_ends_at_its_timeout() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("started");
    // Only the first process answers.
    let before = format!("[ -e {0} ] && sleep 30; : > {0}", mark.display());
    let stdio = odd::script(Registry::new(), "one", &before, "").with("sharing: per_session");
    let gateway = odd::ready(&stdio.with(&format!("timeout: {TIMEOUT}"))).await;
    let session = gateway.mcp().legacy().await;
    let started = Instant::now();
    let refused = session.call("fine", json!({})).await.error();
    // The program moves the deadline when it is seen to start.
    let longest = LONGEST + Duration::from_secs(TIMEOUT / 2);
    assert!(started.elapsed() < longest, "{:?}: {refused}", started.elapsed());
}

#[tokio::test]
async fn call_after_the_loss_of_a_session_at_a_hanging_server_ends_at_its_timeout() {
    let hangs = Arc::<AtomicBool>::default();
    let server = hanging("initialize", &hangs).await;
    let registry = Registry::new().http("one", server.url.as_str()).with(&format!("timeout: {TIMEOUT}"));
    let gateway = odd::ready(&registry).await;
    let session = gateway.mcp().legacy().await;
    assert_eq!(session.call("fine", json!({})).await.text(), "hi");
    hangs.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let started = Instant::now();
        let refused = session.call("fine", json!({})).await.error();
        assert!(started.elapsed() < LONGEST, "{:?}: {refused}", started.elapsed());
    }
}
