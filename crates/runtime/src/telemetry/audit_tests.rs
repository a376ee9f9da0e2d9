//! The duration, outcome and principal of audit lines.
//!
//! Not here: which lines are written at which level (`tests/it/audit.rs`).

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
fn deed_that_nobody_ended_is_unfinished() {
    let written = lines(super::super::Level::Info.filter(), || drop(operation(WHO, "reload", None)));
    assert_eq!(written[0]["outcome"], "unfinished");
}

#[test]
fn name_of_a_principal_cannot_end_its_line() {
    let weak = Actor { principal: "jwt:a\nb", role: "reader", request: None };
    let written = lines(super::super::Level::Info.filter(), || {
        refused(weak, "tools/call", &Subject::default()).expect("room");
    });
    assert_eq!(written[0]["principal"], "jwt:a\\nb");
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
