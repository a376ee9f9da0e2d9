//! Properties of [`EnvelopeEdit`]: it agrees with the parser of whole messages, wherever the text is cut.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::value::RawValue;

use bytes::Bytes;

use crate::{Message, RequestId, Response};
use json::Raw;
use json::envelope_stream::*;

const ID: u64 = 7;
const FREELY: Terms = Terms { refused: &[], refused_objects: &[], added: &[] };
const MODERN: Terms = Terms {
    refused: &["task"],
    refused_objects: &[],
    added: &[
        Added { name: "resultType", value: "\"complete\"", only_final: false },
        Added { name: "ttlMs", value: "0", only_final: true },
    ],
};

/// Returns the result in `text`, which arrives in pieces that end at `cuts`.
fn spliced(text: &str, cuts: &[usize], terms: Terms) -> Result<String, Error> {
    let (text, mut edit) = (Bytes::copy_from_slice(text.as_bytes()), EnvelopeEdit::new(ID, terms));
    let (mut result, mut at) = (Vec::new(), 0);
    for length in cuts.iter().copied().chain([text.len()]) {
        let end = text.len().min(at + length);
        result.extend_from_slice(&edit.take(&text.slice(at..end))?);
        at = end;
    }
    result.extend_from_slice(&edit.finish()?);
    Ok(String::from_utf8(result).expect("text"))
}

/// Returns the result in `text` according to the parser of whole messages.
fn parsed(text: &str) -> Option<Raw> {
    match Message::from_server(&Bytes::copy_from_slice(text.as_bytes())) {
        Ok(Message::Response(Response { id: Some(id), reply: Ok(result) })) => {
            Some(result).filter(|result| id == RequestId::from_u64(ID) && result.is_object())
        }
        _ => None,
    }
}

/// Fails unless the parser and the splice agree on `text`.
fn agree(spliced: Result<String, Error>, text: &str) -> Result<(), TestCaseError> {
    match (spliced, parsed(text)) {
        (Ok(spliced), Some(parsed)) => prop_assert_eq!(spliced, parsed.as_str(), "{}", text),
        (Err(error), Some(_)) => prop_assert!(false, "{}: {}", error, text),
        // The parser checks values as well, so only a value can be wrong.
        (Ok(_), None) => prop_assert!(serde_json::from_str::<&RawValue>(text).is_err(), "{}", text),
        (Err(_), None) => {}
    }
    Ok(())
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![6 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// A name as JSON, spelled plainly or with escapes.
fn spelled(name: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(format!("\"{name}\"")),
        1 => Just(format!("\"{}\"", name.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<Vec<_>>().concat())),
        1 => Just(format!("\"\\u{:04X}{}\"", name.as_bytes()[0], &name[1..])),
    ]
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-z{}:, é]{0,12}".prop_map(|text| format!("\"{text}\"")),
        1 => Just(r#""\"id\":9,\"result\":{}}""#.to_owned()),
        1 => (0..6_usize, 0..150_usize).prop_map(|(pairs, length)| {
            format!("\"{}{}\\\"{}\"", "\\\\".repeat(pairs), "x".repeat(length), "\\n".repeat(pairs))
        }),
        1 => Just(r#""id""#.to_owned()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["0", "-1.5e+400", "null", "true", "7", "1e2", "{}", "[]", "\"\""]);
    let leaf = prop_oneof![word.prop_map(str::to_owned), string()];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), space())
                .prop_map(|(values, space)| format!("[{space}{}{space}]", values.join(&format!(",{space}")))),
            object(inner, vec!["id", "result", "error", "jsonrpc", "resultType", "x"]),
        ]
    })
}

fn object(value: impl Strategy<Value = String>, names: Vec<&'static str>) -> impl Strategy<Value = String> {
    let name = prop::sample::select(names).prop_flat_map(spelled);
    let member =
        (name, space(), value).prop_map(|(name, space, value)| format!("{name}{space}:{space}{value}"));
    (prop::collection::vec(member, 0..5), space())
        .prop_map(|(members, space)| format!("{{{space}{}{space}}}", members.join(&format!("{space},"))))
}

/// A text that is mostly a response to the request, and sometimes something else.
fn response() -> impl Strategy<Value = String> {
    let value_of = |name: &'static str| match name {
        "jsonrpc" => prop_oneof![9 => Just("\"2.0\"".to_owned()), 1 => value()].boxed(),
        "id" => prop_oneof![9 => Just("7".to_owned()), 1 => prop::sample::select(
            vec!["\"7\"", "8", "null", "7.0", "\"7.0\"", "70", "07", "{}"]).prop_map(str::to_owned)]
        .boxed(),
        "result" => {
            prop_oneof![9 => object(value(), vec!["content", "resultType", "ttlMs", "id"]), 1 => value()]
                .boxed()
        }
        _ => value().boxed(),
    };
    let member = move |name| {
        (spelled(name), space(), value_of(name))
            .prop_map(|(name, space, value)| format!("{space}{name}{space}:{space}{value}{space}"))
    };
    let extra = prop::sample::select(vec!["x", "id", "result", "jsonrpc", "params", "error", "method"]);
    let extra = prop_oneof![4 => Just(None), 2 => Just(Some("x")), 1 => extra.prop_map(Some)];
    let names = (Just(vec!["jsonrpc", "id", "result"]), extra).prop_map(|(mut names, extra)| {
        names.extend(extra);
        names
    });
    (names.prop_shuffle(), space())
        .prop_flat_map(move |(names, space)| {
            let members: Vec<_> = names.into_iter().map(member).collect();
            (members, Just(space))
        })
        .prop_map(|(members, space)| format!("{space}{{{}}}{space}", members.join(",")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn it_says_what_the_parser_says(text in response(), cuts in prop::collection::vec(0..90_usize, 0..12)) {
        for cuts in [vec![], cuts, vec![1; text.len()]] {
            agree(spliced(&text, &cuts, FREELY), &text)?;
        }
    }

    #[test]
    fn one_wrong_byte_makes_no_other_answer_of_it(
        text in response(),
        at in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"{}[]\",:\\ 7x".to_vec()),
    ) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
        agree(spliced(&text, &[], FREELY), &text)?;
    }

    #[test]
    fn members_that_a_result_lacks_are_added(result in object(value(), vec!["content", "resultType", "ttlMs", "x"])) {
        let text = format!(r#"{{"jsonrpc":"2.0","result":{result},"id":7}}"#);
        let raw = parsed(&text).expect("a result");
        let kinds: Vec<Option<String>> = raw.members().filter(|(name, _)| name == "resultType").map(|(_, kind)| kind.read().ok()).collect();
        let spliced = spliced(&text, &[], MODERN);
        if kinds.contains(&Some("task".into())) {
            prop_assert_eq!(spliced, Err(Error::Refused));
            return Ok(());
        }
        let members = |raw: &Raw| raw.members().map(|(name, value)| (name.into_owned(), value)).collect::<Vec<_>>();
        let spliced = Raw::parse(&spliced.expect("it passes").into()).expect("JSON");
        let is_final = kinds.iter().all(|kind| kind.as_deref() == Some("complete"));
        let (kind, ttl) = (Raw::of("complete"), Raw::of(&0));
        let mut expected = raw.clone();
        if kinds.is_empty() {
            expected = expected.with("resultType", &kind);
        }
        if is_final && raw.get("ttlMs").is_none() {
            expected = expected.with("ttlMs", &ttl);
        }
        prop_assert_eq!(members(&spliced), members(&expected));
    }
}

#[test]
fn each_fault_has_its_name() {
    for (text, error) in [
        (r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}"#, Error::Unfit),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, Error::Unfit),
        (r#"{"jsonrpc":"2.0","id":7,"result":[]}"#, Error::Unfit),
        (r#"{"jsonrpc":"2.0","id":7}"#, Error::Unfit),
        (r#"{"jsonrpc":"2.0","method":"x","id":7}"#, Error::NotResponse),
        (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, Error::Id),
        (r#"{"jsonrpc":"2.0","result":{},"id":"07"}"#, Error::Id),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1,NaN]}}"#, Error::Number),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"a":-Infinity}}"#, Error::Number),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"method":7}"#, Error::NotResponse),
        (r#"{"jsonrpc":"2.0","result":{}}"#, Error::Id),
        (r#"{"id":7,"result":{}}"#, Error::Version),
        (r#"{"jsonrpc":"1.0","id":7,"result":{}}"#, Error::Version),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}}{"#, Error::Malformed),
        (r#"{"jsonrpc":"2.0","id":7,"result":{} "x":1}"#, Error::Malformed),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},}"#, Error::Malformed),
        (r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#, Error::Malformed),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}"#, Error::Cut),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"a":""#, Error::Cut),
        ("", Error::Cut),
    ] {
        assert_eq!(spliced(text, &[], FREELY), Err(error), "{text}");
        assert_eq!(spliced(text, &vec![1; text.len()], FREELY), Err(error), "{text}");
    }
}

#[test]
fn a_result_of_a_refused_type_does_not_pass_however_it_is_spelled() {
    for kind in [r#""task""#, r#""t\u0061sk""#, r#""\u0074\u0061\u0073\u006b""#] {
        for name in [r#""resultType""#, r#""result\u0054ype""#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"taskId":"x",{name}: {kind} }}}}"#);
            assert_eq!(spliced(&text, &[], MODERN), Err(Error::Refused), "{text}");
        }
    }
    let nested =
        r#"{"jsonrpc":"2.0","id":7,"result":{"x":{"resultType":"task"},"resultType":"complete","ttlMs":1}}"#;
    assert!(spliced(nested, &[], MODERN).is_ok());
}

#[test]
fn the_closing_brace_of_a_result_is_kept_back_until_all_was_right() {
    let mut edit = EnvelopeEdit::new(ID, FREELY);
    let taken = edit.take(&Bytes::from_static(br#"{"jsonrpc":"2.0","result":{"a":1 }"#));
    assert_eq!(taken.expect("a part").as_ref(), br#"{"a":1 "#);
    assert!(edit.has_started());
    assert_eq!(edit.finish(), Err(Error::Cut));
    let rest = edit.take(&Bytes::from_static(br#","id":7} "#)).expect("the rest");
    assert_eq!((rest.as_ref(), edit.finish()), (&b""[..], Ok(Bytes::from_static(b"}"))));
}

#[test]
fn object_that_the_terms_refuse_is_not_passed_on() {
    let terms = Terms { refused: &[], refused_objects: &["task"], added: &[] };
    for (value, is_refused) in
        [(r#"{"taskId":"7"}"#, true), (r#""a name""#, false), ("[{}]", false), ("null", false)]
    {
        for name in ["task", r"t\u0061sk"] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"task":{{}}}}],"{name}":{value}}}}}"#
            );
            let taken = EnvelopeEdit::new(1, terms).take(&Bytes::from(text));
            assert_eq!(taken.is_err(), is_refused, "{name}: {value}");
        }
    }
}
