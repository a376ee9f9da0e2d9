//! The layers that every request to a server passes, in this order:
//!
//! 1. [`AdmissionLayer`]: a slot of the bulkhead.
//! 2. [`RetryLayer`]: further attempts.
//! 3. [`SessionLayer`]: a new session at a server that forgot it.
//! 4. [`AttemptLayer`]: a permit of the breaker.
//! 5. [`ConnectionLayer`]: a connection of the pool.
//!
//! Invariants: every attempt (call, list, health check) is made here, so the breaker counts all of them. The deadline is
//! enforced while the permit is held, so a missing answer counts against the server. It does not count if the caller left
//! too little time to judge the server (`inflight_guard`). Dropping the future frees slot, permit and connection, and
//! cancels the request.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, sleep};
use tracing::Instrument;

use super::Upstream;
use super::bulkhead::{Lane, Slot};
use super::call_events::Deadline;
use super::connection::{Call, EventSender, ServerResponse};
use super::dialect::PoolRequest;
use super::error::{Delivery, Error, SessionRefusal};
use super::forwarded_headers::ForwardedHeaders;
use super::frame::Frame;
use super::inflight_guard::InflightGuard;
use super::pool::PooledConnection;
use super::request::Request;
use super::response_stream::ResponseBody;
use super::secrets::Secrets;
use protocol::Notification;
use runtime::worker::now;

type Response = Result<ServerResponse, Error>;

impl Upstream {
    /// Makes one call, with retries where they are safe. It ends by `deadline`, and messages of the server go
    /// to `event_sender`. A streamed response keeps everything that the call holds until the
    /// [`ResponseStream`](super::ResponseStream) is read to its end or dropped. Dropping the future cancels the call.
    pub async fn call(
        self: &Arc<Self>,
        call: &Call,
        deadline: impl Into<Deadline>,
        event_sender: &EventSender,
    ) -> Response {
        let deadline = deadline.into();
        if let Some(client) = self.has_to_answer(call) {
            // Boxed: it is large, and each client waits once.
            Box::pin(self.answer_first(&client, (call, event_sender), deadline)).await;
        }
        let result = self.run(&Request::call(call, event_sender), deadline).await;
        if !matches!(&result, Ok(response) if response.body.as_buffered().is_none()) {
            self.stats.called(&result);
        }
        result
    }

    /// Makes `request` through all layers.
    pub(super) async fn run(self: &Arc<Self>, request: &Request<'_>, deadline: Deadline) -> Response {
        self.check_caller(request, deadline.at).await?;
        let state = self.enter(request, deadline).await?;
        RetryLayer(self).call(request, deadline, state).await
    }

    /// Makes `request` once, for the supervisor, which has its own schedule of retries.
    pub(super) async fn run_once(self: &Arc<Self>, request: &Request<'_>, deadline: Instant) -> Response {
        self.check_caller(request, deadline).await?;
        let mut state = self.enter(request, deadline.into()).await?;
        SessionLayer(self).call(request, &mut state).instrument(self.span(request, 1)).await
    }

    /// Returns `error` of a request without secrets, and without the headers of its client.
    pub(super) fn redacted_error(&self, forwarded: Option<&ForwardedHeaders>, error: Error) -> Error {
        let error = self.secrets.redact_error(error);
        match forwarded {
            Some(headers) => Secrets::new(&headers.values()).redact_error(error),
            None => error,
        }
    }

    /// Fails if the client of `request` lacks a secret that the server needs of it.
    async fn check_caller(&self, request: &Request<'_>, deadline: Instant) -> Result<(), Error> {
        match &self.principal_secrets {
            // Boxed: few servers have them.
            Some(secrets) if matches!(request.connection, PoolRequest::Of(_)) => {
                Box::pin(self.check_principal_secrets(secrets, request.principal(), deadline)).await
            }
            _ => Ok(()),
        }
    }

    async fn enter(
        self: &Arc<Self>,
        request: &Request<'_>,
        deadline: Deadline,
    ) -> Result<RequestState, Error> {
        let (frame, slot) = AdmissionLayer(self).call(request.lane, request.principal(), deadline).await?;
        let guard = InflightGuard::new(Arc::clone(self), request.lane, slot.keep(), frame.now);
        Ok(RequestState { frame, guard })
    }

    fn span(&self, request: &Request<'_>, number: u32) -> tracing::Span {
        tracing::debug_span!("attempt", server = %self.config.name, method = request.name, number)
    }
}

/// The time of a request, and all that it holds.
struct RequestState {
    frame: Frame,
    guard: InflightGuard,
}

/// Refuses what would be refused later, and takes a slot.
pub(super) struct AdmissionLayer<'a>(pub(super) &'a Upstream);

impl<'a> AdmissionLayer<'a> {
    pub(super) async fn call(
        &self,
        lane: Lane,
        principal: Option<&Arc<str>>,
        deadline: Deadline,
    ) -> Result<(Frame, Slot<'a>), Error> {
        let Upstream { pool, breaker, bulkhead, .. } = self.0;
        pool.check_open()?;
        if let Some(retry_in) = breaker.refuses_for(principal) {
            return Err(Error::CircuitOpen { retry_in });
        }
        let mut frame = Frame::until(deadline);
        let slot = bulkhead.enter(lane, principal, &mut frame, || pool.end_unanswered()).await?;
        Ok((frame, slot))
    }
}

/// Tries again where the table of `retry` allows it. A response that is still arriving keeps what the request holds.
struct RetryLayer<'a>(&'a Upstream);

impl RetryLayer<'_> {
    async fn call(&self, request: &Request<'_>, deadline: Deadline, mut state: RequestState) -> Response {
        let upstream = self.0;
        let mut attempts = upstream.retries.begin(request.safety);
        let mut failed = None;
        loop {
            let started = state.frame.now;
            let span = upstream.span(request, attempts.number());
            let attempted = SessionLayer(upstream).call(request, &mut state).instrument(span).await;
            if let PoolRequest::Of(call) = request.connection {
                call.attempts.record(started, attempted.as_ref().err());
            }
            let frame = &mut state.frame;
            let error = match attempted {
                Ok(mut response) => {
                    if let ResponseBody::Streaming(stream) = &mut response.body {
                        frame.deadline.at = request.events.moved(frame.deadline);
                        let (left, moves) = (frame.left(), frame.deadline.moves);
                        stream.follow(Box::new(state.guard), left, moves);
                    }
                    return Ok(response);
                }
                // A further attempt would fail in the same way.
                Err(error) if error.refuses_credentials() => return Err(error),
                // The refusal of a retry says less than the failure before it.
                Err(error) if error.delivery() == Delivery::Refused => return Err(failed.unwrap_or(error)),
                // The program says why it does not start, and would say the same again.
                Err(error @ Error::Connect { .. }) if upstream.starts_on_demand() => return Err(error),
                Err(error) => error,
            };
            frame.deadline.at = request.events.moved(deadline);
            let refused_for = upstream.breaker.refuses_for(request.principal());
            let Some(pause) = attempts.pause_after(&error, frame.deadline.at, refused_for) else {
                return Err(error);
            };
            tracing::debug!(server = %upstream.config.name, %error, ?pause, "trying again");
            upstream.stats.retried();
            failed = Some(error);
            sleep(pause).await;
            frame.now = now();
        }
    }
}

/// Makes one more attempt on a new session if the server had forgotten the session, because nothing ran then.
struct SessionLayer<'a>(&'a Upstream);

impl SessionLayer<'_> {
    async fn call(&self, request: &Request<'_>, state: &mut RequestState) -> Response {
        let attempted = AttemptLayer(self.0).call(request, state).await;
        if !matches!(attempted, Err(Error::SessionEnded(_))) {
            return attempted;
        }
        tracing::debug!(server = %self.0.config.name, "the server forgot the session; another one is opened");
        self.0.pool.evict_lost();
        state.frame.now = now();
        // Boxed: it is large, and rarely needed.
        let refusal = match Box::pin(AttemptLayer(self.0).call(request, state)).await {
            Err(Error::SessionEnded(refusal)) => refusal,
            attempted => return attempted,
        };
        // A new session did not help, so this is the answer.
        let SessionRefusal { error, bare, version } = *refusal;
        let error = error.filter(|_| request.is_a_call()).ok_or(bare)?;
        Ok(ServerResponse { body: ResponseBody::Buffered(Err(error)), version })
    }
}

/// Makes one attempt with a permit of the breaker, and records what it says of the server.
struct AttemptLayer<'a>(&'a Upstream);

impl AttemptLayer<'_> {
    async fn call(&self, request: &Request<'_>, state: &mut RequestState) -> Response {
        let upstream = self.0;
        let started = state.frame.now;
        // A call that is refused here says nothing about the server.
        if let Some(rate) = upstream.rate.as_ref().filter(|_| request.is_a_call()) {
            rate.take(request.principal(), started)?;
        }
        // This precedes the permit, because a pause before connecting says nothing new about the server.
        upstream.pool.check_flapping(request.connection)?;
        state.guard.begin(request, state.frame)?;
        let ended = ConnectionLayer(upstream).call(request, state).await;
        let guard = &mut state.guard;
        let was_cut_short = ended.is_err() && !guard.had_enough_time();
        let result =
            ended.unwrap_or_else(Err).map_err(|error| upstream.redacted_error(request.forwarded(), error));
        if matches!(&result, Ok(response) if response.body.as_buffered().is_none()) {
            upstream.liveness.broken();
            guard.stream(request);
            return result;
        }
        // Callers choose deadlines. With short ones any client could otherwise open the breaker for all.
        if was_cut_short {
            guard.abandon();
        } else if matches!(result, Err(Error::SessionEnded(_)))
            || matches!(result, Err(Error::TimedOut { .. }))
                && (request.is_excused(upstream) || request.events.heard_since(started))
        {
            guard.forget();
            return result;
        } else {
            guard.record(&result);
        }
        upstream.attempted(result.as_ref().err());
        // A refused credential that is that of one principal only leaves the server to the others.
        if let Err(refusal) = &result
            && refusal.refuses_credentials()
            && !upstream.config.is_per_principal()
        {
            upstream.pool.refuse(refusal);
        }
        result
    }
}

/// Makes the request on a connection of the pool, by its deadline.
struct ConnectionLayer<'a>(&'a Upstream);

impl ConnectionLayer<'_> {
    /// The outer error means that the deadline passed.
    async fn call(&self, request: &Request<'_>, state: &mut RequestState) -> Result<Response, Error> {
        let RequestState { frame, guard } = state;
        let (started, events) = (frame.now, request.events);
        let connection = self.connection(request, frame).await;
        if !matches!(connection, Ok(Ok(_))) && self.0.pool.is_private_matter(request.connection) {
            // A private connection that cannot be opened must not block other clients.
            guard.excuse();
        }
        let connection = match connection? {
            Ok(connection) => connection,
            Err(error) => return Ok(Err(error)),
        };
        let (is_probe, pooled) = (guard.is_probe(), guard.hold(connection));
        let version = pooled.connection().peer().version;
        let mut done = {
            let done = pin!(async {
                if let Some(level) = request.log_level() {
                    pooled.want_log(level).await;
                }
                match request.send(self.0, pooled.connection()).await? {
                    // Other calls wait for the result of a probe. Boxed: it is large, and most calls are no probes.
                    ResponseBody::Streaming(stream) if is_probe => {
                        Box::pin(stream.collect()).await.map(|result| ResponseBody::Buffered(Ok(result)))
                    }
                    body => body.charged(request.principal()),
                }
            });
            frame.limit(events, done).await
        };
        let is_failed = match &mut done {
            // The outcome of a response that is still arriving is known at its end.
            Some(Ok(body)) => body.as_buffered().map(|_| false),
            Some(Err(error)) => Some(error.trips_breaker()),
            // A deadline that left too little time says nothing. Neither does one that passed although
            // messages came.
            None => (guard.had_enough_time() && !events.heard_since(started)).then_some(true),
        };
        guard.record_response(is_failed, done.is_some());
        let done = done.ok_or_else(|| Error::TimedOut { after: frame.whole(events) })?;
        Ok(done.map(|body| ServerResponse { body, version }))
    }

    /// Returns a connection for `request`. The outer error means that the deadline passed.
    async fn connection(
        &self,
        request: &Request<'_>,
        frame: &mut Frame,
    ) -> Result<Result<PooledConnection, Error>, Error> {
        let pooled = pin!(async {
            tokio::select! {
                biased;
                pooled = self.0.pool.acquire(request.connection) => pooled,
                // Boxed: it is rarely needed.
                never = async { Box::pin(self.0.report_start(request.events)).await } => match never {},
            }
        });
        frame.limit(request.events, pooled).await.ok_or_else(|| {
            let reason = format!("no connection within {:.1} s", frame.whole(request.events).as_secs_f64());
            // This is not `TimedOut`, whose outcome is unknown. Nothing was sent.
            Error::Connect { reason }
        })
    }
}

// A notification of a client on its way to the server, on the connection that the calls of the client use.
//
// Invariants: it takes a slot and counts as a request, so a client that floods is limited like one that calls. It is
// never sent twice. Nothing answers it, so it says nothing about the health of the server.

impl Upstream {
    /// Sends `notification` on the connection that a call like `call` uses. Only legacy servers receive it.
    pub async fn notify(&self, call: &Call, notification: &Notification) -> Result<(), Error> {
        let (who, deadline) = (call.principal.as_ref(), Instant::now() + self.config.timeout);
        if let Some(secrets) = &self.principal_secrets {
            // A connection with a secret that changed ends first. Boxed: few servers have them.
            Box::pin(self.check_principal_secrets(secrets, who, deadline)).await?;
        }
        let (mut frame, _slot) =
            AdmissionLayer(self).call(Lane::of(&call.method), who, deadline.into()).await?;
        if let Some(rate) = &self.rate {
            rate.take(who, frame.now)?;
        }
        let event_sender = EventSender::none();
        let sent = pin!(async {
            let connection = self.pool.acquire(PoolRequest::Of(call)).await?;
            connection.connection().notify(notification).await;
            Ok(())
        });
        let late = Error::TimedOut { after: frame.whole(&event_sender) };
        frame.limit(&event_sender, sent).await.unwrap_or(Err(late))
    }
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
