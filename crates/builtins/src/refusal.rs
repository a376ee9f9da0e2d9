//! Refusals of tool arguments, with enough detail for the client to correct them.
//!
//! A refusal is a tool result with `isError`, not a protocol error: a language model reads the first and
//! rarely gets to see the second.

use serde::Serialize;
use serde_json::Value;

use json::Raw;
use protocol::{ErrorCode, ErrorKind, ErrorObject, Problem, sanitize};

/// Returns the `type` of a refusal: invalid arguments, an unknown name or another cause.
fn kind(error: &str) -> ErrorKind {
    match error {
        "not_found" => ErrorKind::NotFound,
        "unavailable" | "not_configured" | "embedding_failed" | "contested" => ErrorKind::ServiceUnavailable,
        _ => ErrorKind::InvalidParams,
    }
}

/// Converts one end of a range of numbers.
fn end(number: f64) -> Value {
    match number {
        // A type's own limit is not a limit of the tool.
        _ if number.abs() > f64::from(i32::MAX) => Value::Null,
        // Within the range and integral, so nothing is lost.
        #[allow(clippy::cast_possible_truncation)]
        _ if number.fract() == 0.0 => (number as i64).into(),
        _ => number.into(),
    }
}

/// Refusal of one argument.
#[derive(Debug, Clone)]
pub(super) struct Refusal(Box<RefusalMembers>);

#[derive(Debug, Clone, Serialize)]
struct RefusalMembers {
    /// `invalid_argument`, or a code of the tool such as `invalid_path` or `not_found`.
    error: &'static str,
    /// The kind of failure, as in the gateway's own errors.
    r#type: ErrorKind,
    message: String,
    field: String,
    rejected_value: Raw,
    /// A text, or the two ends of a range of numbers. An open end is null.
    valid_range: Value,
    suggestion: String,
}

impl Refusal {
    /// Refuses `value` of the argument `field`.
    pub(super) fn new<T: Serialize + ?Sized>(error: &'static str, field: &str, value: &T) -> Self {
        let rejected_value = sanitize::value(&Raw::of(value));
        let (message, valid_range, suggestion) = <(String, Value, String)>::default();
        let (field, r#type) = (field.to_owned(), kind(error));
        Self(Box::new(RefusalMembers {
            error,
            r#type,
            message,
            field,
            rejected_value,
            valid_range,
            suggestion,
        }))
    }

    /// Names another argument than the original one.
    pub(super) fn of_field(mut self, field: &str) -> Self {
        field.clone_into(&mut self.0.field);
        self
    }

    /// Sets the explanation.
    pub(super) fn because(mut self, message: &str) -> Self {
        message.clone_into(&mut self.0.message);
        self
    }

    /// Puts the name of the tool before the explanation, unless it begins with it.
    pub(super) fn of_tool(mut self, tool: &str) -> Self {
        if !self.0.message.starts_with(tool) {
            self.0.message = format!("{tool}: {}", self.0.message);
        }
        self
    }

    /// Sets the description of valid values.
    pub(super) fn valid(mut self, range: &str) -> Self {
        self.0.valid_range = range.into();
        self
    }

    /// Sets the range of valid numbers. An end beyond `i32` counts as open.
    pub(super) fn between(mut self, least: f64, most: f64) -> Self {
        self.0.valid_range = [end(least), end(most)].into_iter().collect();
        self
    }

    /// Sets the advice.
    pub(super) fn suggest(mut self, suggestion: &str) -> Self {
        suggestion.clone_into(&mut self.0.suggestion);
        self
    }

    /// Suggests names, or gives `otherwise` as the advice if there are none.
    pub(super) fn suggest_names(self, lead: &str, names: &[String], otherwise: &str) -> Self {
        if names.is_empty() {
            return self.suggest(otherwise);
        }
        let text = format!("{lead} {}?", names.join(", "));
        self.suggest(&text)
    }

    /// Returns the explanation.
    pub(super) fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the name of the argument.
    #[cfg(test)]
    pub(super) fn field(&self) -> &str {
        &self.0.field
    }

    /// Converts the refusal to a protocol error, for methods other than `tools/call`. It has `code` and the
    /// JSON-RPC number of `numbered`. The members of the refusal become its data.
    pub(super) fn error(&self, code: ErrorCode, numbered: ErrorCode, text: &str) -> ErrorObject {
        let RefusalMembers { error, r#type, message, field, rejected_value, valid_range, suggestion } =
            &*self.0;
        let mut problem = Problem::new(code, text);
        (problem.kind, problem.numbers) = (*r#type, numbered.numbers());
        problem.cause = Some(message.clone());
        if !suggestion.is_empty() {
            problem.hint = suggestion.clone().into();
        }
        let problem = problem
            .with_mcp("error", error)
            .with_mcp("message", message)
            .with_mcp("field", field)
            .with_mcp("rejected_value", rejected_value)
            .with_mcp("valid_range", valid_range)
            .with_mcp("suggestion", suggestion);
        super::sent(problem)
    }

    /// Returns the refusal as JSON, for the content of a tool result.
    pub(super) fn raw(&self) -> Raw {
        Raw::of(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_outside_of_tools_has_the_members_of_every_error() {
        let refusal =
            Refusal::new("not_found", "project", "x").because("There is no project x.").suggest("Use y.");
        let error = refusal.error(ErrorCode::InvalidParams, ErrorCode::InvalidParams, refusal.message());
        let data: Value = error.data().expect("data").read().expect("JSON");
        assert_eq!((error.code(), error.message().as_str()), (-32602, "There is no project x."));
        assert_eq!(
            data,
            json!({
                "code": "invalid_params", "detail": "There is no project x.", "hint": "Use y.", "retryable": false,
                "type": "not_found", "error": "not_found", "message": "There is no project x.", "field": "project",
                "rejected_value": "x", "valid_range": null, "suggestion": "Use y.",
            })
        );
    }
}
