//! Where the two eras meet: what an answer or a notice must have for a client of the other one.
//!
//! Every function leaves a message alone that its client already understands.

pub(super) mod capabilities;
pub mod task;

use super::caller::Caller;
use super::error;
use super::manager::catalog::Form;
use json::Raw;
use protocol::caching::{self, Caching};
use protocol::error::code;
use protocol::{Era, ErrorObject, LogLevel, Notification, Reply, Version, meta, method, sanitize};
use upstream::Question;

pub use protocol::output_schema as schema;

/// The type of a final result.
const COMPLETE: &str = "complete";

/// The answer of a server that speaks `server` to `method`, as the client's revision writes it.
///
/// A call of a tool whose definition was wrapped goes through [`schema::wrap_result`] first.
pub fn answer(caller: &Caller, method: &str, server: Version, reply: Reply) -> Reply {
    let eras = (server.era(), caller.version.era());
    let result = reply.map_err(|error| between(eras.0, eras.1, method, error))?;
    if !result.is_object() {
        return Err(error::invalid_answer("the result is not an object"));
    }
    match eras {
        (_, Era::Modern) => Ok(for_modern(method, result)),
        (Era::Modern, Era::Legacy) => for_legacy(method, &result),
        (Era::Legacy, Era::Legacy) => Ok(result),
    }
}

/// A result with what 2026-07-28 demands of one, where its server did not write it.
fn for_modern(method: &str, result: Raw) -> Raw {
    let is_there = |name: &str| result.part(name).is_some_and(|value| !value.is_null());
    let kind = result.part("resultType").filter(|kind| !kind.is_null());
    let is_cached = [method::RESOURCES_READ, method::SKILLS_GET].contains(&method)
        && kind.is_none_or(|kind| kind.says(COMPLETE));
    if kind.is_some() && !is_cached {
        return result;
    }
    let (kind, ttl, scope) = (Raw::of(COMPLETE), Raw::of(&0), Raw::of("private"));
    // Nobody said how long it lasts or whom it is for: it is stale at once, and for one only.
    let members =
        [("resultType", &kind, true), (caching::TTL, &ttl, is_cached), (caching::SCOPE, &scope, is_cached)];
    let absent = members.iter().filter(|(name, _, is_wanted)| *is_wanted && !is_there(name));
    let changes: Vec<(&str, Option<&Raw>)> = absent.map(|(name, value, _)| (*name, Some(*value))).collect();
    if changes.is_empty() { result } else { result.edit(&changes) }
}

/// A modern server's result for a client that knows only final ones, without the members that it
/// may ignore being removed.
fn for_legacy(method: &str, result: &Raw) -> Reply {
    let refused = |text: &str| Err(error::invalid_answer(text));
    let kind = result.part("resultType").filter(|kind| !kind.is_null());
    let kind = kind.map(|kind| kind.text().unwrap_or_default());
    match kind.as_deref() {
        None | Some(COMPLETE) if method == method::TOOLS_CALL => Ok(schema::wrap_unannounced(result)),
        None | Some(COMPLETE) => Ok(result.clone()),
        Some("input_required") => {
            refused("the server asks for more input, which a client of this protocol revision cannot give")
        }
        Some("task") => refused(
            "the server made a task of the request, which a client of this protocol revision cannot follow",
        ),
        Some(other) => {
            let other = sanitize::shown(other);
            refused(&format!("the server answered with a result of the unknown type \"{other}\""))
        }
    }
}

/// Returns a result of Switchyard with the members that every modern result has.
pub fn own(caller: &Caller, result: &Raw) -> Raw {
    if caller.version.has_result_type() { complete(result) } else { result.clone() }
}

fn complete(result: &Raw) -> Raw {
    let info = Raw::empty_object().with(meta::SERVER_INFO, &meta::own_info());
    result.edit(&[("resultType", Some(&Raw::of(COMPLETE))), ("_meta", Some(&info))])
}

/// Returns the form of lists for clients of `version`. Until every server was reached, a list may grow at any
/// moment and is not cached.
pub(crate) fn list_form(version: Version, is_settled: bool) -> Form {
    match (version.has_result_type(), is_settled) {
        (false, _) => Form::Legacy,
        (true, true) => Form::Modern,
        (true, false) => Form::Unsettled,
    }
}

/// Returns a list of Switchyard in `form`, whose parts all allow `caching`.
pub fn list(form: Form, result: &Raw, caching: Caching) -> Raw {
    let ttl = match form {
        Form::Legacy => return result.clone(),
        Form::Modern => caching.ttl_ms,
        Form::Unsettled => 0,
    };
    let (ttl, scope) = (Raw::of(&ttl), Raw::of(caching.scope()));
    complete(&result.edit(&[(caching::TTL, Some(&ttl)), (caching::SCOPE, Some(&scope))]))
}

/// The error for a resource that no server has: −32002, since 2026-07-28 −32602.
pub fn no_resource(caller: &Caller, uri: &str) -> ErrorObject {
    error::no_resource(caller.version.era(), uri)
}

/// The level of a log line.
fn level_of(line: &Notification) -> Option<LogLevel> {
    let name: String = line.params.as_ref()?.get_as("level")?;
    LogLevel::from_name(&name)
}

/// Whether the client can be asked this by a request to it: its revision has the question, and it
/// said that it can answer.
pub fn can_ask(caller: &Caller, question: &Question) -> bool {
    let params = question.params.as_ref();
    caller.version.has_question(&question.method, params)
        && caller.abilities().allows(&question.method, params)
}

/// A notice that a server sent during a call, for the client that made the call; none when the
/// client must not get it. `token` is the client's own progress token.
pub fn notice(caller: &Caller, notice: Notification, token: Option<&Raw>) -> Option<Notification> {
    match notice.method.as_str() {
        method::PROGRESS => {
            let params = notice.params?.with(meta::PROGRESS_TOKEN, token?);
            Some(Notification { method: notice.method, params: Some(params) })
        }
        method::LOG_MESSAGE => caller.wants_log(level_of(&notice)).then_some(notice),
        _ => Some(notice),
    }
}

/// The answer of a server of one era to `method`, for a client of another.
///
/// There is one: a resource that does not exist is −32002 up to 2025-11-25 and −32602 since 2026-07-28
/// (`server/resources`, Error Handling). Message, data and unknown members stay.
fn between(server: Era, client: Era, method: &str, error: ErrorObject) -> ErrorObject {
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
#[path = "era/answer_tests.rs"]
mod tests;

#[cfg(test)]
mod codes_tests {
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
