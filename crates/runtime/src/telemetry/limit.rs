//! How often the limits of Switchyard were reached, and other counts that belong to no server. There is one set for the
//! program: limits are met in parsers and buffers, which know of no gateway. Counts of one listener are its own
//! (`downstream::listening_sockets`).
//!
//! Invariant: each count is one number, and a normal call touches none of them.
//!
//! Not here: the limits themselves, which are next to what they limit; refusals by a server's own limits, which are
//! counted with its calls (`upstream::status`).

use std::sync::atomic::{AtomicU64, Ordering};

/// A resource with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Open sockets of clients.
    Sockets,
    /// Clients: sessions, and requests without a session.
    Connections,
    /// Sessions.
    Sessions,
    /// Concurrent requests of one session.
    SessionRequests,
    /// Bytes of the body of a request.
    Body,
    /// Time for which a client leaves a response unread.
    UnreadAnswers,
    /// Slots of a server that one principal may have while others are active.
    ServerShare,
    /// Concurrent checks of keys with a slow hash.
    KeyChecks,
    /// Calls that are suspended until their client answers.
    SuspendedCalls,
    /// Resources that one session subscribes to.
    Subscriptions,
    /// Resources and tasks of one server that are watched for changes.
    Watches,
    /// Unanswered server requests of one call.
    CallQuestions,
    /// Unanswered server requests of one session.
    SessionQuestions,
    /// Unanswered server requests of one connection.
    ServerQuestions,
    /// Notifications of one call that wait for a slow reader.
    CallNotices,
    /// Notifications that belong to no call and wait for one client.
    SessionNotices,
    /// Cancellations that wait to be sent to a server.
    Cancellations,
    /// Messages of a server that belong to no call.
    UnaskedMessages,
    /// Connections that were closed because their server flooded them.
    ServerFloods,
    /// Bytes of a URI in a request.
    UriBytes,
    /// The length and number of names, URIs and templates that a server lists.
    ListedItems,
    /// Work to rewrite the links of one answer.
    LinkWork,
    /// Log lines that wait to be written.
    LogLines,
    /// Log lines of one cause within a time.
    LogPace,
    /// Audit lines that wait to be written.
    AuditLines,
    /// Concurrent audited actions.
    AuditActions,
    /// Bytes of the heads of all requests.
    HeadsInSum,
    /// Requests to R2R within a minute.
    R2rRequests,
    /// TLS handshakes that run.
    Handshakes,
    /// Sockets of one principal that do not wait for its next request.
    SocketShare,
    /// Calls that wait to be written into the file of the history, or that could not be written.
    HistoryLines,
    /// Requests of one address to the authorization server within a time.
    AuthorizationRate,
    /// Refreshes of one grant within a time.
    GrantRate,
}

/// All limits, with their label in metrics.
const ALL: [(Limit, &str); 33] = [
    (Limit::Sockets, "max_sockets"),
    (Limit::Connections, "max_connections"),
    (Limit::Sessions, "max_sessions"),
    (Limit::SessionRequests, "session_requests"),
    (Limit::Body, "max_body_bytes"),
    (Limit::UnreadAnswers, "unread_answers"),
    (Limit::ServerShare, "server_share"),
    (Limit::KeyChecks, "key_checks"),
    (Limit::SuspendedCalls, "suspended_calls"),
    (Limit::Subscriptions, "subscriptions"),
    (Limit::Watches, "watches"),
    (Limit::CallQuestions, "call_questions"),
    (Limit::SessionQuestions, "session_questions"),
    (Limit::ServerQuestions, "server_questions"),
    (Limit::CallNotices, "call_notices"),
    (Limit::SessionNotices, "session_notices"),
    (Limit::Cancellations, "cancellations"),
    (Limit::UnaskedMessages, "unasked_messages"),
    (Limit::ServerFloods, "server_floods"),
    (Limit::UriBytes, "uri_bytes"),
    (Limit::ListedItems, "listed_items"),
    (Limit::LinkWork, "link_work"),
    (Limit::LogLines, "log_lines"),
    (Limit::LogPace, "log_pace"),
    (Limit::AuditLines, "audit_lines"),
    (Limit::AuditActions, "audit_actions"),
    (Limit::HeadsInSum, "head_bytes_in_sum"),
    (Limit::R2rRequests, "r2r_requests"),
    (Limit::Handshakes, "tls_handshakes"),
    (Limit::SocketShare, "socket_share"),
    (Limit::HistoryLines, "history_lines"),
    (Limit::AuthorizationRate, "authorization_rate"),
    (Limit::GrantRate, "grant_rate"),
];

static MET: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];
static PANICS: AtomicU64 = AtomicU64::new(0);

impl Limit {
    /// Counts that the limit was reached. Returns `answer`.
    pub fn met<T>(self, answer: T) -> T {
        MET[self as usize].fetch_add(1, Ordering::Relaxed);
        answer
    }

    /// The label of each limit, and how often it was reached.
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, u64)> {
        ALL.iter().map(|(limit, word)| (*word, MET[*limit as usize].load(Ordering::Relaxed)))
    }
}

/// Counts a panic.
pub(super) fn panicked() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// The number of panics.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_a_place_and_a_word_of_its_own() {
        for (at, (limit, word)) in ALL.iter().enumerate() {
            assert_eq!(*limit as usize, at, "{word}");
            assert!(ALL[..at].iter().all(|(_, other)| other != word), "{word}");
            let count = || Limit::all().find(|(found, _)| found == word).map(|(_, count)| count);
            let before = count().expect("it is listed");
            assert_eq!((limit.met(word), count()), (word, Some(before + 1)));
        }
    }
}
