//! The `_meta` of a request for a server of each era, and that both functions that write it agree.

use super::*;
use crate::compose::{Composed, compose};
use crate::{Message, Version};

fn raw(text: &'static str) -> Raw {
    Raw::parse(&Bytes::from_static(text.as_bytes())).expect("JSON")
}

fn sender() -> Sender {
    Sender { capabilities: raw(r#"{"roots":{}}"#), info: raw(r#"{"name":"c"}"#), log_level: None }
}

#[test]
fn a_modern_request_stays_itself_for_a_modern_server() {
    let text = r#"{"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":1.0},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"own":1e400}}"#;
    let dressed = dress(Some(&raw(text)), Era::Modern, &sender(), None).expect("params");
    assert_eq!(dressed.as_str(), text);
}

#[test]
fn a_legacy_request_is_completed_for_a_modern_server() {
    let dressed = dress(
        Some(&raw(r#"{"name":"t","_meta":{"progressToken":"p","own":1}}"#)),
        Era::Modern,
        &sender(),
        Some(&raw("7")),
    );
    let meta = of(dressed.as_ref()).expect("_meta");
    assert_eq!(meta.get(PROGRESS_TOKEN).expect("token").as_str(), "7");
    assert_eq!(meta.get("own").expect("kept").as_str(), "1");
    assert_eq!(meta.get(PROTOCOL_VERSION).expect("version").as_str(), "\"2026-07-28\"");
    assert_eq!(meta.get(CLIENT_CAPABILITIES).expect("caps").as_str(), r#"{"roots":{}}"#);
    assert!(dress(None, Era::Modern, &sender(), None).is_some());
}

#[test]
fn a_modern_request_loses_its_modern_members_for_a_legacy_server() {
    let text = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","own":1,"progressToken":5},"name":"t"}"#;
    let dressed = dress(Some(&raw(text)), Era::Legacy, &sender(), Some(&raw("9"))).expect("params");
    assert_eq!(dressed.as_str(), r#"{"_meta":{"own":1,"progressToken":9},"name":"t"}"#);
    let bare = raw(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"t"}"#);
    assert_eq!(dress(Some(&bare), Era::Legacy, &sender(), None).expect("params").as_str(), r#"{"name":"t"}"#);
    assert_eq!(dress(None, Era::Legacy, &sender(), None), None);
    assert_eq!(
        dress(Some(&raw(r#"{"name":"t"}"#)), Era::Legacy, &sender(), Some(&raw("9")))
            .expect("params")
            .as_str(),
        r#"{"name":"t","_meta":{"progressToken":9}}"#
    );
}

/// The whole text of `composed`.
fn joined(composed: Composed) -> String {
    let (mut text, passed) = composed.into_parts();
    if let Some((at, part)) = passed {
        text.splice(at..at, part);
    }
    String::from_utf8(text).expect("UTF-8")
}

/// The output of [`write_dressed`], without the comma and the name before it.
fn written(params: Option<&Raw>, era: Era, sender: &Sender, token: Option<u64>) -> Option<String> {
    let print = |least_passed| {
        let composed = compose(0, "x", (0, least_passed), |out| {
            write_dressed(out, params, era, sender, token);
        });
        joined(composed)
    };
    let text = print(usize::MAX);
    assert_eq!(print(1), text, "a part that is not copied has its place");
    let start = r#"{"jsonrpc":"2.0","id":0,"method":"x""#;
    let text = text.strip_prefix(start).and_then(|text| text.strip_suffix('}')).expect("a request");
    (!text.is_empty()).then(|| text.strip_prefix(",\"params\":").expect("a member").to_owned())
}

/// `params` as they are in a message, with the positions of their members.
fn received(params: &str) -> Raw {
    let text = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{params}}}"#);
    let Ok(Message::Notification(notification)) = Message::from_client(&Bytes::from(text)) else {
        panic!("a notification: {params}")
    };
    notification.params.expect("params")
}

#[test]
fn both_ways_of_dressing_write_the_same() {
    const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    const REST: &str =
        r#""io.modelcontextprotocol/clientInfo":{}, "io.modelcontextprotocol/clientCapabilities" : {}"#;
    let metas = [
        String::new(),
        r#""_meta":5"#.into(),
        r#""_meta":{}"#.into(),
        r#""_meta" : { }"#.into(),
        r#""_meta":{"progressToken":"p"}"#.into(),
        r#""_meta":{ "progressToken" : null , "own":1e400 }"#.into(),
        r#""_meta":{"io.modelcontextprotocol/logLevel":"info","own":{"progressToken":3}}"#.into(),
        format!(r#""_meta":{{{VERSION}}}"#),
        format!(r#""_meta":{{ {VERSION} , "own":[1], {REST} }}"#),
        format!(
            r#""_meta":{{"progressToken":7,{REST},{VERSION},"io.modelcontextprotocol/logLevel":"loud"}}"#
        ),
        format!(r#""_meta":{{{VERSION},{REST}}}"#),
        format!(r#""_m\u0065ta":{{{VERSION}}}"#),
    ];
    let bare = sender();
    let loud = Sender { log_level: Some(LogLevel::Warning), ..sender() };
    for meta in &metas {
        let comma = if meta.is_empty() { "" } else { "," };
        for params in [
            format!("{{{meta}}}"),
            format!(r#"{{ "name":"t"{comma}{meta} }}"#),
            format!(r#"{{{meta}{comma} "name" : "t"}}"#),
        ] {
            let received = received(&params);
            for (era, token, sender) in [Era::Legacy, Era::Modern]
                .into_iter()
                .flat_map(|era| [None, Some(u64::MAX)].map(|token| (era, token)))
                .flat_map(|(era, token)| [&bare, &loud].map(|sender| (era, token, sender)))
            {
                let as_raw = token.map(|token| Raw::of(&token));
                let expected = dress(Some(&raw_of(&params)), era, sender, as_raw.as_ref());
                let expected = expected.map(|params| params.as_str().to_owned());
                let found = written(Some(&received), era, sender, token);
                assert_eq!(found, expected, "{params} for {era:?} with {token:?}");
                assert_eq!(
                    dress(Some(&received), era, sender, as_raw.as_ref()).map(|p| p.as_str().to_owned()),
                    expected
                );
                let is_usual = meta.is_empty() || *meta == metas[10];
                let is_described = era == Era::Legacy || claimed_version(Some(&received)).is_some();
                let most = room(Some(&received), is_described, sender, token);
                assert!(!is_usual || found.map_or(0, |found| found.len()) <= most, "{params} in {most}");
            }
        }
    }
    assert_eq!(written(None, Era::Legacy, &bare, None), None);
    assert_eq!(
        written(None, Era::Legacy, &bare, Some(3)).as_deref(),
        Some(r#"{"_meta":{"progressToken":3}}"#)
    );
}

fn raw_of(text: &str) -> Raw {
    Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON")
}

#[test]
fn a_request_is_composed_as_it_would_be_encoded() {
    let text = r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"a \"b\"","params":{"n":1.0}}"#;
    let params = raw(r#"{"n":1.0}"#);
    let composed = compose(u64::MAX, "a \"b\"", (0, usize::MAX), |out| {
        write_dressed(out, Some(&params), Era::Legacy, &sender(), None);
    });
    assert_eq!(joined(composed), text);
    let bare = compose(0, "ping", (0, usize::MAX), |out| {
        write_dressed(out, None, Era::Legacy, &sender(), None);
    });
    assert_eq!(joined(bare), r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#);
    assert_eq!(NEWEST, Raw::of(Version::NEWEST_MODERN.as_str()).bytes().as_ref());
    assert!(
        LogLevel::ALL.into_iter().all(|level| level.as_json() == Raw::of(level.as_str()).bytes().as_ref())
    );
}

#[test]
fn a_large_part_of_the_parameters_is_not_copied() {
    let large = "x".repeat(100);
    for text in [
        format!(r#"{{"arguments":"{large}","_meta":{{"own":1}}}}"#),
        format!(r#"{{"_meta":{{"own":1}},"arguments":"{large}"}}"#),
        format!(r#"{{"arguments":"{large}"}}"#),
    ] {
        let params = received(&text);
        for (era, token) in [(Era::Modern, None), (Era::Legacy, Some(7)), (Era::Legacy, None)] {
            let composed = compose(0, "x", (0, 100), |out| {
                write_dressed(out, Some(&params), era, &sender(), token);
            });
            let (copied, passed) = composed.into_parts();
            let (_, part) = passed.expect("a part that is not copied");
            assert!(params.bytes().as_ptr_range().contains(&part.as_ptr()), "{text}");
            assert!(!String::from_utf8(copied).expect("UTF-8").contains(&large), "{text}");
        }
    }
}
