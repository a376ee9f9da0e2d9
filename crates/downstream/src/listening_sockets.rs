//! The sockets from which one listener accepts connections, and the counts of their connections for the metrics.
//!
//! Invariants: connections are accepted from all sockets in turn. Sockets that another process opened, such as systemd,
//! stay open there. So at shutdown their waiting connections are left to the next process, and none is refused. Only a
//! connection that opens, closes or fails is counted, and no request.
//!
//! Not here: what becomes of a connection (`listener`), refusals, which are counted with those of all limits
//! (`runtime::telemetry::limit`).

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};

/// The listening sockets of one listener; at least one.
#[derive(Debug)]
pub struct ListeningSockets {
    sockets: Vec<TcpListener>,
    /// Whether another process keeps them open.
    are_inherited: bool,
    /// The socket that is asked first.
    next: AtomicUsize,
    counts: SocketCounts,
}

impl From<TcpListener> for ListeningSockets {
    fn from(socket: TcpListener) -> Self {
        Self::of(vec![socket], false)
    }
}

impl ListeningSockets {
    /// Sockets that another process opened and keeps open.
    pub fn inherited(sockets: Vec<std::net::TcpListener>) -> io::Result<Self> {
        let usable = |socket: std::net::TcpListener| {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        };
        let sockets = sockets.into_iter().map(usable).collect::<io::Result<_>>()?;
        Ok(Self::of(sockets, true))
    }

    fn of(sockets: Vec<TcpListener>, are_inherited: bool) -> Self {
        Self { sockets, are_inherited, next: AtomicUsize::new(0), counts: SocketCounts::default() }
    }

    /// The counts of the connections that are accepted from these sockets.
    pub const fn counts(&self) -> &SocketCounts {
        &self.counts
    }

    /// The addresses at which clients connect.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(TcpListener::local_addr).collect()
    }

    /// Accepts the next connection. Dropping the future loses none.
    pub(super) async fn accept(&self) -> io::Result<TcpStream> {
        poll_fn(|cx| {
            let first = self.next.fetch_add(1, Ordering::Relaxed);
            for offset in 0..self.sockets.len() {
                let socket = &self.sockets[first.wrapping_add(offset) % self.sockets.len()];
                if let Poll::Ready(accepted) = socket.poll_accept(cx) {
                    return Poll::Ready(accepted.map(|(stream, _)| stream));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The sockets whose waiting connections no other process will accept.
    pub(super) fn into_own(self) -> Vec<std::net::TcpListener> {
        let own = self.sockets.into_iter().filter(|_| !self.are_inherited);
        own.filter_map(|socket| socket.into_std().ok()).collect()
    }
}

/// The counts of one listener. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SocketCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    yielded: AtomicU64,
    failed_handshakes: AtomicU64,
}

impl SocketCounts {
    /// The number of open sockets.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// The number of sockets that were closed for new ones while they waited for their client.
    pub fn yielded(&self) -> u64 {
        self.0.yielded.load(Ordering::Relaxed)
    }

    /// The number of TLS handshakes that failed.
    pub fn failed_handshakes(&self) -> u64 {
        self.0.failed_handshakes.load(Ordering::Relaxed)
    }

    pub(super) fn count_opened(&self) {
        self.0.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_closed(&self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a socket that was closed for a new one. Returns how many have been.
    pub(super) fn count_yielded(&self) -> u64 {
        self.0.yielded.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn count_failed_handshake(&self) {
        self.0.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }
}
