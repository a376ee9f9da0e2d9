//! Errors whose code the eras spell differently.
//!
//! There is one: a resource that does not exist is −32002 up to 2025-11-25 and −32602 since
//! 2026-07-28 (`server/resources`, Error Handling). Message, data and unknown members stay.

use protocol::error::code;
use protocol::{Era, ErrorObject, method};

/// The answer of a server of one era to `method`, for a client of another.
pub(super) fn between(server: Era, client: Era, method: &str, error: ErrorObject) -> ErrorObject {
    if method != method::RESOURCES_READ {
        return error;
    }
    match (server, client, error.code()) {
        (Era::Legacy, Era::Modern, code::RESOURCE_NOT_FOUND) => error.with_code(code::INVALID_PARAMS),
        (Era::Modern, Era::Legacy, code::INVALID_PARAMS) if names_a_uri(&error) => {
            error.with_code(code::RESOURCE_NOT_FOUND)
        }
        _ => error,
    }
}

/// −32602 says that something is wrong with the parameters; with `data.uri` it says what.
fn names_a_uri(error: &ErrorObject) -> bool {
    error.data().and_then(|data| data.get_as::<String>("uri")).is_some()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use json::Raw;

    fn error(text: &'static str) -> ErrorObject {
        ErrorObject::from_raw(Raw::parse(&Bytes::from_static(text.as_bytes())).expect("JSON"))
            .expect("a code")
    }

    #[test]
    fn a_missing_resource_has_the_code_of_the_clients_era() {
        let old = error(r#"{ "message":"x","code" : -32002,"data":{"uri":"a://b","n":1e400},"more":null}"#);
        let new = error(r#"{ "message":"x","code" : -32602,"data":{"uri":"a://b","n":1e400},"more":null}"#);
        let read = method::RESOURCES_READ;
        assert_eq!(between(Era::Legacy, Era::Modern, read, old.clone()), new);
        assert_eq!(between(Era::Modern, Era::Legacy, read, new.clone()), old);
        for era in [Era::Legacy, Era::Modern] {
            assert_eq!(between(era, era, read, old.clone()), old);
            assert_eq!(between(era, era, read, new.clone()), new);
        }
        assert_eq!(between(Era::Modern, Era::Legacy, method::TOOLS_CALL, new.clone()), new);
        assert_eq!(between(Era::Legacy, Era::Modern, method::TOOLS_CALL, old.clone()), old);
        assert_eq!(between(Era::Modern, Era::Legacy, read, old.clone()), old);
    }

    #[test]
    fn other_errors_keep_their_code() {
        for text in [
            r#"{"code":-32602,"message":"no uri"}"#,
            r#"{"code":-32602,"message":"odd","data":"uri"}"#,
            r#"{"code":-32602,"message":"odd","data":{"uri":null}}"#,
            r#"{"code":-32603,"message":"broken","data":{"uri":"a://b"}}"#,
        ] {
            let error = error(text);
            assert_eq!(between(Era::Modern, Era::Legacy, method::RESOURCES_READ, error.clone()), error);
        }
    }
}
