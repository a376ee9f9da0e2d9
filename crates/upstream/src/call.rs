//! A request to a server, as the layers above the transports describe it.
//!
//! Not here: how it is sent (`transport`), attempted and repeated (`layers`, `retry`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::call_events::Owner;
use super::error::Error;
use super::forwarded_headers::ForwardedHeaders;
use super::session_affinity::Affinity;
use json::Raw;
use json::envelope_stream::Terms;
use protocol::feature::Effect;
use protocol::headers::HeaderParam;
use protocol::meta::Sender;
use protocol::{Era, Method};
use runtime::memory::Payer;
use runtime::telemetry::{RequestId, untrusted};

/// One request, as the layers above describe it.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method name.
    pub method: Method,
    /// Parameters with the names that the *server* knows. The transport completes `_meta`
    /// ([`protocol::meta::dress`]), because only it knows the era.
    pub params: Option<Raw>,
    /// The client that sent it.
    pub sender: Sender,
    /// The era of the client. A server that speaks both eras is called in this one, because then nothing has
    /// to be translated. Requests of Switchyard and of programs prefer the modern era.
    pub era: Era,
    /// Whether progress is requested. The transport makes the token, and notifications in the outlet carry
    /// it. Their receiver replaces it with the client's token.
    pub wants_progress: bool,
    /// Whether the request may be repeated.
    pub effect: Effect,
    /// Parameters that modern HTTP repeats as `Mcp-Param-*` headers.
    pub header_params: Arc<[HeaderParam]>,
    /// The owner. All calls of one owner go to one client. A server request on a shared channel can therefore
    /// be tied to the owner even if it names no call.
    pub owner: Owner,
    /// Where the private connections of the client belong. Programs have none.
    pub affinity: Option<Affinity>,
    /// The principal of the client, for fairness between principals. Programs have none. It is never sent to
    /// the server.
    pub principal: Option<Arc<str>>,
    /// Headers of the client's request that its server may get.
    pub forwarded: Option<ForwardedHeaders>,
    /// Terms under which the result may be streamed. Without them the response is buffered.
    pub terms: Option<Terms>,
    /// The request that it comes from, for its record.
    pub source: CallSource,
    /// Its attempts, for its record.
    pub attempts: AttemptLog,
}

/// The request that a call comes from.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallSource {
    /// The id of the HTTP request; none for a client over stdio.
    pub request_id: Option<RequestId>,
    /// Whether it came over REST, and not over MCP.
    pub is_rest: bool,
}

impl Call {
    /// Makes a request of Switchyard itself that changes nothing: lists, discovery, health checks.
    pub fn of_gateway(method: &str, params: Option<Raw>) -> Self {
        Self {
            method: method.into(),
            params,
            sender: Sender::gateway(),
            era: Era::Modern,
            wants_progress: false,
            effect: Effect::ReadOnly,
            header_params: Arc::new([]),
            owner: Owner::GATEWAY,
            affinity: None,
            principal: None,
            forwarded: None,
            terms: None,
            source: CallSource::default(),
            attempts: AttemptLog::default(),
        }
    }

    /// Returns the payer for its bytes: the principal, or `server` if there is none.
    pub(super) const fn payer<'a>(&'a self, server: &'a Arc<str>) -> Payer<'a> {
        Payer { principal: self.principal.as_ref(), server }
    }
}

/// Most attempts that are kept.
const MOST: usize = 16;

/// One attempt that ended.
///
/// Invariants: a log has at most [`MOST`] attempts with short errors. A call that is not recorded has no log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// From its beginning to its end, or to the beginning of a streamed response.
    pub duration: Duration,
    /// Why it failed, without secrets of the server; none if the server answered.
    pub error: Option<String>,
}

/// The attempts of one call that ended. Most calls have one, which needs no allocation.
pub type EndedAttempts = SmallVec<[Attempt; 1]>;

/// The attempts of one call so far, if it is watched. A clone is another call, which nobody watches yet.
#[derive(Debug, Default)]
pub struct AttemptLog(Mutex<Option<EndedAttempts>>);

impl Clone for AttemptLog {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl AttemptLog {
    /// Records attempts from now on.
    pub fn watch(&self) {
        *self.lock() = Some(EndedAttempts::new());
    }

    /// Moves the attempts to `next`, a call that is made for the same record.
    pub fn hand_over(&self, next: &Self) {
        *next.lock() = self.take();
    }

    /// Takes the attempts that ended; none if they are not watched.
    pub fn take(&self) -> Option<EndedAttempts> {
        self.lock().take()
    }

    /// Adds an attempt that began at `started`, if the call is watched.
    pub(super) fn record(&self, started: Instant, error: Option<&Error>) {
        if let Some(attempts) = self.lock().as_mut().filter(|attempts| attempts.len() < MOST) {
            let error = error.map(|error| untrusted(&error.to_string()).to_string());
            attempts.push(Attempt { duration: started.elapsed(), error });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<EndedAttempts>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
