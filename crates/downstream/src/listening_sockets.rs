//! The sockets from which one listener accepts connections.
//!
//! Invariants: connections are accepted from all sockets in turn. Sockets that another process opened, such as systemd,
//! stay open there. So at shutdown their waiting connections are left to the next process, and none is refused.
//!
//! Not here: what becomes of a connection (`listener`).

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};

use super::socket_counts::SocketCounts;

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
