//! A response that is streamed while it arrives: the parts of its result in order.
//!
//! A [`ResponseStream`] owns everything that lives as long as the response: its connection, the slot of the
//! call, and the permit of the breaker. Invariants:
//!
//! - The parts together are the whole result, or the stream ends with an error. A response that exceeds the
//!   message limit ends with an error and is never shortened.
//! - A response is cut if the server sends nothing for its `timeout`, or has not finished at the deadline.
//! - The result of the attempt is recorded once, at the end. A dropped stream records nothing about its
//!   server and closes its connection.
//! - A stream is never retried, because a client may have read a part of it.
//!
//! The deadline limits the server only. Time in which the reader requests nothing does not count. A reader
//! may pause for [`READER_LIMIT`] in total, because meanwhile it occupies a slot that others need.
//!
//! Does not decide which responses are streamed (`transport::streamable_http`, `gateway::bridge`).

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::call_events::Moves;
use super::error::Error;
use json::envelope_stream::{self, EnvelopeEdit};
use json::{Fault, Raw};
use protocol::Reply;
use runtime::memory::{self, Account, Charge, ChargeKind, SMALL};
use runtime::telemetry::pace::FAILURES;
use runtime::telemetry::{RequestId, untrusted};
use runtime::worker::WorkBudget;

/// Longest total time for which a reader may pause a stream.
const READER_LIMIT: Duration = Duration::from_mins(2);

/// The response of a server, from its transport to the socket of the client.
#[derive(Debug)]
pub enum ResponseBody {
    /// The whole reply.
    Buffered(Reply),
    /// A result that is still arriving. Only a call with `terms` gets one.
    Streaming(Box<ResponseStream>),
}

impl ResponseBody {
    /// Returns the reply if it has arrived completely.
    pub const fn as_buffered(&self) -> Option<&Reply> {
        match self {
            Self::Buffered(reply) => Some(reply),
            Self::Streaming(_) => None,
        }
    }

    /// Charges a large buffered reply to `principal`, until its last clone is dropped.
    pub fn charged(self, principal: Option<&Arc<str>>) -> Result<Self, Error> {
        let hold = |bytes| memory::hold(bytes, || Account::of(principal), ChargeKind::Answer);
        Ok(match self {
            Self::Buffered(Ok(result)) if result.bytes().len() >= SMALL => {
                Self::Buffered(Ok(result.try_map_bytes(hold)?))
            }
            Self::Buffered(Err(error)) if error.raw().bytes().len() >= SMALL => {
                Self::Buffered(Err(error.try_map_bytes(hold)?))
            }
            small_or_flowing => small_or_flowing,
        })
    }

    /// Returns the whole reply. Waits for the rest of a stream.
    pub async fn collect(self) -> Result<Reply, Error> {
        match self {
            Self::Buffered(reply) => Ok(reply),
            Self::Streaming(stream) => stream.collect().await.map(Ok),
        }
    }
}

/// The body that provides the rest of a response.
pub(super) type Source = Box<dyn Body<Data = Bytes, Error = Error> + Send + Unpin>;

/// The slot, permit and connection that a call holds until the end of its response.
pub(super) trait ResponseGuard: Send + Sync {
    /// The name of the server.
    fn server(&self) -> Arc<str>;

    /// The error without the secrets of the server.
    fn redact_error(&self, error: Error) -> Error;

    /// Records the end of the response.
    fn finish(self: Box<Self>, result: &Result<(), Error>);
}

/// A result that is arriving.
pub struct ResponseStream {
    /// Parts that arrived before the reader requested them.
    first_parts: VecDeque<Bytes>,
    /// None after the end, or after the stream was cut.
    source: Option<Source>,
    edit: EnvelopeEdit,
    /// Longest message in bytes, and how many bytes may still arrive.
    limit: usize,
    left: usize,
    clock: Clock,
    /// Remaining pause time of the reader, and when it got the last part.
    silence_limits: Duration,
    given: Option<Instant>,
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    guard: Option<Box<dyn ResponseGuard>>,
    /// A further guard of the call, which is dropped at the end of its response.
    #[allow(dead_code)] // held for its drop
    held: Option<Box<dyn Send + Sync>>,
    named: Option<RequestId>,
    work: WorkBudget,
    /// The payer if the stream is collected.
    account: Account,
}

impl ResponseStream {
    /// Streams the rest of a response from `source`, at most `left` bytes of it. `first_parts` has the parts that
    /// `edit` has already returned. A message has at most `limit` bytes.
    pub(super) fn new(
        source: Source,
        edit: EnvelopeEdit,
        mut first_parts: VecDeque<Bytes>,
        room: (usize, usize),
    ) -> Self {
        let (left, limit) = room;
        first_parts.retain(|part| !part.is_empty());
        Self {
            first_parts,
            source: Some(source),
            edit,
            limit,
            left,
            clock: Clock::of(READER_LIMIT),
            silence_limits: READER_LIMIT,
            given: Some(Instant::now()),
            closing: None,
            guard: None,
            held: None,
            named: None,
            work: WorkBudget::new(),
            account: Account::Nobody,
        }
    }

    /// Sets the payer for the case that the stream is collected.
    pub(super) fn paid_by(self, account: Account) -> Self {
        Self { account, ..self }
    }

    /// Cuts the stream when `closing` is cancelled.
    pub(super) fn cut_by(&mut self, closing: CancellationToken) {
        self.closing = Some(Box::pin(closing.cancelled_owned()));
    }

    /// Keeps the guard of the call. The server has the time `left`. Each part that arrives `moves` its deadline.
    pub(super) fn follow(&mut self, guard: Box<dyn ResponseGuard>, left: Duration, moves: Option<Moves>) {
        (self.guard, self.clock) = (Some(guard), Clock { moves, ..Clock::of(left) });
    }

    /// Keeps `held` until the end of the response.
    pub fn hold(&mut self, held: impl Send + Sync + 'static) {
        self.held = Some(Box::new(held));
    }

    /// Sets the id of the client's request, which the log names if the stream is cut.
    pub const fn answers(&mut self, id: Option<RequestId>) {
        self.named = id;
    }

    /// Returns the server of the response.
    pub fn server(&self) -> Option<Arc<str>> {
        self.guard.as_ref().map(|guard| guard.server())
    }

    /// Returns the next part of the result, or none after the last one. After an error nothing follows.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.is_forgotten() {
            let error = Error::Cut { reason: "its reader took too long".into() };
            // This is not the server's fault, so nothing is recorded.
            if let Some(guard) = self.guard.take() {
                report(&*guard, self.named, &error);
            }
            return self.cut(error);
        }
        let part = match self.first_parts.pop_front() {
            Some(part) => part,
            None => match ready!(self.poll_rest(cx)) {
                Some(Ok(part)) => part,
                Some(Err(error)) => return self.cut(error),
                None => return Poll::Ready(None),
            },
        };
        self.given = Some(Instant::now());
        Poll::Ready(Some(Ok(part)))
    }

    /// Returns the whole result and its ending, if it arrived in one piece, is valid, and no part of it was
    /// returned. This ends the stream.
    pub fn arrived(&mut self) -> Option<(Bytes, Bytes)> {
        let is_here = self.first_parts.len() == 1 && self.source.as_ref()?.is_end_stream();
        // If the response is invalid, the next read returns the error.
        let ending = self.edit.finish().ok().filter(|_| is_here)?;
        let result = self.first_parts.pop_front()?;
        self.end(&Ok(()));
        Some((result, ending))
    }

    /// Returns the whole result. Its attempt is recorded at the end, as for a buffered response.
    pub async fn collect(mut self) -> Result<Raw, Error> {
        self.silence_limits = Duration::MAX;
        let guard = self.guard.take();
        let result = self.collected().await;
        let Some(guard) = guard else { return result };
        let result = result.map_err(|error| guard.redact_error(error));
        if let Err(error) = &result {
            report(&*guard, self.named, error);
        }
        guard.finish(&result.as_ref().map(|_| ()).map_err(Clone::clone));
        result
    }

    async fn collected(&mut self) -> Result<Raw, Error> {
        let mut whole = BytesMut::new();
        let mut charge = Charge::open(self.account.clone(), ChargeKind::Answer);
        while let Some(part) = poll_fn(|cx| self.poll_part(cx)).await {
            let part = part?;
            charge.cover(whole.len() + part.len())?;
            whole.extend_from_slice(&part);
        }
        let whole = charge.hold(whole.freeze())?;
        Raw::parse(&whole).map_err(|error| unreadable(&Fault::of(&whole, &error)))
    }

    /// Whether the reader has used up its pause time.
    fn is_forgotten(&mut self) -> bool {
        let Some(given) = self.given.take().filter(|_| self.source.is_some()) else { return false };
        self.silence_limits = self.silence_limits.saturating_sub(given.elapsed());
        self.silence_limits.is_zero()
    }

    fn cut(&mut self, error: Error) -> Poll<Option<Result<Bytes, Error>>> {
        self.first_parts.clear();
        self.end(&Err(error.clone()));
        Poll::Ready(Some(Err(error)))
    }

    /// Returns the next part that has not arrived yet.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        while self.source.is_some() {
            ready!(self.work.poll_yield(cx));
            let part = ready!(self.poll_arrived(cx)).and_then(|piece| self.taken(piece));
            if part.as_ref().is_ok_and(Bytes::is_empty) {
                continue;
            }
            return Poll::Ready(Some(part));
        }
        Poll::Ready(None)
    }

    /// Returns the part of the result in `piece`, or the ending if there is no piece.
    fn taken(&mut self, piece: Option<Bytes>) -> Result<Bytes, Error> {
        let Some(piece) = piece else {
            let ending = self.edit.finish().map_err(malformed)?;
            self.end(&Ok(()));
            return Ok(ending);
        };
        self.work.charge(piece.len());
        self.left = self.left.checked_sub(piece.len()).ok_or(Error::TooLarge { limit: self.limit })?;
        self.edit.take(&piece).map_err(malformed)
    }

    /// Returns the next bytes, or none at the end.
    fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        let Some(source) = &mut self.source else { return Poll::Ready(Ok(None)) };
        loop {
            let Poll::Ready(frame) = Pin::new(&mut *source).poll_frame(cx) else { break };
            self.clock.arrived();
            let Some(frame) = frame.transpose()? else { return Poll::Ready(Ok(None)) };
            // Trailers are ignored.
            if let Ok(piece) = frame.into_data() {
                return Poll::Ready(Ok(Some(piece)));
            }
        }
        if self.closing.as_mut().is_some_and(|closing| closing.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Err(Error::Cut { reason: "the connection was closed".into() }));
        }
        self.clock.poll_expired(cx).map(Err)
    }

    fn end(&mut self, result: &Result<(), Error>) {
        (self.source, self.held) = (None, None);
        if let Some(guard) = self.guard.take() {
            if let Err(error) = result {
                report(&*guard, self.named, error);
            }
            guard.finish(result);
        }
    }
}

/// Logs a response that was cut after its start. The client has already received a successful status.
fn report(guard: &dyn ResponseGuard, named: Option<RequestId>, error: &Error) {
    let (request_id, error) = (named.map(tracing::field::display), error.to_string());
    let (server, detail) = (guard.server(), untrusted(&error));
    let server = &*server;
    if let Some(suppressed) = FAILURES.admit() {
        let suppressed = (suppressed > 0).then_some(suppressed);
        tracing::warn!(request_id, server, %detail, suppressed, "an answer was cut while it was passed on");
    }
}

fn malformed(error: envelope_stream::Error) -> Error {
    Error::Unreadable { reason: error.to_string(), advice: None }
}

fn unreadable(fault: &Fault) -> Error {
    Error::Unreadable { reason: fault.to_string(), advice: Some(fault.advice()) }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResponseStream(ended: {})", self.source.is_none())
    }
}

/// The time that a server has left. It runs only while Switchyard waits for the server.
struct Clock {
    whole: Duration,
    left: Duration,
    /// If none, the whole response has to arrive in that time.
    moves: Option<Moves>,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Clock {
    const fn of(left: Duration) -> Self {
        Self { whole: left, left, moves: None, waiting: None }
    }

    fn arrived(&mut self) {
        if let Some((since, _)) = self.waiting.take() {
            let now = Instant::now();
            self.left = self.left.saturating_sub(now.saturating_duration_since(since));
            if let Some(Moves { idle, last }) = self.moves {
                self.left = self.left.max(idle.min(last.saturating_duration_since(now)));
                self.whole = self.left;
            }
        }
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let left = self.left;
        let (_, alarm) = self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Error::TimedOut { after: self.whole })
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
#[cfg(test)]
#[path = "response_stream_tests.rs"]
mod tests;
