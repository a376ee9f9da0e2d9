//! The text of a call's events is what the document describes, for everybody who may see it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fixture::fits;
use super::super::view::{date, in_ms};
use super::*;
use auth::Role;
use gateway::manager::live_events::{CallEnd, ToolCall};
use protocol::ErrorCode;
use upstream::Attempt;

/// Returns name and data of the events in `text`.
fn read(text: &[u8]) -> Vec<(String, Value)> {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let of = |block: &str| {
        let lines: Vec<&str> = block.lines().collect();
        let [id, name, data] = lines.as_slice() else { panic!("{block:?}") };
        id.strip_prefix("id: ").expect("an id").parse::<u64>().expect("a number");
        let name = name.strip_prefix("event: ").expect("a name").to_owned();
        (name, serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON"))
    };
    text.split_terminator("\n\n").map(of).collect()
}

fn calls() -> impl Strategy<Value = (ToolCall, SystemTime)> {
    let text = || "\\PC{0,12}|[\\x00-\\x7f]{0,8}";
    let texts = (text(), text(), prop::option::of(text()), prop::option::of(text()));
    let attempt = (any::<u64>(), prop::option::of(text()));
    let attempts = prop::collection::vec(attempt, 0..4);
    let code = prop::option::of(Just(ErrorCode::TimedOut));
    (1..u64::MAX, texts, any::<bool>(), attempts, code, 0..4_000_000_000_000_u64).prop_map(
        |(number, (tool, principal, client, arguments), has_id, attempts, code, at)| {
            let attempts = attempts
                .into_iter()
                .map(|(nanos, error)| Attempt { duration: Duration::from_nanos(nanos >> 8), error });
            let end = CallEnd {
                outcome: if code.is_some() { "failed" } else { "ok" },
                code,
                error: code.and(arguments.clone()),
                duration: Duration::from_nanos(at),
                attempts: attempts.collect(),
            };
            let call = ToolCall {
                number,
                server: "docs".into(),
                tool: tool.into(),
                principal: Some(principal.into()),
                client: client.map(Arc::from),
                request_id: has_id.then(runtime::telemetry::RequestId::new),
                arguments,
                end: OnceLock::from(end),
            };
            (call, UNIX_EPOCH + Duration::from_millis(at))
        },
    )
}

fn check(document: &Value, (call, at): (ToolCall, SystemTime), role: Role) {
    let (viewer, is_shown) = (Principal::new("viewer", role), role == Role::Superuser);
    let call = Arc::new(call);
    let event = |number, what| LiveEvent { number, at, what };
    let started = event(7, EventKind::CallStarted(Arc::clone(&call)));
    let ended = event(8, EventKind::CallEnded(Arc::clone(&call)));
    let Some((call, Some(end))) = ended.call() else { panic!("{ended:?}") };
    let mut piece = EventChunk::new(&viewer);
    piece.event(&started);
    piece.event(&ended);
    let events = read(&piece.into_bytes());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["call_started", "call_ended"]);
    for ((_, data), described) in events.iter().zip(["CallStartedEvent", "CallEndedEvent"]) {
        fits(document, &document["components"]["schemas"][described], data)
            .unwrap_or_else(|wrong| panic!("{wrong}: {data}"));
        assert_eq!((&data["at"], &data["tool"]), (&date(at).into(), &(&*call.tool).into()));
        assert_eq!((&data["call"], &data["server"]), (&call.number.into(), &"docs".into()));
        let client = call.client.as_deref().unwrap_or("REST");
        let client = Some(client).filter(|name| is_shown && !name.is_empty());
        assert_eq!((data["client"].as_str(), data["principal"].is_string()), (client, is_shown));
        assert_eq!(data.get("arguments").is_some(), is_shown && call.arguments.is_some());
        assert_eq!(data["request_id"].is_string(), is_shown && call.request_id.is_some());
        let id = call.request_id.filter(|_| is_shown).map(|id| id.to_string());
        assert_eq!(data["request_id"].as_str(), id.as_deref());
        let principal = call.principal.as_deref().filter(|_| is_shown);
        assert_eq!(data["principal"].as_str(), principal);
    }
    let attempts = end.attempts.iter().enumerate().map(|(index, attempt)| {
        let outcome = if attempt.error.is_none() { "answered" } else { "failed" };
        let error = attempt.error.as_ref().filter(|_| is_shown);
        json!({"attempt": index + 1, "outcome": outcome, "duration_ms": in_ms(attempt.duration), "error": error})
    });
    let data = &events[1].1;
    assert_eq!(data["attempts"], attempts.collect::<Value>());
    assert_eq!(data["duration_ms"].as_f64(), Some(in_ms(end.duration)));
    let error = end.error.as_deref().filter(|_| is_shown);
    assert_eq!(data.get("error").and_then(Value::as_str), error);
    assert_eq!((&data["outcome"], &data["code"]), (&end.outcome.into(), &json!(end.code)));
}

#[test]
fn events_of_calls_are_as_the_document_describes_them() {
    let document = serde_json::to_value(super::super::operations::described()).expect("JSON");
    proptest!(ProptestConfig::with_cases(300), |(call in calls(), is_superuser: bool)| {
        check(&document, call, if is_superuser { Role::Superuser } else { Role::Reader });
    });
}
