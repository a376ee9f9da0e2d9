//! Failures of a login: what happened, and whether a person, time or the operator can change it.
//!
//! Invariant: no text holds a secret. Text of an authorization server is shortened, and long words are removed, because
//! they could be tokens in any encoding.
//!
//! Source: RFC 6749, section 5.2.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use settings::one_line;

/// Longest word of a foreign text that is shown.
const MAX_WORD: usize = 24;

/// A failure of a login or of a request to an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A person has to log in. Repeating the request does not help.
    #[error("a login is required: {reason}")]
    LoginRequired {
        /// Why the current login is not enough.
        reason: String,
    },
    /// One call needs a login with more scopes. Other calls pass.
    #[error("{reason}")]
    ScopeRequired {
        /// The scopes that the call needs.
        reason: String,
    },
    /// The authorization server cannot answer now. The tokens stay valid, and a later attempt may succeed.
    #[error("the authorization server cannot be used now: {reason}")]
    Later {
        /// The failure, in words.
        reason: String,
        /// The pause that the authorization server asked for.
        retry_after: Option<Duration>,
    },
    /// The authorization server does not know the client any more. A client that registered itself can do so again.
    #[error("{reason}")]
    UnknownClient {
        /// The refusal, and the settings to check.
        reason: String,
    },
    /// The request was refused, or an answer failed a check. The text names the settings to check.
    #[error("{reason}")]
    Refused {
        /// The refusal, and the settings to check.
        reason: String,
    },
    /// The servers offer no way that Switchyard can go without further settings.
    #[error("{what}")]
    Unsupported {
        /// The settings to fill in.
        what: String,
    },
}

impl Error {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into() }
    }

    pub(crate) fn later(reason: impl Into<String>) -> Self {
        Self::Later { reason: reason.into(), retry_after: None }
    }

    /// Returns the more useful of the two errors: one that time can cure, otherwise the `earlier` one.
    pub(crate) fn or(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier @ Self::Later { .. }) => earlier,
            Some(earlier) if !matches!(self, Self::Later { .. }) => earlier,
            _ => self,
        }
    }

    pub(crate) fn login_required(reason: impl Into<String>) -> Self {
        Self::LoginRequired { reason: reason.into() }
    }
}

impl From<net::http::Error> for Error {
    fn from(error: net::http::Error) -> Self {
        use net::http::Error as Http;
        match error {
            Http::Unwritable { .. }
            | Http::Malformed { .. }
            | Http::Undecodable { .. }
            | Http::TooLarge { .. } => {
                Self::refused(format!("the request to the authorization server failed: {error}"))
            }
            Http::Connect { .. }
            | Http::NotSent { .. }
            | Http::Lost { .. }
            | Http::Cut { .. }
            | Http::MemoryExhausted
            | Http::TimedOut { .. } => Self::later(error.to_string()),
        }
    }
}

/// Returns `text` of an authorization server in one short line. Words that could be tokens are replaced, and a text
/// with one of `secrets` is dropped.
pub(crate) fn foreign_text(text: &str, secrets: &[SecretString]) -> String {
    let is_known =
        |secret: &SecretString| !secret.expose_secret().is_empty() && text.contains(secret.expose_secret());
    if secrets.iter().any(is_known) {
        return "(its description repeats a secret)".into();
    }
    let words = text.split_whitespace().take(32);
    let shown: Vec<&str> =
        words.map(|word| if word.chars().count() > MAX_WORD { "…" } else { word }).collect();
    one_line(&shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_an_authorization_server_is_shown_without_secrets() {
        let secrets = [SecretString::from("hunter2")];
        assert_eq!(foreign_text("the code\nhas expired", &secrets), "the code has expired");
        assert_eq!(foreign_text("bad Y2FuYXJ5LWNhbmFyeS1jYW5hcnk=", &secrets), "bad …");
        assert!(!foreign_text("wrong password hunter2", &secrets).contains("hunter2"));
        assert!(foreign_text(&"x ".repeat(10_000), &secrets).len() < 100);
    }
}
