//! One open connection with one request on it, and the connections that wait for their next request.
//!
//! Invariants: a [`Link`] is polled only by the future or the body that holds it, in the task of its request. So a call
//! needs no task of its own and wakes no other one, and dropping it closes the socket at once. An idle link is not polled.
//! If its server closed it meanwhile, this is noticed before the next request is written, and that request is returned
//! unsent. An idle connection is handed out on its worker only, and the last one first, so that few are kept warm. After
//! [`IDLE_LIMIT`] it is closed and never handed out. All workers together keep no more than the configured number of
//! connections that have been idle for [`SURPLUS_LIMIT`], and each worker at most [`AT_MOST`]. Without idle connections
//! no task runs.
//!
//! Not here: how many connections are in use. Each request has its own.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout};

use super::metered::{Meter, Metered};
use super::request_body::RequestBody;
use runtime::shutdown::Shutdown;
use runtime::worker;
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

/// Idle connections are closed before the server does: common MCP runtimes close after 5 s.
const IDLE_LIMIT: Duration = Duration::from_secs(4);
/// Time for which more connections are kept than configured. Calls in bursts leave some of them idle again and again,
/// and opening new ones for each burst would cost more.
const SURPLUS_LIMIT: Duration = Duration::from_secs(1);
/// The pause between two searches for connections that have been idle for too long.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Idle connections to one server that one worker keeps; more are closed.
pub(super) const AT_MOST: usize = 256;

/// The idle connections to one server.
pub(super) struct Idle {
    sets: Arc<IdleSets>,
    /// Connections that may stay idle longer than [`SURPLUS_LIMIT`].
    most: usize,
    shutdown: Shutdown,
}

/// One set for each worker.
#[derive(Default)]
struct IdleSets([OnceLock<Arc<IdleSet>>; worker::SHARES]);

impl IdleSets {
    fn len(&self) -> usize {
        self.0.iter().filter_map(OnceLock::get).map(|set| set.len()).sum()
    }
}

impl Idle {
    /// A pool without connections. `most` of them may stay idle longer than [`SURPLUS_LIMIT`].
    pub(super) fn new(most: usize, shutdown: &Shutdown) -> Self {
        Self { sets: Arc::default(), most, shutdown: shutdown.clone() }
    }

    /// Returns the set of this worker.
    pub(super) fn here(&self) -> &Arc<IdleSet> {
        self.sets.0[worker::share()].get_or_init(|| {
            let (all, shutdown) = (Arc::downgrade(&self.sets), self.shutdown.clone());
            Arc::new(IdleSet { waiting: Mutex::default(), all, most: self.most, shutdown })
        })
    }

    /// Returns the number of idle connections.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }
}

/// The idle connections of one worker to one server.
pub(super) struct IdleSet {
    waiting: Mutex<Waiting>,
    /// The sets of all workers, of which this is one.
    all: Weak<IdleSets>,
    /// Connections that may stay idle longer than [`SURPLUS_LIMIT`], on all workers together.
    most: usize,
    shutdown: Shutdown,
}

#[derive(Default)]
struct Waiting {
    /// The longest idle first.
    links: Vec<(Box<Link>, Instant)>,
    /// Whether a task runs that will close them in time.
    is_swept: bool,
}

impl IdleSet {
    /// Takes the connection that was used last. Its server may have closed it.
    pub(super) fn take(&self) -> Option<Box<Link>> {
        let (link, since) = self.lock().links.pop()?;
        link.note_idle();
        (worker::now().saturating_duration_since(since) < IDLE_LIMIT).then_some(link)
    }

    /// Keeps `link`, which is ready for a request.
    pub(super) fn put(self: &Arc<Self>, link: Box<Link>) {
        let mut waiting = self.lock();
        if waiting.links.len() >= AT_MOST {
            drop(waiting); // before the connection, which is closed here
            return;
        }
        waiting.links.push((link, worker::now()));
        let was_swept = std::mem::replace(&mut waiting.is_swept, true);
        drop(waiting);
        if was_swept {
            return;
        }
        let sweep = sweep(Sweep(Arc::downgrade(self)));
        // At the end of a runtime no task can be spawned, and no request could use the connection.
        if Handle::try_current().is_ok() {
            self.shutdown.spawn_until_end(sweep);
        }
    }

    /// Keeps `link` as soon as its last request is sent completely, if that is within `limit`.
    pub(super) fn settle(self: &Arc<Self>, mut link: Box<Link>, limit: Duration) {
        let idle = Arc::clone(self);
        self.shutdown.spawn_until_end(async move {
            if timeout(limit, link.settle()).await == Ok(true) {
                idle.put(link);
            }
        });
    }

    /// Closes connections that have been idle for too long. Returns the time of the next search if any are left.
    fn close_old(&self) -> Option<Instant> {
        let surplus = self.all.upgrade().map_or(0, |all| all.len()).saturating_sub(self.most);
        let mut waiting = self.lock();
        let now = Instant::now();
        let older = |limit| waiting.links.partition_point(|(_, since)| now.duration_since(*since) >= limit);
        let gone = older(IDLE_LIMIT).max(older(SURPLUS_LIMIT).min(surplus));
        let gone: Vec<_> = waiting.links.drain(..gone).collect();
        let next = waiting.links.first().map(|(_, since)| (*since + IDLE_LIMIT).min(now + LOOK_EVERY));
        waiting.is_swept = next.is_some();
        drop((waiting, gone)); // closed without the lock
        next
    }

    pub(super) fn len(&self) -> usize {
        self.lock().links.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep(mut sweep: Sweep) {
    while let Some(next) = sweep.0.upgrade().and_then(|set| set.close_old()) {
        sleep_until(next).await;
    }
    sweep.0 = Weak::new();
}

/// The task that closes connections in time. If it is dropped before its end, because the program ends, all idle
/// connections are closed.
struct Sweep(Weak<IdleSet>);

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some(set) = self.0.upgrade() {
            let left = std::mem::take(&mut *set.lock());
            drop(left);
        }
    }
}
