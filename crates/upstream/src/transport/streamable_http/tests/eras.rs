//! Tests of the detection of a server's era, and of the requests to a modern server.

use std::time::Duration;

use super::*;
use crate::ResponseBody;
use protocol::feature::List;
use protocol::headers::HeaderParam;
use testkit::scripted::{end, event, full, stream};

/// Returns the number of requests with `method`.
fn count(bench: &Bench, method: &str) -> usize {
    bench.server.seen().iter().filter(|seen| seen.method() == method).count()
}

#[tokio::test]
async fn a_modern_request_says_in_its_headers_what_stands_in_its_body() {
    let bench = Bench::modern(|seen| vec![result(seen, r#"{"big":1e400,"content":[]}"#)]).await;
    let (connection, _events) = bench.connect().await;
    assert!(connection.peer().version.is_modern());
    let mut call = call("größe");
    call.params = Some(
        Raw::parse(&r#"{"name":"größe","arguments":{"where":"eu","n":7,"no":null}}"#.into()).expect("JSON"),
    );
    let param = |header: &str, path: &str| HeaderParam { header: header.into(), path: vec![path.into()] };
    call.header_params = Arc::new([param("Region", "where"), param("N", "n"), param("No", "no")]);
    let answer = result_of(&connection, &call, &EventSender::none()).await.expect("answered");
    assert_eq!(answer.as_str(), r#"{"big":1e400,"content":[]}"#, "not one byte is touched");

    let seen = bench.server.seen().pop().expect("a request");
    for (name, value) in [
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some("tools/call")),
        ("mcp-name", Some("=?base64?Z3LDtsOfZQ==?=")),
        ("mcp-param-region", Some("eu")),
        ("mcp-param-n", Some("7")),
        ("mcp-param-no", None),
        ("mcp-session-id", None),
        ("accept", Some("application/json, text/event-stream")),
        ("content-type", Some("application/json")),
        ("authorization", Some("Bearer k")),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    let meta = seen.body.get("params").and_then(|params| params.get("_meta")).expect("_meta");
    assert_eq!(meta.get("progressToken"), seen.body.get("id"));
    assert_eq!(meta.get("io.modelcontextprotocol/protocolVersion"), Some(Raw::of("2026-07-28")));
    let discover = &bench.server.seen()[0];
    assert_eq!((discover.header("mcp-method"), discover.header("mcp-name")), (Some("server/discover"), None));
}

#[tokio::test]
async fn legacy_server_is_initialized_in_the_old_way_after_any_answer_to_the_probe() {
    let error = |code: i64, data: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"x"{data}}}}}"#)
    };
    for (status, body) in [
        (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#.to_owned()),
        (400, error(-32022, r#","data":{"supported":["2025-11-25"]}"#)),
        (404, "Cannot POST /mcp".into()),
        (405, String::new()),
        (422, error(-32602, "")),
        (500, "oops".into()),
        (200, error(-32601, "")),
        (200, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into()),
        (202, String::new()),
    ] {
        let answer = body.clone();
        let bench = Bench::new(move |seen| match seen.method().as_str() {
            method::DISCOVER => vec![json(status, &answer)],
            method::INITIALIZE => vec![result(seen, INITIALIZED)],
            _ => vec![json(202, "")],
        })
        .await;
        let (connection, _events) = bench.connect().await;
        assert!(!connection.peer().version.is_modern(), "{status} {body}");
        let (_again, _events) = bench.connect().await;
        assert_eq!((count(&bench, method::DISCOVER), count(&bench, method::INITIALIZE)), (1, 2), "{status} {body}");
        let initialize = bench.server.saw(1, |seen| seen.method() == method::INITIALIZE).await;
        assert_eq!((initialize.header("mcp-protocol-version"), initialize.header("mcp-method")), (None, None));
    }
}

#[tokio::test]
async fn a_server_with_no_common_revision_is_not_greeted() {
    let bench = Bench::new(|_| {
        vec![json(400, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x","data":{"supported":["2031-01-01"]}}}"#)]
    })
    .await;
    assert!(bench.refusal().await.to_string().contains("2031-01-01"));
    assert_eq!(count(&bench, method::INITIALIZE), 0);
}

#[tokio::test]
async fn refused_credentials_and_an_absent_server_say_nothing_of_the_era() {
    for status in [401, 403, 429, 502, 503, 504] {
        for (header, retry_after) in [("", None), ("retry-after: 3\r\n", Some(Duration::from_secs(3)))] {
            let bench = Bench::new(move |_| vec![full(status, header, "no")]).await;
            let expected = match (status, retry_after) {
                // A 403 with a retry time does not refuse the credentials.
                (401, _) | (403, None) => Error::AuthFailed { reason: format!("HTTP {status}: no") },
                _ => Error::Status { status, retry_after, detail: ": no".into() },
            };
            assert_eq!(without_advice(bench.refusal().await), expected);
            // A proxy may only tell that the server crashed on the first request.
            let requests = if (502..=504).contains(&status) { 2 } else { 1 };
            assert_eq!(bench.server.seen().len(), requests, "{status}");
        }
    }
}

/// Returns `error` without its advice.
fn without_advice(error: Error) -> Error {
    error.reworded(|reason| reason.split("; ").next().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn credentials_refused_by_a_legacy_server_are_told_as_that() {
    for at in [method::INITIALIZE, method::INITIALIZED] {
        let bench = Bench::new(move |seen| match seen.method().as_str() {
            method::DISCOVER => vec![json(400, "")],
            method if method == at => vec![json(401, r#"{"error":"invalid_token"}"#)],
            _ => vec![result(seen, INITIALIZED)],
        })
        .await;
        let refusal = without_advice(bench.refusal().await);
        assert_eq!(refusal, Error::AuthFailed { reason: "HTTP 401: invalid_token".into() }, "{at}");
    }
}

#[tokio::test(start_paused = true)] // the probe ends at once
async fn a_server_that_is_silent_on_the_probe_is_greeted_in_the_old_way() {
    let bench = Bench::new(|seen| match seen.method().as_str() {
        method::DISCOVER => vec![Step::Hang],
        method::INITIALIZE => vec![result(seen, INITIALIZED)],
        _ => vec![json(202, "")],
    })
    .await;
    // A paused clock also lets the time limit of a TCP connect pass, so this repeats the attempt.
    let connected = async {
        loop {
            let (events, _receiver) = Events::channel();
            if let Ok(connection) = bench.connector.connect(events, Dialect::base()).await {
                break connection;
            }
        }
    };
    assert!(!connected.await.peer().version.is_modern());
}

#[tokio::test]
async fn a_server_that_changed_its_era_is_found_out_anew() {
    let now = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let modern = Arc::clone(&now);
    let bench = Bench::new(move |seen| {
        let modern = modern.load(std::sync::atomic::Ordering::Relaxed);
        let refuse = |code: i64| {
            json(
                400,
                &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"x"}}}}"#, seen.id()),
            )
        };
        match (seen.method().as_str(), modern) {
            (method::DISCOVER, true) => vec![result(seen, DISCOVERED)],
            (method::INITIALIZE, false) => vec![result(seen, INITIALIZED)],
            (method::TOOLS_CALL, modern) if modern == seen.header("mcp-method").is_some() => {
                vec![result(seen, "{}")]
            }
            (_, true) => vec![refuse(-32020)],
            (method::INITIALIZED, false) => vec![json(202, "")],
            (_, false) => vec![json(
                400,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}"#,
            )],
        }
    })
    .await;
    for is_modern in [false, true, false] {
        let (before, _events) = bench.connect().await;
        assert!(ask(&before, "t").await.is_ok());
        now.store(is_modern, std::sync::atomic::Ordering::Relaxed);
        let calls = count(&bench, method::TOOLS_CALL);
        let body =
            before.request(&call("t"), &EventSender::none()).await.expect("an answer, never sent again");
        assert!(matches!(body, ResponseBody::Buffered(Err(_))), "{body:?}");
        assert_eq!(count(&bench, method::TOOLS_CALL), calls + 1);
        assert!(before.closed().await.contains("era"));
        assert!(matches!(ask(&before, "t").await, Err(Error::NotSent { .. })), "nothing new on it");
        assert_eq!(count(&bench, method::TOOLS_CALL), calls + 1);
        // A legacy server that became modern refuses the first handshake, and the next one probes it.
        let (events, _receiver) = Events::channel();
        let _ = bench.connector.connect(events, Dialect::base()).await;
        let (after, _events) = bench.connect().await;
        assert_eq!(after.peer().version.is_modern(), is_modern);
        assert!(ask(&after, "t").await.is_ok());
    }
}

#[tokio::test]
async fn the_stream_of_notices_of_a_modern_server_is_a_request_that_ends_with_its_connection() {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}"#;
    let ack = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}"#;
    let discovered = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}"#;
    let mut bench = Bench::new(move |seen| match seen.method().as_str() {
        method::DISCOVER => vec![result(seen, discovered)],
        _ => vec![stream(""), event(ack), Step::Wait, event(changed), Step::Hang],
    })
    .await;
    let (connection, mut events) = bench.connect().await;
    let (event_sender, mut receiver) = EventSender::new(8);
    let listen = Call::of_gateway(method::SUBSCRIPTIONS_LISTEN, None);
    let notified = async {
        let received = receiver.recv().await.expect("an acknowledgement");
        assert_eq!(received.method(), method::SUBSCRIPTIONS_ACKNOWLEDGED);
        bench.server.go.add_permits(1);
        assert_eq!(events.recv().await, Some(Event::Changed(List::Tools)));
        connection.close().await;
    };
    let (end, ()) = tokio::join!(connection.request(&listen, &event_sender), notified);
    assert!(matches!(end, Err(Error::Lost { .. })), "{end:?}");
    bench.server.left.recv().await.expect("the stream ends with the connection");
}

#[tokio::test]
async fn notifications_of_a_modern_server_during_a_call_go_to_its_event_sender() {
    let says = |method: &str, params: &str| {
        event(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
    };
    let bench = Bench::modern(move |seen| {
        vec![
            stream(""),
            says("notifications/progress", r#"{"progressToken":2,"progress":1.0}"#),
            says("notifications/progress", r#"{"progressToken":9,"progress":1}"#),
            says("notifications/message", r#"{"data":"x"}"#),
            says("notifications/tools/list_changed", "{}"),
            event(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#),
            event(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#),
            event(&format!(r#"{{"result":{{"ok":1}},"jsonrpc":"2.0","id":{}}}"#, seen.id())),
            end(),
        ]
    })
    .await;
    let (connection, mut events) = bench.connect().await;
    let (event_sender, mut reader) = EventSender::new(8);
    let answer = result_of(&connection, &call("t"), &event_sender).await.expect("answered");
    assert_eq!(answer.as_str(), r#"{"ok":1}"#);
    let methods: Vec<_> =
        std::iter::from_fn(|| reader.try_recv().ok()).map(|n| n.method().to_owned()).collect();
    assert_eq!(methods, ["notifications/progress", "notifications/message"]);
    assert_eq!(events.try_recv(), Ok(Event::Changed(List::Tools)));
    assert_eq!(count(&bench, ""), 0, "a modern server is sent no responses");
}

/// A server whose tool `slow` waits for a permit, and whose others get `refusal`.
fn with_a_slow_tool(refusal: Step) -> impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync {
    move |seen| match seen.method().as_str() {
        method::TOOLS_CALL if seen.has(r#""slow""#) => vec![Step::Wait, result(seen, "{}")],
        method::TOOLS_CALL => vec![refusal.clone()],
        _ => vec![json(405, "")],
    }
}

#[tokio::test]
async fn a_refusal_that_names_no_request_harms_no_other_call() {
    let error_body = |error_body| {
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32700,"message":"{error_body}"}}}}"#)
    };
    for refusal in [
        json(400, &error_body("Exceeds the limit for integer string conversion")),
        json(400, &error_body("Server not initialized")),
        json(404, ""),
        json(405, ""),
        json(400, ""),
    ] {
        let bench = Bench::modern(with_a_slow_tool(refusal)).await;
        let (connection, _events) = bench.connect().await;
        let (slow, odd) = tokio::join!(ask(&connection, "slow"), async {
            bench.server.saw(1, |seen| seen.has(r#""slow""#)).await;
            let odd = connection.request(&call("odd"), &EventSender::none()).await;
            bench.server.go.add_permits(2);
            odd
        });
        slow.expect("the other call is answered");
        let is_refused = matches!(odd, Ok(ResponseBody::Buffered(Err(_))) | Err(Error::Status { .. }));
        assert!(is_refused, "{odd:?}");
        ask(&connection, "slow").await.expect("the connection is kept");
        assert!(futures_util::FutureExt::now_or_never(connection.closed()).is_none());
    }
}

#[tokio::test]
async fn a_modern_connection_out_of_use_lets_its_calls_finish() {
    let foreign = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32022,"message":"x","data":{"supported":[]}}}"#;
    let bench = Bench::modern(with_a_slow_tool(json(400, foreign))).await;
    let (connection, _events) = bench.connect().await;
    let (slow, ()) = tokio::join!(ask(&connection, "slow"), async {
        bench.server.saw(1, |seen| seen.has(r#""slow""#)).await;
        let odd = connection.request(&call("odd"), &EventSender::none()).await.expect("answered");
        assert_eq!(odd.collect().await.expect("whole").expect_err("an error").code(), -32022);
        connection.closed().await;
        connection.close().await;
        bench.server.go.add_permits(1);
    });
    slow.expect("answered all the same");
    assert!(matches!(ask(&connection, "slow").await, Err(Error::NotSent { .. })));
    assert_eq!(count(&bench, method::TOOLS_CALL), 2, "nothing is sent on a connection out of use");
}
