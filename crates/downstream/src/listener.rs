//! The accept loop: connections with a limit, time limits and an orderly shutdown.
//!
//! `axum::serve` is not used: it keeps a silent connection open forever, has no limit of connections, and its
//! graceful shutdown waits for event streams that never end. Only HTTP/1.1 is spoken. A client that begins with the
//! preface of HTTP/2 is closed (`docs/contributing/decisions/0001-no-http2-without-tls.md`).
//!
//! Invariants: at most `max_sockets` connections are open. A further one gets the slot of a connection that only waits
//! for its client (`socket_slots`). If none does, it is answered with 503 and closed (`load_shed`). A client that sends
//! its head or body too slowly, or reads too slowly, is closed in time. The kernel keeps little of an answer that nobody
//! reads. An error of `accept` never causes a busy loop. No connection outlives [`serve`].
//!
//! Not here: one connection (`http1`), handling of requests ([`Site`]), their checks (`guard`).

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
pub use super::bodies::Arriving;
use super::http1::{ConnectionContext, connection};
pub use super::http1::{Limits, Site};
pub use super::listening_sockets::ListeningSockets;
use super::listening_sockets::SocketCounts;
use super::moving_socket::MovingSocket;
use super::socket_slots::{SocketSlot, SocketSlots};
use super::tls::{Certificates, Certified, ClientStream, Handshakes};
use crate::load_shed::LoadShed;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit;
use runtime::worker::Workers;
use runtime::worker::bulk::{BulkThreads, LeaveReason, until_asked};

/// How long `accept` pauses after an error that the client did not cause, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Limit of new connections that wait at a time for slots of others, and at most an eighth of the slots. Then the system
/// keeps further ones. More would ask all clients without a credential at once, and then those with one.
const MOST_WAITING: usize = 32;
/// How many others a new connection asks for a slot. One that was asked keeps it if it has just become busy.
const MOST_ASKED: usize = 4;
/// How long a new connection waits for one slot. Longer than a worker is usually busy.
const YIELD_TIME: Duration = Duration::from_millis(250);
/// File descriptors that are needed beside client connections: connections to servers, pipes, logs.
const OTHER_FILES: u64 = 1_024;
/// Time for handshakes to end after shutdown began.
const LAST_HANDSHAKES: Duration = Duration::from_secs(1);
/// Bytes of answers that wait in the kernel until they are sent. Bytes under way do not count, so a fast client far away
/// is not slowed down. Without it the kernel would keep up to 4 MiB for each connection.
#[cfg(target_os = "linux")]
const MOST_UNSENT: u32 = 64 * 1024;
/// Time for connections to end after `drain_timeout`, when they are cut.
const CUT_TIME: Duration = Duration::from_secs(1);

/// Accepts connections and answers them with `site` until `shutdown` begins. Then it accepts no more, lets running
/// requests end for `drain_timeout`, cuts the rest and returns. The handlers of event streams must end them when the
/// same `shutdown` begins.
pub async fn serve<S: Site>(listener: TcpListener, site: S, limits: Limits, shutdown: Shutdown) {
    // One worker starts no threads, so it cannot fail.
    if let Ok(workers) = Workers::start(1) {
        serve_with(listener, site, (limits, shutdown), None, &workers).await;
    }
}

/// Accepts connections as [`serve`] does, and distributes them among the workers of `workers`. With `certificates`
/// it speaks TLS and nothing else. Run it on worker 0. Waiting connections of inherited sockets are left to the process
/// that inherits them next.
pub async fn serve_with<S: Site>(
    sockets: impl Into<ListeningSockets>,
    site: S,
    (limits, shutdown): (Limits, Shutdown),
    certificates: Option<Arc<Certificates>>,
    workers: &Workers,
) {
    let sockets = sockets.into();
    let server = Server {
        live: shutdown.child(),
        cut: CancellationToken::new(),
        slots: SocketSlots::new(limits.max_sockets, sockets.counts().clone()),
        counts: sockets.counts().clone(),
        refused: AtomicU64::new(0),
        load_shed: LoadShed::new(limits.max_sockets),
        handshakes: certificates.map(|certificates| Handshakes::new(certificates, sockets.counts().clone())),
        site,
        limits,
        workers,
    };
    tokio::select! {
        () = shutdown.requested() => {}
        () = server.accept(&sockets) => {}
    }
    sockets.into_own().into_iter().for_each(|socket| server.accept_waiting(&socket));
    if !server.live.wait(limits.drain_timeout).await {
        tracing::warn!(drain_timeout = ?limits.drain_timeout, "requests were still running and are cut");
        server.cut.cancel();
        server.live.wait(CUT_TIME).await;
    }
}

struct Server<'a, S> {
    workers: &'a Workers,
    /// The connections; asked to end at shutdown.
    live: Shutdown,
    /// Ends connections immediately.
    cut: CancellationToken,
    slots: SocketSlots,
    counts: SocketCounts,
    /// Number of connections that were refused because all slots were taken.
    refused: AtomicU64,
    /// Answers refused connections.
    load_shed: LoadShed,
    /// Present if the listener speaks TLS.
    handshakes: Option<Handshakes>,
    site: S,
    limits: Limits,
}

impl<S: Site> Server<'_, S> {
    /// Accepts connections; never returns. If it is dropped, the few connections that wait for a slot are closed.
    async fn accept(&self, sockets: &ListeningSockets) {
        let most_waiting = (self.limits.max_sockets / 8).clamp(1, MOST_WAITING);
        let mut waiting = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = sockets.accept(), if waiting.len() < most_waiting => match accepted {
                    Ok(socket) => {
                        // The socket is registered with the worker that it is moved to.
                        let socket = socket.into_std().ok().and_then(|socket| self.admit(socket));
                        waiting.extend(socket.map(|socket| self.admit_in_place(socket)));
                    }
                    Err(error) if is_of_peer(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, pause = ?ACCEPT_PAUSE, "cannot accept connections");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(()) = waiting.next() => {}
            }
        }
    }

    /// Accepts the connections in the backlog of `listener`, which the caller closes afterwards. For those clients the
    /// connection is already established.
    fn accept_waiting(&self, listener: &std::net::TcpListener) {
        while let Ok((socket, _)) = listener.accept() {
            if socket.set_nonblocking(true).is_ok()
                && let Some(socket) = self.admit(socket)
            {
                self.refuse(socket);
            }
        }
    }

    /// Serves a connection if a slot is free. Otherwise returns its socket.
    fn admit(&self, socket: std::net::TcpStream) -> Option<std::net::TcpStream> {
        let Some(permit) = self.slots.take() else { return Some(socket) };
        self.begin(socket, permit);
        None
    }

    /// Serves a connection in the slot of another one that yields it, or refuses it.
    async fn admit_in_place(&self, socket: std::net::TcpStream) {
        for _ in 0..MOST_ASKED {
            let Some(yielded) = self.slots.claim() else { break };
            if let Ok(Ok(permit)) = tokio::time::timeout(YIELD_TIME, yielded).await {
                let yielded = self.counts.count_yielded();
                if yielded.is_power_of_two() {
                    tracing::warn!(yielded, "too many connections, idle ones are closed for new ones");
                }
                return self.begin(socket, permit);
            }
        }
        // A slot may have become free meanwhile.
        if let Some(socket) = self.admit(socket) {
            self.refuse(socket);
        }
    }

    fn refuse(&self, socket: std::net::TcpStream) {
        let refused = limit::Limit::Sockets.met(self.refused.fetch_add(1, Ordering::Relaxed) + 1);
        // A flood must not fill the log.
        if refused.is_power_of_two() {
            tracing::warn!(refused, "too many connections, new ones are rejected");
        }
        // An answer in TLS would cost a handshake, so such a client is only closed.
        if self.handshakes.is_none() {
            self.load_shed.reject(socket, &self.live);
        }
    }

    fn begin(&self, socket: std::net::TcpStream, permit: OwnedSemaphorePermit) {
        // Small answers must not be delayed. A socket that refuses an option is about to fail anyway.
        let _ = socket.set_nodelay(true);
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(MOST_UNSENT);
        let context = ConnectionContext {
            live: self.live.clone(),
            cut: self.cut.clone(),
            site: self.site.clone(),
            limits: self.limits,
        };
        // A socket that has no peer any more is about to fail.
        let address = socket.peer_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip());
        let slot = self.slots.open(permit, address);
        let (bulk, handshakes) = (self.workers.bulk().cloned(), self.handshakes.clone());
        // Otherwise the program could end while the socket is on its way to its worker.
        let held = self.live.hold();
        self.workers.begin(move |busy| {
            let Ok(socket) = TcpStream::from_std(socket) else { return };
            let (live, client) = (context.live.clone(), slot.client.clone());
            let connection = async move {
                if let Some(opened) = opened(socket, handshakes, (&context, client.activity())).await {
                    connection(opened, client, context).await;
                }
            };
            live.clone().spawn(async move {
                if let Some(bulk) = bulk {
                    movable(Box::pin(connection), slot, &bulk, &live).await;
                } else {
                    connection.await;
                    drop(slot);
                }
                drop(busy);
            });
            drop(held);
        });
    }
}

/// Returns the stream of `socket`, after its handshake if the listener speaks TLS.
async fn opened<S>(
    socket: TcpStream,
    handshakes: Option<Handshakes>,
    (context, activity): (&ConnectionContext<S>, &Activity),
) -> Option<(ClientStream, Option<Certified>)> {
    let Some(handshakes) = handshakes else {
        return Some((ClientStream::Plain(MovingSocket::new(socket)), None));
    };
    let end = async {
        context.live.requested().await;
        tokio::time::sleep(LAST_HANDSHAKES).await;
    };
    tokio::select! {
        // Boxed, so that a connection without TLS does not keep the room for it.
        opened = Box::pin(handshakes.open(socket, context.limits.header_timeout)) => opened,
        () = end => None,
        () = activity.claimed() => None,
    }
}

/// Runs `connection`, which holds `slot`, and moves it to a bulk thread on request.
async fn movable(
    mut connection: Pin<Box<impl Future<Output = ()> + Send + 'static>>,
    slot: SocketSlot,
    bulk: &BulkThreads,
    live: &Shutdown,
) {
    if until_asked(connection.as_mut()).await == LeaveReason::Ended {
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

/// Whether the error concerns one connection that failed before it was accepted.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Raises the limit of open files to what `limits` may need, as far as the system allows. Many systems start with
/// 1,024, fewer than the connections that Switchyard accepts.
pub fn allow_open_files(limits: &Limits) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = limits.max_sockets as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
    if current.is_some_and(|current| current < raised)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum })
    {
        tracing::warn!(%error, raised, "cannot raise the limit of open files");
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
