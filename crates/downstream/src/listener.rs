//! The accept loop: connections with a cap, time limits and an end.
//!
//! Why not `axum::serve`: it leaves a silent peer open for ever, knows no cap, and its graceful
//! end waits for event streams that never end. Only HTTP/1.1 is spoken: a client that begins with the
//! preface of HTTP/2 is closed (`docs/contributing/decisions/0001-no-http2-without-tls.md`).
//!
//! Invariants: at most `max_sockets` connections are open; a further one is answered 503 and closed (`load_shed`). A
//! peer that is slow to send its head or body, or to read, is closed in time. An error of `accept` never spins. No
//! connection outlives [`serve`].
//!
//! Not here: one connection (`http1`), what a request means ([`Site`]), who may send one (`guard`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::Service;

pub use super::bodies::Arriving;
use super::http1::{House, connection};
use crate::load_shed::LoadShed;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::{self, Socket};
use runtime::worker::Crew;
use runtime::worker::bulk::{BulkThreads, Left, until_asked};

/// How long `accept` rests after an error that is not the peer's, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Files that are open beside client connections: connections to servers, pipes, logs.
const OTHER_FILES: u64 = 1_024;
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
        porter: LoadShed::new(limits.max_sockets),
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
    porter: LoadShed,
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
        let bulk = self.crew.bulk().cloned();
        self.crew.begin(move |busy| {
            let Ok(socket) = TcpStream::from_std(socket) else { return };
            let live = house.live.clone();
            let connection = connection(socket, house);
            live.clone().spawn(async move {
                if let Some(bulk) = bulk {
                    movable(Box::pin(connection), slot, &bulk, &live).await;
                } else {
                    connection.await;
                    drop(slot);
                }
                drop(busy);
            });
        });
    }
}

/// Runs `connection`, which holds `slot`, and moves it to a bulk thread when it asks for that.
async fn movable(
    mut connection: Pin<Box<impl Future<Output = ()> + Send + 'static>>,
    slot: (OwnedSemaphorePermit, Socket),
    bulk: &BulkThreads,
    live: &Shutdown,
) {
    if until_asked(connection.as_mut()).await == Left::Ended {
        return;
    }
    let Some(place) = bulk.place() else { return connection.await };
    let runtime = place.runtime.clone();
    let moved = async move {
        connection.await;
        drop((slot, place));
    };
    live.spawn_on(moved, &runtime);
}

/// Errors of one connection that was gone before it was accepted.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
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
