//! The accept loop: connections with a cap, time limits and an end.
//!
//! Why not `axum::serve`: it leaves a silent peer open for ever, knows no cap, and its graceful
//! end waits for event streams that never end. Only HTTP/1.1 is spoken: a client that begins with the
//! preface of HTTP/2 is closed (`docs/contributing/decisions/0001-no-http2-without-tls.md`).
//!
//! Invariants: at most `max_sockets` are open, more are told so and closed (`turned_away`); a peer that is slow with
//! its head, its body or its reading is closed in time; an error of `accept` never spins; nothing accepted here outlives [`serve`].
//!
//! Not here: what a request means ([`Site`]), who may send one (`guard`).

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::activity::{Activity, Times, Watched};
use super::bodies::Answer;
pub use super::bodies::Arriving;
use super::turned_away::Porter;
use crate::shutdown::Shutdown;
use crate::telemetry::limit::{self, Socket};
use crate::wire::joined::Joined;
use crate::worker::{Bell, Crew, due, turn};

/// How long `accept` rests after an error that is not the peer's, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// A connection buffers at most this much of a head, in bytes; a longer one is answered 431.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Files that are open beside client connections: connections to servers, pipes, logs.
const OTHER_FILES: u64 = 1_024;
/// How long connections go on after the end was requested, so that a request which has arrived
/// and was not yet read is answered.
const LAST_LOOK: Duration = Duration::from_millis(50);
/// What is left after `drain_timeout` is cut; this long it may take to notice.
const CUT_TIME: Duration = Duration::from_secs(1);

/// What a listener allows its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at a time.
    pub max_sockets: usize,
    /// Time from accepting to the end of the first head, and for every later head from its first byte.
    pub header_timeout: Duration,
    /// Time for a whole body.
    pub body_timeout: Duration,
    /// Time between two requests.
    pub idle_timeout: Duration,
    /// Time for which a client may leave what it is sent unread.
    pub write_timeout: Duration,
    /// Time for running requests after the end was requested.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_sockets: 4_096,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// What answers the requests that come in.
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

/// Accepts connections and answers them with `site` until `shutdown` begins; then accepts no
/// more, lets running requests end for `drain_timeout`, cuts the rest and returns. Event streams
/// must be ended by who serves them: they watch the same `shutdown`.
pub async fn serve<S: Site>(listener: TcpListener, site: S, limits: Limits, shutdown: Shutdown) {
    // Without threads of its own nothing can fail.
    if let Ok(crew) = Crew::start(1) {
        serve_with(listener, site, (limits, shutdown), &crew).await;
    }
}

/// The same with connections shared out among the workers of `crew`. To be run on its worker 0.
pub async fn serve_with<S: Site>(
    listener: TcpListener,
    site: S,
    (limits, shutdown): (Limits, Shutdown),
    crew: &Crew,
) {
    let door = Door {
        live: shutdown.child(),
        cut: CancellationToken::new(),
        slots: Arc::new(Semaphore::new(limits.max_sockets)),
        refused: AtomicU64::new(0),
        porter: Porter::new(limits.max_sockets),
        site,
        limits,
        crew,
    };
    tokio::select! {
        () = shutdown.requested() => {}
        () = door.accept(&listener) => {}
    }
    door.accept_waiting(listener);
    if !door.live.wait(limits.drain_timeout).await {
        tracing::warn!(drain_timeout = ?limits.drain_timeout, "requests were still running and are cut");
        door.cut.cancel();
        door.live.wait(CUT_TIME).await;
    }
}

struct Door<'a, S> {
    crew: &'a Crew,
    /// The connections; asked to end with the program.
    live: Shutdown,
    /// Ends connections where they stand.
    cut: CancellationToken,
    slots: Arc<Semaphore>,
    /// Connections that found none.
    refused: AtomicU64,
    /// Tells them.
    porter: Porter,
    site: S,
    limits: Limits,
}

impl<S: Site> Door<'_, S> {
    /// Never returns.
    async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    // It is watched by the worker it goes to.
                    let _ = socket.into_std().map(|socket| self.admit(socket));
                }
                Err(error) if is_of_peer(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, pause = ?ACCEPT_PAUSE, "cannot accept connections");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Takes in who stands in the queue of the system, and closes it: those peers have been told
    /// that they are connected.
    fn accept_waiting(&self, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else { return };
        while let Ok((socket, _)) = listener.accept() {
            if socket.set_nonblocking(true).is_ok() {
                self.admit(socket);
            }
        }
    }

    fn admit(&self, socket: std::net::TcpStream) {
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return self.begin(socket, (slot, Socket::opened()));
        }
        let refused = limit::Limit::Sockets.met(self.refused.fetch_add(1, Ordering::Relaxed) + 1);
        // A flood must not fill the log as well.
        if refused.is_power_of_two() {
            tracing::warn!(refused, "too many connections, new ones are turned away");
        }
        self.porter.turn_away(socket, &self.live);
    }

    fn begin(&self, socket: std::net::TcpStream, slot: (OwnedSemaphorePermit, Socket)) {
        // Small answers must not wait for more; a socket that refuses is about to fail anyway.
        let _ = socket.set_nodelay(true);
        let house = House {
            live: self.live.clone(),
            cut: self.cut.clone(),
            site: self.site.clone(),
            limits: self.limits,
        };
        self.crew.begin(move |busy| {
            let Ok(socket) = TcpStream::from_std(socket) else { return };
            let live = house.live.clone();
            let connection = connection(socket, house);
            live.spawn(async move {
                connection.await;
                drop((slot, busy));
            });
        });
    }
}

/// What a connection needs of its door.
struct House<S> {
    live: Shutdown,
    cut: CancellationToken,
    site: S,
    limits: Limits,
}

/// Errors of one connection that was gone before it was accepted.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Serves one connection until its peer, a limit or the end of the program closes it.
fn connection<S: Site>(socket: TcpStream, house: House<S>) -> impl Future<Output = ()> + Send + use<S> {
    let activity = Activity::new();
    let House { live, cut, site, limits } = house;
    let mut limit = Limit::new(activity.clone(), limits);
    let service = service(site, activity.clone(), limits.body_timeout);
    async move {
        let io = TokioIo::new(Watched::new(Joined::new(socket), activity));
        let mut connection = pin!(protocol().serve_connection(io, service));
        let mut end = pin!(async {
            live.requested().await;
            tokio::time::sleep(LAST_LOOK).await;
        });
        let mut cut = pin!(cut.cancelled());
        let (mut is_watched, mut ending) = (false, false);
        let bell = Bell::new();
        let mut poll = |cx: &mut Context<'_>| {
            // Once they are watched, a look at a flag says whether it is worth asking again: whoever
            // is cut is asked to end before.
            if !is_watched || live.is_begun() {
                is_watched = true;
                if cut.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if !ending && end.as_mut().poll(cx).is_ready() {
                    ending = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
            if let Poll::Ready(result) = connection.as_mut().poll(&mut bell.answered_by(cx)) {
                // Whatever goes wrong on a connection is its peer's business.
                let _ = result.inspect_err(|error| tracing::debug!(%error, "a connection ended early"));
                return Poll::Ready(());
            }
            ready!(limit.poll(cx));
            tracing::debug!("a peer was too slow and is closed");
            Poll::Ready(())
        };
        poll_fn(|cx| turn(bell.waker(), || poll(cx))).await;
    }
}

/// How HTTP/1.1 is spoken. The head has a time limit of this module, because that of hyper would also end
/// idle connections.
fn protocol() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    builder
}

/// The requests of one connection. Each counts as running until the last byte of its answer is
/// handed to the connection.
fn service<S: Site>(
    site: S,
    activity: Activity,
    body_timeout: Duration,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = http::Response<Answer>,
    Error = Infallible,
    Future = impl Future<Output = Result<http::Response<Answer>, Infallible>> + Send + 'static,
> {
    hyper::service::service_fn(move |request: Request<Incoming>| {
        let running = activity.request();
        // Boxed, so that a connection that waits for its next request does not keep the room for one.
        let answer = Box::pin(site.clone().answer(request.map(|body| Arriving::new(body, body_timeout))));
        async move { Ok(answer.await.map(|body| Answer::new(body, running))) }
    })
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

    /// To be polled after the connection: what it does moves the deadline. The alarm is set anew only
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

/// Lets the process open as many files as `limits` may need, as far as the system allows it: many
/// systems begin with 1,024, which is less than the connections we would accept.
pub fn allow_open_files(limits: &Limits) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = limits.max_sockets as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if current.is_some_and(|current| current < raised)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum })
    {
        tracing::warn!(%error, raised, "cannot raise the limit of open files");
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
