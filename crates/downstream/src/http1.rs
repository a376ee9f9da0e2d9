//! One HTTP/1.1 connection of a client: its requests, its limits and their settings, its buffers and its end.
//!
//! Invariants: an idle connection has small buffers, whatever its last request was. An incomplete head is counted
//! against the sum of all (`activity`), and refused when that is full. A connection ends when one of its time
//! limits is over, or when a new connection claims its slot while it waits for its client (`socket_slots`). An idle
//! connection whose next request has arrived keeps its slot.
//!
//! Not here: accepting connections (`listener`), the clock of the limits (`activity`).

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::activity;
use super::activity::{Activity, IdleAction, Times};
use super::bodies::{AnswerBody, Arriving, WRITE_BUFFER};
use super::moving_socket::Watched;
use super::refusal::{AnswerFormat, Refusal};
use super::socket_slots::ClientSlot;
use super::tls::{Certified, ClientStream};
use crate::load_shed;
use runtime::shutdown::Shutdown;
use runtime::telemetry::{RequestId, limit};
use runtime::worker::{ConnectionWaker, due, turn};
use settings::settings;

/// The largest head of a request, in bytes; a larger one is answered 431. So is one of more than 100 headers,
/// which is the limit of hyper.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Bytes that are kept of a refused head: enough for its first line.
const LINE_BYTES: usize = 1_024;
/// How long connections continue after the end was requested, so that a request which has arrived
/// and was not yet read is answered.
const FINAL_CHECK_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection without a request continues then. Its client has just connected and is about to send one.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Answers incoming requests.
pub trait Site: Clone + Send + Sync + 'static {
    /// Answers one request. Dropping the future cancels it.
    fn answer(self, request: Request<Arriving>) -> impl Future<Output = Response> + Send + 'static;
}

impl Site for Router {
    fn answer(mut self, request: Request<Arriving>) -> impl Future<Output = Response> + Send + 'static {
        let answer = self.call(request.map(Body::new));
        async move {
            let Ok(response) = answer.await;
            response
        }
    }
}

/// Everything that a connection shares with its listener.
pub(super) struct ConnectionContext<S> {
    pub(super) live: Shutdown,
    pub(super) cut: CancellationToken,
    pub(super) site: S,
    pub(super) limits: Limits,
}

/// Why a connection ends.
enum CloseReason {
    /// Its client closed it, it failed, or the program ends.
    Over,
    /// One of its time limits is over, or a new connection gets its slot.
    Cut,
    /// There is no more room for its head, which is not complete.
    HeadsFull,
}

/// Serves one connection until its peer, a limit, the end of the program or a claim on its slot closes it.
pub(super) fn connection<S: Site>(
    (stream, certified): (ClientStream, Option<Certified>),
    slot: ClientSlot,
    context: ConnectionContext<S>,
) -> impl Future<Output = ()> + Send + use<S> {
    let waker = ConnectionWaker::new();
    slot.activity().opened(waker.waker().clone());
    if let Some(Certified(principal)) = &certified {
        // Without a share the slot is kept for nobody. Its requests are refused.
        let _ = slot.identified(principal, None);
    }
    let ConnectionContext { live, cut, site, limits } = context;
    let activity = slot.activity().clone();
    let limit = Limit::new(activity.clone(), limits);
    let service = service((site, certified), slot, limits.body_timeout);
    async move {
        let io = TokioIo::new(Watched::new(stream, activity.clone()));
        let connection = Some(protocol().serve_connection(io, service));
        let mut open = OpenConnection { connection, activity: activity.clone(), limit, is_ending: false };
        let mut end = pin!(async {
            live.requested().await;
            tokio::time::sleep(FINAL_CHECK_PAUSE).await;
            if activity.is_fresh() {
                tokio::time::sleep(FIRST_LOOK).await;
            }
        });
        let mut cut = pin!(cut.cancelled());
        let mut is_watched = false;
        let mut poll = |cx: &mut Context<'_>| {
            // Once they are watched, a look at a flag says whether it is worth asking again: a connection
            // is asked to end before it is cut.
            if !is_watched || live.is_begun() {
                is_watched = true;
                if cut.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(CloseReason::Over);
                }
                if !open.is_ending && end.as_mut().poll(cx).is_ready() {
                    open.end_soon();
                }
            }
            open.poll(&waker, cx)
        };
        let reason = poll_fn(|cx| turn(waker.waker(), || poll(cx))).await;
        open.close(reason).await;
    }
}

/// A connection of hyper, and what decides about its end.
struct OpenConnection<S: HttpService<Incoming>> {
    /// Absent only while it is replaced, and when it is closed.
    connection: Option<Connection<S>>,
    activity: Activity,
    limit: Limit,
    /// Whether it ends after the answers to the requests that have arrived.
    is_ending: bool,
}

impl<S> OpenConnection<S>
where
    S: HttpService<Incoming, ResBody = AnswerBody, Error = Infallible>,
{
    fn end_soon(&mut self) {
        self.is_ending = true;
        if let Some(connection) = &mut self.connection {
            Pin::new(connection).graceful_shutdown();
        }
    }

    fn poll(&mut self, waker: &ConnectionWaker, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(CloseReason::Over) };
        if let Poll::Ready(result) = Pin::new(connection).poll(&mut waker.register(cx)) {
            // An error on a connection concerns its client only.
            let _ = result.inspect_err(|error| tracing::debug!(%error, "a connection ended early"));
            return Poll::Ready(CloseReason::Over);
        }
        if let Some(reason) = self.rest(cx) {
            return Poll::Ready(reason);
        }
        ready!(self.limit.poll(cx));
        tracing::debug!("a peer was too slow and is closed");
        Poll::Ready(CloseReason::Cut)
    }

    /// Does what there is to do while the connection waits for its socket. Returns why it ends, if it does.
    fn rest(&mut self, cx: &mut Context<'_>) -> Option<CloseReason> {
        match self.activity.rest() {
            IdleAction::Wait => {}
            // It ends anyway.
            IdleAction::Renew | IdleAction::YieldIfIdle if self.is_ending => {}
            IdleAction::Renew => {
                self.connection = self.connection.take().map(renewed);
                // It is polled at once, or nothing would wake it.
                cx.waker().wake_by_ref();
            }
            IdleAction::YieldIfIdle => {
                let is_kept = self.activity.is_kept();
                self.connection = self.connection.take().and_then(|open| with_request(open, is_kept));
                if self.connection.is_none() {
                    return Some(CloseReason::Over);
                }
                self.activity.refuse_claim();
                cx.waker().wake_by_ref();
            }
            IdleAction::Yield => return Some(CloseReason::Cut),
            IdleAction::HeadsFull => return Some(limit::Limit::HeadsInSum.met(CloseReason::HeadsFull)),
        }
        None
    }

    /// Closes the connection, and answers a client whose head has no more room.
    async fn close(&mut self, reason: CloseReason) {
        let Some(connection) = self.connection.take() else { return };
        match (reason, self.activity.is_unread()) {
            // In the middle of another answer the refusal would be read as a part of that. Boxed: it is rare.
            (CloseReason::HeadsFull, false) => Box::pin(refuse_head(connection)).await,
            // Otherwise the kernel would keep what is not sent until it gives up, which takes minutes.
            (CloseReason::Cut, true) => connection.into_parts().io.into_inner().into_socket().reset(),
            _ => {}
        }
    }
}

/// A connection of hyper to a client.
type Connection<S> = http1::Connection<TokioIo<Watched<ClientStream>>, S>;

/// Returns an idle connection only if a part of its next request has arrived. To close it would lose the request. The
/// runtime may not have noticed yet, so the socket itself is asked. Bytes that were read already are the beginning of a
/// head that waits for its client. They save only a connection that is kept for a principal.
fn with_request<S>(connection: Connection<S>, is_kept: bool) -> Option<Connection<S>>
where
    S: HttpService<Incoming, ResBody = AnswerBody, Error = Infallible>,
{
    let parts = connection.into_parts();
    let has_arrived = is_kept && !parts.read_buf.is_empty() || parts.io.inner().socket().has_arrived();
    has_arrived.then(|| serve_again(parts))
}

/// A connection with small buffers in place of one that is idle: hyper keeps the largest buffer it ever needed, and
/// the map of the largest head. Only for connections where all was read and flushed.
fn renewed<S>(connection: Connection<S>) -> Connection<S>
where
    S: HttpService<Incoming, ResBody = AnswerBody, Error = Infallible>,
{
    serve_again(connection.into_parts())
}

/// A new connection with nothing but the socket and the unread bytes of an old one.
fn serve_again<S>(mut parts: http1::Parts<TokioIo<Watched<ClientStream>>, S>) -> Connection<S>
where
    S: HttpService<Incoming, ResBody = AnswerBody, Error = Infallible>,
{
    // Bytes that the client sent ahead are read again, from a buffer of their own size.
    parts.io.inner_mut().put_back(Bytes::copy_from_slice(&parts.read_buf));
    protocol().serve_connection(parts.io, parts.service)
}

/// Answers a client whose head is not complete, and for which there is no more room.
async fn refuse_head<S>(connection: Connection<S>)
where
    S: HttpService<Incoming, ResBody = AnswerBody, Error = Infallible>,
{
    let parts = connection.into_parts();
    let first_bytes = parts.read_buf[..parts.read_buf.len().min(LINE_BYTES)].to_vec();
    drop(parts.read_buf);
    load_shed::refuse(parts.io.into_inner().into_socket(), &first_bytes, Refusal::HeadsFull).await;
}

/// How HTTP/1.1 is spoken. The head has a time limit of this module, because that of hyper would also end
/// idle connections.
fn protocol() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_header_size(MAX_HEAD_BYTES).max_buf_size(WRITE_BUFFER);
    builder
}

/// The requests of one connection. Each counts as running until the last byte of its answer is
/// handed to the connection.
fn service<S: Site>(
    (site, certified): (S, Option<Certified>),
    slot: ClientSlot,
    body_timeout: Duration,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = http::Response<AnswerBody>,
    Error = Infallible,
    Future = impl Future<Output = Result<http::Response<AnswerBody>, Infallible>> + Send + 'static,
> {
    hyper::service::service_fn(move |request: Request<Incoming>| {
        let (running, share) = slot.activity().request(|| activity::size_of(&request));
        let face = share.is_none().then(|| AnswerFormat::of(request.uri().path()));
        let mut request = request.map(|body| Arriving::new(body, body_timeout, slot.clone()));
        if let Some(certified) = &certified {
            request.extensions_mut().insert(certified.clone());
        }
        // Boxed, so that a connection that waits for its next request does not keep the room for one.
        let answer = share.is_some().then(|| Box::pin(site.clone().answer(request)));
        async move {
            let response = match answer {
                Some(answer) => answer.await,
                None => heads_full(face.unwrap_or(AnswerFormat::Rest)),
            };
            drop(share);
            Ok(response.map(|body| AnswerBody::new(body, running)))
        }
    })
}

/// The answer to a request that is complete, and for whose head there is no room.
fn heads_full(face: AnswerFormat) -> Response {
    limit::Limit::HeadsInSum.met(Refusal::HeadsFull).response(face, RequestId::new())
}

/// Rings when a connection is over one of its time limits. The alarm also rings for who waits in the
/// turns of the connection.
struct Limit {
    activity: Activity,
    times: Times,
    alarm: Pin<Box<Sleep>>,
}

impl Limit {
    fn new(activity: Activity, limits: Limits) -> Self {
        let times =
            Times { head: limits.header_timeout, idle: limits.idle_timeout, write: limits.write_timeout };
        Self { activity, times, alarm: Box::pin(tokio::time::sleep(times.head)) }
    }

    /// To be polled after the connection: what it does moves the deadline. The alarm is set again only
    /// when the deadline came nearer or the alarm rang, so a busy connection hardly ever touches it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let (limit, due) = (self.activity.deadline(&self.times), due());
            let Some(deadline) = limit.into_iter().chain(due).min() else { return Poll::Pending };
            if self.alarm.is_elapsed() || self.alarm.deadline() > deadline {
                self.alarm.as_mut().reset(deadline);
            }
            ready!(self.alarm.as_mut().poll(cx));
            let has_come = |at: Instant| self.alarm.deadline() >= at;
            if limit.is_some_and(has_come) {
                if self.activity.is_unread() {
                    limit::Limit::UnreadAnswers.met(());
                }
                return Poll::Ready(());
            }
            if due.is_some_and(has_come) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

settings! {
    /// Limits of the number and the times of connections.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Limits {
        /// TCP connections open at a time, of which a client may need several. One more gets the slot of
        /// [a connection that waits for its client](operate/limits.md#when-all-sockets-are-taken), or 503 if none waits. One
        /// principal can fill [seven eighths](operate/limits.md#sockets-of-one-principal) of them
        pub max_sockets: usize = 4_096 => "4096, or twice `max_connections` if that is set and more", in 1..=1_000_000;
        /// time for the head of a request: the first from accepting the connection, every later one from its first byte
        pub header_timeout: Duration = Duration::from_secs(10), in 0.1..=60.0;
        /// time for its body
        pub body_timeout: Duration = Duration::from_secs(30), in 0.1..=600.0;
        /// time between two requests
        pub idle_timeout: Duration = Duration::from_secs(75), in 0.1..=3_600.0;
        /// time after which Switchyard aborts a response that the client does not read
        pub write_timeout: Duration = Duration::from_secs(30), in 0.1..=600.0;
        /// time for running requests when the program ends
        pub drain_timeout: Duration = Duration::from_secs(10), in 0.0..=600.0;
    }
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
