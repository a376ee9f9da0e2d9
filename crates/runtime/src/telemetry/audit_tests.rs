//! The content and the level of audit lines, and that calls are logged only on request.

use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

use super::super::sink::Sink;
use super::*;
use json::Raw;
use protocol::{Era, ErrorObject};

/// The lines that `work` writes if the log has `filter`.
fn lines(filter: &str, work: impl FnOnce()) -> Vec<Value> {
    let sink = Sink::default();
    let writer = sink.clone();
    let lines = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter));
    let lines = lines.with_writer(move || writer.clone()).json().flatten_event(true).without_time();
    tracing::subscriber::with_default(lines.finish(), work);
    records(&sink)
}

fn records(sink: &Sink) -> Vec<Value> {
    let written = sink.text();
    written.lines().map(|line| serde_json::from_str(line).expect("one object")).collect()
}

/// The lines without their duration, which only a refusal lacks.
fn timeless(mut lines: Vec<Value>) -> Vec<Value> {
    for line in &mut lines {
        let took = line.as_object_mut().expect("an object").remove("duration_ms");
        assert_eq!(took.is_some_and(|took| took.is_f64()), line["message"] != "refused", "{line}");
    }
    lines
}

#[tokio::test(start_paused = true)]
async fn a_line_says_how_long_the_deed_took() {
    let sink = Sink::default();
    let writer = sink.clone();
    let lines = tracing_subscriber::fmt().with_writer(move || writer.clone()).json().flatten_event(true);
    let listening = tracing::subscriber::set_default(lines.finish());
    let record = operation(WHO, "reload", None).expect("room").expect("it is heard");
    tokio::time::advance(Duration::from_nanos(1_234_567_891)).await;
    record.ended(DONE);
    drop(listening);
    assert_eq!(records(&sink)[0]["duration_ms"], 1234.568);
}

const WHO: Actor<'_> = Actor { principal: "key:ops", role: "superuser", request: None };

#[test]
fn allowed_and_denied_operations_are_audited_by_default() {
    let request = RequestId::new();
    let written = lines(super::super::Level::Info.filter(), || {
        let record = operation(Actor { request: Some(request), ..WHO }, "reconnect", Some("issues"));
        record.expect("room").expect("it is heard").ended(DONE);
        drop(operation(WHO, "reload", None));
        let weak = Actor { principal: "jwt:a\nb", role: "reader", request: None };
        refused(weak, "tools/call", &Subject::default()).expect("room");
        assert!(call(WHO, || "echo".into()).expect("room").is_none(), "calls are not heard");
    });
    let id = request.to_string();
    let line = |more: Value| {
        let mut line = json!({"level": "INFO", "target": TARGET});
        let (line_members, more) = (line.as_object_mut().expect("an object"), more);
        line_members.extend(more.as_object().expect("an object").clone());
        line
    };
    assert_eq!(
        timeless(written),
        [
            line(json!({"message": "operated", "principal": "key:ops", "role": "superuser",
                "action": "reconnect", "server": "issues", "outcome": "done", "request_id": id})),
            line(json!({"message": "operated", "principal": "key:ops", "role": "superuser",
                "action": "reload", "outcome": "unfinished"})),
            line(json!({"message": "refused", "principal": "jwt:a\\nb", "role": "reader",
                "action": "tools/call", "outcome": "forbidden"})),
        ]
    );
}

#[test]
fn calls_are_told_where_that_is_asked_for() {
    let written = lines("warn,switchyard=info,switchyard::audit=debug", || {
        let mut record = call(WHO, || "echo".into()).expect("room").expect("it is heard");
        record.at("files");
        record.ended(DONE);
    });
    assert_eq!(
        timeless(written),
        [json!({"level": "DEBUG", "target": TARGET, "message": "called", "principal": "key:ops",
            "role": "superuser", "action": "call", "server": "files", "tool": "echo", "outcome": "done"})]
    );
}

#[test]
fn outcome_of_a_call_is_audited_in_a_word_that_no_server_chooses() {
    let result = |text: &str| Raw::parse(&bytes::Bytes::from(text.to_owned()));
    let foreign = |code: &str| ErrorObject::new(-32001, "no").with_data(&json!({"code": code}));
    for (reply, outcome) in [
        (Ok(result("{}").expect("JSON")), "done"),
        (Ok(result(r#"{"isError":true}"#).expect("JSON")), "tool_error"),
        (Err(Problem::new(ErrorCode::CircuitOpen, "no").error(Era::Legacy)), "circuit_open"),
        (Err(foreign("done")), "-32001"),
        (Err(foreign("forbidden")), "-32001"),
        (Err(ErrorObject::new(-32602, "no")), "-32602"),
    ] {
        let written = lines("switchyard::audit=debug", || {
            call(WHO, || "echo".into()).expect("room").expect("it is heard").answered(&reply);
        });
        assert_eq!(written[0]["outcome"], outcome, "{reply:?}");
    }
}
