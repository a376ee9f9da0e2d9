//! How often the limits of the gateway were met, and the other facts about it that belong to no server: one set
//! for the program, whichever listener and client they are about.
//!
//! Invariant: each is one number, and none is touched on the way of a call: only what comes beyond a limit,
//! a connection that opens or closes, and a panic are counted.
//!
//! Not here: the limits themselves, which stand with what they limit; those of one server, whose refusals
//! are counted with its calls (`upstream::status`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Something that there is only so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Open sockets of clients.
    Sockets,
    /// Clients: sessions, and requests that belong to none.
    Connections,
    /// Sessions.
    Sessions,
    /// Requests that run in one session.
    SessionRequests,
    /// Bytes of the body of a request.
    Body,
    /// Time for which a client leaves an answer unread.
    UnreadAnswers,
    /// Places at a server that one principal may have while others are there.
    ServerShare,
    /// Keys that are checked the slow way.
    KeyChecks,
    /// Calls that wait for their client's answers.
    ParkedCalls,
    /// Resources that one session subscribes to.
    Subscriptions,
    /// Resources and tasks that one server is asked to tell about.
    Watches,
    /// Questions that are open in one call.
    CallQuestions,
    /// Questions that are open in one session.
    SessionQuestions,
    /// Questions of one server that are open on one connection.
    ServerQuestions,
    /// Connections of one server that were replaced after cancelled calls and have not ended.
    ReplacedConnections,
    /// Notices of one call that wait for a slow reader.
    CallNotices,
    /// Notices that belong to no call and wait for one client.
    SessionNotices,
    /// Cancellations on their way to a server.
    Cancellations,
    /// Messages of a server that belong to no call.
    UnaskedMessages,
    /// Connections that were ended because their server flooded them.
    ServerFloods,
    /// Bytes of a URI in a request.
    UriBytes,
    /// Names, URIs and templates that a server lists: their length and number.
    ListedItems,
    /// Work for the links of one answer.
    LinkWork,
    /// Log lines that wait to be written.
    LogLines,
    /// Log lines of one cause in a time.
    LogPace,
    /// Audit lines that wait to be written.
    AuditLines,
    /// Audited actions that run.
    AuditActions,
    /// Bytes of the heads of requests.
    HeadsInSum,
    /// Requests to R2R within a minute.
    R2rRequests,
}

/// All of them, with the word that each has in metrics.
const ALL: [(Limit, &str); 29] = [
    (Limit::Sockets, "max_sockets"),
    (Limit::Connections, "max_connections"),
    (Limit::Sessions, "max_sessions"),
    (Limit::SessionRequests, "session_requests"),
    (Limit::Body, "max_body_bytes"),
    (Limit::UnreadAnswers, "unread_answers"),
    (Limit::ServerShare, "server_share"),
    (Limit::KeyChecks, "key_checks"),
    (Limit::ParkedCalls, "parked_calls"),
    (Limit::Subscriptions, "subscriptions"),
    (Limit::Watches, "watches"),
    (Limit::CallQuestions, "call_questions"),
    (Limit::SessionQuestions, "session_questions"),
    (Limit::ServerQuestions, "server_questions"),
    (Limit::ReplacedConnections, "replaced_connections"),
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
];

static MET: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];
static SOCKETS: AtomicUsize = AtomicUsize::new(0);
static PANICS: AtomicU64 = AtomicU64::new(0);

impl Limit {
    /// One more came and there was no more room. Gives back what it is told.
    pub fn met<T>(self, answer: T) -> T {
        MET[self as usize].fetch_add(1, Ordering::Relaxed);
        answer
    }

    /// Each in one word, and how often it was met.
    pub fn all() -> impl Iterator<Item = (&'static str, u64)> {
        ALL.iter().map(|(limit, word)| (*word, MET[*limit as usize].load(Ordering::Relaxed)))
    }
}

/// An open socket of a client, as long as this is kept.
#[derive(Debug)]
pub struct Socket(());

impl Socket {
    /// One more.
    pub fn opened() -> Self {
        SOCKETS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// How many there are.
    pub fn count() -> usize {
        SOCKETS.load(Ordering::Relaxed)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        SOCKETS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Something panicked.
pub(super) fn panicked() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// How often something did.
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
