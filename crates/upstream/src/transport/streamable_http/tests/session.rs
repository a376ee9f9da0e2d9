//! Sessions of legacy servers.

use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use protocol::Notification;
use protocol::feature::List;
use testkit::scripted::{chunk, end, event, full, stream};

fn is_get(seen: &ReceivedRequest) -> bool {
    seen.line == "GET /mcp"
}

fn is_delete(seen: &ReceivedRequest) -> bool {
    seen.line == "DELETE /mcp"
}

fn answer(seen: &ReceivedRequest) -> Step {
    event(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"ok":1}}}}"#, seen.id()))
}

fn no_stream() -> Vec<Step> {
    vec![json(405, "")]
}

#[tokio::test]
async fn a_session_is_named_on_every_request_and_ended_at_the_end() {
    let bench =
        Bench::legacy(|seen| if is_get(seen) { no_stream() } else { vec![result(seen, r#"{"n":1.0}"#)] })
            .await;
    let (connection, _events) = bench.connect().await;
    assert_eq!(ask(&connection, "t").await.expect("a result").as_str(), r#"{"n":1.0}"#);
    bench.server.saw(1, is_get).await;
    connection.close().await;
    assert!(connection.closed().await.contains("closed"));
    assert!(matches!(ask(&connection, "t").await, Err(Error::NotSent { .. })));
    let seen = bench.server.saw(1, is_delete).await;
    assert_eq!(seen.header("authorization"), Some("Bearer k"));
    let after: Vec<ReceivedRequest> = bench.server.seen().into_iter().skip(2).collect();
    assert!(after.iter().any(|seen| seen.method() == method::INITIALIZED));
    for seen in after {
        assert_eq!(seen.header("mcp-session-id"), Some("s-1"), "{}", seen.line);
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"), "{}", seen.line);
        assert_eq!(seen.header("mcp-method"), None);
    }
    let (dropped, _events) = bench.connect().await;
    drop(dropped);
    bench.server.saw(2, is_delete).await;
    assert!(bench.shutdown.wait(Duration::from_secs(20)).await, "a task is left");
}

#[tokio::test]
async fn the_stream_a_server_may_ask_on_is_there_before_the_first_call() {
    let bench = Bench::legacy(|seen| {
        if is_get(seen) { vec![Step::Wait, stream(""), Step::Hang] } else { vec![result(seen, "{}")] }
    })
    .await;
    let mut connecting = std::pin::pin!(bench.connect());
    tokio::select! {
        _ = bench.server.saw(1, is_get) => {}
        _ = &mut connecting => panic!("a call could be made now"),
    }
    bench.server.go.add_permits(1);
    let (connection, _events) = connecting.await;
    ask(&connection, "t").await.expect("a result");
}

#[tokio::test]
async fn notifications_wait_for_the_server_arrive_in_order_and_none_is_dropped() {
    let is_told = |seen: &ReceivedRequest| seen.method().starts_with("notifications/x-");
    let bench = Bench::legacy(move |seen| match seen {
        seen if is_get(seen) => no_stream(),
        seen if is_told(seen) => vec![Step::Wait, json(202, "")],
        seen => vec![result(seen, "{}")],
    })
    .await;
    let (connection, _events) = bench.connect().await;
    let names: Vec<String> = (0..40).map(|number| format!("notifications/x-{number}")).collect();
    let telling = async {
        for name in &names {
            connection.notify(&Notification { method: name.as_str().into(), params: None }).await;
        }
    };
    let mut telling = std::pin::pin!(telling);
    tokio::select! {
        _ = bench.server.saw(2, is_told) => panic!("the first one was not accepted yet"),
        () = &mut telling => panic!("nobody waits for the server"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    bench.server.go.add_permits(names.len());
    telling.await;
    let notified = bench.server.seen().into_iter().filter(is_told).map(|seen| seen.method());
    assert_eq!(notified.collect::<Vec<_>>(), names);
}

#[tokio::test]
async fn a_session_the_server_forgot_is_of_no_more_use() {
    let bad = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
    let foreign =
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#;
    let ours = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"Session not found"}}"#;
    let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Not Found"}}"#;
    let refusals = [(404, ""), (404, foreign), (404, ours), (404, null), (410, ""), (410, ours)];
    let ambiguous = [(400, bad), (400, ""), (400, "no"), (400, foreign), (400, ours)];
    // At once, because each waits until its idle connections are closed.
    join_all(refusals.into_iter().chain(ambiguous).map(async |(status, body)| {
        let bench =
            Bench::legacy(move |seen| if is_get(seen) { no_stream() } else { vec![json(status, body)] })
                .await;
        let (connection, _events) = bench.connect().await;
        let error = ask(&connection, "t").await.expect_err("no session");
        assert!(matches!(error, Error::SessionEnded(_)), "{error:?}");
        assert!(connection.closed().await.contains("session"));
        connection.close().await;
        drop(connection);
        assert!(bench.shutdown.wait(Duration::from_secs(20)).await, "a task is left");
        // A server that may still have the session gets a DELETE.
        assert_eq!(bench.server.seen().iter().any(is_delete), status == 400, "{status} {body}");
    }))
    .await;
}

#[tokio::test]
async fn error_that_only_resembles_a_lost_session_is_an_answer() {
    let error = |id: &str, code: i64, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
    };
    for (status, id, code, message) in [
        (400, "2", -32602, "no such session"),
        (400, "2", -32000, "Session not found"),
        (404, "2", -32601, "Method not found"),
        (200, "2", -32602, "Session not found"),
    ] {
        let body = error(id, code, message);
        let bench =
            Bench::legacy(move |seen| if is_get(seen) { no_stream() } else { vec![json(status, &body)] })
                .await;
        let (connection, _events) = bench.connect().await;
        let body = connection.request(&call("t"), &EventSender::none()).await.expect("an answer");
        assert_eq!(
            body.collect().await.expect("whole").expect_err("an error").code(),
            code,
            "{status} {id} {message}"
        );
        assert!(futures_util::FutureExt::now_or_never(connection.closed()).is_none());
    }
}

#[tokio::test]
async fn a_lost_session_lets_its_calls_finish() {
    let modern = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32020,"message":"x"}}"#;
    for (status, body) in [(404, ""), (400, modern)] {
        let bench = Bench::legacy(move |seen| match seen.method().as_str() {
            method::TOOLS_CALL if seen.has(r#""slow""#) => vec![stream(""), Step::Wait, answer(seen), end()],
            method::TOOLS_CALL => vec![json(status, body)],
            _ => no_stream(),
        })
        .await;
        let (connection, _events) = bench.connect().await;
        let (slow, outcome) = tokio::join!(ask(&connection, "slow"), async {
            bench.server.saw(1, |seen| seen.has(r#""slow""#)).await;
            let outcome = connection.request(&call("t"), &EventSender::none()).await;
            connection.closed().await;
            connection.close().await;
            bench.server.go.add_permits(1);
            outcome
        });
        slow.expect("answered all the same");
        if status == 404 {
            assert!(matches!(outcome, Err(Error::SessionEnded(_))), "{outcome:?}");
        } else {
            let reply = outcome.expect("answered").collect().await.expect("whole");
            assert_eq!(reply.expect_err("an error").code(), -32020);
        }
        drop(connection);
        assert!(bench.shutdown.wait(Duration::from_secs(20)).await, "a task is left");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_by_a_message() {
    let bench = Bench::legacy(|seen| match seen.method().as_str() {
        method::TOOLS_CALL => vec![stream(""), Step::Hang],
        method::CANCELLED => vec![json(202, "")],
        _ => no_stream(),
    })
    .await;
    let (connection, _events) = bench.connect().await;
    tokio::select! {
        answer = ask(&connection, "t") => panic!("{answer:?}"),
        _ = bench.server.saw(1, |seen| seen.has("tools/call")) => {}
    }
    let notified = bench.server.saw(1, |seen| seen.method() == method::CANCELLED).await;
    assert!(notified.has(r#""requestId":2"#) && notified.header("mcp-session-id") == Some("s-1"));
}

#[tokio::test]
async fn server_request_is_answered_by_a_message() {
    let bench = Bench::legacy(|seen| match seen.method().as_str() {
        method::TOOLS_CALL => vec![
            stream(""),
            event(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#),
            event(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#),
            Step::Wait,
            answer(seen),
            end(),
        ],
        "" if !is_get(seen) => vec![json(202, "")],
        _ => no_stream(),
    })
    .await;
    let (connection, _events) = bench.connect().await;
    let (call, both) = tokio::join!(ask(&connection, "t"), async {
        let pong = bench.server.saw(1, |seen| seen.has(r#""id":"p""#)).await;
        let no = bench.server.saw(1, |seen| seen.has(r#""id":"r""#)).await;
        bench.server.go.add_permits(1);
        (pong, no)
    });
    call.expect("a result");
    assert_eq!(both.0.body.as_str(), r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
    assert!(both.1.has(r#""error":{"code":-32601"#));
}

#[tokio::test]
async fn the_get_stream_carries_what_belongs_to_no_stream_of_a_call() {
    let says = |method: &str, params: &str| {
        event(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
    };
    let mut bench = Bench::legacy(move |seen| {
        if is_get(seen) {
            return vec![
                stream(""),
                Step::Wait,
                says("notifications/tools/list_changed", "{}"),
                says("notifications/progress", r#"{"progressToken":2,"progress":1}"#),
                says("notifications/message", r#"{"data":"x"}"#),
                event(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#),
                Step::Hang,
            ];
        }
        match seen.method().as_str() {
            method::TOOLS_CALL => vec![stream(""), Step::Wait, answer(seen), end()],
            _ => vec![json(202, "")],
        }
    })
    .await;
    let (connection, mut events) = bench.connect().await;
    bench.server.saw(1, is_get).await;
    let (event_sender, mut reader) = EventSender::new(8);
    let call = call("t");
    let (answer, ()) = tokio::join!(connection.request(&call, &event_sender), async {
        bench.server.saw(1, |seen| seen.has("tools/call")).await;
        bench.server.go.add_permits(1);
        assert_eq!(events.recv().await, Some(Event::Changed(List::Tools)));
        bench.server.saw(1, |seen| seen.has(r#""id":"p","result":{}"#)).await;
        bench.server.go.add_permits(1);
    });
    answer.expect("answered").collect().await.expect("whole").expect("a result");
    let methods: Vec<_> =
        std::iter::from_fn(|| reader.try_recv().ok()).map(|n| n.method().to_owned()).collect();
    assert_eq!(methods, ["notifications/progress", "notifications/message"]);
    drop(connection);
    bench.server.left.recv().await.expect("the stream ends with the session");
}

#[tokio::test]
async fn a_stream_that_was_cut_is_resumed_where_it_left_off() {
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#;
    let bench = Bench::legacy(move |seen| {
        let resumed = r#"{"jsonrpc":"2.0","id":2,"result":{"ok":1}}"#;
        match (seen.method().as_str(), seen.header("last-event-id")) {
            (method::TOOLS_CALL, _) => vec![stream(""), chunk("id: a-1\nretry: 60\ndata:\n\n"), Step::Close],
            (_, Some("a-1")) => vec![stream(""), chunk(&format!("id: a-2\ndata: {progress}\n\n")), end()],
            (_, Some("a-2")) => vec![stream(""), event(resumed), end()],
            _ => no_stream(),
        }
    })
    .await;
    let (connection, _events) = bench.connect().await;
    let (event_sender, mut reader) = EventSender::new(8);
    let started = std::time::Instant::now();
    let answer = result_of(&connection, &call("t"), &event_sender).await.expect("answered");
    assert_eq!(answer.as_str(), r#"{"ok":1}"#);
    assert!(reader.try_recv().is_ok());
    assert!(started.elapsed() >= Duration::from_millis(120), "the pause asked for is kept, twice");
    assert!(bench.server.seen().iter().all(|seen| seen.header("last-event-id").is_none() || is_get(seen)));
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_was_cut() {
    let refused = || vec![full(400, "", "")];
    for first in
        [vec![stream(""), chunk("id: a\nretry: 50\ndata:\n\n"), Step::Close], vec![stream(""), Step::Close]]
    {
        let bench = Bench::legacy(move |seen| if is_get(seen) { refused() } else { first.clone() }).await;
        assert!(matches!(bench.outcome().await, Err(Error::Cut { .. })));
        let calls = bench.server.seen().iter().filter(|seen| seen.has("tools/call")).count();
        assert_eq!(calls, 1, "the call itself is never sent again");
    }
}

#[tokio::test]
async fn a_get_stream_is_opened_again_where_it_left_off_until_the_session_is_gone() {
    let times = std::sync::atomic::AtomicUsize::new(0);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let bench = Bench::legacy(move |_| match times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => vec![stream(""), chunk(&format!("id: g-1\nretry: 50\ndata: {changed}\n\n")), Step::Close],
        1 => vec![stream(""), chunk("retry: 50\n\n"), end()],
        _ => vec![json(404, "")],
    })
    .await;
    let (connection, mut events) = bench.connect().await;
    assert_eq!(events.recv().await, Some(Event::Changed(List::Tools)));
    assert!(connection.closed().await.contains("session"));
    let gets: Vec<ReceivedRequest> = bench.server.seen().into_iter().filter(is_get).collect();
    let ids: Vec<Option<&str>> = gets.iter().map(|seen| seen.header("last-event-id")).collect();
    assert_eq!(ids, [None, Some("g-1"), Some("g-1")]);
}

#[tokio::test]
async fn a_server_of_the_transport_before_is_found_out() {
    let bench = Bench::new(|seen| {
        if is_get(seen) {
            return vec![
                stream(""),
                chunk("event: endpoint\ndata: /messages?id=1\n\n"),
                Step::Wait,
                event(
                    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}"#,
                ),
                Step::Hang,
            ];
        }
        match seen.line.as_str() {
            "POST /messages?id=1" => vec![json(202, "Accepted")],
            _ => vec![json(404, "")],
        }
    })
    .await;
    let (first, ()) = tokio::join!(bench.connect(), async {
        bench.server.saw(1, |seen| seen.line.contains("messages")).await;
        bench.server.go.add_permits(2);
    });
    assert_eq!(first.0.peer().version.as_str(), "2024-11-05");
    let lines: Vec<String> = bench.server.seen().into_iter().map(|seen| seen.line).collect();
    assert_eq!(lines[..4], ["POST /mcp", "POST /mcp", "GET /mcp", "POST /messages?id=1"]);
    bench.connect().await;
    assert_eq!(
        bench.server.seen().iter().filter(|seen| seen.line == "POST /mcp").count(),
        2,
        "it is remembered"
    );
}
