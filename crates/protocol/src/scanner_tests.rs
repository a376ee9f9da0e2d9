//! The scanner agrees with the slower checks on any input, in linear time.

use std::collections::HashSet;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::{Message, Response};
use json::part::MOST;
use json::scanner::*;
use json::{Part, Raw};

/// Every kind of token, and every level whose members are recorded.
const SAMPLE: &str = r#" { "jsonrpc":"2.0","id" : -7, "method":"a\u00e9","params":{"n":[1.5e+3 ,0,{},[]],"_meta":{"k":"é\\\"","t":true},"f":[false,null]} } "#;

/// Whether the scanner accepts `text`.
fn is_quick(text: &[u8]) -> bool {
    Survey::new().read(text).is_some()
}

/// Whether `text` passes the slower checks: `serde_json`, then one check for each rule.
fn usual(text: &Bytes) -> bool {
    let Ok(raw) = Raw::judged(text) else { return false };
    let payload = [raw.get("params"), raw.get("result")].map(|part| part.filter(Raw::is_object));
    let [one, other] = &payload;
    let meta = one.as_ref().or(other.as_ref()).and_then(|payload| payload.get("_meta"));
    let objects = [Some(raw.clone()), one.clone().or(other.clone()), meta.filter(Raw::is_object)];
    let is_usual = |object: &Raw| {
        let keys: Vec<_> = object.as_part().places().map(|member| &object.bytes()[member.key]).collect();
        let names: HashSet<_> = keys.iter().collect();
        names.len() == keys.len() && keys.len() <= MOST && !keys.iter().any(|key| key.contains(&b'\\'))
    };
    raw.is_object()
        && raw.depth() <= MAX_DEPTH
        && (one.is_none() || other.is_none())
        && objects.iter().flatten().all(is_usual)
}

/// Checks that both agree on `text`, and that the recorded members are those that a scan finds.
fn check(text: &[u8]) -> Result<(), TestCaseError> {
    let text = Bytes::copy_from_slice(text);
    prop_assert_eq!(is_quick(&text), usual(&text), "{:?}", text);
    let read = Message::from_client(&text);
    prop_assert_eq!(&read, &Message::judged(&text));
    let from_server = Message::from_server(&text);
    prop_assert_eq!(&from_server, &Message::scanned(&text));
    // Some servers answer with the number of a request as a text, which is taken as the number.
    let id: Option<String> = Raw::parse(&text).ok().and_then(|message| message.get_as("id"));
    let is_number = id.is_some_and(|id| id.parse::<i64>().is_ok());
    // An error of a server gets what clients need to read it.
    let is_error = matches!(&from_server, Ok(Message::Response(Response { reply: Err(_), .. })));
    if is_quick(&text) && !is_number && !is_error {
        prop_assert_eq!(&read, &from_server);
    }
    let (value, expected) = (Raw::parse(&text), Raw::judged(&text));
    prop_assert_eq!(
        value.as_ref().map_err(ToString::to_string),
        expected.as_ref().map_err(ToString::to_string)
    );
    if let Ok(value) = value {
        same(&value, 1)?;
    }
    let payload = match read {
        Ok(Message::Request(request)) => request.params,
        Ok(Message::Notification(notification)) => notification.params,
        Ok(Message::Response(Response { reply, .. })) => reply.ok(),
        Err(_) => None,
    };
    payload.map_or(Ok(()), |payload| same(&payload, 2))
}

/// Checks that `object` and a copy of its bytes without recorded members have the same members.
fn same(object: &Raw, levels: usize) -> Result<(), TestCaseError> {
    let bare = Raw::unindexed(object.bytes().clone());
    let members: Vec<_> = bare.members().collect();
    prop_assert_eq!(&object.members().collect::<Vec<_>>(), &members);
    prop_assert_eq!(object.get("is not there"), None);
    for (name, _) in members {
        let (found, expected) = (object.get(&name), bare.get(&name));
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(
            object.part(&name).map(Part::bytes),
            expected.as_ref().map(|raw| raw.bytes().as_ref())
        );
        prop_assert_eq!(object.text(&name).map(String::from), bare.get_as::<String>(&name));
        for inner in ["a", "_meta", "progressToken"] {
            let part = |raw: &Raw| {
                raw.part(&name).and_then(|part| part.get(inner)).map(|part| part.bytes().to_vec())
            };
            prop_assert_eq!(part(object), part(&bare));
        }
        let value = Raw::of("another");
        let (with, expected) = (object.with(&name, &value), bare.with(&name, &value));
        prop_assert_eq!(&with, &expected);
        if levels > 0 {
            same(&with, levels - 1)?;
            same(&found.unwrap_or_else(Raw::empty_object), levels - 1)?;
        }
    }
    Ok(())
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just(""), 1 => select(vec![" ", "\t", "\r\n", "  \n "])]
}

/// A string token, sometimes an invalid one.
fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-d]{1,3}",
        2 => "[ -~]{0,40}".prop_map(|text| text.replace(['"', '\\'], "")),
        2 => select(vec![r"\n", r"\\", r"\/", r#"\""#, r"\u00e9", r"\ud800", r"\uD83D\uDE00"]).prop_map(String::from),
        2 => "\\PC{0,3}".prop_map(|text| text.replace(['"', '\\'], "")),
        1 => select(vec!["\u{7f}", "\u{1}", r"\x", r"\u12", "\n"]).prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn key() -> impl Strategy<Value = String> {
    let names = [
        "jsonrpc",
        "id",
        "method",
        "params",
        "result",
        "error",
        "_meta",
        "name",
        "progressToken",
        "p\\u0061rams",
    ];
    prop_oneof![6 => select(names.to_vec()).prop_map(|name| format!("\"{name}\"")), 4 => string()]
}

fn scalar() -> impl Strategy<Value = String> {
    let words = [
        "true", "false", "null", "tru", "nul", "\"2.0\"", "0", "-0", "01", "-", "1.", "1.0", ".5", "1e400",
        "1E+", "2e-7", "+1",
    ];
    prop_oneof![3 => string(), 2 => any::<i64>().prop_map(|n| n.to_string()), 2 => select(words.to_vec()).prop_map(String::from)]
}

fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (space(), key(), space(), space(), value, space());
    let member = member.prop_map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}"));
    (prop::collection::vec(member, 0..5), space()).prop_map(|(members, space)| match members.as_slice() {
        [] => format!("{{{space}}}"),
        members => format!("{{{}}}", members.join(",")),
    })
}

fn array(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (prop::collection::vec(value, 0..4), space())
        .prop_map(|(values, space)| format!("[{space}{}]", values.join(&format!("{space},{space}"))))
}

fn value() -> impl Strategy<Value = String> {
    scalar().prop_recursive(5, 24, 4, |inner| prop_oneof![object(inner.clone()), array(inner)])
}

/// A text that is similar to a message.
fn message() -> impl Strategy<Value = String> {
    let kinds =
        [r#""method":"tools/call","params":"#, r#""result":"#, r#""method":"x","params":"#, r#""error":"#];
    let whole = (space(), select(kinds.to_vec()), object(value()), space(), key(), value());
    whole.prop_map(|(a, kind, payload, b, key, more)| {
        format!(r#"{a}{{"jsonrpc":"2.0",{a}"id":{b}"i",{kind}{payload}{b},{key}:{more}}}{a}"#)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_agree_on_anything_like_a_message(text in prop_oneof![message(), value(), object(value())]) {
        check(text.as_bytes())?;
    }

    #[test]
    fn both_ways_agree_on_what_is_damaged(
        text in message(),
        at in any::<Index>(),
        end in any::<Index>(),
        byte in prop_oneof![any::<u8>(), select(b"{}[]:,\"\\ \n0et".to_vec())],
        kind in 0..5,
    ) {
        let mut bytes = text.into_bytes();
        let (at, end) = (at.index(bytes.len()), end.index(bytes.len()));
        match kind {
            0 => bytes.truncate(at),
            1 => bytes[at] = byte,
            2 => bytes.insert(at, byte),
            3 => drop(bytes.remove(at)),
            _ => drop(bytes.drain(at.min(end)..at.max(end))),
        }
        check(&bytes)?;
    }

    #[test]
    fn both_ways_agree_on_noise(bytes in prop::collection::vec(select(b"{}[]:,\"\\ \n0-.e1tnu\xc3\xa9".to_vec()), 0..40)) {
        check(&bytes)?;
    }
}

#[test]
fn both_ways_agree_wherever_a_message_is_cut_and_whatever_stands_in_it() {
    assert!(is_quick(SAMPLE.as_bytes()), "the sample is read in the quick way");
    for at in 0..=SAMPLE.len() {
        check(&SAMPLE.as_bytes()[..at]).expect("cut");
        for byte in (0..0x80).chain([0x80, 0xa9, 0xc3, 0xe2, 0xff]) {
            let mut bytes = SAMPLE.as_bytes().to_vec();
            let Some(place) = bytes.get_mut(at) else { continue };
            *place = byte;
            check(&bytes).expect("another byte");
        }
    }
}

#[test]
fn nesting_is_accepted_up_to_the_limit() {
    for (levels, accepted) in [(62, true), (63, false), (64, false), (70, false)] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":{}{inner}{}}}}}"#,
                open.repeat(levels),
                close.repeat(levels)
            );
            assert_eq!(is_quick(text.as_bytes()), accepted, "{levels}");
            assert_eq!(Message::from_client(&Bytes::from(text)).is_ok(), accepted, "{levels}");
        }
    }
}

/// Linear code reads each of these in seconds, quadratic code in minutes.
#[test]
fn scan_stays_linear_on_hostile_input() {
    const MEBI: usize = 1 << 20;
    let members = |count: usize| {
        let members: Vec<_> = (0..count).map(|n| format!(r#""{n}":{n}"#)).collect();
        members.join(",")
    };
    let wrap = |inner: &str| format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{{inner}}}}}"#);
    for (text, accepted) in [
        ("[".repeat(MEBI), false),
        ("{\"a\":".repeat(MEBI / 4), false),
        (wrap(&format!(r#""a":{}"#, "[".repeat(MEBI))), false),
        (wrap(&members(1_000)), true),
        (wrap(&members(10_000)), false),
        (wrap(&format!(r#""arguments":{{{}}}"#, members(10_000))), true),
        (wrap(&format!(r#""_meta":{{{}}}"#, members(1_000))), true),
        (wrap(&format!(r#"{},"999":1"#, members(1_000))), false),
        (format!(r#"{{"jsonrpc":"2.0","method":"x",{}}}"#, members(1_000)), true),
        (wrap(&format!(r#""a":"{}""#, r"\\".repeat(2 * MEBI))), true),
        (wrap(&format!(r#""a":"{}""#, r"\".repeat(4 * MEBI - 1))), false),
        (wrap(&format!(r#""a":"{}"#, "x".repeat(4 * MEBI))), false),
        (wrap(&format!(r#""a":"{}""#, "x".repeat(4 * MEBI))), true),
        (wrap(&format!(r#""a":[{}1]"#, "\"\",".repeat(MEBI / 3))), true),
        (wrap(&format!(r#""a":{}1"#, " ".repeat(MEBI))), true),
        (wrap(&format!(r#""a":{}"#, "9".repeat(MEBI))), true),
    ] {
        let text = Bytes::from(text);
        assert_eq!(Message::from_client(&text).is_ok(), accepted, "{:?}…", text.slice(..40));
    }
}

#[test]
fn a_payload_that_is_no_object_has_no_members_of_another() {
    let text = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"params":{"a":1},"result":"a string"}"#);
    let Ok(Message::Response(response)) = Message::from_server(&text) else { panic!("a response") };
    assert_eq!(response.reply.expect("a result").get("a"), None);
}
