//! Where the two eras meet: what an answer or a notice must have for a client of the other one.
//!
//! Every function leaves a message alone that its client already understands.

pub mod questions;

use super::caller::Caller;
use super::error;
use crate::protocol::caching::{self, Caching};
use crate::protocol::error::code;
use crate::protocol::{ErrorObject, LogLevel, Notification, Raw, Reply, lifecycle, meta, method};
use crate::upstream::Question;

/// A server's answer to a call, as the client's revision writes it.
pub fn answer(caller: &Caller, reply: Reply) -> Reply {
    let result = reply?;
    let kind: Option<String> = result.get_as("resultType");
    match kind.as_deref() {
        None if caller.version.has_result_type() => Ok(complete(&result)),
        Some("input_required") if !caller.version.has_result_type() => Err(ErrorObject::new(
            code::INTERNAL_ERROR,
            "the server asks for more input, which a client of this protocol revision cannot give",
        )),
        _ => Ok(result),
    }
}

/// A result of our own, with the members every modern result has.
pub fn own(caller: &Caller, result: &Raw) -> Raw {
    if !caller.version.has_result_type() {
        return result.clone();
    }
    let info = Raw::empty_object().with(meta::SERVER_INFO, &lifecycle::own_info());
    result.edit(&[("resultType", Some(&Raw::of("complete"))), ("_meta", Some(&info))])
}

/// A list of our own, whose parts all allow `caching`. Until every server was reached it may grow at
/// any moment and is not kept.
pub fn list(caller: &Caller, result: &Raw, caching: Caching, is_settled: bool) -> Raw {
    if !caller.version.has_result_type() {
        return result.clone();
    }
    let ttl = if is_settled { caching.ttl_ms } else { 0 };
    let (ttl, scope) = (Raw::of(&ttl), Raw::of(caching.scope()));
    own(caller, &result.edit(&[(caching::TTL, Some(&ttl)), (caching::SCOPE, Some(&scope))]))
}

/// The refusal to read what nobody has: −32002, since 2026-07-28 −32602.
pub fn no_resource(caller: &Caller, uri: &str) -> ErrorObject {
    let code = if caller.version.is_modern() { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND };
    error::no_resource(code, uri)
}

fn complete(result: &Raw) -> Raw {
    result.with("resultType", &Raw::of("complete"))
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
