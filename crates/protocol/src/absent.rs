//! Optional members of a client's parameters that are `null`: they are absent.
//!
//! Many languages print absent members as `null`, and the schemas of MCP do not allow that, so servers refuse them.
//! Invariant: only members that the specification declares as optional are left out. A `null` in arguments or in a
//! member of a vendor is a value and stays.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use json::part::{Part, key_is};
use json::raw::Raw;

use crate::meta;

static NULL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("null"));

/// Optional members of `params`.
const OPTIONAL: [&str; 7] =
    ["_meta", "arguments", "cursor", "context", "task", "inputResponses", "requestState"];
/// Optional members of objects in `params`. Not `progressToken`: each hop writes its own.
const OPTIONAL_INSIDE: [(&str, &[&str]); 2] =
    [("_meta", &[meta::LOG_LEVEL, meta::CLIENT_INFO]), ("context", &["arguments"])];

/// Returns `params` without optional members that are `null`; `None` if there are none.
pub(crate) fn without_nulls(params: &Raw) -> Option<Raw> {
    NULL.find(params.bytes())?;
    let mut changed = without(params, params.as_part(), &OPTIONAL);
    for (name, optional) in OPTIONAL_INSIDE {
        let inner = params.part(name).filter(|inner| inner.is_object());
        if let Some(inner) = inner.and_then(|inner| without(params, inner, optional)) {
            changed = Some(changed.as_ref().unwrap_or(params).with(name, &inner));
        }
    }
    changed
}

/// Returns `object`, a part of `params`, without those of the members `optional` that are `null`; `None` if there are
/// none.
fn without(params: &Raw, object: Part<'_>, optional: &[&'static str]) -> Option<Raw> {
    let text = object.bytes();
    let nulls = object.places().filter(|member| text.get(member.value.clone()) == Some(b"null"));
    let names = nulls.filter_map(|member| {
        let key = text.get(member.key)?;
        optional.iter().copied().find(|name| key_is(key, name))
    });
    let changes: Vec<(&str, Option<&Raw>)> = names.map(|name| (name, None)).collect();
    (!changes.is_empty()).then(|| params.slice(object).edit(&changes))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::{Message, Notification, Request};

    /// The parameters of a request and of a notification, as they are read from a client.
    fn read(params: &str) -> String {
        let parsed = |id: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0",{id}"method":"x/y","params":{params}}}"#);
            match Message::from_client(&Bytes::from(text)).expect("a message") {
                Message::Request(Request { params, .. })
                | Message::Notification(Notification { params, .. }) => {
                    params.map_or_else(|| "none".to_owned(), |params| params.as_str().to_owned())
                }
                Message::Response(_) => unreachable!("it has a method"),
            }
        };
        let (request, notification) = (parsed(r#""id":1,"#), parsed(""));
        assert_eq!(request, notification);
        request
    }

    #[test]
    fn optional_members_that_are_null_are_absent() {
        for (params, expected) in [
            ("null", "none"),
            (r#"{"name":"t","arguments":null}"#, r#"{"name":"t"}"#),
            (r#"{"argu\u006dents":null,"name":"t"}"#, r#"{"name":"t"}"#),
            (r#"{"cursor":null}"#, "{}"),
            (
                r#"{"task":null,"_meta":null,"name":"t","requestState":null,"inputResponses":null}"#,
                r#"{"name":"t"}"#,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/clientInfo":null,"progressToken":null}}"#,
                r#"{"_meta":{"progressToken":null}}"#,
            ),
            (r#"{"cursor":null,"_meta":{"io.modelcontextprotocol/logLevel":null}}"#, r#"{"_meta":{}}"#),
            (r#"{"context":{"arguments":null}}"#, r#"{"context":{}}"#),
        ] {
            assert_eq!(read(params), expected, "{params}");
        }
    }

    #[test]
    fn every_other_null_is_a_value() {
        for params in [
            r#"{"name":null}"#,
            r#"{"uri":null,"arguments":{"arguments":null,"cursor":null}}"#,
            r#"{ "vendor" : null , "arguments" : [null] }"#,
            r#"{"_meta":{"vendor/x":null,"arguments":null},"n":1e400}"#,
        ] {
            assert_eq!(read(params), params);
        }
    }
}
