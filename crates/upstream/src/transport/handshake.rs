//! Detects the protocol era of a server, and makes the legacy handshake.
//!
//! Source: 2026-07-28 `basic/versioning` and the Backward Compatibility part of each transport. A modern request goes
//! first. Switchyard then tries `initialize`, unless the answer says that the server supports no known revision. No
//! decision depends on one error code of a legacy server.
//!
//! Not here: how a transport interprets HTTP statuses, exits and timeouts.

use std::time::Duration;

use crate::error::Error;
use json::Raw;
use protocol::error::code;
use protocol::lifecycle::{self, Peer};
use protocol::meta::Sender;
use protocol::sanitize::{listed, shown};
use protocol::{Era, ErrorObject, Reply, Version, method};

/// The time limit of `server/discover`, after which a server counts as legacy.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// The reason if the requests of the handshake come back as they were sent.
pub(super) const ECHO: &str = "it sends the requests of Switchyard back, as `cat` or a terminal does, so it is no MCP \
                               server: name the program or URL of one, and start it without a terminal (`-t`)";

/// Whether only a client sends `method`. A server that sends it repeats what it got.
pub(super) fn is_of_client(method: &str) -> bool {
    matches!(method, method::DISCOVER | method::INITIALIZE)
}

/// The meaning of the answer to `server/discover`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// A modern server that speaks a known revision.
    Modern(Box<Peer>),
    /// Try `initialize`.
    Legacy,
    /// There is no common revision.
    Foreign(Vec<String>),
}

/// Interprets the answer to `server/discover`.
pub(super) fn find(reply: &Reply) -> Finding {
    match reply {
        Ok(result) => match (Peer::from_discover(result), result.get_as("supportedVersions")) {
            (Ok(peer), _) => Finding::Modern(Box::new(peer)),
            (Err(_), Some(supported)) => legacy_or_foreign(supported),
            (Err(_), None) => Finding::Legacy,
        },
        Err(error) => match supported_by(error) {
            Some(supported) => legacy_or_foreign(supported),
            None => Finding::Legacy,
        },
    }
}

fn legacy_or_foreign(supported: Vec<String>) -> Finding {
    let known = |name: &String| Version::from_name(name).is_some_and(|version| !version.is_modern());
    if supported.iter().any(known) { Finding::Legacy } else { Finding::Foreign(supported) }
}

/// The revisions in the error that only a modern server sends.
fn supported_by(error: &ErrorObject) -> Option<Vec<String>> {
    (error.code() == code::UNSUPPORTED_PROTOCOL_VERSION).then(|| error.data()?.get_as("supported")).flatten()
}

/// Interprets the answer to `server/discover` if only the modern era is allowed.
pub(super) fn only_modern(reply: &Reply) -> Result<Peer, Error> {
    match find(reply) {
        Finding::Modern(peer) => Ok(*peer),
        Finding::Legacy => Err(no_modern()),
        Finding::Foreign(supported) => Err(foreign(&supported)),
    }
}

/// The error for a server that does not speak the modern era, although the settings require it.
pub(super) fn no_modern() -> Error {
    refused(
        "the server does not speak 2026-07-28, but `era: modern` is set; remove that or write `era: auto`",
    )
}

/// Adds to the error of `initialize` that no other handshake was tried, if the operator chose the era.
pub(super) fn of_pinned(error: Error, pin: Option<Era>) -> Error {
    match pin {
        Some(_) => {
            error.reworded(|reason| format!("{reason} (only this is tried, because `era: legacy` is set)"))
        }
        None => error,
    }
}

/// The revisions that are requested after [`Version::NEWEST_LEGACY`], newest first.
const OLDER: [&str; 4] = [
    Version::V2025_06_18.as_str(),
    Version::V2025_03_26.as_str(),
    Version::V2024_11_05.as_str(),
    Version::DRAFT,
];

/// The revision that `initialize` requests, which is an older one after each refusal. By the specification a server
/// answers with another revision. Some servers refuse instead.
pub(super) struct RequestedRevision {
    current: &'static str,
    /// The revisions that were not requested yet.
    left: Vec<&'static str>,
}

impl RequestedRevision {
    pub(super) fn new() -> Self {
        Self { current: Version::NEWEST_LEGACY.as_str(), left: OLDER.to_vec() }
    }

    /// The parameters of `initialize`, for a client that `sender` describes.
    pub(super) fn params(&self, sender: &Sender) -> Raw {
        lifecycle::initialize_params(sender, self.current)
    }

    /// Whether to request an older revision after the server refused with `error`.
    pub(super) fn steps_down(&mut self, error: &ErrorObject) -> bool {
        let text = error.raw().as_str();
        let named = self.left.iter().position(|name| text.contains(name));
        let may_be_revision = matches!(
            error.code(),
            code::INVALID_PARAMS
                | code::INVALID_REQUEST
                | code::CONNECTION_CLOSED
                | code::UNSUPPORTED_PROTOCOL_VERSION
        );
        named.is_some_and(|at| self.takes(at)) || (may_be_revision && self.takes(0))
    }

    /// Whether to request an older revision after the server refused with an HTTP status alone.
    pub(super) fn steps_down_after(&mut self, status: u16) -> bool {
        status == 400 && self.takes(0)
    }

    fn takes(&mut self, at: usize) -> bool {
        let is_left = at < self.left.len();
        if is_left {
            self.current = self.left.remove(at);
        }
        is_left
    }
}

/// Requests the revisions one after another with `initialize`, which gets the parameters, until the server accepts one.
/// The first of several refusals is returned, because it is about the newest revision.
pub(super) async fn negotiate<F: Future<Output = Result<Reply, Error>>>(
    sender: &Sender,
    initialize: impl Fn(Raw) -> F,
) -> Result<Reply, Error> {
    let (mut revision, mut first) = (RequestedRevision::new(), None);
    loop {
        let answered = initialize(revision.params(sender)).await;
        // A failed handshake has no session that could have been forgotten.
        let answered = answered.map_err(Error::without_session);
        let steps_down = match &answered {
            Ok(Err(refusal)) => revision.steps_down(refusal),
            Err(Error::Status { status, .. }) => revision.steps_down_after(*status),
            _ => false,
        };
        match answered {
            Ok(Ok(result)) => return Ok(Ok(result)),
            refused if steps_down => _ = first.get_or_insert(refused),
            refused => return first.unwrap_or(refused),
        }
    }
}

/// Interprets the answer to `initialize`.
pub(super) fn initialized(reply: Reply) -> Result<Peer, Error> {
    match reply {
        Ok(result) => Peer::from_initialize(&result)
            .map_err(|reason| refused(&format!("the answer to initialize cannot be used: {reason}"))),
        Err(error) => Err(refused(&format!("the server refused initialize: {}", error_text(&error)))),
    }
}

/// The error for a server without a common revision.
pub(super) fn foreign(supported: &[String]) -> Error {
    refused(&format!("the server speaks {}, none of which is spoken here", listed(supported)))
}

/// The error of a failed handshake.
pub(super) fn refused(reason: &str) -> Error {
    Error::Connect { reason: reason.to_owned() }
}

/// The error of a request that was part of connecting, so that no call was sent. A status is kept, because it says
/// whether and when to retry, unless it refuses the credentials.
pub(super) fn while_connecting(error: Error) -> Error {
    match error {
        Error::Lost { reason } | Error::NotSent { reason } | Error::Cut { reason } => {
            Error::Connect { reason }
        }
        other => other.of_all_calls(),
    }
}

/// The text of a server's error, safe to show: escaped and not longer than a line.
pub(super) fn error_text(error: &ErrorObject) -> String {
    format!("{} ({})", shown(&error.message()), error.code())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_server_without_a_common_revision_is_not_asked_to_initialize() {
        let modern = json!({"supportedVersions": ["2025-11-25", "2026-07-28"], "capabilities": {}});
        let Finding::Modern(peer) = find(&Ok(Raw::of(&modern))) else { panic!("modern") };
        assert_eq!(peer.version, Version::V2026_07_28);

        let error = |code, data| Err(ErrorObject::new(code, "no").with_data(&data));
        for (reply, finding) in [
            (Ok(Raw::of(&json!({"supportedVersions": ["2025-11-25"]}))), Finding::Legacy),
            (Ok(Raw::of(&json!({}))), Finding::Legacy),
            (
                Ok(Raw::of(&json!({"supportedVersions": ["2031-01-01"]}))),
                Finding::Foreign(vec!["2031-01-01".into()]),
            ),
            (
                error(-32022, json!({"supported": ["2031-01-01"]})),
                Finding::Foreign(vec!["2031-01-01".into()]),
            ),
            (error(-32022, json!({"supported": ["2031-01-01", "2025-06-18"]})), Finding::Legacy),
            (error(-32022, json!({})), Finding::Legacy),
            (error(-32601, json!(null)), Finding::Legacy),
            (error(-32602, json!(null)), Finding::Legacy),
            (error(-32000, json!({"supported": ["2031-01-01"]})), Finding::Legacy),
        ] {
            assert_eq!(find(&reply), finding, "{reply:?}");
        }
    }

    #[test]
    fn a_refused_revision_is_followed_by_the_newest_that_the_server_names() {
        let requested = |code, message: &str, data: serde_json::Value| {
            let (error, mut revision) =
                (ErrorObject::new(code, message).with_data(&data), RequestedRevision::new());
            let mut all = vec![revision.current];
            while revision.steps_down(&error) {
                all.push(revision.current);
            }
            all
        };
        let every = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
        for code in [-32602, -32600, -32000, -32022] {
            assert_eq!(requested(code, "no", json!(null)), every, "{code}");
        }
        assert_eq!(requested(-32603, "no", json!(null)), every[..1]);
        let named = requested(
            -32602,
            "no",
            json!({"supported": ["2024-11-05", "2025-03-26"], "requested": "2025-11-25"}),
        );
        assert_eq!(named[..3], ["2025-11-25", "2025-03-26", "2024-11-05"]);
        let versions = requested(-32603, "unsupported 2025-11-25, supported: 2024-10-07", json!(null));
        assert_eq!(versions, ["2025-11-25", "2024-10-07"]);
    }

    #[test]
    fn a_server_without_a_common_revision_is_quoted_briefly() {
        let Error::Connect { reason } = foreign(&vec!["x".repeat(100_000); 1_000]) else { panic!("refused") };
        assert!(reason.chars().count() < 300, "{} characters", reason.len());
    }
}
