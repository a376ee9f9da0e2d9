//! Tests of the event stream: its events, what each role sees of them, filters, and its end.

use std::sync::Arc;

use axum::body::BodyDataStream;
use axum::http::{Method, Request};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::super::fixture::{Gateway, request, server};
use super::*;
use auth::Role;
use gateway::Caller;
use gateway::manager::Scope;
use json::Raw;
use protocol::{RequestId as MessageId, method};
use runtime::shutdown::Shutdown;
use upstream::EventSender;

/// Opens the stream of a superuser, and returns it after its head.
async fn watching(gateway: &Gateway, query: &str) -> BodyDataStream {
    let path = format!("/api/v1/mcp/events{query}");
    let response = gateway.open(request(Method::GET, &path, Some(Role::Superuser), "")).await;
    let mut body = response.into_body().into_data_stream();
    body.next().await.expect("the head").expect("bytes");
    body
}

/// Calls a tool for `principal`.
async fn call_as(gateway: &Gateway, principal: &str, arguments: Value) {
    let caller = Caller::of_program(Principal::new(principal, Role::Caller), Scope::ALL, None);
    let params = Raw::of(&json!({"name": "echo", "arguments": arguments}));
    let request = protocol::Request {
        id: MessageId::from_u64(1),
        method: method::TOOLS_CALL.into(),
        params: Some(params),
    };
    let served = gateway::Gateway::new(Arc::clone(&gateway.manager), Shutdown::new());
    served.call_tool(&caller, &request, &EventSender::none()).await.reply.expect("a result");
}

/// Calls a tool.
async fn call(gateway: &Gateway) {
    call_as(gateway, "p", json!({})).await;
}

/// Reads what is sent until `end` begins, while two principals call a tool.
async fn seen_by(role: Role, query: &str) -> String {
    let gateway = Gateway::of(vec![server("docs")]).await;
    let path = format!("/api/v1/mcp/events{query}");
    let ask: Request<Body> = request(Method::GET, &path, Some(role), "");
    let response = gateway.open(ask).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let mut text =
        String::from_utf8(body.next().await.expect("a piece").expect("bytes").to_vec()).expect("text");
    for principal in ["somebody", "another"] {
        call_as(&gateway, principal, json!({"word": "s3cret"})).await;
    }
    while let Ok(Some(piece)) = tokio::time::timeout(Duration::from_secs(1), body.next()).await {
        text += std::str::from_utf8(&piece.expect("bytes")).expect("text");
    }
    gateway.drain.begin();
    assert!(body.next().await.is_none(), "the stream ends at shutdown");
    assert!(!text.contains("s3cret"), "{text}");
    text
}

fn events(text: &str) -> Vec<(String, Value)> {
    let of = |block: &str| {
        let name = block.lines().find_map(|line| line.strip_prefix("event: "))?.to_owned();
        let data = block.lines().find_map(|line| line.strip_prefix("data: "))?;
        Some((name, serde_json::from_str(data).expect("JSON")))
    };
    text.split("\n\n").filter_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_superuser_sees_the_ends_of_both_calls_with_their_principals() {
    let events = events(&seen_by(Role::Superuser, "").await);
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["call_ended", "call_ended"]);
    let (first, last) = (&events[0].1, &events[1].1);
    assert_eq!((&first["server"], &first["tool"]), (&"docs".into(), &"echo".into()));
    assert_eq!((&first["principal"], &last["principal"]), (&"somebody".into(), &"another".into()));
    assert_eq!((&last["outcome"], &last["call"]), (&"ok".into(), &2.into()));
    assert!(last["duration_ms"].is_number() && last["code"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_reader_does_not_see_the_principal_of_another_call() {
    let text = seen_by(Role::Reader, "").await;
    assert!(text.contains("somebody") && !text.contains("another"), "{text}");
    let events = events(&text);
    let (own, other) = (&events[0].1, &events[1].1);
    assert!(own["client"].is_string() && other["client"].is_null(), "{text}");
    assert!(other["request_id"].is_null() && other.get("arguments").is_none(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn filters_choose_events() {
    for (query, count) in [
        ("", 2),
        ("?kind=call_ended", 2),
        ("?kind=call_started,%20call_ended", 2),
        ("?kind=call_started,action", 2),
        ("?server=other", 0),
        ("?tool=echo&kind=call_started", 2),
        ("?outcome=failed", 0),
        ("?outcome=ok", 2),
        ("?outcome=failed,%20ok", 2),
    ] {
        assert_eq!(events(&seen_by(Role::Superuser, query).await).len(), count, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_happen_together_arrive_in_few_pieces_and_none_is_lost() {
    let gateway = Gateway::of(vec![server("docs")]).await;
    let mut body = watching(&gateway, "?kind=call_ended").await;
    let calls = 600;
    for _ in 0..calls {
        call(&gateway).await;
    }
    let (mut pieces, mut seen, started) = (0, Vec::new(), Instant::now());
    while let Ok(Some(piece)) = tokio::time::timeout(Duration::from_secs(1), body.next()).await {
        let text = String::from_utf8(piece.expect("bytes").to_vec()).expect("text");
        seen.extend(events(&text).into_iter().map(|(_, data)| data["call"].as_u64().expect("a number")));
        pieces += 1;
        // A pause after a full piece would limit how many events a watcher can be sent.
        assert!(started.elapsed() < PAUSE * 2, "piece {pieces} came after {:?}", started.elapsed());
    }
    assert!(pieces > 2, "{pieces} pieces");
    assert_eq!(seen, (1..=calls).collect::<Vec<u64>>());
    assert!(pieces <= 4, "{pieces} pieces");
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_every_event_of_a_burst_larger_than_the_ring() {
    let calls = 12_000;
    for (query, expected) in [("", calls), ("?kind=call_started,call_ended", calls), ("?kind=action", 0)] {
        let gateway = Gateway::of(vec![server("docs")]).await;
        let mut body = watching(&gateway, query).await;
        let started = Instant::now();
        let burst = async {
            for _ in 0..calls {
                call(&gateway).await;
                tokio::task::yield_now().await;
            }
        };
        let (mut ended, mut missed) = (0, 0);
        let read = async {
            while let Ok(Some(piece)) = tokio::time::timeout(Duration::from_secs(1), body.next()).await {
                let text = String::from_utf8(piece.expect("bytes").to_vec()).expect("text");
                ended += text.matches("event: call_ended").count();
                missed += text.matches("event: gap").count();
            }
        };
        tokio::join!(burst, read);
        assert_eq!((ended, missed), (expected, 0), "{query}");
        assert!(started.elapsed() < Duration::from_secs(2), "the clock stands while the calls run");
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_are_not_wanted_do_not_postpone_the_sign_of_life() {
    let gateway = Gateway::of(vec![server("docs")]).await;
    let mut body = watching(&gateway, "?tool=rare").await;
    let started = Instant::now();
    let calls = async {
        loop {
            call(&gateway).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = calls => {}
        piece = body.next() => assert_eq!(piece.expect("a piece").expect("bytes"), KEEP_ALIVE),
        () = tokio::time::sleep_until(started + KEEP_ALIVE_EVERY * 2) => panic!("no sign of life"),
    }
    assert!(started.elapsed() <= KEEP_ALIVE_EVERY + PAUSE * 2, "{:?}", started.elapsed());
}
