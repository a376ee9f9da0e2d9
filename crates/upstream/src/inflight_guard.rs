//! Everything that a call holds at its server: a slot of the bulkhead, a permit of the breaker, and a connection.
//!
//! Invariants: one guard owns all three from admission to the last byte of the response, and returns them when it is
//! dropped. The connection is returned first, because the next call may wait for it. The result of each attempt is
//! recorded once. An attempt that its caller ended, by leaving or by a deadline shorter than the patience with the
//! server, counts as nothing. If the server is known to hang (`liveness`), such an attempt counts as a timeout. If that
//! is not known, the supervisor checks the server. A response that its client stops reading counts as nothing.
//!
//! Does not wait for a slot (`bulkhead`), and does not decide whether to try again (`retry`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Upstream;
use super::breaker::Permit;
use super::bulkhead::{Lane, ReservedShare};
use super::error::Error;
use super::forwarded_headers::ForwardedHeaders;
use super::frame::Frame;
use super::pool::PooledConnection;
use super::request::Request;
use crate::liveness::Round;
use crate::response_stream::ResponseGuard;
use runtime::worker::now;

/// Silence of this duration counts against a server, whatever its own `timeout` allows.
const MAX_SILENCE: Duration = Duration::from_secs(5);
/// An attempt that was cancelled before this age does not count, because its caller did not wait.
const MIN_JUDGED_AGE: Duration = Duration::from_secs(1);

/// A call at its server. The fields of the attempt are set by [`InflightGuard::begin`].
pub(super) struct InflightGuard {
    upstream: Arc<Upstream>,
    lane: Lane,
    slot: ReservedShare,
    /// None while no attempt is under way.
    permit: Option<Permit>,
    /// Present for attempts of clients only.
    round: Option<Round>,
    started: Instant,
    had_enough_time: bool,
    /// Whether a failure of the attempt says something of the server.
    counts: bool,
    is_streaming: bool,
    connection: Option<PooledConnection>,
    /// The headers of the client that a response which is still arriving may quote.
    forwarded: Option<ForwardedHeaders>,
}

impl InflightGuard {
    /// The guard of a call that has a slot and makes no attempt yet.
    pub(super) const fn new(
        upstream: Arc<Upstream>,
        lane: Lane,
        slot: ReservedShare,
        started: Instant,
    ) -> Self {
        let (permit, round, connection, forwarded) = (None, None, None, None);
        let (had_enough_time, counts, is_streaming) = (false, true, false);
        Self {
            upstream,
            lane,
            slot,
            permit,
            round,
            started,
            had_enough_time,
            counts,
            is_streaming,
            connection,
            forwarded,
        }
    }

    /// Begins an attempt of `request` in the time that `frame` has left.
    pub(super) fn begin(&mut self, request: &Request<'_>, frame: Frame) -> Result<(), Error> {
        self.permit = Some(self.upstream.breaker.admit(request.principal())?);
        self.round = request.is_a_call().then(|| self.upstream.liveness.begins());
        self.had_enough_time = frame.left() >= self.upstream.min_time();
        (self.started, self.counts) = (frame.now, true);
        Ok(())
    }

    /// Marks a failure of the attempt as one that does not count: it concerns one client, or was counted
    /// before.
    pub(super) const fn excuse(&mut self) {
        self.counts = false;
    }

    /// Whether silence counts against the server, however the attempt ends.
    pub(super) const fn had_enough_time(&self) -> bool {
        self.had_enough_time
    }

    /// Whether other calls wait for the result of the attempt.
    pub(super) fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// Holds the connection of the attempt.
    pub(super) fn hold(&mut self, connection: PooledConnection) -> &PooledConnection {
        self.connection.insert(connection)
    }

    /// Records how the request on the connection ended. None: the outcome is not known yet.
    pub(super) fn record_response(&mut self, is_failed: Option<bool>, has_response: bool) {
        let Some(connection) = &mut self.connection else { return };
        if is_failed.is_some_and(|is_failed| !connection.counts(is_failed)) {
            self.counts = false;
        }
        if has_response {
            connection.answered();
        }
    }

    /// Records that the response to `request` is still arriving. The result of the attempt is known at its end.
    pub(super) fn stream(&mut self, request: &Request<'_>) {
        self.is_streaming = true;
        self.forwarded = request.forwarded().cloned();
    }

    /// Records the result of the attempt.
    pub(super) fn record<T>(&mut self, result: &Result<T, Error>) {
        self.leave();
        match self.permit.take() {
            Some(permit) if self.counts => self.upstream.breaker.judge(permit, result),
            permit => self.forgotten(permit),
        }
    }

    /// Ends the attempt without a result for the breaker.
    pub(super) fn forget(&mut self) {
        self.leave();
        let permit = self.permit.take();
        self.forgotten(permit);
    }

    /// Ends the attempt, which its caller ended.
    pub(super) fn abandon(&mut self) {
        let is_a_call = self.leave();
        let Some(permit) = self.permit.take() else { return };
        let (upstream, lasted) = (&self.upstream, now().saturating_duration_since(self.started));
        let is_hint = self.counts
            && is_a_call
            && !self.is_streaming
            && lasted >= MIN_JUDGED_AGE.min(upstream.min_time());
        if is_hint && upstream.liveness.is_hung(upstream.health_limit()) {
            return upstream.breaker.judge::<()>(permit, &Err(Error::TimedOut { after: lasted }));
        }
        if is_hint && upstream.needs_health_check() {
            upstream.liveness.request_check();
        }
        upstream.breaker.forget(permit);
    }

    fn forgotten(&self, permit: Option<Permit>) {
        if let Some(permit) = permit {
            self.upstream.breaker.forget(permit);
        }
    }

    /// Returns the connection, and no longer counts the attempt as running. Whether it was one of a client.
    fn leave(&mut self) -> bool {
        self.connection = None;
        let round = self.round.take();
        if let Some(round) = round {
            self.upstream.liveness.ended(round);
        }
        round.is_some()
    }
}

impl ResponseGuard for InflightGuard {
    fn finish(mut self: Box<Self>, result: &Result<(), Error>) {
        if self.had_enough_time || !matches!(result, Err(Error::TimedOut { .. })) {
            self.record_response(Some(result.as_ref().is_err_and(Error::trips_breaker)), false);
            self.record(result);
        } else {
            self.forget();
        }
        self.upstream.attempted(result.as_ref().err());
        self.upstream.stats.called(result);
    }

    fn server(&self) -> Arc<str> {
        Arc::clone(&self.upstream.config.name)
    }

    fn redact_error(&self, error: Error) -> Error {
        self.upstream.redacted_error(self.forwarded.as_ref(), error)
    }
}

impl Drop for InflightGuard {
    fn drop(&mut self) {
        self.abandon();
        self.upstream.bulkhead.free(self.lane, self.slot);
    }
}

impl Upstream {
    /// The time that an attempt must have before silence counts against the server. A tenth less than a call gets
    /// from the configuration, because some of that is gone when an attempt begins.
    fn min_time(&self) -> Duration {
        self.config.timeout.min(MAX_SILENCE) * 9 / 10
    }

    /// Records that an attempt of any kind ended.
    pub(super) fn attempted(&self, error: Option<&Error>) {
        if self.stats.attempted(error) {
            self.liveness.broken();
        }
    }

    /// Whether nothing was heard of the server for a while, and no check of it is under way.
    pub(super) fn needs_health_check(&self) -> bool {
        let heard = self.stats.seen_ago();
        self.liveness.open_for().is_none() && heard.is_none_or(|ago| ago >= self.min_time())
    }
}
