//! One open connection, and one request on it.
//!
//! Invariants: a [`Link`] is polled only by the future or the body that holds it, in the task of its request. So a call
//! needs no task of its own and wakes no other one, and dropping it closes the socket at once. An idle link is not polled.
//! If its server closed it meanwhile, this is noticed before the next request is written, and that request is returned
//! unsent.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::unconstrained;

use super::metered::{Meter, Metered};
use super::request_body::RequestBody;
use runtime::worker::{ConnectionWaker, suppress_wakes};

/// Bytes that are read in one poll before the head of an answer is complete: some 900 interim responses, a third of a
/// millisecond of work.
const SHARE_OF_POLL: usize = 16 * 1024;
/// Bytes that a server may send before the final head of an answer is complete.
const MAX_BEFORE_HEAD: usize = 64 * 1024;

/// Why an exchange got no answer.
#[allow(clippy::large_enum_variant)] // it is as large as the answer beside it, and passed on at once
pub(super) enum Failure {
    /// The error of hyper, with the request if nothing of it was sent.
    Hyper(TrySendError<Request<RequestBody>>),
    /// The server sent more than [`MAX_BEFORE_HEAD`] and no final head; the connection is closed.
    Flooded,
}

/// The socket of a connection.
pub(super) type Io = MaybeHttpsStream<Tcp>;
/// The part of a socket below TLS.
pub(super) type Tcp = TokioIo<Metered<TcpStream>>;

/// The connection of hyper, which reads and writes when it is polled.
pub(super) type Wire = Connection<Io, RequestBody>;

pub(super) struct Link {
    sender: SendRequest<RequestBody>,
    /// `None` once it has ended.
    wire: Option<Wire>,
    /// Wakes the task of the request, or the task that reads the response.
    waker: ConnectionWaker,
    meter: Meter,
    #[allow(dead_code)] // held for its drop
    socket: Counted,
}

/// Counts one open connection to a server until it is dropped.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// Adds a connection to `all`.
    pub(super) fn among(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    pub(super) fn new(
        sender: SendRequest<RequestBody>,
        wire: Wire,
        meter: Meter,
        socket: Counted,
    ) -> Box<Self> {
        Box::new(Self { sender, wire: Some(wire), waker: ConnectionWaker::new(), meter, socket })
    }

    /// Sends `request` and waits for the head of its answer. The error holds the request if nothing
    /// of it was sent.
    pub(super) async fn exchange(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Failure> {
        // The task that polled it last has nothing to do with this request. The task of this request follows below.
        let _ = self.waker.register(&without_waker());
        // `work` produces the response right before it is polled, so it need not wake this task. It is unconstrained,
        // because tokio's budget of a task would wake it too.
        let mut answer = pin!(unconstrained(self.sender.try_send_request(request)));
        let (wire, waker, meter) = (&mut self.wire, &self.waker, &self.meter);
        let begin = meter.read();
        poll_fn(|context| {
            meter.allow(SHARE_OF_POLL);
            work(wire, &mut waker.register(context));
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut without_waker()) {
                meter.allow_all();
                return Poll::Ready(answer.map_err(Failure::Hyper));
            }
            if meter.read() - begin > MAX_BEFORE_HEAD {
                *wire = None;
                return Poll::Ready(Err(Failure::Flooded));
            }
            if meter.is_at_limit() {
                // The socket was not asked whether there is more, so it wakes nobody.
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    /// Notes that its socket was not read for a while.
    pub(super) fn note_idle(&self) {
        self.meter.note_idle();
    }

    /// Reads and writes as much as is possible now. Wakes `context` when there is more to do.
    pub(super) fn work(&mut self, context: &Context<'_>) {
        work(&mut self.wire, &mut self.waker.register(context));
    }

    /// Returns what `look` finds in the body of the response, without waking the task. A caller that needs more calls
    /// [`Link::work`] and looks again.
    pub(super) fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        suppress_wakes(self.waker.waker(), look).0
    }

    /// Whether it has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.wire.is_some()
    }

    /// Whether the next request can be sent.
    pub(super) fn is_ready(&self) -> bool {
        self.is_open() && self.sender.is_ready()
    }

    /// Waits until the last request is sent completely, although its response is complete. Returns whether the next one
    /// can be sent then.
    pub(super) async fn settle(&mut self) -> bool {
        poll_fn(|context| {
            self.work(context);
            if !self.is_ready() {
                // After writing and flushing in one poll, hyper accepts the next request only in the next poll, and
                // nothing else would wake this task.
                self.work(context);
            }
            if !self.is_open() || self.is_ready() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.is_ready()
    }
}

/// Polls the connection. Its end is reported to the request and to the body that wait for more.
fn work(wire: &mut Option<Wire>, context: &mut Context<'_>) {
    if let Some(open) = wire
        && Pin::new(open).poll(context).is_ready()
    {
        *wire = None;
    }
}

/// A context that wakes no task.
pub(super) fn without_waker() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
