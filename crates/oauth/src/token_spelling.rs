//! The spellings of token and registration endpoints: JSON or a form, numbers as text, lists of scopes, and errors of their own.
//!
//! Invariants: a member of a type that it should not have counts as absent, as `null` does. Nothing is read from the
//! status: some services answer errors with 200.
//!
//! Not here: what a member or an error means (`token_response`, `registration`).
//!
//! Source: RFC 6749, sections 5.1 and 5.2. GitHub answers as a form unless JSON is asked for, with status 200 for errors,
//! and separates scopes with commas. Slack calls bearer tokens `bot` and `user`, and has that of a person in an object.

use std::time::Duration;

use net::http::WholeResponse;
use serde_json::{Map, Value};
use url::form_urlencoded;

/// A longer life of a token counts as this.
const MAX_LIFE_SECONDS: f64 = 10.0 * 365.0 * 86_400.0;
/// A larger number counts as this: the last second of the year 9999.
const MAX_NUMBER: f64 = 253_402_300_799.0;
/// Most members of an answer that is a form.
const MAX_FIELDS: usize = 64;

/// The members of one answer.
pub(crate) struct Members(Map<String, Value>);

/// A refusal.
pub(crate) struct Failure {
    /// The error as the service spells it.
    pub(crate) error: String,
    /// Its words for people.
    pub(crate) description: String,
}

impl Failure {
    /// Returns the code of RFC 6749 for the error.
    pub(crate) fn code(&self) -> &str {
        match self.error.as_str() {
            "bad_verification_code" | "bad_refresh_token" | "invalid_code" | "invalid_refresh_token" => {
                "invalid_grant"
            }
            "incorrect_client_credentials" | "bad_client_id" | "bad_client_secret" | "invalid_client_id" => {
                "invalid_client"
            }
            other => other,
        }
    }
}

impl Members {
    /// Reads the answer; `None` if it is neither an object nor a form.
    pub(crate) fn of(response: &WholeResponse) -> Option<Self> {
        let body = response.body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&response.body);
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            return if let Value::Object(members) = value { Some(Self(members)) } else { None };
        }
        let is_form = std::str::from_utf8(body).is_ok_and(|text| {
            let is_text = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | '{' | '}' | '"');
            text.contains('=') && text.trim().chars().all(is_text)
        });
        if !is_form {
            return None;
        }
        let pairs = form_urlencoded::parse(body.trim_ascii()).take(MAX_FIELDS);
        Some(Self(
            pairs.map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect(),
        ))
    }

    /// Returns a text that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Returns an id, which some services write as a number.
    pub(crate) fn id(&self, name: &str) -> Option<String> {
        self.text(name).or_else(|| Some(self.0.get(name)?.as_number()?.to_string()))
    }

    /// Returns the object `name`.
    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        self.0.get(name)?.as_object().cloned().map(Self)
    }

    /// Reads a positive number, which may be a text.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        let value = self.0.get(name)?;
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
        (number > 0.0 && number.is_finite()).then_some(number.min(MAX_NUMBER))
    }

    /// Reads the time for which a token lives.
    pub(crate) fn seconds(&self, name: &str) -> Option<Duration> {
        self.number(name).map(|seconds| Duration::from_secs_f64(seconds.min(MAX_LIFE_SECONDS)))
    }

    /// Reads words: a text with spaces between them, or a list.
    pub(crate) fn words(&self, name: &str) -> Option<Vec<String>> {
        let texts: Vec<&str> = match self.0.get(name)? {
            Value::String(text) => vec![text],
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => return None,
        };
        let words: Vec<String> =
            texts.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
        (!words.is_empty()).then_some(words)
    }

    /// Returns the refusal, if it is one. An error may be a text, or an object with its parts.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let part = |error: &Value, names: [&str; 3]| {
            let text = names.iter().find_map(|name| error.get(*name)?.as_str());
            text.unwrap_or_default().to_owned()
        };
        match self.0.get("error")? {
            Value::String(error) if !error.is_empty() => Some(Failure {
                error: error.clone(),
                description: self.text("error_description").unwrap_or_default(),
            }),
            error @ Value::Object(_) => Some(Failure {
                error: part(error, ["error", "code", "status"]),
                description: part(error, ["error_description", "message", "description"]),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "token_spelling_tests.rs"]
mod tests;
