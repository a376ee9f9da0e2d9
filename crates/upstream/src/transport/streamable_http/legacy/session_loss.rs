//! Decides whether a refusal says that the server forgot the session, and closes the connection then.
//!
//! Servers report it in many ways, and no text is read to find out. A wrong decision costs one handshake, and on a server
//! that keeps state also that state. So an ambiguous refusal ends a shared session only a few times a minute; after that it
//! is only the answer to its request, and health checks find out. On the session of one client there is no such limit.
//!
//! Source: 2025-11-25 `basic/transports`, Session Management, which names 404. Not here: the repeat (`layers`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use super::SESSION_ENDED;
use crate::connection::{Call, Closing};
use crate::transport::http::is_of_every_request;
use crate::transport::streamable_http::answer::RequestOutcome;
use protocol::error::code;
use protocol::method;

/// The most shared sessions of one server that ambiguous refusals end within [`PERIOD`].
const MOST: usize = 4;
const PERIOD: Duration = Duration::from_mins(1);

/// The recent ends of sessions for which the server gave an ambiguous reason. All sessions with one server share it.
#[derive(Debug, Default)]
pub(in crate::transport::streamable_http) struct RecentLosses(Mutex<VecDeque<Instant>>);

impl RecentLosses {
    /// Counts another one, unless there were too many.
    fn admit(&self) -> bool {
        // Nothing panics while the lock is held.
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|ended| ended.elapsed() >= PERIOD) {
            recent.pop_front();
        }
        let is_admitted = recent.len() < MOST;
        if is_admitted {
            recent.push_back(Instant::now());
        }
        is_admitted
    }
}

/// The meaning of a refusal for the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The server forgot it, and the request did not run.
    Certain,
    /// As `Certain`, but the server may also have refused the request.
    Likely,
    /// The server may have forgotten it. Whether the request ran is unknown.
    Unclear,
}

impl Loss {
    /// Interprets the outcome of a request on a session.
    pub(super) fn of(outcome: &RequestOutcome) -> Option<Self> {
        const SESSION_NOT_FOUND: i64 = -32001;
        match outcome {
            // Some servers answer an unknown method with this status.
            RequestOutcome::Reply(Err(error), StatusCode::NOT_FOUND)
                if error.code() == code::METHOD_NOT_FOUND =>
            {
                None
            }
            RequestOutcome::Reply(Err(_), StatusCode::NOT_FOUND | StatusCode::GONE) => Some(Self::Certain),
            RequestOutcome::Reply(Err(error), status) if error.code() == SESSION_NOT_FOUND => match *status {
                StatusCode::BAD_REQUEST => Some(Self::Likely),
                status if status.is_success() => Some(Self::Unclear),
                _ => None,
            },
            RequestOutcome::Refusal(refusal) => Self::of_status(refusal.status.as_u16()).or_else(|| {
                let is_login = refusal.is_challenge;
                let is_unclear = refusal.status.is_success() || refusal.status == StatusCode::UNAUTHORIZED;
                (is_unclear && !is_login).then_some(Self::Unclear)
            }),
            RequestOutcome::Reply(..) | RequestOutcome::Streaming(_) => None,
        }
    }

    /// Interprets a status without a response to the request.
    pub(super) const fn of_status(status: u16) -> Option<Self> {
        match status {
            404 | 410 => Some(Self::Certain),
            400 => Some(Self::Likely),
            _ => None,
        }
    }
}

/// The end of one session, by what the server says.
#[derive(Clone)]
pub(super) struct SessionEnd(Arc<Inner>);

struct Inner {
    closing: Closing,
    has_session: bool,
    /// Whether it is the session of one client.
    is_private: bool,
    recent: Arc<RecentLosses>,
    is_lost: AtomicBool,
    is_certain: AtomicBool,
    /// Whether the server gave `ping` a result on it.
    was_pinged: AtomicBool,
    /// Whether `ping` got an error after that, and no request a result since then.
    is_suspect: AtomicBool,
}

impl SessionEnd {
    pub(super) fn new(
        closing: &Closing,
        (has_session, is_private): (bool, bool),
        recent: &Arc<RecentLosses>,
    ) -> Self {
        Self(Arc::new(Inner {
            closing: closing.clone(),
            has_session,
            is_private,
            recent: Arc::clone(recent),
            is_lost: AtomicBool::new(false),
            is_certain: AtomicBool::new(false),
            was_pinged: AtomicBool::new(false),
            is_suspect: AtomicBool::new(false),
        }))
    }

    /// Interprets a response after those before it. Some servers answer every request on a session that they forgot with
    /// an error of their own. So two errors to `ping` count, if no request gets a result between them. Servers that do
    /// not know `ping` never gave it a result.
    pub(super) fn loss_of_pings(&self, call: &Call, outcome: &RequestOutcome) -> Option<Loss> {
        let (end, is_ping) = (&*self.0, call.method == method::PING);
        match outcome {
            RequestOutcome::Reply(Err(_), status) if is_ping && !is_of_every_request(status.as_u16()) => {
                let is_lost =
                    end.was_pinged.load(Ordering::Relaxed) && end.is_suspect.swap(true, Ordering::Relaxed);
                is_lost.then_some(Loss::Unclear)
            }
            RequestOutcome::Reply(Ok(_), _) | RequestOutcome::Streaming(_) => {
                end.was_pinged.fetch_or(is_ping, Ordering::Relaxed);
                end.is_suspect.store(false, Ordering::Relaxed);
                None
            }
            RequestOutcome::Reply(Err(_), _) | RequestOutcome::Refusal(_) => None,
        }
    }

    /// Ends the session because of `loss`. Returns whether it has ended.
    pub(super) fn lose(&self, loss: Loss) -> bool {
        let end = &*self.0;
        if !end.has_session {
            return false;
        }
        let is_lost = self.is_lost() || loss == Loss::Certain || end.is_private || end.recent.admit();
        if is_lost {
            end.is_certain.fetch_or(loss == Loss::Certain, Ordering::Relaxed);
            end.is_lost.store(true, Ordering::Relaxed);
            end.closing.close(SESSION_ENDED);
        }
        is_lost
    }

    /// Whether the server forgot it.
    pub(super) fn is_lost(&self) -> bool {
        self.0.is_lost.load(Ordering::Relaxed)
    }

    /// Whether it has to be ended at the server, which may still have it.
    pub(super) fn needs_farewell(&self) -> bool {
        !self.0.is_certain.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use json::Raw;
    use protocol::ErrorObject;

    fn end(is_private: bool, recent: &Arc<RecentLosses>) -> SessionEnd {
        SessionEnd::new(&Closing::default(), (true, is_private), recent)
    }

    #[tokio::test(start_paused = true)]
    async fn ambiguous_refusals_end_few_shared_sessions_in_a_minute() {
        let recent = Arc::default();
        let lost = |loss, is_private| end(is_private, &recent).lose(loss);
        assert_eq!((0..10).filter(|_| lost(Loss::Likely, false)).count(), MOST);
        assert!(lost(Loss::Certain, false) && lost(Loss::Unclear, true), "these need no limit");
        tokio::time::advance(PERIOD).await;
        assert!(lost(Loss::Unclear, false));
    }

    #[test]
    fn two_errors_to_ping_in_a_row_lose_a_session_on_which_it_had_a_result() {
        let [ping, other] = [method::PING, method::TOOLS_LIST].map(|method| Call::of_gateway(method, None));
        let result = || RequestOutcome::Reply(Ok(Raw::of(&())), StatusCode::OK);
        let error = |status| {
            let status = StatusCode::from_u16(status).expect("a status");
            RequestOutcome::Reply(Err(ErrorObject::new(-32000, "no")), status)
        };
        let session = end(false, &Arc::default());
        let lost = |call, outcome: RequestOutcome| session.loss_of_pings(call, &outcome).is_some();
        assert!(!lost(&ping, error(200)) && !lost(&ping, error(200)), "it may not know `ping`");
        assert!(!lost(&ping, result()) && !lost(&ping, error(200)), "one error");
        assert!(!lost(&other, result()) && !lost(&ping, error(500)), "a result between two errors");
        for status in [401, 403, 429, 503] {
            assert!(!lost(&ping, error(status)), "{status} is about every request");
        }
        assert!(!lost(&other, error(200)), "an error to another request");
        assert!(lost(&ping, error(400)));
    }

    #[test]
    fn a_connection_without_a_session_loses_none() {
        let end = SessionEnd::new(&Closing::default(), (false, false), &Arc::default());
        assert!(!end.lose(Loss::Certain) && !end.is_lost());
    }
}
