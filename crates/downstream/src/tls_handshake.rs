//! The begin of a connection with TLS, and the stream of a connection with or without it.
//!
//! Invariants: a handshake has the time limit of a head (`header_timeout`), from the accepted connection on. At most
//! [`MOST`] handshakes run at a time. When one more begins, the oldest is closed: a client that answers in time has
//! finished long before, and slow ones shut out nobody. A client that has sent nothing takes no place among them. It
//! has a slot of the listener, as every connection, and yields it as others do (`socket_slots`). One
//! that speaks HTTP without TLS gets status 400, within the same limits.
//!
//! Not here: certificates (`tls`), the limit of connections (`listener`).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use auth::Principal;
use tokio::io::{self as async_io, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::client_certificate::name_in;
use super::moving_socket::MovingSocket;
use super::socket_counts::SocketCounts;
use super::tls::Certificates;
use runtime::telemetry::{limit, pace};

/// Limit of handshakes that run at a time: some 30 KiB each.
const MOST: usize = 512;

/// The answer to a request without TLS.
const NEEDS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 70\r\n\
    connection: close\r\n\r\nthis port speaks HTTP over TLS only; use a URL that begins with https\n";
/// The most bytes of a request without TLS that are read, so that the answer to it arrives.
const MAX_DRAINED: u64 = 64 * 1024;

/// The principal of a client certificate, among the extensions of each request of its connection.
#[derive(Debug, Clone)]
pub(super) struct Certified(pub(super) Principal);

/// The handshakes of one listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Handshakes {
    certificates: Arc<Certificates>,
    running: Arc<Mutex<RunningHandshakes>>,
    counts: SocketCounts,
}

#[derive(Debug, Default)]
struct RunningHandshakes {
    next: u64,
    /// By the order in which they began. The token ends the handshake.
    all: BTreeMap<u64, CancellationToken>,
}

/// The place of one running handshake.
struct HandshakeSlot {
    number: u64,
    ended: CancellationToken,
    running: Arc<Mutex<RunningHandshakes>>,
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        lock(&self.running).all.remove(&self.number);
    }
}

fn lock(running: &Mutex<RunningHandshakes>) -> MutexGuard<'_, RunningHandshakes> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handshakes {
    pub(super) fn new(certificates: Arc<Certificates>, counts: SocketCounts) -> Self {
        Self { certificates, running: Arc::default(), counts }
    }

    /// Takes a place, the one of the oldest handshake if there is no other.
    fn place(&self) -> HandshakeSlot {
        let (mut running, ended) = (lock(&self.running), CancellationToken::new());
        let number = running.next;
        running.next += 1;
        running.all.insert(number, ended.clone());
        if running.all.len() > MOST
            && let Some((_, oldest)) = running.all.pop_first()
        {
            limit::Limit::Handshakes.met(());
            oldest.cancel();
        }
        drop(running);
        HandshakeSlot { number, ended, running: Arc::clone(&self.running) }
    }

    /// Makes a stream of `socket` within `limit`, or returns nothing if its client failed to.
    pub(super) async fn open(
        &self,
        socket: TcpStream,
        limit: Duration,
    ) -> Option<(ClientStream, Option<Certified>)> {
        match timeout(limit, self.handshake(socket)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let name = chain.first().and_then(|certificate| name_in(certificate));
                let principal = name.and_then(|name| self.certificates.principal(&name));
                Some((ClientStream::Tls(Box::new(stream)), principal.map(Certified)))
            }
            Ok(Err(error)) => {
                self.failed(&error);
                None
            }
            Err(_) => {
                self.failed(&ErrorKind::TimedOut.into());
                None
            }
        }
    }

    /// Counts and logs a failure. Everybody who reaches the listener can cause it. Clients that close at once are usual:
    /// load balancers check a port in this way.
    fn failed(&self, error: &io::Error) {
        self.counts.count_failed_handshake();
        if error.kind() == ErrorKind::UnexpectedEof || error.kind() == ErrorKind::ConnectionReset {
            tracing::debug!(%error, "a TLS handshake failed");
        } else if let Some(suppressed) = pace::refusal("tls_handshake") {
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::info!(%error, suppressed, "a TLS handshake failed");
        }
    }

    async fn handshake(&self, socket: TcpStream) -> io::Result<TlsStream<MovingSocket>> {
        socket.readable().await?;
        let place = self.place();
        let acceptor = TlsAcceptor::from(self.certificates.current());
        let accepted = async {
            if speaks_http(&socket).await? {
                refuse_without_tls(socket).await?;
                return Err(io::Error::new(ErrorKind::InvalidData, "the client speaks HTTP without TLS"));
            }
            acceptor.accept(MovingSocket::new(socket)).await
        };
        tokio::select! {
            stream = accepted => stream,
            () = place.ended.cancelled() => Err(io::Error::other("too many handshakes were running")),
        }
    }
}

/// Whether the client began with a method of HTTP. A handshake begins with another byte.
async fn speaks_http(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(socket.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase())
}

/// Answers a request without TLS, and reads the rest of it: the system would drop the answer with unread bytes.
async fn refuse_without_tls(mut socket: TcpStream) -> io::Result<()> {
    socket.write_all(NEEDS_TLS).await?;
    socket.shutdown().await?;
    async_io::copy(&mut socket.take(MAX_DRAINED), &mut async_io::sink()).await.map(drop)
}

/// The bytes of a client's connection.
#[derive(Debug)]
pub(super) enum ClientStream {
    Plain(MovingSocket),
    Tls(Box<TlsStream<MovingSocket>>),
}

impl ClientStream {
    /// Whether bytes of the client have arrived that were not read yet.
    pub(super) fn has_arrived(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.has_arrived(),
            Self::Tls(stream) => stream.get_ref().0.has_arrived(),
        }
    }

    /// Closes the connection at once. Bytes that were written and not sent are dropped.
    pub(super) fn reset(self) {
        match self {
            Self::Plain(socket) => socket.reset(),
            Self::Tls(stream) => stream.into_inner().0.reset(),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, buffer),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, buffers),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, buffers),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
