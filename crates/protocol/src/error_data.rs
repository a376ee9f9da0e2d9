//! Members of an error: those that every error has, and those that specifications name beside them.
//!
//! Problem documents of the REST API and `error.data` of JSON-RPC errors have the same [`Members`]. `error.data` also has
//! the names that clients of the built-in servers and of the connection limit were promised, where they were promised.
//! [`Named`] is the whole list of them.
//!
//! This module does not decide which failure has which members; the layers do.

use std::borrow::Cow;
// A span of time; `core` has no clock, and this crate may not read one.
use core::time::Duration;

use serde::{Serialize, Serializer};

use crate::error_code::{ErrorCode, ErrorKind};
use json::Raw;

/// Seconds until a service that is missing may be back, if nothing tells (specification of `rag`).
pub const USUAL_WAIT: u64 = 30;

/// Members that errors have everywhere.
#[derive(Debug, Clone, Serialize)]
pub struct Members<'a> {
    /// Stable code that programs decide by.
    pub code: ErrorCode,
    /// Text about this case.
    pub detail: Cow<'a, str>,
    /// Advice for the caller.
    pub hint: Cow<'a, str>,
    /// Whether the unchanged request can succeed later.
    pub retryable: bool,
    /// The pause before a retry, if it is known.
    #[serde(rename = "retry_after_ms", skip_serializing_if = "Option::is_none", serialize_with = "in_ms")]
    pub retry_after: Option<Duration>,
    /// The id of the HTTP request, as in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The server of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<&'a str>,
    /// The tool of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<&'a str>,
}

impl<'a> Members<'a> {
    /// Returns the members that are the same for every error with `code`.
    pub fn new(code: ErrorCode, detail: impl Into<Cow<'a, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            hint: Cow::Borrowed(code.row().action),
            retryable: code.is_retryable(),
            retry_after: None,
            request_id: None,
            server: None,
            tool: None,
        }
    }
}

/// Milliseconds of a time to wait, rounded up, so that no client retries too early.
pub(crate) fn whole_ms(pause: Duration) -> u64 {
    let sub_ms = u128::from(!pause.subsec_nanos().is_multiple_of(1_000_000));
    u64::try_from(pause.as_millis() + sub_ms).unwrap_or(u64::MAX)
}

/// Serializes a time to wait as whole milliseconds.
pub fn in_ms<S: Serializer>(pause: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    pause.map(whole_ms).serialize(serializer)
}

/// A parameter that was rejected, as in `invalid_params` (specification of the built-in `rag`, "Error words").
#[derive(Debug, Clone, Serialize)]
pub struct Rejected<'a> {
    /// Path of the parameter, such as `params.name`.
    pub field: &'a str,
    /// Its value; null if there is none, or if it is sealed.
    #[serde(rename = "rejected_value")]
    pub value: Option<Raw>,
    /// The values that it may have.
    #[serde(rename = "valid_range")]
    pub range: &'a str,
    /// Advice, the text of `hint`.
    pub suggestion: &'a str,
}

/// Names of `error.data` that specifications demand beside [`Members`], and only where they demand them.
#[derive(Debug, Serialize)]
struct Named<'a> {
    /// Specifications of `r2r` and `rag`: every error.
    r#type: ErrorKind,
    /// Specification of `r2r`: wherever a time to wait is known. Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    /// Specification of `rag`: `service_unavailable` and the connection limit. Seconds; [`USUAL_WAIT`] if the time is
    /// not known and a retry can succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
    /// Specification of `rag`: `service_unavailable`. The text of `hint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    guidance: Option<&'a str>,
    /// Specification of `rag`: `internal_error`. The value of `request_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_id: Option<&'a str>,
}

impl<'a> Named<'a> {
    fn of(kind: ErrorKind, members: &'a Members<'_>) -> Self {
        use ErrorKind as K;
        // Rounded up, so that nobody comes back too early.
        let seconds = members.retry_after.map(|pause| pause.as_secs() + u64::from(pause.subsec_nanos() > 0));
        let usual = (kind == K::ServiceUnavailable && members.retryable).then_some(USUAL_WAIT);
        Self {
            r#type: kind,
            retry_after: seconds,
            retry_after_seconds: seconds
                .filter(|_| matches!(kind, K::ServiceUnavailable | K::ConnectionLimitExceeded))
                .or(usual),
            guidance: (kind == K::ServiceUnavailable).then_some(&*members.hint),
            error_id: members.request_id.as_deref().filter(|_| kind == K::InternalError),
        }
    }
}

/// `error.data` of a JSON-RPC error of Switchyard; `facts` are the members of this one code.
#[derive(Debug, Clone)]
pub struct ErrorData<'a, F = ()> {
    /// The members that every error has.
    pub members: Members<'a>,
    /// Kind of the error, `type`.
    pub kind: ErrorKind,
    /// The rejected parameter, if it is the cause.
    pub rejected: Option<Rejected<'a>>,
    /// All other members, an object; none where it is `()`.
    pub facts: F,
}

impl<'a> ErrorData<'a> {
    /// The data of `code` without facts.
    pub fn new(code: ErrorCode, detail: impl Into<Cow<'a, str>>) -> Self {
        Self { members: Members::new(code, detail), kind: code.row().kind, rejected: None, facts: () }
    }

    /// Adds `facts`, the members of this one code.
    pub fn with<F>(self, facts: F) -> ErrorData<'a, F> {
        let Self { members, kind, rejected, facts: () } = self;
        ErrorData { members, kind, rejected, facts }
    }

    /// Adds a rejected argument, whose suggestion becomes the hint.
    #[must_use]
    pub fn rejecting(mut self, rejected: Rejected<'a>) -> Self {
        self.members.hint = Cow::Borrowed(rejected.suggestion);
        self.rejected = Some(rejected);
        self
    }
}

#[derive(Serialize)]
struct AllMembers<'a, F> {
    #[serde(flatten)]
    members: &'a Members<'a>,
    #[serde(flatten)]
    named: Named<'a>,
    #[serde(flatten)]
    rejected: Option<&'a Rejected<'a>>,
    #[serde(flatten)]
    facts: &'a F,
}

impl<F: Serialize> Serialize for ErrorData<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { members, kind, rejected, facts } = self;
        let named = Named::of(*kind, members);
        AllMembers { members, named, rejected: rejected.as_ref(), facts }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(data: &ErrorData<'_>) -> serde_json::Value {
        Raw::of(data).read().expect("JSON")
    }

    #[test]
    fn names_of_the_specifications_stand_only_where_they_are_demanded() {
        let mut limited = ErrorData::new(ErrorCode::Overloaded, "busy");
        limited.members.retry_after = Some(Duration::from_millis(1500));
        assert_eq!(
            printed(&limited),
            json!({
                "code": "overloaded", "detail": "busy", "hint": ErrorCode::Overloaded.row().action, "retryable": true,
                "retry_after_ms": 1500, "type": "rate_limited", "retry_after": 2,
            })
        );
        let mut away = ErrorData::new(ErrorCode::ConnectionFailed, "no route");
        away.members.retry_after = Some(Duration::from_secs(2));
        let away = printed(&away);
        assert_eq!((&away["retry_after_seconds"], &away["guidance"]), (&json!(2), &away["hint"]));
        let mut bug = ErrorData::new(ErrorCode::InternalError, "it failed");
        bug.members.request_id = Some("7".to_owned());
        let bug = printed(&bug);
        assert_eq!((&bug["error_id"], &bug["request_id"]), (&json!("7"), &json!("7")));
        let rejected = Rejected { field: "params.a", value: None, range: "a string", suggestion: "send one" };
        let bad = printed(&ErrorData::new(ErrorCode::InvalidParams, "no a").rejecting(rejected));
        assert_eq!((&bad["hint"], &bad["suggestion"]), (&json!("send one"), &json!("send one")));
        assert_eq!((bad.get("guidance"), bad.get("rejected_value")), (None, Some(&json!(null))));
    }

    #[test]
    fn a_time_to_wait_is_rounded_up_and_never_overflows() {
        for (pause, ms) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_micros(1_001), 2),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(whole_ms(pause), ms, "{pause:?}");
        }
    }
}
