//! A session that a server forgot is opened again, in whatever way the server says so.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use testkit::scripted::{ReceivedRequest, Step, TestServer, chunk, end, event, full, stream};

use crate::support::{Gateway, Registry, Running, at_once, eventually, odd};

/// How a server says that it does not know the session. `$ID` is the id of the request.
#[derive(Clone, Copy, Debug)]
struct Form(u16, &'static str, &'static str);

const JSON: &str = "content-type: application/json\r\n";

/// Nothing ran, so the call is repeated.
const REPEATED: [Form; 11] = [
    Form(404, "", ""),
    Form(404, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"Session not found"}}"#),
    Form(404, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Not Found"}}"#),
    Form(404, "content-type: text/html\r\n", "<h1>Not Found</h1>"),
    Form(410, "", "Gone"),
    Form(410, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"expired"}}"#),
    Form(400, "", "Keine Sitzung"),
    Form(400, JSON, r#"{"detail":"unknown session"}"#),
    Form(400, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"whatever"}}"#),
    Form(400, JSON, r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}"#),
    Form(400, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"no"}}"#),
];
/// The call may have run, so it fails. The next one has a new session.
const FAILED: [Form; 5] = [
    Form(401, "", "no"),
    Form(200, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"Session not found"}}"#),
    Form(200, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#),
    Form(200, JSON, r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}"#),
    Form(
        200,
        "content-type: text/event-stream\r\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"no\"}}\n\n",
    ),
];

/// A server with sessions that it can forget.
struct Forgetful {
    server: TestServer,
    opened: Arc<AtomicUsize>,
    known: Arc<Mutex<HashSet<String>>>,
}

impl Forgetful {
    /// `streams` says whether it offers the event stream of a session.
    async fn new(form: Form, streams: bool) -> Self {
        let (opened, known) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<HashSet<String>>>::default());
        let (count, sessions) = (Arc::clone(&opened), Arc::clone(&known));
        let server = odd::http(move |seen| {
            if seen.method() == "initialize" {
                let id = format!("s{}", count.fetch_add(1, Ordering::Relaxed) + 1);
                sessions.lock().expect("no panic").insert(id.clone());
                return Some(vec![odd::opened(seen, &id, odd::usual_result(seen)?)]);
            }
            let session = seen.header("mcp-session-id")?;
            if !sessions.lock().expect("no panic").contains(session) {
                let Form(status, headers, body) = form;
                return Some(vec![full(status, headers, &body.replace("$ID", &seen.id()))]);
            }
            (streams && seen.line.starts_with("GET")).then(|| vec![stream(""), Step::Wait, end()])
        })
        .await;
        Self { server, opened, known }
    }

    fn forget(&self) {
        self.known.lock().expect("no panic").clear();
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    fn registry(&self) -> Registry {
        Registry::new().http("one", self.server.url.as_str())
    }
}

async fn breaker_is_closed(gateway: &Running) -> bool {
    let breaker = gateway.get("/circuit-breakers").await.json()["circuit_breakers"][0].clone();
    breaker["state"] == "closed" && breaker["failure_count"] == 0
}

fn is_call(seen: &ReceivedRequest) -> bool {
    seen.method() == "tools/call"
}

#[tokio::test]
async fn a_call_that_did_not_run_is_repeated_once_on_a_new_session() {
    at_once(REPEATED, async |form| {
        let server = Forgetful::new(form, false).await;
        let gateway = odd::ready(&server.registry().with("retry_attempts: 0")).await;
        assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200, "{form:?}");
        let opened = server.opened();
        server.forget();
        let called = gateway.call("one", "fine", json!({})).await;
        assert_eq!(called.status, 200, "{form:?}: {called:?}");
        assert_eq!(server.opened(), opened + 1, "{form:?}");
        assert!(breaker_is_closed(&gateway).await, "{form:?}");
    })
    .await;
}

#[tokio::test]
async fn a_call_that_may_have_run_fails_and_the_next_one_has_a_new_session() {
    at_once(FAILED, async |form| {
        let server = Forgetful::new(form, false).await;
        let gateway = odd::ready(&server.registry()).await;
        assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200, "{form:?}");
        server.forget();
        let (before, opened) =
            (server.server.seen().iter().filter(|seen| is_call(seen)).count(), server.opened());
        let failed = gateway.call("one", "fine", json!({})).await;
        assert!(failed.status != 200 || failed.json()["success"] == false, "{form:?}: {failed:?}");
        let calls = server.server.seen().iter().filter(|seen| is_call(seen)).count();
        assert_eq!(calls, before + 1, "{form:?}: it is not repeated");
        let called = gateway.call("one", "fine", json!({})).await;
        assert_eq!((called.status, server.opened()), (200, opened + 1), "{form:?}: {called:?}");
        assert!(breaker_is_closed(&gateway).await, "{form:?}");
    })
    .await;
}

#[tokio::test]
async fn many_calls_at_once_open_one_new_session() {
    at_once([REPEATED[0], REPEATED[4], REPEATED[6], REPEATED[9]], async |form| {
        let server = Forgetful::new(form, false).await;
        let gateway = odd::ready(&server.registry().setting("connection_pool_size: 1")).await;
        for round in 1..4 {
            let opened = server.opened();
            server.forget();
            let calls = (0..20).map(|_| gateway.call("one", "fine", json!({})));
            let statuses: Vec<u16> =
                futures_util::future::join_all(calls).await.iter().map(|a| a.status).collect();
            assert_eq!(statuses, [200; 20], "{form:?}, round {round}");
            assert_eq!(server.opened(), opened + 1, "{form:?}, round {round}");
        }
        assert!(breaker_is_closed(&gateway).await, "{form:?}");
    })
    .await;
}

#[tokio::test]
async fn a_refusal_that_a_new_session_does_not_cure_is_the_answer() {
    at_once(
        [
            (
                Form(400, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad x"}}"#),
                "bad x",
            ),
            (Form(404, "", ""), "404"),
            (Form(400, "", ""), "400"),
        ],
        async |(form, text)| {
            let server = odd::http(move |seen| match seen.method().as_str() {
                "initialize" => Some(vec![odd::opened(seen, "s", odd::usual_result(seen)?)]),
                "tools/call" if seen.has(r#""odd""#) => Some(vec![full(form.0, form.1, form.2)]),
                _ => None,
            })
            .await;
            let gateway = odd::ready(&Registry::new().http("one", server.url.as_str())).await;
            let count = |method: &str| server.seen().iter().filter(|seen| seen.method() == method).count();
            let before = count("initialize");
            let refused = gateway.call("one", "odd", json!({})).await;
            assert_ne!(refused.status, 200, "{form:?}");
            assert!(format!("{refused:?}").contains(text), "{form:?}: {refused:?}");
            assert_eq!(count("tools/call"), 2, "{form:?}: once more on a new session");
            for _ in 0..10 {
                gateway.call("one", "odd", json!({})).await;
            }
            if form.0 == 400 {
                let opened = count("initialize") - before;
                assert!(opened <= 5, "{form:?}: {opened} sessions for one caller's mistake");
            }
            assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200, "{form:?}");
            assert!(breaker_is_closed(&gateway).await, "{form:?}");
        },
    )
    .await;
}

#[tokio::test]
async fn an_idle_session_is_opened_again_after_a_health_check() {
    at_once([REPEATED[0], REPEATED[6], REPEATED[8], FAILED[0], FAILED[1], FAILED[3]], async |form| {
        let server = Forgetful::new(form, false).await;
        let gateway = Gateway::of(&server.registry().setting("health_check_interval: 1")).start().await;
        gateway.offers(&["fine", "odd"]).await;
        let opened = server.opened();
        server.forget();
        eventually(&format!("another session after {form:?}"), async || {
            (server.opened() > opened).then_some(())
        })
        .await;
    })
    .await;
}

/// Answers of a server to all requests on a session that it forgot.
const ERRORS: [Form; 4] = [
    Form(200, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"Session not found"}}"#),
    Form(200, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"Method not found"}}"#),
    Form(400, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32600,"message":"Not initialized"}}"#),
    Form(500, JSON, r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no session"}}"#),
];

#[tokio::test]
async fn a_session_whose_requests_all_get_errors_is_opened_again_after_a_ping() {
    at_once(ERRORS, async |form| {
        let server = Forgetful::new(form, false).await;
        let gateway = Gateway::of(&server.registry().setting("health_check_interval: 1")).start().await;
        gateway.offers(&["fine", "odd"]).await;
        server.server.saw(1, |seen| seen.method() == "ping").await;
        // The answer is read before the next one is sent.
        server.server.saw(2, |seen| seen.method() == "ping").await;
        assert_eq!(gateway.call("one", "fine", json!({})).await.json()["success"], true, "{form:?}");
        server.forget();
        eventually(&format!("another session after {form:?}"), async || {
            let called = gateway.call("one", "fine", json!({})).await;
            (called.status == 200 && called.json()["success"] == true).then_some(())
        })
        .await;
        assert!(breaker_is_closed(&gateway).await, "{form:?}");
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_forgotten_before_its_first_ping_is_opened_again() {
    at_once(ERRORS, async |form| {
        let server = Forgetful::new(form, false).await;
        let gateway = Gateway::of(&server.registry().setting("health_check_interval: 1")).start().await;
        gateway.offers(&["fine", "odd"]).await;
        server.forget();
        assert!(!server.server.seen().iter().any(|seen| seen.method() == "ping"), "{form:?}: no ping yet");
        eventually(&format!("another session after {form:?}"), async || {
            let called = gateway.call("one", "fine", json!({})).await;
            (called.status == 200 && called.json()["success"] == true).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_result_on_a_resumed_stream_shows_that_the_session_lives() {
    let (opened, pings) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&opened);
    let server = odd::http(move |seen| {
        let id = seen.id();
        match seen.method().as_str() {
            "initialize" => {
                count.fetch_add(1, Ordering::Relaxed);
                Some(vec![odd::opened(seen, "s", odd::usual_result(seen)?)])
            }
            "ping" if [1, 2].contains(&pings.fetch_add(1, Ordering::Relaxed)) => {
                let error = r#"{"code":-32603,"message":"no"}"#;
                Some(vec![full(200, JSON, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))])
            }
            "tools/call" => {
                let begun = format!("id: {id}\nretry: 50\ndata: \n\n");
                Some(vec![stream("connection: close\r\n"), chunk(&begun), end(), Step::Close])
            }
            "" if seen.line.starts_with("GET") => {
                let id = seen.header("last-event-id")?;
                let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
                Some(vec![stream(""), event(&reply), end()])
            }
            _ => None,
        }
    })
    .await;
    let registry = Registry::new().http("one", server.url.as_str()).setting("health_check_interval: 1");
    let gateway = Gateway::of(&registry).start().await;
    let is_ping = |seen: &ReceivedRequest| seen.method() == "ping";
    server.saw(2, is_ping).await;
    let before = opened.load(Ordering::Relaxed);
    assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200);
    assert_eq!(server.seen().iter().filter(|seen| is_ping(seen)).count(), 2, "between the two errors");
    server.saw(4, is_ping).await;
    assert_eq!(opened.load(Ordering::Relaxed), before);
}

#[tokio::test]
async fn a_server_that_never_knew_ping_keeps_its_session() {
    let opened = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&opened);
    let server = odd::http(move |seen| {
        let id = seen.id();
        match seen.method().as_str() {
            "initialize" => {
                count.fetch_add(1, Ordering::Relaxed);
                Some(vec![odd::opened(seen, "s", odd::usual_result(seen)?)])
            }
            "ping" => {
                let error = r#"{"code":-32600,"message":"Unknown method"}"#;
                Some(vec![full(200, JSON, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))])
            }
            _ => None,
        }
    })
    .await;
    let registry = Registry::new().http("one", server.url.as_str()).setting("health_check_interval: 1");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["fine", "odd"]).await;
    let before = opened.load(Ordering::Relaxed);
    server.saw(4, |seen| seen.method() == "ping").await;
    assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200);
    assert_eq!(opened.load(Ordering::Relaxed), before, "each error would have ended the session");
}

#[tokio::test]
async fn a_refused_event_stream_ends_the_session() {
    at_once([REPEATED[0], REPEATED[4], REPEATED[6], FAILED[0]], async |form| {
        let server = Forgetful::new(form, true).await;
        let _gateway = odd::ready(&server.registry()).await;
        let opened = server.opened();
        server.forget();
        // The stream ends, and opening it again is refused.
        server.server.go.add_permits(10);
        eventually(&format!("another session after {form:?}"), async || {
            (server.opened() > opened).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn the_session_of_one_client_is_opened_again_too() {
    at_once([REPEATED[0], REPEATED[4], REPEATED[6], REPEATED[8], FAILED[0], FAILED[1]], async |form| {
        let server = Forgetful::new(form, false).await;
        let gateway = odd::ready(&server.registry().with("sharing: per_session")).await;
        let session = gateway.mcp().legacy().await;
        assert_eq!(session.call("fine", json!({})).await.text(), "hi", "{form:?}");
        let opened = server.opened();
        server.forget();
        if matches!(form.0, 401 | 200) {
            session.call("fine", json!({})).await;
        }
        let answer = session.call("fine", json!({})).await;
        assert!(format!("{answer:?}").contains("hi"), "{form:?}: {answer:?}");
        assert!(server.opened() > opened, "{form:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    })
    .await;
}

#[tokio::test]
async fn a_method_that_a_new_session_refuses_too_is_unknown_and_its_refusal_ends_no_session() {
    const INITIALIZED: &str = r#"{"protocolVersion":"2025-06-18","serverInfo":{"name":"odd","version":"1"},
        "capabilities":{"tools":{},"prompts":{},"resources":{}}}"#;
    at_once([REPEATED[0], REPEATED[2], REPEATED[5]], async |form| {
        let (opened, current) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<String>>::default());
        let (count, known) = (Arc::clone(&opened), Arc::clone(&current));
        let server = odd::http(move |seen| {
            let Form(status, headers, body) = form;
            let refused = || Some(vec![full(status, headers, &body.replace("$ID", &seen.id()))]);
            let method = seen.method();
            if method == "initialize" {
                let id = format!("s{}", count.fetch_add(1, Ordering::Relaxed) + 1);
                known.lock().expect("no panic").clone_from(&id);
                return Some(vec![odd::opened(seen, &id, INITIALIZED)]);
            }
            let session = seen.header("mcp-session-id")?;
            let is_unknown = ["prompts/list", "resources/list", "resources/templates/list", "ping"];
            if *known.lock().expect("no panic") != session || is_unknown.contains(&method.as_str()) {
                return refused();
            }
            None
        })
        .await;
        let registry = Registry::new().http("one", server.url.as_str()).setting("health_check_interval: 1");
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["fine", "odd"]).await;
        let pings = async |more: usize| {
            let is_ping = |seen: &ReceivedRequest| seen.method() == "ping";
            let before = server.seen().iter().filter(|seen| is_ping(seen)).count();
            server.saw(before + more, is_ping).await;
        };
        pings(3).await;
        let before = opened.load(Ordering::Relaxed);
        assert!(before <= 6, "{form:?}: {before} sessions");
        pings(3).await;
        assert_eq!(opened.load(Ordering::Relaxed), before, "{form:?}");
        let status = gateway.get("/servers/one").await.json();
        let problems = status["offer_problems"].to_string();
        assert!(
            status["state"] == "ready" && problems.contains("does not know prompts/list"),
            "{form:?}: {status}"
        );
        current.lock().expect("no panic").clear();
        assert_eq!(gateway.call("one", "fine", json!({})).await.json()["success"], true, "{form:?}");
        assert_eq!(opened.load(Ordering::Relaxed), before + 1, "{form:?}: the session was really forgotten");
    })
    .await;
}
