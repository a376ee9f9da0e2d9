//! Tests of `body`: what is accepted, and how everything else is refused.

use axum::http::HeaderValue;
use axum::http::header::CONTENT_ENCODING;
use proptest::prelude::*;

use super::*;

fn json_headers() -> HeaderMap {
    [(CONTENT_TYPE, HeaderValue::from_static("application/json"))].into_iter().collect()
}

fn read_text(text: &str) -> Result<CallRequest, Problem> {
    read(&json_headers(), &Bytes::copy_from_slice(text.as_bytes()))
}

fn refused(text: &str) -> serde_json::Value {
    let problem = read_text(text).expect_err(text);
    assert_eq!(problem.code(), ErrorCode::InvalidRequest, "{text}");
    serde_json::from_slice(
        &problem.print(runtime::telemetry::RequestId::new(), &runtime::memory::Account::Nobody),
    )
    .expect("JSON")
}

#[test]
fn a_whole_request_is_read_and_its_arguments_keep_their_bytes() {
    let request = read_text(
        r#" {"timeout": 2.5, "arguments": {"b": 1e400, "a": [1.0, null]}, "server": "s", "tool": "t\u00e9"} "#,
    );
    let request = request.expect("fine");
    assert_eq!((request.server.as_deref(), request.tool.as_str()), (Some("s"), "té"));
    assert_eq!(request.arguments.as_str(), r#"{"b": 1e400, "a": [1.0, null]}"#);
    assert_eq!(request.timeout, Some(Duration::from_millis(2500)));
}

#[test]
fn an_integer_is_read_in_every_spelling_of_json() {
    let raw = |text: &str| Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON");
    for (text, number) in [
        ("7", 7),
        ("7.0", 7),
        ("70e-1", 7),
        ("-32767.0", -32_767),
        ("3759701814821778.0", 3_759_701_814_821_778),
        ("9223372036854775807", i64::MAX),
    ] {
        assert_eq!(integer(&raw(text)), Some(number), "{text}");
    }
    for text in ["7.5", "1e400", "1e17", "\"7\"", "null", "9223372036854775808"] {
        assert_eq!(integer(&raw(text)), None, "{text}");
    }
}

#[test]
fn optional_members_may_be_left_out_or_null() {
    for text in [r#"{"tool":"t"}"#, r#"{"tool":"t","server":null,"arguments":null,"timeout":null}"#] {
        let request = read_text(text).expect("fine");
        assert_eq!(
            request,
            CallRequest {
                server: None,
                tool: "t".into(),
                arguments: Raw::empty_object(),
                timeout: None,
                view: None
            }
        );
    }
}

#[test]
fn every_wrong_member_is_named_with_what_was_found_and_expected() {
    let seconds = "a number of seconds from 0.001 to 600";
    for (text, field, found, expected) in [
        (r"{}", "tool", "nothing", "the name of a tool"),
        (r#"{"tool":null}"#, "tool", "null", "a string"),
        (r#"{"tool":5}"#, "tool", "the number 5", "a string"),
        (r#"{"tool":""}"#, "tool", "an empty string", "a name"),
        (r#"{"tool":"\ud800"}"#, "tool", "a string that is not Unicode", "a string"),
        (r#"{"tool":"t","server":["s"]}"#, "server", "an array", "a string"),
        (r#"{"tool":"t","server":true}"#, "server", "true", "a string"),
        (r#"{"tool":"t","arguments":[]}"#, "arguments", "an array", "an object"),
        (r#"{"tool":"t","arguments":"{}"}"#, "arguments", r#"the string "{}""#, "an object"),
        (
            r#"{"tool":"t","arguments":{"a":1,"\u0061":2}}"#,
            "arguments",
            "the member \"a\" twice",
            "an object with each member once",
        ),
        (r#"{"tool":"t","timeout":"30"}"#, "timeout", r#"the string "30""#, seconds),
        (r#"{"tool":"t","timeout":0}"#, "timeout", "the number 0", seconds),
        (r#"{"tool":"t","timeout":-1}"#, "timeout", "the number -1", seconds),
        (r#"{"tool":"t","timeout":600.01}"#, "timeout", "the number 600.01", seconds),
        (r#"{"tool":"t","timeout":1e400}"#, "timeout", "the number 1e400", seconds),
        (r#"{"tool":"t","timeout":false}"#, "timeout", "false", seconds),
        (r#"{"tool":"t","tool":"u"}"#, "tool", "the member twice", "each member once"),
        (r#"{"tool":"t","\u0074ool":"u"}"#, "tool", "the member twice", "each member once"),
        (
            r#"{"tool":"t","stream":true}"#,
            "stream",
            "a member that is not known",
            "one of server, tool, arguments, timeout, view",
        ),
        ("[]", "", "an array", "a JSON object"),
        ("7", "", "the number 7", "a JSON object"),
        ("", "", "nothing", "a JSON object"),
        (
            "{\"tool\":\n oops}",
            "",
            "text that is not JSON: expected value at line 2 column 2",
            "a JSON object",
        ),
    ] {
        let document = refused(text);
        let expected = serde_json::json!([{"field": field, "found": found, "expected": expected}]);
        assert_eq!(document["errors"], expected, "{text}");
    }
}

#[test]
fn the_detail_says_it_in_a_sentence_and_all_errors_are_listed() {
    let document = refused(r#"{"tool":5,"timeout":"x","argument":{}}"#);
    assert_eq!(document["errors"].as_array().expect("errors").len(), 3);
    assert_eq!(document["hint"], "did you mean \"arguments\"?");
    let document = refused(r#"{"tool":"t","timeout":"soon"}"#);
    let detail = "timeout: found the string \"soon\", expected a number of seconds from 0.001 to 600";
    assert_eq!(document["detail"], detail);
}

#[test]
fn a_refusal_is_small_whatever_was_sent() {
    let many: Vec<String> = (0..10_000).map(|number| format!("\"m{number}\":1")).collect();
    for text in [
        format!("{{{}}}", many.join(",")),
        format!(r#"{{"tool":"{}"}}"#, "t".repeat(1_000_000)),
        format!(r#"{{"tool":"t","timeout":{}}}"#, "9".repeat(1_000_000)),
        format!(r#"{{"tool":"t","{}":1}}"#, "é".repeat(1_000_000)),
        format!(r#"{{"tool":"t","arguments":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        let document = refused(&text);
        assert!(document.to_string().len() < 4096);
    }
}

#[test]
fn only_what_says_it_is_json_is_read() {
    let body = Bytes::from_static(br#"{"tool":"t"}"#);
    for (kind, ok) in [
        ("application/json", true),
        ("Application/JSON ; charset=utf-8", true),
        ("application/vnd.x+json", true),
        ("application/x-www-form-urlencoded", false),
        ("text/plain", false),
        ("text/json+json", false),
        ("application/jsonx", false),
        ("", false),
    ] {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
        let code = read(&headers, &body).map_err(|problem| problem.code());
        assert_eq!(code.is_ok(), ok, "{kind}");
        assert!(ok || code == Err(ErrorCode::UnsupportedMediaType), "{kind}");
    }
    assert!(read(&HeaderMap::new(), &body).is_err());
    let mut twice = json_headers();
    twice.append(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    assert!(read(&twice, &body).is_err());
    let mut encoded = json_headers();
    encoded.append(CONTENT_ENCODING, HeaderValue::from_static("identity"));
    assert!(read(&encoded, &body).is_ok());
    encoded.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert!(read(&encoded, &body).is_err());
}

proptest! {
    #[test]
    fn timeouts_in_range_are_taken_and_no_other(seconds in -10.0_f64..1000.0) {
        let request = read_text(&format!(r#"{{"tool":"t","timeout":{seconds:?}}}"#));
        prop_assert_eq!(request.is_ok(), (0.001..=600.0).contains(&seconds));
    }
}
