//! Tests of `answer`: what REST makes of what a tool said.

use std::time::Duration;

use super::super::fixture::raw;
use super::*;
use protocol::Reply;

fn called(reply: Reply) -> CallResponse {
    CallResponse { server: "s".into(), subject: "t".into(), reply, elapsed: Duration::from_micros(1_234_500) }
}

fn answer(result: &str) -> Answer<'static> {
    answer_to(Ok(raw(result)))
}

/// The answer borrows the call, which lives as long as the test program.
fn answer_to(reply: Reply) -> Answer<'static> {
    Answer::of(Box::leak(Box::new(called(reply))), "t", RequestId::new()).expect("an answer")
}

#[test]
fn data_is_structured_content_else_json_else_text() {
    for (result, data) in [
        (
            r#"{"content":[{"type":"text","text":"no"}],"structuredContent":{"n": 1e400, "a":1.0}}"#,
            r#"{"n": 1e400, "a":1.0}"#,
        ),
        (r#"{"content":[],"structuredContent":[1]}"#, "[1]"),
        (r#"{"content":[{"type":"text","text":"5"}],"structuredContent":null}"#, "5"),
        (
            r#"{"content":[{"type":"text","text":" {\"id\": 36893488147419103232} "}]}"#,
            r#"{"id": 36893488147419103232}"#,
        ),
        (r#"{"content":[{"type":"text","text":"true"}]}"#, "true"),
        (r#"{"content":[{"type":"text","text":"{not json}"}]}"#, r#""{not json}""#),
        (
            r#"{"content":[{"text":"1","type":"text"},{"type":"text","text":"2 \" \u00e9"}]}"#,
            r#""1\n2 \" \u00e9""#,
        ),
        (r#"{"content":[{"type":"image","data":"AA=="},{"type":"text","text":"[1, 2]"}]}"#, "[1, 2]"),
        (r#"{"content":[{"type":"text","text":"\ud800"}]}"#, r#""\ud800""#),
        (r#"{"content":[{"type":"text","text":""}]}"#, r#""""#),
        (r#"{"content":[{"type":"image","data":"AA=="}]}"#, "null"),
        (r#"{"content":[{"type":"text","text":7},{"type":"text"},5]}"#, "null"),
        (r#"{"content":"odd"}"#, r#""odd""#),
        (r"{}", "null"),
        (r#"{"resultType":"complete","content":[{"type":"text","text":"t"}]}"#, r#""t""#),
    ] {
        let answer = answer(result);
        assert_eq!(answer.data.as_str(), data, "{result}");
        assert!(answer.success && answer.error.is_none(), "{result}");
    }
}

#[test]
fn content_is_untouched_and_always_a_list() {
    let content = r#"[ {"type":"text","text":"a","x":1.0} , {"type":"vendor","k":1e400}]"#;
    assert_eq!(answer(&format!(r#"{{"content":{content}}}"#)).content.as_str(), content);
    assert_eq!(answer(r#"{"content":{}}"#).content.as_str(), "[]");
    assert_eq!(answer("{}").content.as_str(), "[]");
}

#[test]
fn a_tools_error_is_told_in_its_words() {
    for (result, error, data) in [
        (r#"{"isError":true,"content":[{"type":"text","text":"no \"x\""}]}"#, r#""no \"x\"""#, "null"),
        (
            r#"{"isError":true,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            r#""a\nb""#,
            "null",
        ),
        (
            r#"{"isError":true,"content":[{"type":"text","text":"{\"code\":1}"}]}"#,
            r#""{\"code\":1}""#,
            r#"{"code":1}"#,
        ),
        (
            r#"{"isError":true,"structuredContent":{"why":2},"content":[]}"#,
            r#""the tool reported an error without a text""#,
            r#"{"why":2}"#,
        ),
    ] {
        let answer = answer(result);
        assert_eq!((answer.success, answer.code), (false, Some(ErrorCode::ToolError)), "{result}");
        assert_eq!(answer.error.expect("a text").as_str(), error, "{result}");
        assert_eq!(answer.data.as_str(), data, "{result}");
    }
    assert!(answer(r#"{"isError":false,"content":[]}"#).success);
    assert!(answer(r#"{"isError":"true","content":[]}"#).success, "not a boolean, so it says nothing");
}

#[test]
fn result_that_rest_cannot_follow_is_a_failure_that_says_so() {
    let reply = answer(r#"{"resultType":"input_required","inputRequests":{}}"#);
    assert_eq!((reply.success, reply.code), (false, Some(ErrorCode::InputRequired)));
    let task = answer(r#"{"resultType":"task","taskId":"1"}"#);
    assert_eq!((task.success, task.code), (false, Some(ErrorCode::UnsupportedResult)));
    assert!(task.error.expect("a text").as_str().contains("task"));
}

#[test]
fn a_servers_error_is_passed_on_whole() {
    let text = r#"{"message":"no","code":-32042,"data":{"x":1e400}}"#;
    let error = ErrorObject::from_raw(raw(text)).expect("an error");
    let answer = answer_to(Err(error));
    assert_eq!((answer.success, answer.code), (false, Some(ErrorCode::RpcError)));
    assert_eq!(answer.error.expect("a text").as_str(), "\"no\"");
    assert_eq!(answer.rpc_error.expect("the object").as_str(), text);
    let silent = ErrorObject::from_raw(raw(r#"{"code":-1}"#)).expect("an error");
    let answer = answer_to(Err(silent));
    assert_eq!(answer.error.expect("a text").as_str(), "\"the server answered with the error -1\"");
}

#[test]
fn refused_arguments_and_senseless_answers_are_problems() {
    let refused = ErrorObject::new(INVALID_PARAMS, "title is required");
    let problem = Answer::of(&called(Err(refused)), "t", RequestId::new()).expect_err("refused");
    assert_eq!((problem.code(), &*problem.detail), (ErrorCode::InvalidArguments, "title is required"));
    for result in ["5", "null", "[]"] {
        let problem = Answer::of(&called(Ok(raw(result))), "t", RequestId::new()).expect_err(result);
        assert_eq!(problem.code(), ErrorCode::InvalidAnswer);
    }
}

#[test]
fn time_is_told_in_milliseconds() {
    assert!((answer("{}").execution_time_ms - 1234.5).abs() < 1e-9);
}
