//! The path of every request to a server: a slot of the bulkhead, then attempts, each with a permit of the breaker.
//!
//! Invariants: every attempt (call, list, health check) is made here, so the breaker counts all of them. The deadline is
//! enforced while the permit is held, so a missing answer counts against the server. It does not count if the caller left
//! too little time to judge the server (`inflight_guard`). Dropping the future frees slot, permit and connection, and
//! cancels the request.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use super::Upstream;
use super::bulkhead::{Lane, Slot};
use super::connection::{Call, Connection, EventSender, ServerResponse};
use super::deadline::Deadline;
use super::dialect::PoolRequest;
use super::error::{Delivery, Error, SessionRefusal};
use super::frame::Frame;
use super::retry::RetrySafety;
use crate::inflight_guard::InflightGuard;
use crate::pool::PooledConnection;
use crate::response_stream::{ResponseBody, ResponseStream};
use crate::work::Work;
use protocol::{ErrorObject, LogLevel, Version};
use runtime::worker::now;

/// A call, and the outlet for the messages of its server.
impl Work for (&Call, &EventSender) {
    type Output = ResponseBody;

    fn name(&self) -> &str {
        &self.0.method
    }

    fn kind(&self) -> RetrySafety {
        RetrySafety::of(self.0)
    }

    fn log_level(&self) -> Option<LogLevel> {
        self.0.sender.log_level
    }

    fn pool_request(&self) -> PoolRequest<'_> {
        PoolRequest::of(self.0)
    }

    fn is_a_call(&self) -> bool {
        true
    }

    fn principal(&self) -> Option<&Arc<str>> {
        self.0.principal.as_ref()
    }

    fn event_sender(&self) -> &EventSender {
        self.1
    }

    async fn received(&self, body: ResponseBody, is_probe: bool) -> Result<ResponseBody, Error> {
        match body {
            ResponseBody::Streaming(stream) if is_probe => {
                // Boxed: it is large, and most calls are no probes.
                Box::pin(stream.collect()).await.map(|result| ResponseBody::Buffered(Ok(result)))
            }
            body => body.charged(self.0.principal.as_ref()),
        }
    }

    fn stream(body: &mut ResponseBody) -> Option<&mut ResponseStream> {
        match body {
            ResponseBody::Buffered(_) => None,
            ResponseBody::Streaming(stream) => Some(stream),
        }
    }

    fn refused(error: ErrorObject) -> Option<ResponseBody> {
        Some(ResponseBody::Buffered(Err(error)))
    }

    fn on<'a>(&'a self, connection: &'a dyn Connection) -> BoxFuture<'a, Result<ResponseBody, Error>> {
        connection.request(self.0, self.1)
    }
}

impl Upstream {
    /// Makes one call, with retries where they are safe. It ends by `deadline`, and messages of the server go
    /// to `event_sender`. A streamed response keeps everything that the call holds until the [`ResponseStream`] is
    /// read to its end or dropped. Dropping the future cancels the call.
    pub async fn call(
        self: &Arc<Self>,
        call: &Call,
        deadline: impl Into<Deadline>,
        event_sender: &EventSender,
    ) -> Result<ServerResponse, Error> {
        let deadline = deadline.into();
        if let Some(client) = self.has_to_answer(call) {
            // Boxed: it is large, and each client waits once.
            Box::pin(self.answer_first(&client, (call, event_sender), deadline)).await;
        }
        let result = self.run(&(call, event_sender), Lane::of(&call.method), deadline).await;
        if !matches!(result, Ok((ResponseBody::Streaming(_), _))) {
            self.stats.called(&result);
        }
        result.map(|(body, version)| ServerResponse { body, version })
    }

    /// Does `work` in its own time frame, trying again where the retry table allows it; what came of
    /// it, and the revision of the connection it was done on.
    pub(super) async fn run<W: Work>(
        self: &Arc<Self>,
        work: &W,
        lane: Lane,
        deadline: Deadline,
    ) -> Result<(W::Output, Version), Error> {
        let (mut frame, mut guard) = self.enter(lane, work.principal(), deadline).await?;
        let mut attempts = self.retries.begin(work.kind());
        let mut failed = None;
        loop {
            let span = tracing::debug_span!("attempt", server = %self.config.name, method = work.name(), number = attempts.number());
            let started = frame.now;
            let attempted = self.attempt_on_session(work, &mut frame, &mut guard).instrument(span).await;
            if let PoolRequest::Of(call) = work.pool_request() {
                call.attempts.record(started, attempted.as_ref().err());
            }
            let error = match attempted {
                Ok(mut output) => {
                    if let Some(stream) = W::stream(&mut output.0) {
                        frame.deadline.at = work.event_sender().moved(frame.deadline);
                        stream.follow(Box::new(guard), frame.left(), frame.deadline.moves);
                    }
                    return Ok(output);
                }
                // A further attempt would fail in the same way.
                Err(error) if error.refuses_credentials() => return Err(error),
                // The refusal of a retry says less than the failure before it.
                Err(error) if error.delivery() == Delivery::Refused => return Err(failed.unwrap_or(error)),
                // The program says why it does not start, and would say the same again.
                Err(error @ Error::Connect { .. }) if self.starts_on_demand() => return Err(error),
                Err(error) => error,
            };
            frame.deadline.at = work.event_sender().moved(deadline);
            let Some(pause) =
                attempts.pause_after(&error, frame.deadline.at, self.breaker.refuses_for(work.principal()))
            else {
                return Err(error);
            };
            tracing::debug!(server = %self.config.name, %error, ?pause, "trying again");
            self.stats.retried();
            failed = Some(error);
            sleep(pause).await;
            frame.now = now();
        }
    }

    /// Does `work` once, for the supervisor, which has its own schedule of retries.
    pub(super) async fn run_once<W: Work>(
        self: &Arc<Self>,
        work: &W,
        deadline: Instant,
    ) -> Result<W::Output, Error> {
        let (lane, who) = match work.pool_request() {
            PoolRequest::Own => (Lane::Own, None),
            PoolRequest::Of(call) => (Lane::ClientLists, call.principal.as_ref()),
        };
        let (mut frame, mut guard) = self.enter(lane, who, deadline.into()).await?;
        let span =
            tracing::debug_span!("attempt", server = %self.config.name, method = work.name(), number = 1);
        let attempted = self.attempt_on_session(work, &mut frame, &mut guard).instrument(span).await;
        attempted.map(|(output, _)| output)
    }

    /// Takes a slot, and keeps it in a guard.
    async fn enter(
        self: &Arc<Self>,
        lane: Lane,
        who: Option<&Arc<str>>,
        deadline: Deadline,
    ) -> Result<(Frame, InflightGuard), Error> {
        let (frame, slot) = self.slot(lane, who, deadline).await?;
        Ok((frame, InflightGuard::new(Arc::clone(self), lane, slot.keep(), frame.now)))
    }

    /// Takes a slot. A request that would be refused later is refused here, before it waits for one.
    pub(super) async fn slot(
        &self,
        lane: Lane,
        who: Option<&Arc<str>>,
        deadline: Deadline,
    ) -> Result<(Frame, Slot<'_>), Error> {
        self.pool.check_open()?;
        if let Some(retry_in) = self.breaker.refuses_for(who) {
            return Err(Error::CircuitOpen { retry_in });
        }
        let mut frame = Frame::until(deadline);
        let make_way = || self.pool.end_unanswered();
        let slot = self.bulkhead.enter(lane, who, &mut frame, make_way).await?;
        Ok((frame, slot))
    }

    /// Makes an attempt. If the server had forgotten the session, nothing ran, and one more is made on a new session.
    async fn attempt_on_session<W: Work>(
        &self,
        work: &W,
        frame: &mut Frame,
        guard: &mut InflightGuard,
    ) -> Result<(W::Output, Version), Error> {
        let attempted = self.attempt(work, frame, guard).await;
        if !matches!(attempted, Err(Error::SessionEnded(_))) {
            return attempted;
        }
        tracing::debug!(server = %self.config.name, "the server forgot the session; another one is opened");
        self.pool.evict_lost();
        frame.now = now();
        // Boxed: it is large, and rarely needed.
        let refusal = match Box::pin(self.attempt(work, frame, guard)).await {
            Err(Error::SessionEnded(refusal)) => refusal,
            attempted => return attempted,
        };
        // A new session did not help, so this is the answer.
        let SessionRefusal { error, bare, version } = *refusal;
        error.and_then(W::refused).map(|output| (output, version)).ok_or(bare)
    }

    async fn attempt<W: Work>(
        &self,
        work: &W,
        frame: &mut Frame,
        guard: &mut InflightGuard,
    ) -> Result<(W::Output, Version), Error> {
        let started = frame.now;
        // A call that is refused here says nothing about the server.
        if let Some(rate) = self.rate.as_ref().filter(|_| work.is_a_call()) {
            rate.take(work.principal(), started)?;
        }
        // This precedes the permit, because a pause before connecting says nothing new about the server.
        self.pool.check_flapping(work.pool_request())?;
        guard.begin(work.is_a_call(), work.principal(), (started, frame.left()))?;
        let ended = self.on_a_connection(work, frame, guard).await;
        let was_cut_short = ended.is_err() && !guard.had_enough_time();
        let mut result = ended.unwrap_or_else(Err).map_err(|error| self.secrets.redact_error(error));
        if result.as_mut().is_ok_and(|(output, _)| W::stream(output).is_some()) {
            self.liveness.broken();
            guard.stream();
            return result;
        }
        // Callers choose deadlines. With short ones any client could otherwise open the breaker for all.
        if was_cut_short {
            guard.abandon();
        } else if matches!(result, Err(Error::SessionEnded(_)))
            || matches!(result, Err(Error::TimedOut { .. }))
                && (work.is_excused() || work.event_sender().heard_since(started))
        {
            guard.forget();
            return result;
        } else {
            guard.record(&result);
        }
        self.attempted(result.as_ref().err());
        if let Some(refusal) = result.as_ref().err().filter(|error| error.refuses_credentials()) {
            self.credentials_refused(refusal);
        }
        result
    }

    /// Stops contacting the server, unless the credential is that of one principal only.
    fn credentials_refused(&self, refusal: &Error) {
        if !self.config.is_per_principal() {
            self.pool.refuse(refusal);
        }
    }

    /// One attempt of any kind ended.
    pub(super) fn attempted(&self, error: Option<&Error>) {
        if self.stats.attempted(error) {
            self.liveness.broken();
        }
    }

    /// Returns the result of the attempt. The outer error means that the deadline passed.
    async fn on_a_connection<W: Work>(
        &self,
        work: &W,
        frame: &mut Frame,
        guard: &mut InflightGuard,
    ) -> Result<Result<(W::Output, Version), Error>, Error> {
        let (started, event_sender) = (frame.now, work.event_sender());
        let connection = match self.connection_for(work, frame, guard).await? {
            Ok(connection) => connection,
            Err(error) => return Ok(Err(error)),
        };
        let (is_probe, pooled) = (guard.is_probe(), guard.hold(connection));
        let version = pooled.connection().peer().version;
        let mut done = {
            let done = pin!(async {
                if let Some(level) = work.log_level() {
                    pooled.want_log(level).await;
                }
                work.received(work.on(pooled.connection()).await?, is_probe).await
            });
            frame.limit(event_sender, done).await
        };
        let is_failed = match &mut done {
            // The outcome of a response that is still arriving is known at its end.
            Some(Ok(output)) => W::stream(output).is_none().then_some(false),
            Some(Err(error)) => Some(error.trips_breaker()),
            // A deadline that left too little time says nothing. Neither does one that passed although
            // messages came.
            None => (guard.had_enough_time() && !event_sender.heard_since(started)).then_some(true),
        };
        guard.record_response(is_failed, done.is_some());
        let done = done.ok_or_else(|| Error::TimedOut { after: frame.whole(event_sender) })?;
        Ok(done.map(|output| (output, version)))
    }

    /// Returns a connection for `work`. The outer error means that the deadline passed.
    async fn connection_for<W: Work>(
        &self,
        work: &W,
        frame: &mut Frame,
        guard: &mut InflightGuard,
    ) -> Result<Result<PooledConnection, Error>, Error> {
        let event_sender = work.event_sender();
        let pooled = pin!(async {
            tokio::select! {
                biased;
                pooled = self.pool.acquire(work.pool_request()) => pooled,
                // Boxed: it is rarely needed.
                never = async { Box::pin(self.report_start(event_sender)).await } => match never {},
            }
        });
        match frame.limit(event_sender, pooled).await {
            Some(Ok(connection)) => Ok(Ok(connection)),
            Some(Err(error)) => {
                self.excuse_private(work, guard);
                Ok(Err(error))
            }
            None => {
                self.excuse_private(work, guard);
                let reason = format!("no connection within {:.1} s", frame.whole(event_sender).as_secs_f64());
                // This is not `TimedOut`, whose outcome is unknown. Nothing was sent.
                Err(Error::Connect { reason })
            }
        }
    }

    /// A private connection that cannot be opened must not block other clients.
    fn excuse_private<W: Work>(&self, work: &W, guard: &mut InflightGuard) {
        if self.pool.is_private_matter(work.pool_request()) {
            guard.excuse();
        }
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
