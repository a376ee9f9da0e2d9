//! The id of one request in answers and logs.
//!
//! Switchyard always makes the id itself. An id from a client could write into the logs, or make two requests look like
//! one.

use std::fmt;

use http::{HeaderName, HeaderValue};
use serde::{Serialize, Serializer};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// A random (version 4) UUID, made for every request when it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(Uuid);

impl RequestId {
    /// The length of its text.
    pub const TEXT_BYTES: usize = Hyphenated::LENGTH;
    /// The header that carries the id in every answer.
    pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

    /// Makes a new id. The thread has its own generator, seeded by the system, so no system call is needed.
    #[allow(clippy::new_without_default)] // two of them are never equal, so none is a default
    pub fn new() -> Self {
        Self(uuid::Builder::from_random_bytes(rand::random()).into_uuid())
    }

    /// Writes its text into `buffer`.
    pub fn text(self, buffer: &mut [u8; Self::TEXT_BYTES]) -> &str {
        self.0.hyphenated().encode_lower(buffer)
    }

    /// The value of [`RequestId::HEADER`].
    pub fn header_value(self) -> HeaderValue {
        HeaderValue::from_str(self.text(&mut [0; Self::TEXT_BYTES]))
            .unwrap_or(HeaderValue::from_static("unprintable"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_4_and_differ() {
        let (one, two) = (RequestId::new(), RequestId::new());
        assert_ne!(one, two);
        assert_eq!(one.0.get_version_num(), 4);
        assert_eq!(one.header_value().to_str().expect("ASCII"), one.to_string());
    }
}
