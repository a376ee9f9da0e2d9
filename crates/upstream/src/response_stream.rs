//! A response that is passed on while it arrives: the parts of its result, one after the other.
//!
//! A [`ResponseStream`] owns everything that lives as long as the response: its connection, the slot of the call, and
//! the permit of the breaker. Invariants: the parts together are the whole result, or the stream ends with an error. A
//! response larger than one message may be is cut, never shortened. A server that sends nothing for its `timeout`, or
//! is not done at the last moment of the call, is cut. The result of the attempt is recorded once, at the end. A stream
//! that is dropped says nothing of its server and closes its connection. It is never retried, because a client may have
//! read a part of it.
//!
//! The deadline limits the server only: the time in which the reader does not ask for more does not count. A
//! reader may let it wait for [`READER_LIMIT`] in all, because meanwhile it holds a slot that others need.
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

use super::deadline::Moves;
use super::error::Error;
use crate::inflight_guard::InflightGuard;
use json::Raw;
use json::envelope_stream::{self, Splice};
use protocol::Reply;
use runtime::memory::{self, Account, Charge, Kind, SMALL};
use runtime::telemetry::pace::FAILURES;
use runtime::telemetry::{RequestId, untrusted};
use runtime::worker::WorkBudget;

/// How long the reader of a flow may let it wait, all together.
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
    /// The reply, if it has arrived completely.
    pub const fn as_buffered(&self) -> Option<&Reply> {
        match self {
            Self::Buffered(reply) => Some(reply),
            Self::Streaming(_) => None,
        }
    }

    /// Charges a large one that is whole to `principal`, for as long as anything of it lives.
    pub(super) fn charged(self, principal: Option<&Arc<str>>) -> Result<Self, Error> {
        let hold = |bytes| memory::hold(bytes, || Account::of(principal), Kind::Answer);
        Ok(match self {
            Self::Buffered(Ok(result)) if result.bytes().len() >= SMALL => {
                Self::Buffered(Ok(result.kept(hold)?))
            }
            Self::Buffered(Err(error)) if error.raw().bytes().len() >= SMALL => {
                Self::Buffered(Err(error.kept(hold)?))
            }
            small_or_flowing => small_or_flowing,
        })
    }

    /// The whole reply. Waits for the rest of one that is still arriving.
    pub async fn collect(self) -> Result<Reply, Error> {
        match self {
            Self::Buffered(reply) => Ok(reply),
            Self::Streaming(stream) => stream.collect().await.map(Ok),
        }
    }
}

/// Where the rest of an answer comes from.
pub(super) type Source = Box<dyn Body<Data = Bytes, Error = Error> + Send + Unpin>;

/// A result that is arriving.
pub struct ResponseStream {
    /// Parts that came before anybody asked for them.
    begun: VecDeque<Bytes>,
    /// None when the end was reached, or the flow was cut.
    source: Option<Source>,
    splice: Splice,
    /// Bytes of one message, and how many of them may still come.
    limit: usize,
    left: usize,
    clock: Clock,
    /// What the reader has left of its time, and since when it has what was given last.
    patience: Duration,
    given: Option<Instant>,
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    guard: Option<InflightGuard>,
    named: Option<RequestId>,
    work: WorkBudget,
    /// The payer when it is collected.
    account: Account,
}

impl ResponseStream {
    /// The rest of an answer comes out of `source`, at most `left` bytes of it; `begun` are the parts
    /// that `splice` has taken already. A message has at most `limit` bytes.
    pub(super) fn new(
        source: Source,
        splice: Splice,
        mut begun: VecDeque<Bytes>,
        room: (usize, usize),
    ) -> Self {
        let (left, limit) = room;
        begun.retain(|part| !part.is_empty());
        Self {
            begun,
            source: Some(source),
            splice,
            limit,
            left,
            clock: Clock::of(READER_LIMIT),
            patience: READER_LIMIT,
            given: Some(Instant::now()),
            closing: None,
            guard: None,
            named: None,
            work: WorkBudget::new(),
            account: Account::Nobody,
        }
    }

    /// Has `account` pay when it is collected.
    pub(super) fn paid_by(self, account: Account) -> Self {
        Self { account, ..self }
    }

    /// Cuts it when `closing` is cancelled.
    pub(super) fn cut_by(&mut self, closing: CancellationToken) {
        self.closing = Some(Box::pin(closing.cancelled_owned()));
    }

    /// Keeps what its call holds, and gives the server `left` of time, which each part that arrives `moves`.
    pub(super) fn follow(&mut self, guard: InflightGuard, left: Duration, moves: Option<Moves>) {
        (self.guard, self.clock) = (Some(guard), Clock { moves, ..Clock::of(left) });
    }

    /// It is the answer to the request `id` of a client, which the log names if it is cut.
    pub const fn answers(&mut self, id: Option<RequestId>) {
        self.named = id;
    }

    /// The server that it comes from.
    pub fn server(&self) -> Option<Arc<str>> {
        self.guard.as_ref().map(InflightGuard::server)
    }

    /// The next part of the result; none behind the last one. After an error there is nothing more.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.is_forgotten() {
            let error = Error::Cut { reason: "its reader took too long".into() };
            // Not the server's fault: nothing is recorded.
            if let Some(guard) = self.guard.take() {
                told(&guard, self.named, &error);
            }
            return self.cut(error);
        }
        let part = match self.begun.pop_front() {
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

    /// All of the result, and what closes it, if it has come in one piece, is right, and nobody was given
    /// anything of it; then this is its end.
    pub fn arrived(&mut self) -> Option<(Bytes, Bytes)> {
        let is_here = self.begun.len() == 1 && self.source.as_ref()?.is_end_stream();
        // What is wrong is told to whoever goes on reading.
        let ending = self.splice.finish().ok().filter(|_| is_here)?;
        let result = self.begun.pop_front()?;
        self.end(&Ok(()));
        Some((result, ending))
    }

    /// The whole result. Its attempt is recorded at the end, like that of a response that was buffered.
    pub async fn collect(mut self) -> Result<Raw, Error> {
        self.patience = Duration::MAX;
        let guard = self.guard.take();
        let result = self.collected().await;
        let Some(guard) = guard else { return result };
        let result = result.map_err(|error| guard.cover(error));
        if let Err(error) = &result {
            told(&guard, self.named, error);
        }
        guard.finish(&result.as_ref().map(|_| ()).map_err(Clone::clone));
        result
    }

    async fn collected(&mut self) -> Result<Raw, Error> {
        let mut whole = BytesMut::new();
        let mut charge = Charge::open(self.account.clone(), Kind::Answer);
        while let Some(part) = poll_fn(|cx| self.poll_part(cx)).await {
            let part = part?;
            charge.cover(whole.len() + part.len())?;
            whole.extend_from_slice(&part);
        }
        Raw::parse(&charge.hold(whole.freeze())?)
            .map_err(|error| Error::Malformed { reason: error.to_string() })
    }

    /// Whether its reader has used up its time.
    fn is_forgotten(&mut self) -> bool {
        let Some(given) = self.given.take().filter(|_| self.source.is_some()) else { return false };
        self.patience = self.patience.saturating_sub(given.elapsed());
        self.patience.is_zero()
    }

    fn cut(&mut self, error: Error) -> Poll<Option<Result<Bytes, Error>>> {
        self.begun.clear();
        self.end(&Err(error.clone()));
        Poll::Ready(Some(Err(error)))
    }

    /// The next part that has not come yet.
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

    /// The part of the result in what has arrived; at the end what closes it.
    fn taken(&mut self, piece: Option<Bytes>) -> Result<Bytes, Error> {
        let Some(piece) = piece else {
            let ending = self.splice.finish().map_err(malformed)?;
            self.end(&Ok(()));
            return Ok(ending);
        };
        self.work.charge(piece.len());
        self.left = self.left.checked_sub(piece.len()).ok_or(Error::TooLarge { limit: self.limit })?;
        self.splice.take(&piece).map_err(malformed)
    }

    /// What arrives next; none at the end.
    fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        let Some(source) = &mut self.source else { return Poll::Ready(Ok(None)) };
        loop {
            let Poll::Ready(frame) = Pin::new(&mut *source).poll_frame(cx) else { break };
            self.clock.arrived();
            let Some(frame) = frame.transpose()? else { return Poll::Ready(Ok(None)) };
            // Trailers say nothing to us.
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
        self.source = None;
        if let Some(guard) = self.guard.take() {
            if let Err(error) = result {
                told(&guard, self.named, error);
            }
            guard.finish(result);
        }
    }
}

/// The line of a call whose answer had begun: who made the request has been told that it went well.
fn told(guard: &InflightGuard, named: Option<RequestId>, error: &Error) {
    let (request_id, error) = (named.map(tracing::field::display), error.to_string());
    let (server, detail) = (guard.server(), untrusted(&error));
    let server = &*server;
    if let Some(suppressed) = FAILURES.admit() {
        let suppressed = (suppressed > 0).then_some(suppressed);
        tracing::warn!(request_id, server, %detail, suppressed, "an answer was cut while it was passed on");
    }
}

fn malformed(error: envelope_stream::Error) -> Error {
    match error {
        envelope_stream::Error::Cut => Error::Cut { reason: "it ended too early".into() },
        error => Error::Malformed { reason: error.to_string() },
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResponseStream(ended: {})", self.source.is_none())
    }
}

/// The time that a server has; it runs while the server is waited for.
struct Clock {
    whole: Duration,
    left: Duration,
    /// None: all of the answer has to arrive in that time.
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
