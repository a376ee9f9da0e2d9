//! Tests of `logs`: the line of each event.

use super::*;

#[test]
fn ended_call_and_new_state_are_one_line_each() {
    let shown = |event, data: &str| line(event, &Raw::parse(&data.to_owned().into()).expect("JSON"), false);
    let call = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","tool":"add","principal":"key:ci","outcome":"failed","code":"timeout","error":"no answer","duration_ms":12.345}"#;
    let expected = "01:02:03.456  failed           12.3 ms  issues  add  key:ci  timeout  no answer";
    assert_eq!(shown("call_ended", call).as_deref(), Some(expected));
    assert_eq!(shown("call_started", call), None);
    let past = line("call_ended", &Raw::parse(&call.to_owned().into()).expect("JSON"), true);
    assert_eq!(past, Some(format!("2026-11-24 {expected}")));
    let event = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","tool":"add","principal":"key:ci","client":"ide/1","outcome":"ok","code":null,"duration_ms":12.345,"attempts":[{},{}],"arguments":{"a":1}}"#;
    let expected =
        r#"01:02:03.456  ok               12.3 ms  issues  add  key:ci  ide/1  2 attempts  {"a":1}"#;
    assert_eq!(shown("call_ended", event).as_deref(), Some(expected));
    let breaker =
        r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","from":"closed","to":"open","reason":"late"}"#;
    let expected = "01:02:03.456  breaker     issues: closed -> open: late";
    assert_eq!(shown("breaker_changed", breaker).as_deref(), Some(expected));
    let tools = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","added":{"count":2},"removed":{"count":0},"changed":{"count":1}}"#;
    let expected = "01:02:03.456  tools       issues: 2 added, 0 removed, 1 changed";
    assert_eq!(shown("tools_changed", tools).as_deref(), Some(expected));
    let action = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","action":"reconnect","principal":"key:ops","outcome":"done"}"#;
    let expected = "01:02:03.456  action      reconnect issues  key:ops  done";
    assert_eq!(shown("action", action).as_deref(), Some(expected));
    let state = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","state":"failed","reason":"gone"}"#;
    let expected = "01:02:03.456  server      issues is failed: gone";
    assert_eq!(shown("server_changed", state).as_deref(), Some(expected));
    let null = r#"{"at":"2026-11-24T01:02:03.456Z","server":"issues","tool":"add","principal":null,"outcome":"ok","code":null,"duration_ms":0.5}"#;
    assert_eq!(
        shown("call_ended", null).as_deref(),
        Some("01:02:03.456  ok                0.5 ms  issues  add")
    );
}
