//! Checks replies of servers for what no client must get, whatever the era and the route.
//!
//! - Pages to open that are not web pages: in `inputRequests` of a result or a task, and in the error that asks for them.
//! - A task in the form of 2025-11-25 (`task`) that the request did not ask for. A client could follow it under an id that
//!   it does not have here.
//!
//! Invariant: all other replies keep their bytes. Not here: requests of servers during a call (`upstream`), and tasks of
//! the extension of 2026-07-28 (`tasks`).

use json::Raw;
use protocol::error::code;
use protocol::{Era, ErrorCode, ErrorObject, Problem, Reply, elicitation, method};
use upstream::Call;

/// The member of a result that made a task.
const TASK: &str = "task";

/// Returns `reply` to `call` as a client may get it. `is_modern` is the era of the server.
pub(super) fn checked(call: &Call, is_modern: bool, reply: Reply) -> Reply {
    match reply {
        Ok(result) => without_task(call, is_modern, with_web_pages(result)?),
        Err(error) => Err(error_with_web_pages(error)),
    }
}

fn with_web_pages(result: Raw) -> Reply {
    let is_safe = result.part("inputRequests").is_none() || elicitation::are_safe(&result);
    if is_safe { Ok(result) } else { Err(refused()) }
}

fn error_with_web_pages(error: ErrorObject) -> ErrorObject {
    if error.code() != code::URL_ELICITATION_REQUIRED {
        return error;
    }
    let data = error.data();
    let mut lists = data.iter().flat_map(Raw::members).filter(|(name, _)| name == "elicitations");
    let is_safe = lists.all(|(_, list)| list.elements().all(|page| elicitation::has_web_pages(&page)));
    if is_safe { error } else { refused() }
}

fn refused() -> ErrorObject {
    invalid_answer(
        "the server asks to open a page that is not an http or https URL without credentials, so it was not passed on",
    )
}

fn invalid_answer(text: &str) -> ErrorObject {
    Problem::new(ErrorCode::InvalidAnswer, text).error(Era::Modern)
}

fn without_task(call: &Call, is_modern: bool, result: Raw) -> Reply {
    let is_asked = || !is_modern && call.params.as_ref().is_some_and(|params| params.part(TASK).is_some());
    let makes_task = |name: &str, value: &Raw| name == TASK && value.part("taskId").is_some();
    if result.part(TASK).is_none() || call.method.starts_with("tasks/") || is_asked() {
        return Ok(result);
    }
    if !result.members().any(|(name, value)| makes_task(&name, &value)) {
        return Ok(result);
    }
    let rest = result.without(TASK);
    if call.method == method::TOOLS_CALL && rest.part("content").is_none() {
        return Err(invalid_answer("the server made a task of a request that did not ask for one"));
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(&text.to_owned().into()).expect("JSON")
    }

    fn reply(method: &'static str, params: &str, is_modern: bool, result: &str) -> Result<String, i64> {
        let call = Call::of_gateway(method, Some(raw(params)));
        let reply = checked(&call, is_modern, Ok(raw(result)));
        reply.map(|result| result.as_str().to_owned()).map_err(|error| error.code())
    }

    #[test]
    fn task_passes_only_where_the_request_asked_for_it() {
        let task = r#"{"task":{"taskId":"7"}}"#;
        for method in ["tools/call", "prompts/get", "resources/read", "completion/complete"] {
            for is_modern in [false, true] {
                let with_content = r#"{"content":[],"task":{"taskId":"7"},"x":1.0}"#;
                let passed = reply(method, "{}", is_modern, with_content).expect("a result");
                assert_eq!(passed, r#"{"content":[],"x":1.0}"#, "{method}");
            }
            assert_eq!(reply(method, r#"{"task":{}}"#, false, task).expect("a result"), task);
        }
        assert!(reply("tools/call", "{}", false, task).is_err());
        assert!(reply("tools/call", r#"{"task":{}}"#, true, task).is_err());
        for unchanged in [r#"{"content":[],"task":"a name"}"#, r#"{"content":[],"task":{"name":"a"}}"#] {
            assert_eq!(reply("tools/call", "{}", false, unchanged).expect("a result"), unchanged);
        }
    }

    #[test]
    fn error_that_asks_for_another_page_is_replaced() {
        let call = Call::of_gateway("tools/call", None);
        for (url, passes) in [("https://a/b", true), ("javascript:x", false), ("https://a@b/", false)] {
            let error = format!(
                r#"{{"code":-32042,"message":"m","data":{{"elicitations":[{{"mode":"url","url":"{url}"}}]}}}}"#
            );
            let error = ErrorObject::from_raw(raw(&error)).expect("an error");
            let passed = checked(&call, false, Err(error.clone())).expect_err("an error");
            assert_eq!(passed == error, passes, "{url}");
            assert!(passes || !passed.raw().as_str().contains(url));
        }
    }
}
