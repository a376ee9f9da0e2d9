//! What failed on our side, as a JSON-RPC error for a client.
//!
//! One match. `data.code` holds the same stable code as the REST API's problem documents; texts
//! name what to do. Not here: what servers answered, which passes untouched.

use serde::Serialize;

use crate::manager::{Error, Named};
use crate::protocol::error::code;
use crate::protocol::{ErrorObject, Raw, foreign};
use crate::upstream;

/// The `data` member of our errors.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    nearest: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    available: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    candidates: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<f64>,
}

/// The error object that tells a client what happened.
pub fn object(error: &Error) -> ErrorObject {
    let (number, facts) = match error {
        Error::ServerNotFound { server, available, nearest } => (
            code::INVALID_PARAMS,
            Facts { code: "server_not_found", server: Some(server), nearest, available, ..Facts::default() },
        ),
        Error::NameNotFound { kind, name, server, available, nearest } => {
            let (code, facts) = match kind {
                Named::Tool => ("tool_not_found", Facts { tool: Some(name), ..Facts::default() }),
                Named::Prompt => ("prompt_not_found", Facts { prompt: Some(name), ..Facts::default() }),
            };
            (code::INVALID_PARAMS, Facts { code, server: server.as_deref(), nearest, available, ..facts })
        }
        Error::Ambiguous { kind, name, candidates } => {
            let (code, facts) = match kind {
                Named::Tool => ("ambiguous_tool", Facts { tool: Some(name), ..Facts::default() }),
                Named::Prompt => ("ambiguous_prompt", Facts { prompt: Some(name), ..Facts::default() }),
            };
            (code::INVALID_PARAMS, Facts { code, candidates, ..facts })
        }
        Error::ResourceNotFound { uri } => {
            (code::INVALID_PARAMS, Facts { code: "resource_not_found", uri: Some(uri), ..Facts::default() })
        }
        Error::Upstream { server, tool, source } => {
            let (number, code, retry_after) = of_upstream(source);
            let facts = Facts {
                code,
                server: Some(server),
                tool: tool.as_deref(),
                retry_after_seconds: retry_after.map(|pause| pause.as_secs_f64()),
                ..Facts::default()
            };
            (number, facts)
        }
    };
    ErrorObject::new(number, &error.to_string()).with_data(&facts)
}

/// The number and the stable code of a failure to reach a server, and when to try again.
fn of_upstream(error: &upstream::Error) -> (i64, &'static str, Option<std::time::Duration>) {
    use upstream::Error as E;
    match error {
        E::CircuitOpen { retry_in } => (code::CONNECTION_CLOSED, "circuit_open", Some(*retry_in)),
        E::Overloaded { retry_in } | E::Leased { retry_in } => {
            (code::CONNECTION_CLOSED, "overloaded", Some(*retry_in))
        }
        E::Connect { .. } | E::NotSent { .. } => (code::CONNECTION_CLOSED, "connection_failed", None),
        E::Lost { .. } | E::Cut { .. } => (code::CONNECTION_CLOSED, "outcome_unknown", None),
        E::TimedOut { .. } => (code::REQUEST_TIMEOUT, "timed_out", None),
        E::Status { retry_after, .. } => (code::CONNECTION_CLOSED, "invalid_answer", *retry_after),
        E::Backend { retry_after, .. } => (code::CONNECTION_CLOSED, "backend_error", *retry_after),
        E::AuthFailed { .. } => (code::CONNECTION_CLOSED, "auth_failed", None),
        E::Malformed { .. } | E::TooLarge { .. } => (code::INTERNAL_ERROR, "invalid_answer", None),
        E::Unavailable { .. } => (code::CONNECTION_CLOSED, "server_unavailable", None),
    }
}

/// The refusal of something the caller's role does not allow.
pub fn forbidden(action: &str) -> ErrorObject {
    ErrorObject::new(
        code::INVALID_REQUEST,
        &format!("this credential may not {action}; it needs the role superuser"),
    )
    .with_data(&Facts { code: "forbidden", ..Facts::default() })
}

/// Nobody has the resource `uri`; `number` is the code of the client's era.
pub(super) fn no_resource(number: i64, uri: &str) -> ErrorObject {
    let shown = foreign::shown(uri);
    ErrorObject::new(number, &format!("there is no resource \"{shown}\"")).with_data(&Facts {
        code: "resource_not_found",
        uri: Some(uri),
        ..Facts::default()
    })
}

/// What a client sent that does not fit the method.
pub fn bad_input(text: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, text)
}

/// The end of a request that needed input from its client and did not get it. `code` is stable.
pub fn input(code: &'static str, text: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_REQUEST, text).with_data(&Facts { code, ..Facts::default() })
}

/// A server's answer that is none of its revision.
pub fn invalid_answer(text: &str) -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, text)
        .with_data(&Facts { code: "invalid_answer", ..Facts::default() })
}

/// A server's refusal, which came because a modern client lacks capabilities.
pub fn lacking(refusal: &ErrorObject, capabilities: &Raw) -> ErrorObject {
    let said: String = refusal.message().chars().take(256).collect();
    needs(capabilities, &format!("the server needs capabilities that the client did not declare: {said}"))
}

/// A modern client lacks `capabilities`.
pub fn needs(capabilities: &Raw, text: &str) -> ErrorObject {
    ErrorObject::new(code::MISSING_CLIENT_CAPABILITY, text)
        .with_data(&Raw::empty_object().with("requiredCapabilities", capabilities))
}
