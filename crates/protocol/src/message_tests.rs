//! Which texts are messages, and that reading and writing a message loses nothing.

use super::*;

fn from_client(text: &str) -> Result<Message, ParseError> {
    Message::from_client(&Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn the_three_kinds_are_told_apart_and_written_back() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"b":1e400,"a":null}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":-7,"result":{"z":1,"a":2.0}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no","extra":[]}}"#,
    ] {
        let message = from_client(text).expect(text);
        assert_eq!(message.encode(), text.as_bytes(), "{text}");
    }
}

#[test]
fn ids_keep_type_and_spelling() {
    for (id, ok) in [
        ("1", true),
        ("\"1\"", true),
        ("-1", true),
        ("18446744073709551616", true),
        ("1.0", false),
        ("1e3", false),
        ("null", false),
        ("true", false),
        ("[1]", false),
        ("{}", false),
    ] {
        let message = from_client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        match (ok, message) {
            (true, Ok(Message::Request(request))) => assert_eq!(request.id.raw().as_str(), id),
            (false, Err(error)) => assert_eq!(error, ParseError::Id, "{id}"),
            (_, other) => panic!("{id}: {other:?}"),
        }
    }
    assert_eq!(RequestId::from_u64(7).as_u64(), Some(7));
    let string = RequestId::from_raw(Raw::of("7")).expect("a string is an id");
    assert_eq!(string.as_u64(), None, "the string \"7\" is not the number 7");
}

#[test]
fn text_that_is_not_a_message_is_refused_with_its_reason() {
    let deep =
        format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":{}{}}}}}"#, "[".repeat(63), "]".repeat(63));
    for (text, code, part) in [
        ("{", -32700, "not valid JSON"),
        ("\u{feff}\u{feff}{}", -32700, "not valid JSON"),
        ("\u{feff}[]", -32600, "batches"),
        ("[]", -32600, "batches"),
        ("1", -32600, "JSON object"),
        ("{}", -32600, "\"2.0\""),
        (r#"{"jsonrpc":"1.0","method":"x"}"#, -32600, "\"2.0\""),
        (r#"{"jsonrpc":"2.0"}"#, -32600, "either"),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, "either"),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1}}"#, -32600, "either"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"message":"no code"}}"#, -32600, "either"),
        (r#"{"jsonrpc":"2.0","result":{}}"#, -32600, "\"id\""),
        (r#"{"jsonrpc":"2.0","method":5}"#, -32600, "\"method\""),
        (r#"{"jsonrpc":"2.0","method":"x","params":[1]}"#, -32600, "\"params\""),
        (r#"{"jsonrpc":"2.0","method":"x","method":"y"}"#, -32600, "twice in the message"),
        (r#"{"jsonrpc":"2.0","method":"x","m\u0065thod":"y"}"#, -32600, "twice in the message"),
        (r#"{"jsonrpc":"2.0","method":"x","params":{"a":1,"a":1}}"#, -32600, "twice in params"),
        (r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"a":1,"a":1}}}"#, -32600, "twice in _meta"),
        (deep.as_str(), -32600, "65 levels"),
    ] {
        let error = from_client(text).expect_err(text);
        assert_eq!(error.code(), code, "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

fn from_server(text: &str) -> Result<Message, ParseError> {
    Message::from_server(&Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn null_in_the_place_of_a_member_is_a_missing_member() {
    let result = r#"{"jsonrpc":"2.0","id":7,"result":{"a":null}}"#;
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}"#;
    for (text, plain) in [
        (r#"{"jsonrpc":"2.0","id":7,"result":{"a":null},"error":null}"#, result),
        (r#"{"error": null ,"id":7,"result":{"a":null},"jsonrpc":"2.0"}"#, result),
        (r#"{"jsonrpc":"2.0","id":7,"method":null,"params":null,"result":{"a":null},"error":null}"#, result),
        (r#"{"jsonrpc":"2.0","id":7,"err\u006fr":null,"result":{"a":null}}"#, result),
        (r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1,"message":"no"}}"#, error),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"},"result":null,"method":null}"#, error),
        (
            r#"{"jsonrpc":"2.0","id":7,"result":null,"error":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
        ),
    ] {
        assert_eq!(from_server(text).expect(text).encode(), plain.as_bytes(), "{text}");
        assert_eq!(from_client(text).expect(text).encode(), plain.as_bytes(), "{text}");
    }
    for (text, plain) in [
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"x","params":null,"result":null}"#,
            r#"{"jsonrpc":"2.0","method":"x"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#,
        ),
    ] {
        assert_eq!(from_server(text).expect(text).encode(), plain.as_bytes(), "{text}");
    }
    assert_eq!(from_client(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#), Err(ParseError::Id));
    for text in [r#"{"jsonrpc":"2.0","id":7,"error":null}"#, r#"{"jsonrpc":"2.0","id":null,"error":null}"#] {
        assert_eq!([from_server(text), from_client(text)], [Err(ParseError::Shape), Err(ParseError::Shape)]);
    }
    assert!(from_server(r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1}}"#).is_err());
}

#[test]
fn a_batch_of_a_server_is_read_up_to_a_limit() {
    let batch = |text: &str| Message::batch(&Bytes::copy_from_slice(text.as_bytes()));
    let texts = batch("\u{feff} [{\"a\":[1]} , 2]").expect("a batch");
    assert_eq!(texts, [&b"{\"a\":[1]}"[..], b"2"]);
    assert_eq!(batch("[]"), Some(Vec::new()));
    assert_eq!(batch(&format!("[{}1]", "1,".repeat(1_023))).expect("a batch").len(), 1_024);
    assert_eq!(batch(&format!("[{}1]", "1,".repeat(1_024))), None);
    for text in ["[", "[1,]", ""] {
        assert_eq!(batch(text), None, "{text}");
    }
}

#[test]
fn a_message_of_a_batch_does_not_keep_a_batch_that_is_much_larger() {
    for (large, is_copied) in [(100_000, true), (100, false)] {
        let text = Bytes::from(format!(r#"[{{"a":1}},"{}"]"#, "x".repeat(large)));
        let messages = Message::batch(&text).expect("a batch");
        let is_inside = |message: &Bytes| text.as_ptr_range().contains(&message.as_ptr());
        assert_eq!(messages.iter().map(is_inside).collect::<Vec<_>>(), [!is_copied, true], "{large}");
        assert_eq!(messages[0], br#"{"a":1}"#[..]);
    }
}

#[test]
fn the_id_of_a_response_may_come_back_as_text() {
    for read in [from_server, from_client] {
        for id in ["7", "\"7\"", "7.0", " 7 "] {
            let message = read(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
            let Ok(Message::Response(response)) = message else { panic!("{id}") };
            assert_eq!(response.id, Some(RequestId::from_u64(7)), "{id}");
        }
    }
    for id in ["\"07\"", "\"x\"", "-7"] {
        let Ok(Message::Response(response)) =
            from_server(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
        else {
            panic!("{id}")
        };
        assert_eq!(response.id.map(|id| id.raw().as_str().to_owned()), Some(id.to_owned()));
    }
    for read in [from_server, from_client] {
        let Ok(Message::Request(request)) = read(r#"{"jsonrpc":"2.0","id":"7","method":"ping"}"#) else {
            panic!()
        };
        assert_eq!(request.id.raw().as_str(), "\"7\"", "the id of a request is its sender's");
    }
}

#[test]
fn a_byte_order_mark_before_a_message_is_ignored() {
    let plain = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
    for read in [from_server, from_client] {
        assert_eq!(read(&format!("\u{feff}{plain}")).expect("a message").encode(), plain.as_bytes());
        assert!(read(&format!("\u{feff}\u{feff}{plain}")).is_err());
    }
    let refused = Bytes::from("\u{feff}{\"jsonrpc\":\"1.0\",\"id\":7}");
    let id = Message::readable_id(&refused).expect("an id");
    assert_eq!(id.as_u64(), Some(7));
}

#[test]
fn null_is_no_id_of_a_notification_and_an_invalid_id_of_a_request() {
    let notice = r#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}"#;
    let plain = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(from_client(notice).expect("a notification").encode(), plain.as_bytes());
    for method in ["ping", "tools/call", "notifications", "x/notifications/y"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":null,"method":"{method}"}}"#);
        assert_eq!(from_client(&text), Err(ParseError::Id), "{method}");
    }
}

#[test]
fn a_server_may_nest_and_repeat_as_it_likes() {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{}{},"b":1,"b":2}}}}"#,
        "[".repeat(99),
        "]".repeat(99)
    );
    let message = Message::from_server(&Bytes::from(text.clone())).expect("accepted");
    assert_eq!(message.encode(), text.as_bytes());
}

#[test]
fn the_parts_of_a_response_are_the_response() {
    for text in [
        r#"{"jsonrpc":"2.0","id":"a","result":{"b":1e400}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
    ] {
        let Ok(Message::Response(response)) = from_client(text) else { panic!("{text}") };
        let parts = response.parts();
        assert_eq!(parts.concat(), text.as_bytes());
        assert_eq!(parts[1], response.reply.as_ref().unwrap_or_else(ErrorObject::raw).bytes());
    }
}

#[test]
fn too_many_members_are_refused_on_the_strict_levels_and_accepted_in_arguments() {
    let member = |number: usize| format!(r#","\u0061{number}":0"#);
    let many = (0..1_100).map(member).collect::<Vec<_>>().concat();
    for (place, text) in [
        ("the message", format!(r#"{{"jsonrpc":"2.0","method":"x"{many}}}"#)),
        ("params", format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":0{many}}}}}"#)),
        ("_meta", format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"_meta":{{"a":0{many}}}}}}}"#)),
    ] {
        assert_eq!(from_client(&text), Err(ParseError::TooMany { place }));
    }
    let fine = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"arguments":{{"a":0{many}}}}}}}"#);
    assert!(from_client(&fine).is_ok());
}

#[test]
fn a_key_with_escapes_is_found_by_what_it_means() {
    for (key, name, same) in [
        (r#""n\u0061me""#, "name", true),
        (r#""\u006eame""#, "name", true),
        (r#""\u006e""#, "name", false),
        (r#""name\u0061""#, "name", false),
        (r#""nam\u0045""#, "name", false),
        (r#""\u00e9""#, "é", true),
        (r#""\ud83d\ude00x""#, "😀x", true),
        (r#""\u00e9""#, "e", false),
        (r#""a\\b""#, "a\\b", true),
        (r#""a\/b""#, "a/b", true),
        (r#""a\nb""#, "a\nb", true),
        (r#""a\"""#, "a\"", true),
    ] {
        assert_eq!(json::part::key_is(key.as_bytes(), name), same, "{key} {name}");
    }
}

#[test]
fn a_payload_of_a_server_does_not_keep_a_message_that_is_much_larger() {
    let padding = "x".repeat(100_000);
    for payload in [r#""id":1,"result""#, r#""id":1,"error""#, r#""method":"m","params""#] {
        for (size, is_copied) in [(10_000, true), (90_000, false)] {
            let value = format!(r#"{{"code":1,"message":"{}"}}"#, "y".repeat(size));
            let padding = if is_copied { padding.as_str() } else { "" };
            let text = Bytes::from(format!(r#"{{"jsonrpc":"2.0",{payload}:{value},"z":"{padding}"}}"#));
            let retained = match Message::from_server(&text).expect("a message") {
                Message::Response(response) => response.reply.unwrap_or_else(|error| error.raw().clone()),
                Message::Notification(notification) => notification.params.expect("it has some"),
                Message::Request(_) => unreachable!("it has no method and id"),
            };
            assert_eq!(retained.as_str(), value);
            let is_inside = text.as_ptr_range().contains(&retained.bytes().as_ptr());
            assert_eq!(is_inside, !is_copied, "{payload}, {size}");
        }
    }
}

mod response {
    use super::*;
    use crate::ErrorObject;

    #[test]
    fn every_way_to_write_a_response_writes_the_same() {
        let id = RequestId::from_u64(7);
        let result = Raw::of("text");
        let response = Response { id: Some(id.clone()), reply: Ok(result.clone()) };
        let text = r#"{"jsonrpc":"2.0","id":7,"result":"text"}"#;
        let closed = Closed::new(&result);
        assert_eq!((closed.result(), closed.size()), (result, 7));
        assert_eq!([response.encode(), response.parts().concat().into()], [text, text]);
        assert_eq!([closed.encode(&id), closed.parts(&id).concat().into()], [text, text]);
    }

    #[test]
    fn printed_response_fits_its_buffer_and_an_unknown_id_is_null() {
        for (id, reply) in
            [(Some(RequestId::from_u64(1)), Ok(Raw::of(&2))), (None, Err(ErrorObject::new(3, "no")))]
        {
            let response = Response { id, reply };
            let out = head(response.id.as_ref(), response.reply.is_ok(), 0);
            assert!(out.capacity() < out.len() + 5, "{}", out.capacity());
        }
        let refused = Response { id: None, reply: Err(ErrorObject::new(3, "no")) };
        assert!(refused.encode().starts_with(br#"{"jsonrpc":"2.0","id":null,"error":{"#));
    }
}
