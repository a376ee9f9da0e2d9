//! Tests of the conversion of a server's answer, for each pair of eras.

use bytes::Bytes;

use super::*;
use crate::manager::Scope;
use auth::Principal;

fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")
}

/// Returns the answer that a client of the era `client` gets when a server of the era `server`
/// sends `text`.
fn converted(server: Era, client: Era, method: &str, text: &str) -> Result<String, ErrorObject> {
    let caller = match client {
        Era::Modern => Caller::modern(Principal::anonymous(), Scope::ALL, None),
        Era::Legacy => Caller::legacy(Principal::anonymous(), Scope::ALL, None),
    };
    let server = match server {
        Era::Modern => Version::NEWEST_MODERN,
        Era::Legacy => Version::NEWEST_LEGACY,
    };
    answer(&caller, method, server, Ok(raw(text))).map(|result| result.as_str().to_owned())
}

#[test]
fn a_client_of_the_same_era_gets_every_byte() {
    for (era, text) in [
        (Era::Legacy, r#"{ "structuredContent":[1e400] , "resultType":"task","contents":[]}"#),
        (Era::Legacy, "{}"),
        (Era::Modern, r#"{ "structuredContent":[1e400] , "resultType":"input_required"}"#),
        (Era::Modern, r#"{"resultType":"task","taskId":"t"}"#),
        (Era::Modern, r#"{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public"}"#),
    ] {
        for method in [method::TOOLS_CALL, method::RESOURCES_READ, "x/y"] {
            assert_eq!(converted(era, era, method, text).expect("a result"), text);
        }
    }
}

#[test]
fn a_modern_client_gets_what_its_revision_demands() {
    for (method, before, after) in [
        (method::TOOLS_CALL, r#"{"content":[] }"#, r#"{"content":[],"resultType":"complete" }"#),
        (
            method::RESOURCES_READ,
            r#"{"contents":[]}"#,
            r#"{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        ),
        (
            method::RESOURCES_READ,
            r#"{"ttlMs":9,"contents":[]}"#,
            r#"{"ttlMs":9,"contents":[],"resultType":"complete","cacheScope":"private"}"#,
        ),
        (method::RESOURCES_READ, r#"{"resultType":"input_required"}"#, r#"{"resultType":"input_required"}"#),
        (method::PROMPTS_GET, "{}", r#"{"resultType":"complete"}"#),
        (method::PROMPTS_GET, r#"{"resultType":null}"#, r#"{"resultType":"complete"}"#),
    ] {
        let converted = converted(Era::Legacy, Era::Modern, method, before).expect("a result");
        let (converted, after) = (raw(&converted), raw(after));
        let members = |value: &Raw| value.members().map(|(k, v)| (k.into_owned(), v)).collect::<Vec<_>>();
        assert_eq!(members(&converted), members(&after), "{method}");
    }
    let refusal = converted(Era::Legacy, Era::Modern, method::TOOLS_CALL, "null").expect_err("refused");
    assert!(refusal.message().contains("not an object"), "{}", refusal.message());
}

#[test]
fn a_legacy_client_gets_final_results_and_clear_refusals() {
    let converted = |method, text| converted(Era::Modern, Era::Legacy, method, text);
    for (method, before, after) in [
        (
            method::RESOURCES_READ,
            r#"{"resultType":"complete","ttlMs":0}"#,
            r#"{"resultType":"complete","ttlMs":0}"#,
        ),
        (method::TOOLS_CALL, r#"{"structuredContent":{"a":1}}"#, r#"{"structuredContent":{"a":1}}"#),
        (method::TOOLS_CALL, r#"{"resultType":null}"#, r#"{"resultType":null}"#),
        (
            method::TOOLS_CALL,
            r#"{"structuredContent":[1e400]}"#,
            r#"{"structuredContent":{"result":[1e400]}}"#,
        ),
        (method::PROMPTS_GET, r#"{"structuredContent":[1]}"#, r#"{"structuredContent":[1]}"#),
    ] {
        assert_eq!(converted(method, before).expect("a result"), after);
    }
    for (text, says) in [
        (r#"{"resultType":"input_required"}"#, "more input"),
        (r#"{"resultType":"task","taskId":"t"}"#, "task"),
        (r#"{"resultType":"drea\nm"}"#, "drea\\nm"),
        (r#"{"resultType":5}"#, "unknown type"),
        ("null", "not an object"),
        ("[]", "not an object"),
    ] {
        let refusal = converted(method::TOOLS_CALL, text).expect_err("refused");
        assert!(refusal.message().contains(says), "{}", refusal.message());
    }
    let long = format!(r#"{{"resultType":"{}"}}"#, "x".repeat(1_000_000));
    assert!(converted(method::TOOLS_CALL, &long).expect_err("refused").message().len() < 400);
}
