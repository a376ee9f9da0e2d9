//! What is known of one server at a moment, for operators.
//!
//! `Facts` is written by calls and by the supervisor, and read into a [`Status`]. Nothing here is
//! asked before a call: facts are told, they do not decide.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::breaker;
use super::connection::Sockets;
use super::discover::Offer;
use super::error::{Delivery, Error};
use super::secrets::Secrets;
use super::signs::Sign;
use json::Raw;
use protocol::Version;
use runtime::worker::now;

/// Whether a server can be used, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Being connected or asked what it offers.
    Connecting,
    /// Connected, and its offer is known.
    Ready,
    /// The last connect, discovery or health check failed; it is tried again.
    Failed,
    /// It refuses our credentials; it is left alone until an operator connects it again, or the file of its
    /// token holds another one.
    AuthFailed,
    /// Disconnected by an operator.
    Disconnected,
    /// Disabled in the registry.
    Disabled,
}

impl State {
    /// Every one of them.
    pub const ALL: [Self; 6] =
        [Self::Connecting, Self::Ready, Self::Failed, Self::AuthFailed, Self::Disconnected, Self::Disabled];

    /// The word, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::AuthFailed => "auth_failed",
            Self::Disconnected => "disconnected",
            Self::Disabled => "disabled",
        }
    }
}

/// One server at a moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its key in the registry.
    pub server: Arc<str>,
    /// Whether it can be used.
    pub state: State,
    /// The last failure, in words; it stays after the server recovered.
    pub last_error: Option<String>,
    /// How long ago that was.
    pub last_error_ago: Option<Duration>,
    /// Whether it answered with HTTP 500 or more, and has not answered a request normally since.
    pub answers_errors: bool,
    /// How long ago it last answered anything.
    pub seen_ago: Option<Duration>,
    /// How long the last successful health check took.
    pub latency: Option<Duration>,
    /// The revision spoken with it, as of its last offer.
    pub version: Option<Version>,
    /// What it said of itself, as of its last offer.
    pub info: Option<Raw>,
    /// Its breaker.
    pub breaker: breaker::Snapshot,
    /// Live connections: sessions with it, or processes.
    pub connections: usize,
    /// The sockets that they use, where the transport is HTTP.
    pub sockets: Option<Sockets>,
    /// Client calls that run.
    pub running: usize,
    /// Client calls that wait for one of those to end.
    pub waiting: usize,
    /// Tools in its last offer, before the operator's choice among them.
    pub tools: usize,
    /// What is wrong with that offer.
    pub problems: Vec<String>,
    /// Signs that it keeps state for each client.
    pub signs: Vec<Sign>,
    /// Counted since start.
    pub counters: Counters,
}

impl Status {
    /// Ready, calls pass, and the last request was not answered with HTTP 500 or more.
    pub fn is_healthy(&self) -> bool {
        self.state == State::Ready && self.breaker.state == breaker::State::Closed && !self.answers_errors
    }
}

/// Client calls since start; `calls` includes the other three but `retries`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// All of them.
    pub calls: u64,
    /// Failed between us and the server.
    pub failures: u64,
    /// Refused by ourselves: breaker, bulkhead, unavailable.
    pub refusals: u64,
    /// Attempts beyond the first, those of health checks included.
    pub retries: u64,
}

/// Where the facts of one server are kept.
#[derive(Debug)]
pub(super) struct Facts {
    begun: Instant,
    /// Milliseconds after `begun`, plus one; zero for never.
    seen: AtomicU64,
    calls: AtomicU64,
    failures: AtomicU64,
    refusals: AtomicU64,
    retries: AtomicU64,
    /// See [`Status::answers_errors`].
    answers_errors: AtomicBool,
    /// What is blanked in errors.
    secrets: Secrets,
    told: Mutex<Told>,
}

/// What changes rarely.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub state: State,
    pub error: Option<(String, Instant)>,
    pub latency: Option<Duration>,
    pub offer: Option<Arc<Offer>>,
    /// When the next attempt to connect is made; none while it is made, and while the server is up.
    pub next_attempt: Option<Instant>,
}

impl Facts {
    pub(super) fn new(state: State, secrets: &Secrets) -> Self {
        Self {
            begun: Instant::now(),
            seen: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            answers_errors: AtomicBool::new(false),
            secrets: secrets.clone(),
            told: Mutex::new(Told { state, error: None, latency: None, offer: None, next_attempt: None }),
        }
    }

    /// One attempt of any kind ended; whether the server answered it.
    pub(super) fn attempted(&self, error: Option<&Error>) -> bool {
        self.note_server_error(error);
        match error {
            Some(error) if error.trips_breaker() => {
                self.failed(&error.to_string());
                false
            }
            Some(error) if error.delivery() != Delivery::Answered => false,
            _ => {
                let millis = now().saturating_duration_since(self.begun).as_millis();
                let millis = u64::try_from(millis).unwrap_or(u64::MAX - 1);
                self.seen.store(millis + 1, Ordering::Relaxed);
                true
            }
        }
    }

    /// Keeps [`Status::answers_errors`] and `last_error` up to date with an attempt that ended.
    fn note_server_error(&self, error: Option<&Error>) {
        match error {
            Some(error) if error.is_server_error() => {
                self.failed(&error.to_string());
                self.answers_errors.store(true, Ordering::Relaxed);
            }
            // It is read by every call, and nearly always false: a needless write would be shared between threads.
            None if self.answers_errors() => self.answers_errors.store(false, Ordering::Relaxed),
            _ => {}
        }
    }

    pub(super) fn answers_errors(&self) -> bool {
        self.answers_errors.load(Ordering::Relaxed)
    }

    /// One client call ended.
    pub(super) fn called<T>(&self, result: &Result<T, Error>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(_) => {}
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

    /// Takes the text of an error, from whom ever it is.
    pub(super) fn failed(&self, text: &str) {
        let text = self.secrets.blank(text);
        self.lock().error = Some((text, Instant::now()));
    }

    pub(super) fn measured(&self, latency: Duration) {
        self.lock().latency = Some(latency);
    }

    pub(super) fn offered(&self, offer: &Arc<Offer>) {
        self.lock().offer = Some(Arc::clone(offer));
    }

    pub(super) const fn begun(&self) -> Instant {
        self.begun
    }

    pub(super) fn will_try(&self, at: Option<Instant>) {
        self.lock().next_attempt = at;
    }

    /// Sets the state; whether it is another one.
    pub(super) fn set_state(&self, state: State) -> bool {
        std::mem::replace(&mut self.lock().state, state) != state
    }

    pub(super) fn told(&self) -> Told {
        self.lock().clone()
    }

    pub(super) fn seen_ago(&self) -> Option<Duration> {
        let millis = self.seen.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.begun.elapsed().saturating_sub(Duration::from_millis(millis)))
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
