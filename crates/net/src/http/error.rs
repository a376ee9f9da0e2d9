//! Failures of one HTTP exchange: what happened, and whether the request may have reached the server.
//!
//! Invariant: a reason names neither the URL nor a header, because both may hold secrets.
//!
//! Not here: HTTP statuses. A response is a response, and its reader decides what its status means.

use std::error::Error as StdError;
use std::iter;
use std::time::Duration;

use runtime::memory::Exhausted;
use runtime::telemetry::limit::Limit;

/// Errors of certificates, and what to do about each.
const REMEDIES: [(&str, &str); 5] = [
    (
        "UnknownIssuer",
        "its certificate is of an authority that is not trusted here: name a PEM file with the certificate of that \
         authority in `tls: {ca: FILE}` of this server, or in the variable SSL_CERT_FILE for all",
    ),
    ("certificate expired", "its certificate has expired: renew it, or correct the clock of this machine"),
    (
        "certificate not valid for name",
        "its certificate is for another name: use a name of the certificate in `url`",
    ),
    (
        "CaUsedAsEndEntity",
        "its certificate is that of an authority: have it replaced by one for a server, signed by that authority",
    ),
    (
        "CertificateRequired",
        "it asks for a certificate of its clients: name one in `tls: {cert: FILE, key: FILE}` of this server",
    ),
];

/// A failure between Switchyard and one server. Texts are for people; they hold no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request cannot be written, for a reason in its arguments. Nothing was sent.
    #[error("the request was not sent: {reason}")]
    Unwritable {
        /// The part of the request that is wrong.
        reason: &'static str,
    },
    /// No connection could be opened. Nothing was sent.
    #[error("{reason}")]
    Connect {
        /// The causes, in words.
        reason: String,
    },
    /// The connection closed before it took the request. Nothing was sent.
    #[error("the connection closed before the request was sent: {reason}")]
    NotSent {
        /// The causes, in words.
        reason: String,
    },
    /// The connection closed after the request was sent and before the head of the response.
    #[error("the connection was lost after the request was sent, its outcome is unknown: {reason}")]
    Lost {
        /// The causes, in words.
        reason: String,
    },
    /// The response broke off.
    #[error("the response was cut off: {reason}")]
    Cut {
        /// The causes, in words.
        reason: String,
    },
    /// The response is not what was asked for.
    #[error("the response cannot be read: {reason}")]
    Malformed {
        /// The part of the response that is wrong.
        reason: String,
    },
    /// The response arrived, and its content coding is not supported or its coded body is broken.
    #[error("the response cannot be read: {reason}")]
    Undecodable {
        /// The fault of the coding.
        reason: String,
    },
    /// The response is larger than allowed; it was discarded.
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The memory budget has no room for the response; it was discarded.
    #[error("the memory budget of the gateway has no room for the response, so it was discarded")]
    MemoryExhausted,
    /// No complete response within the deadline.
    #[error("no complete response within {:.1} s", after.as_secs_f64())]
    TimedOut {
        /// The time that was allowed.
        after: Duration,
    },
}

impl From<Exhausted> for Error {
    fn from(_: Exhausted) -> Self {
        Self::MemoryExhausted
    }
}

impl Error {
    pub(super) fn connect(error: &(dyn StdError + 'static)) -> Self {
        Self::Connect { reason: with_remedy(reason(error)) }
    }

    /// The error for files of TLS that cannot be used.
    pub(super) fn tls(reason: &str) -> Self {
        Self::Connect { reason: reason.into() }
    }

    /// The error for a request without a response.
    pub(super) fn unanswered(error: &hyper::Error) -> Self {
        // In TLS 1.3, a server refuses a certificate after the handshake.
        let reason = with_remedy(reason(error));
        if error.is_canceled() { Self::NotSent { reason } } else { Self::Lost { reason } }
    }

    pub(super) fn cut(error: &hyper::Error) -> Self {
        Self::Cut { reason: reason(error) }
    }

    /// The error for a server that sends interim responses, or a head, beyond the limit.
    pub(super) fn flooded() -> Self {
        let reason =
            "the server sent more than 64 KiB before the final head of its answer; the connection is closed";
        Limit::ServerFloods.met(Self::Cut { reason: reason.into() })
    }

    /// The error for a URL that cannot be requested. The URL is not quoted.
    pub(super) fn unusable_url() -> Self {
        Self::Connect { reason: "the URL cannot be used".into() }
    }
}

/// Appends what to do about the certificate that `reason` is about, if it is about one.
fn with_remedy(reason: String) -> String {
    match REMEDIES.iter().find(|(sign, _)| reason.contains(sign)) {
        Some((_, remedy)) => format!("{reason}; {remedy}"),
        None => reason,
    }
}

/// Joins the causes of `error` from the outside in, each once.
pub(super) fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut reason = String::new();
    for cause in iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string) {
        if cause.is_empty() || reason.contains(&cause) {
            continue;
        }
        if !reason.is_empty() {
            reason.push_str(": ");
        }
        reason.push_str(&cause);
    }
    if reason.is_empty() { "the connection failed".into() } else { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_not_trusted_comes_with_a_remedy() {
        let unknown = std::io::Error::other("invalid peer certificate: UnknownIssuer");
        assert!(Error::connect(&unknown).to_string().contains("`tls: {ca: FILE}`"));
        let refused = std::io::Error::other("Connection refused");
        assert_eq!(Error::connect(&refused).to_string(), "Connection refused");
    }

    #[test]
    fn a_reason_names_each_cause_once() {
        let inner = std::io::Error::other("no route");
        assert_eq!(reason(&std::io::Error::other(inner)), "no route");
    }
}
