//! Decides whether a refusal says that the server forgot the session, and closes the connection then.
//!
//! Servers report it in many ways, and no text is read to find out. A wrong decision costs one handshake, and on a server
//! that keeps state also that state. So an ambiguous refusal ends a shared session only a few times a minute; after that it
//! is only the answer to its request, and health checks find out. On the session of one client there is no such limit.
//! Some servers refuse methods that they do not know in the same way. If a request of Switchyard gets the refusal on the
//! next session too, its method is unknown, and the session lives.
//!
//! Source: 2025-11-25 `basic/transports`, Session Management, which names 404. Not here: the repeat (`layers`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use super::SESSION_ENDED;
use crate::connection::{Call, Closing, Owner};
use crate::transport::http::is_of_every_request;
use crate::transport::streamable_http::answer::RequestOutcome;
use protocol::error::code;
use protocol::feature::Kind;
use protocol::{Method, method};

/// The most shared sessions of one server that ambiguous refusals end within [`PERIOD`].
const MOST: usize = 4;
const PERIOD: Duration = Duration::from_mins(1);

/// The recent ends of sessions. All sessions with one server share it.
#[derive(Debug, Default)]
pub(in crate::transport::streamable_http) struct RecentLosses {
    /// When the sessions ended for which the server gave an ambiguous reason.
    ambiguous: Mutex<VecDeque<Instant>>,
    /// The methods of Switchyard's own requests whose refusal ended a session, and when. A result removes its method.
    refused: Mutex<Vec<(Method, Instant)>>,
}

impl RecentLosses {
    /// Counts another one, unless there were too many.
    fn admit(&self) -> bool {
        // Nothing panics while one of the locks is held.
        let mut recent = self.ambiguous.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|ended| ended.elapsed() >= PERIOD) {
            recent.pop_front();
        }
        let is_admitted = recent.len() < MOST;
        if is_admitted {
            recent.push_back(Instant::now());
        }
        is_admitted
    }

    /// Whether a refusal of `method` had ended another session before this one was opened at `opened`.
    fn is_repeated(&self, method: &Method, opened: Instant) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let first = refused.iter().find(|(other, _)| other == method).map(|(_, at)| *at);
        if first.is_none() {
            refused.push((method.clone(), Instant::now()));
        }
        first.is_some_and(|first| first <= opened)
    }

    fn had_result(&self, method: &Method) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| other != method);
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
    opened: Instant,
    /// Whether the server gave `ping` a result on it.
    was_pinged: AtomicBool,
    /// The first list that Switchyard read on it.
    known: OnceLock<Method>,
    /// Whether one of these requests got an error after that, and no request a result since then.
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
            opened: Instant::now(),
            was_pinged: AtomicBool::new(false),
            known: OnceLock::new(),
            is_suspect: AtomicBool::new(false),
        }))
    }

    /// Interprets a response after those before it. Some servers answer every request on a session that they forgot with
    /// an error of their own. So two errors to `ping` count, if no request gets a result between them. A server that
    /// does not know `ping` never gave it a result. There, a list that had one counts in its place.
    pub(super) fn loss_of_errors(&self, call: &Call, outcome: &RequestOutcome) -> Option<Loss> {
        let (end, is_ping) = (&*self.0, call.method == method::PING);
        match outcome {
            RequestOutcome::Reply(Err(_), status) if !is_of_every_request(status.as_u16()) => {
                let was_pinged = end.was_pinged.load(Ordering::Relaxed);
                let had_result = if is_ping {
                    was_pinged
                } else {
                    !was_pinged && is_own_list(call) && end.known.get() == Some(&call.method)
                };
                let is_lost = had_result && end.is_suspect.swap(true, Ordering::Relaxed);
                is_lost.then_some(Loss::Unclear)
            }
            RequestOutcome::Reply(Ok(_), _) | RequestOutcome::Streaming(_) => {
                end.was_pinged.fetch_or(is_ping, Ordering::Relaxed);
                if is_own_list(call) {
                    end.known.get_or_init(|| call.method.clone());
                }
                end.is_suspect.store(false, Ordering::Relaxed);
                None
            }
            RequestOutcome::Reply(Err(_), _) | RequestOutcome::Refusal(_) => None,
        }
    }

    /// The list that shows whether the session lives after `call`, if that was a `ping` that never had a result.
    pub(super) fn list_after_ping(&self, call: &Call) -> Option<&Method> {
        let end = &*self.0;
        let is_open = call.method == method::PING && !end.was_pinged.load(Ordering::Relaxed);
        end.known.get().filter(|_| end.has_session && is_open)
    }

    /// Whether `outcome` says that the server does not know the method of `call`, a request of Switchyard: its refusal
    /// ended another session before.
    pub(super) fn is_unknown(&self, call: &Call, outcome: &RequestOutcome) -> bool {
        let end = &*self.0;
        // A server without its tools is more likely several servers that share no sessions.
        if !end.has_session || call.owner != Owner::GATEWAY || call.method == method::TOOLS_LIST {
            return false;
        }
        if matches!(outcome, RequestOutcome::Reply(Ok(_), _)) {
            end.recent.had_result(&call.method);
            return false;
        }
        let is_refusal = matches!(Loss::of(outcome), Some(Loss::Certain | Loss::Likely));
        is_refusal && !self.is_lost() && end.recent.is_repeated(&call.method, end.opened)
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

/// Whether Switchyard itself reads a list with `call`.
fn is_own_list(call: &Call) -> bool {
    call.owner == Owner::GATEWAY && Kind::ALL.iter().any(|kind| call.method == kind.method())
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
        let lost = |call, outcome: RequestOutcome| session.loss_of_errors(call, &outcome).is_some();
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
