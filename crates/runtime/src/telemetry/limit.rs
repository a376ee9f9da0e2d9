//! How often the limits of Switchyard were reached, other counts that belong to no server, and how many log lines one cause may
//! produce. There is one set for the program: limits are met in parsers and buffers, which know of no gateway. Counts of one
//! listener are its own (`downstream::listening_sockets`).
//!
//! Invariants: each count is one number, and a normal call touches none of them. A flood costs `BURST` log lines at once and
//! then one each `REFILL`. Those between are suppressed and counted, and a line says how many: the next one of that cause, or a
//! summary of the refused requests when the flood is over. Audit lines are never suppressed.
//!
//! Not here: the limits themselves, which are next to what they limit; refusals by a server's own limits, which are
//! counted with its calls (`upstream::status`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

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
    pub fn all() -> impl Iterator<Item = (&'static str, u64)> {
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

/// Lines that may be written at once.
const BURST: u32 = 50;
/// The time after which one more line is allowed.
const REFILL: Duration = Duration::from_millis(100);
/// The most refusal codes with their own pace. There are fewer codes.
const MAX_CODES: usize = 32;

/// A token bucket for the log lines of one cause.
#[derive(Debug)]
pub struct Pace(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// The time of the last refill; `None` while the bucket is full.
    since: Option<Instant>,
    suppressed: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    /// A full bucket.
    pub const fn new() -> Self {
        Self(Mutex::new(Bucket { tokens: BURST, since: None, suppressed: 0 }))
    }

    /// Admits one more line and says how many were suppressed before it; none if this one is suppressed.
    pub fn admit(&self) -> Option<u64> {
        self.lock().admit(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    fn admit(&mut self, now: Instant) -> Option<u64> {
        self.refill(now);
        if self.tokens == 0 {
            self.suppressed += 1;
            return Limit::LogPace.met(None);
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }

    fn refill(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let earned = now.saturating_duration_since(since).as_millis() / REFILL.as_millis();
        let missing = BURST - self.tokens;
        match u32::try_from(earned) {
            Ok(earned) if earned < missing => {
                self.tokens += earned;
                self.since = Some(since + REFILL * earned);
            }
            _ => (self.tokens, self.since) = (BURST, Some(now)),
        }
    }
}

/// The pace of the log lines about failed requests, of all clients together. It belongs to the process, as the log does:
/// all gateways in a process write to one subscriber, which their lines together must not flood.
pub static FAILURES: Pace = Pace::new();

/// The paces of requests that are refused before authentication, one for each code. They belong to the process too.
static REFUSALS: Mutex<Vec<(&'static str, Bucket)>> = Mutex::new(Vec::new());

/// Admits one more line about a request refused with `code`, as [`Pace::admit`] does.
pub fn refusal(code: &'static str) -> Option<u64> {
    let mut refusals = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = refusals.iter().position(|(known, _)| *known == code);
    let at = at.unwrap_or_else(|| {
        debug_assert!(refusals.len() < MAX_CODES, "codes are words of ours");
        refusals.push((code, Bucket { tokens: BURST, since: None, suppressed: 0 }));
        refusals.len() - 1
    });
    refusals[at].1.admit(Instant::now())
}

/// Logs how many refusals were suppressed since the last line of their code.
pub(super) fn summarize() {
    let mut refusals = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
    let due: Vec<(&str, u64)> = refusals
        .iter_mut()
        .map(|(code, bucket)| (*code, std::mem::take(&mut bucket.suppressed)))
        .filter(|(_, suppressed)| *suppressed > 0)
        .collect();
    drop(refusals);
    for (code, suppressed) in due {
        tracing::info!(code, suppressed, "more requests were refused");
    }
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

    #[test]
    fn a_flood_is_counted_and_a_quiet_cause_is_heard_at_once() {
        let start = Instant::now();
        let mut bucket = Bucket { tokens: BURST, since: None, suppressed: 0 };
        let admitted = (0..1000).filter(|_| bucket.admit(start).is_some()).count();
        assert_eq!(admitted, 50);
        assert_eq!(bucket.admit(start + Duration::from_millis(250)), Some(950));
        assert_eq!(bucket.admit(start + Duration::from_millis(250)), Some(0));
        assert_eq!(bucket.admit(start + Duration::from_millis(250)), None);
        let later = start + Duration::from_hours(1);
        assert_eq!((0..1000).filter(|_| bucket.admit(later).is_some()).count(), 50);
    }
}
