//! Headers of a client's request that a call carries on to its server (`forward_headers`).
//!
//! Invariants: a server gets the headers that its settings name, and only with the call of the request that had them. They
//! are never part of a handshake, of a stream that calls share, or of a request of Switchyard. Several values stay several,
//! in their order, byte for byte.
//!
//! Not here: which names are allowed (`config`), and where requests are made (`transport::http`).

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use settings::expand::CallerPart;

/// Limit of the bytes of all headers of one request that are passed on, names included.
pub const MAX_FORWARDED_BYTES: usize = 8 << 10;

/// The headers of one request that some server gets.
#[derive(Debug, Clone)]
pub struct ForwardedHeaders(Arc<HeaderMap>);

/// The headers that would be passed on have more than [`MAX_FORWARDED_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

impl ForwardedHeaders {
    /// Those among `headers` that `names` names, copied: a slice would keep the whole head as long as the call runs. `None`
    /// if there are none.
    pub fn of<'n>(
        headers: &HeaderMap,
        names: impl Iterator<Item = &'n HeaderName>,
    ) -> Result<Option<Self>, TooLarge> {
        let (mut found, mut bytes) = (HeaderMap::new(), 0);
        for name in names {
            if found.contains_key(name) {
                continue;
            }
            for value in headers.get_all(name) {
                bytes += name.as_str().len() + value.len();
                if bytes > MAX_FORWARDED_BYTES {
                    return Err(TooLarge);
                }
                if let Ok(mut value) = HeaderValue::from_bytes(value.as_bytes()) {
                    value.set_sensitive(true);
                    found.append(name, value);
                }
            }
        }
        Ok((!found.is_empty()).then(|| Self(Arc::new(found))))
    }

    /// Puts those of `names` into `head`.
    pub(crate) fn add_to(&self, head: &mut HeaderMap, names: &[HeaderName]) {
        for name in names {
            head.remove(name);
            for value in self.0.get_all(name) {
                head.append(name, value.clone());
            }
        }
    }

    /// Those of `names`, in a form that is equal for equal headers.
    pub fn of_server<'h>(&'h self, names: &'h [HeaderName]) -> Vec<(&'h str, &'h [u8])> {
        let values =
            |name| self.0.get_all(name).iter().map(move |value| (HeaderName::as_str(name), value.as_bytes()));
        names.iter().flat_map(values).collect()
    }

    /// The values, which are redacted from texts about the call.
    pub fn values(&self) -> Vec<SecretString> {
        self.0
            .values()
            .map(|value| SecretString::from(String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect()
    }
}

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
