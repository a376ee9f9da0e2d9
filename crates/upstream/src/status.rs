//! The state of one server at a moment, for operators.
//!
//! Calls and the supervisor write `Stats`, which are read into a [`Status`]. No call reads it to make a decision.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::connection::{Sockets, Starting};
use super::error::{Delivery, Error};
use super::offer::Offer;
use super::secrets::Secrets;
use super::state_signs::StateSign;
use super::{Upstream, breaker};
use json::Raw;
use protocol::Version;
use runtime::worker::now;

/// A server that was up for this long is not in a crash loop.
pub(super) const STABLE: Duration = Duration::from_mins(1);

/// Whether a server can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Switchyard connects to it or reads its offer.
    Connecting,
    /// Its process is starting.
    Starting,
    /// It is connected, and its offer is known.
    Ready,
    /// Its offer is known, and nothing needs it now: its process is not running, or it has no connection. The next
    /// call starts it.
    Idle,
    /// The last connect, discovery or health check failed. Switchyard tries again.
    Failed,
    /// It refuses the credentials. It is not contacted until an operator connects it again, or its token file contains
    /// another token.
    AuthFailed,
    /// Somebody has to log in to it (`auth: oauth`). It is not contacted until then.
    LoginRequired,
    /// Disconnected by an operator.
    Disconnected,
    /// Disabled in the configuration.
    Disabled,
    /// Its entry in the configuration file cannot be used. No [`Upstream`] has this state.
    NotConfigured,
}

impl State {
    /// All states.
    pub const ALL: [Self; 10] = [
        Self::Connecting,
        Self::Starting,
        Self::Ready,
        Self::Idle,
        Self::Failed,
        Self::AuthFailed,
        Self::LoginRequired,
        Self::Disconnected,
        Self::Disabled,
        Self::NotConfigured,
    ];

    /// The name in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Idle => "idle",
            Self::Failed => "failed",
            Self::AuthFailed => "auth_failed",
            Self::LoginRequired => "login_required",
            Self::Disconnected => "disconnected",
            Self::Disabled => "disabled",
            Self::NotConfigured => "not_configured",
        }
    }
}

/// The status of one server at a moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// The key in the configuration file.
    pub server: Arc<str>,
    /// Whether it can be used.
    pub state: State,
    /// Whether it is ready, or was idle until it was needed.
    pub(super) is_well: bool,
    /// The start of its process, if one is under way.
    pub starting: Option<Starting>,
    /// The last failure as text, until the server is healthy and has answered a call after it, or has been healthy for a
    /// minute.
    pub last_error: Option<String>,
    /// The time since the last failure.
    pub last_error_ago: Option<Duration>,
    /// Whether it answered with HTTP 500 or more, and has answered no request normally since.
    pub answers_errors: bool,
    /// The age of its offer, if that is remembered from an earlier run and was not read again yet.
    pub remembered_ago: Option<Duration>,
    /// The time since its last answer.
    pub seen_ago: Option<Duration>,
    /// The duration of the last successful health check.
    pub latency: Option<Duration>,
    /// The revision spoken with it, as of its last offer.
    pub version: Option<Version>,
    /// Its information about itself, as of its last offer.
    pub info: Option<Raw>,
    /// Its circuit breaker.
    pub breaker: breaker::Snapshot,
    /// Live connections: sessions with it, or processes.
    pub connections: usize,
    /// The sockets of these connections, if the transport is HTTP.
    pub sockets: Option<Sockets>,
    /// Running client calls.
    pub running: usize,
    /// Client calls that wait for a slot.
    pub waiting: usize,
    /// Tools in its last offer, before the operator's filter.
    pub tools: usize,
    /// The problems of that offer.
    pub problems: Vec<String>,
    /// Signs that it keeps state for each client.
    pub signs: Vec<StateSign>,
    /// The counts since start.
    pub counters: Counters,
}

impl Status {
    /// Removes an error that is over: the server is healthy, and answered a call after it, whose answer came `answered_ago`,
    /// or anything for a while.
    pub(super) fn without_past_error(self, answered_ago: Option<Duration>) -> Self {
        let is_over = self.is_healthy()
            && self.last_error_ago.is_some_and(|failed| {
                let after = |ago: Option<Duration>| ago.is_some_and(|ago| ago < failed);
                after(answered_ago) || failed >= STABLE && after(self.seen_ago)
            });
        if is_over { Self { last_error: None, last_error_ago: None, ..self } } else { self }
    }

    /// Whether it is ready or idle, or starts because it is needed again, calls pass, and the last request was not answered with HTTP 500 or more.
    pub fn is_healthy(&self) -> bool {
        self.is_well && self.breaker.state == breaker::State::Closed && !self.answers_errors
    }
}

/// Client calls since start. `calls` includes `failures` and `refusals`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// All calls.
    pub calls: u64,
    /// Calls that failed between Switchyard and the server.
    pub failures: u64,
    /// Calls that Switchyard refused: breaker, bulkhead, unavailable.
    pub refusals: u64,
    /// Attempts after the first, those of health checks included.
    pub retries: u64,
}

/// The recorded facts of one server.
#[derive(Debug)]
pub(super) struct Stats {
    started: Instant,
    /// Milliseconds after `started`, plus one; zero for never.
    seen: AtomicU64,
    /// When a client call ended last, in the form of `seen`.
    used: AtomicU64,
    /// When a client call was answered last, in the form of `seen`.
    answered: AtomicU64,
    calls: AtomicU64,
    failures: AtomicU64,
    refusals: AtomicU64,
    retries: AtomicU64,
    /// See [`Status::answers_errors`].
    answers_errors: AtomicBool,
    /// Whether only a call connects.
    resting: AtomicBool,
    /// The secrets to redact from errors.
    secrets: Secrets,
    reported: Mutex<ReportedStatus>,
}

/// The facts that change rarely.
#[derive(Debug, Clone)]
pub(super) struct ReportedStatus {
    pub state: State,
    pub error: Option<(String, Instant)>,
    /// Whether that error says that a login is required.
    pub awaits_login: bool,
    pub latency: Option<Duration>,
    pub offer: Option<Arc<Offer>>,
    /// When `offer` was read in this run.
    pub read_at: Option<SystemTime>,
    /// When `offer` was read in an earlier run, until it is read again.
    pub remembered_at: Option<SystemTime>,
    /// The time of the next attempt to connect; `None` during it, and while the server is up.
    pub next_attempt: Option<Instant>,
}

impl Stats {
    pub(super) fn new(state: State, secrets: &Secrets) -> Self {
        Self {
            started: Instant::now(),
            seen: AtomicU64::new(0),
            used: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            answers_errors: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            secrets: secrets.clone(),
            reported: Mutex::new(ReportedStatus {
                state,
                error: None,
                awaits_login: false,
                latency: None,
                offer: None,
                read_at: None,
                remembered_at: None,
                next_attempt: None,
            }),
        }
    }

    /// Records the end of an attempt of any kind. Returns whether the server answered it.
    pub(super) fn attempted(&self, error: Option<&Error>) -> bool {
        self.note_server_error(error);
        match error {
            Some(error) if error.trips_breaker() => {
                self.failed(&error.to_string());
                false
            }
            Some(error) if error.delivery() != Delivery::Answered => false,
            _ => {
                let millis = now().saturating_duration_since(self.started).as_millis();
                let millis = u64::try_from(millis).unwrap_or(u64::MAX - 1);
                self.seen.store(millis + 1, Ordering::Relaxed);
                true
            }
        }
    }

    /// Updates [`Status::answers_errors`] and `last_error` after an attempt.
    fn note_server_error(&self, error: Option<&Error>) {
        match error {
            Some(error) if error.is_server_error() => {
                self.failed(&error.to_string());
                self.answers_errors.store(true, Ordering::Relaxed);
            }
            // Every call reads it, and it is nearly always false. A needless write would be shared between threads.
            None if self.answers_errors() => self.answers_errors.store(false, Ordering::Relaxed),
            _ => {}
        }
    }

    pub(super) fn answers_errors(&self) -> bool {
        self.answers_errors.load(Ordering::Relaxed)
    }

    /// Records the end of one client call.
    pub(super) fn called<T>(&self, result: &Result<T, Error>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let millis = u64::try_from(now().saturating_duration_since(self.started).as_millis());
        let millis = millis.map_or(0, |millis| millis + 1);
        self.used.store(millis, Ordering::Relaxed);
        match result {
            Ok(_) => self.answered.store(millis, Ordering::Relaxed),
            Err(error) if error.delivery() == Delivery::Refused => {
                self.refusals.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the text of an error of any origin.
    pub(super) fn failed(&self, text: &str) {
        let text = self.secrets.redact(text);
        let mut reported = self.lock();
        (reported.error, reported.awaits_login) = (Some((text, Instant::now())), false);
    }

    /// Records that a login is required, until [`Stats::login_succeeded`].
    pub(super) fn awaits_login(&self, reason: &str) {
        self.failed(reason);
        self.lock().awaits_login = true;
    }

    /// Removes an error that says that a login is required.
    pub(super) fn login_succeeded(&self) {
        let mut reported = self.lock();
        if std::mem::take(&mut reported.awaits_login) {
            reported.error = None;
        }
    }

    pub(super) fn measured(&self, latency: Duration) {
        self.lock().latency = Some(latency);
    }

    pub(super) fn offered(&self, offer: &Arc<Offer>) {
        let mut reported = self.lock();
        (reported.offer, reported.remembered_at) = (Some(Arc::clone(offer)), None);
        reported.read_at = Some(SystemTime::now());
    }

    /// Uses the offer of an earlier run until the server was asked.
    pub(super) fn remembers(&self, offer: &Arc<Offer>, read_at: SystemTime) {
        let mut reported = self.lock();
        (reported.offer, reported.remembered_at) = (Some(Arc::clone(offer)), Some(read_at));
    }

    pub(super) const fn started(&self) -> Instant {
        self.started
    }

    pub(super) fn will_try(&self, at: Option<Instant>) {
        self.lock().next_attempt = at;
    }

    /// Sets the state. Returns whether it changed.
    pub(super) fn set_state(&self, state: State) -> bool {
        std::mem::replace(&mut self.lock().state, state) != state
    }

    pub(super) fn reported(&self) -> ReportedStatus {
        self.lock().clone()
    }

    pub(super) fn seen_ago(&self) -> Option<Duration> {
        self.since(&self.seen)
    }

    /// The time since a client call was answered.
    pub(super) fn answered_ago(&self) -> Option<Duration> {
        self.since(&self.answered)
    }

    fn since(&self, at: &AtomicU64) -> Option<Duration> {
        let millis = at.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.started.elapsed().saturating_sub(Duration::from_millis(millis)))
    }

    pub(super) fn set_resting(&self, is_resting: bool) {
        self.resting.store(is_resting, Ordering::Relaxed);
    }

    /// Whether the server has no connection, and only a call makes one.
    pub(super) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// When a client call ended last.
    pub(super) fn used(&self) -> Option<Instant> {
        let millis = self.used.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.started + Duration::from_millis(millis))
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReportedStatus> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Facts about a server that was never reached, or is down.

/// The retry time for a caller while an attempt to connect is pending.
const ATTEMPT_RETRY_IN: Duration = Duration::from_secs(1);
/// The shortest retry time for a caller.
const LEAST_RETRY_IN: Duration = Duration::from_millis(100);

impl Upstream {
    /// Its offer before it was reached; `None`, except for built-in servers.
    pub fn declared(&self) -> Option<Arc<Offer>> {
        self.declared.clone()
    }

    /// The time at which it was started.
    pub const fn started(&self) -> Instant {
        self.stats.started()
    }

    /// Returns when a call to a server that is down may succeed: after the next attempt to connect.
    pub fn retry_in(&self) -> Option<Duration> {
        let reported = self.stats.reported();
        if !matches!(reported.state, State::Connecting | State::Failed) {
            return None;
        }
        let due = reported.next_attempt.map(|at| at.saturating_duration_since(Instant::now()));
        Some(due.unwrap_or(ATTEMPT_RETRY_IN).max(LEAST_RETRY_IN))
    }

    /// Records that somebody has logged in, so `last_error` does not ask for a login any more.
    pub fn login_succeeded(&self) {
        self.stats.login_succeeded();
    }

    /// The problems of its offer, and those of connecting.
    pub(super) fn problems(&self, offer: Option<&Offer>) -> Vec<String> {
        let of_offer = offer.into_iter().flat_map(|offer| offer.problems.iter().cloned());
        of_offer.chain(self.pool.connector.remark()).collect()
    }
}

/// ```text
///            ┌─────────── offer read ───────────┐
///            │                                  ▼
///        ┌──────┐   connection lost, unwell   ┌────┐ ──┐ health tick,
///   ───► │ down │ ◄────────────────────────── │ up │   │ list changed
///        └──────┘   or a discovery failed     └────┘ ◄─┘
///         ▲    │                                │
/// connect │    └──────────┐    ┌── disconnect ──┘
///         │    disconnect ▼    ▼
///         └────────────── ( off )
///
///   up ── not needed for a while ──► ( idle ) ── a call connects ──► down
///   down, up, idle ── our credentials are refused ──► ( refused ) ── connect ──► down
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The supervisor connects when `due`.
    Down,
    /// The offer is known, and nothing needs the server. A call connects, and the supervisor then reads the offer.
    Idle,
    /// The offer is known. The health is checked when `due`.
    Up { since: Instant },
    /// Disconnected by an operator.
    Off,
    /// The server refuses the credentials. A retry would not change that, so an operator must.
    Refused,
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod phase_tests;
