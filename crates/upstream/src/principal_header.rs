//! A header of requests to a server whose value has secrets of each principal.
//!
//! Not here: the secrets (`principal_secrets`), and reading the configuration (`config`).

use http::{HeaderName, HeaderValue};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use settings::expand::CallerPart;

/// A header whose value has secrets of each principal, `${principal:NAME}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrincipalHeader {
    /// The name of the header.
    pub name: HeaderName,
    parts: Vec<CallerPart>,
}

impl PrincipalHeader {
    /// A header with the value that `parts` make.
    pub(crate) const fn new(name: HeaderName, parts: Vec<CallerPart>) -> Self {
        Self { name, parts }
    }

    /// The texts around the secrets.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            CallerPart::Text(text) => Some(text.as_str()),
            CallerPart::Value(_) => None,
        })
    }

    /// The names of the secrets in it.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            CallerPart::Value(name) => Some(name.as_str()),
            CallerPart::Text(_) => None,
        })
    }

    /// The names of the secrets in `headers`, in order and each once.
    pub(crate) fn all_secrets(headers: &[Self]) -> Vec<&str> {
        let mut names: Vec<_> = headers.iter().flat_map(Self::secrets).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the value with the secrets that `secret` returns; `None` if one is missing, or cannot be sent.
    pub fn value<'s>(&self, secret: impl Fn(&str) -> Option<&'s SecretString>) -> Option<HeaderValue> {
        let mut text = Zeroizing::new(String::new());
        for part in &self.parts {
            text.push_str(match part {
                CallerPart::Text(text) => text,
                CallerPart::Value(name) => secret(name)?.expose_secret(),
            });
        }
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Whether `value` can be the secret of a principal: a header can have it.
pub fn is_sendable(value: &str) -> bool {
    !value.trim().is_empty() && value.is_ascii() && HeaderValue::from_str(value).is_ok()
}
