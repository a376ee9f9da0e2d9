//! A client's socket that is watched by the runtime of the thread that polls it, and whose bytes its connection notes.
//!
//! A connection can move to another thread ([`runtime::worker::bulk`]). If its old worker still watched the socket, each
//! arriving piece of a large body would wake that worker too.
//!
//! Invariant: threads that are no workers count as one, so a socket of an embedding program stays where it was made.

use std::io;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::activity::Activity;
use net::poll_write_joined;
use runtime::worker;

#[derive(Debug)]
pub(super) struct MovingSocket {
    /// None after it could not be registered.
    socket: Option<TcpStream>,
    /// The worker whose runtime watches it.
    watched_by: usize,
}

impl MovingSocket {
    /// `socket`, which is watched by this worker.
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket: Some(socket), watched_by: worker::current() }
    }

    /// Whether bytes of the client have arrived that were not read yet. It asks the system and not the runtime, which
    /// may be behind.
    pub(super) fn has_arrived(&self) -> bool {
        let Some(socket) = &self.socket else { return false };
        SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]).is_ok_and(|count| count > 0)
    }

    /// Closes the connection at once. Bytes that were written and not sent are dropped.
    pub(super) fn reset(mut self) {
        // An error means that the connection is closed already.
        let _ = self.here().and_then(|socket| socket.set_zero_linger());
    }

    /// The socket, watched by this worker from now on.
    fn here(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let here = worker::current();
        if self.watched_by != here
            && let Some(socket) = self.socket.take()
        {
            self.socket = Some(TcpStream::from_std(socket.into_std()?)?);
            self.watched_by = here;
        }
        self.socket.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for MovingSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.here()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for MovingSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.here()?.poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.here()?.poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.here()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.here()?.poll_shutdown(context)
    }
}

/// A socket that reports its activity.
#[derive(Debug)]
pub(super) struct Watched<S> {
    socket: S,
    activity: Activity,
    /// Bytes that the previous connection on this socket had read ahead.
    again: Bytes,
}

impl<S> Watched<S> {
    pub(super) const fn new(socket: S, activity: Activity) -> Self {
        Self { socket, activity, again: Bytes::new() }
    }

    /// Returns `bytes` to the next reader, before those of the socket.
    pub(super) fn put_back(&mut self, bytes: Bytes) {
        self.again = bytes;
    }

    /// The socket itself.
    pub(super) const fn socket(&self) -> &S {
        &self.socket
    }

    /// Returns the socket itself.
    pub(super) fn into_socket(self) -> S {
        self.socket
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        if self.again.is_empty() {
            ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        } else {
            let count = room.min(self.again.len());
            buf.put_slice(&self.again.split_to(count));
        }
        let count = buf.filled().len() - before;
        if count > 0 {
            self.activity.received(count, room);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.activity.wrote(polled.is_ready());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = poll_write_joined(Pin::new(&mut self.socket), cx, bufs);
        self.activity.wrote(polled.is_ready());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.socket).poll_flush(cx);
        match &polled {
            // Only TLS has bytes of its own to write here. A client that reads none of them is as slow as any other.
            Poll::Pending => self.activity.wrote(false),
            Poll::Ready(Ok(())) => self.activity.flushed(),
            Poll::Ready(Err(_)) => {}
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_socket_goes_on_in_the_runtime_of_another_worker() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut peer = TcpStream::connect(address).await.expect("it listens");
        let mut socket = MovingSocket::new(listener.accept().await.expect("a peer").0);
        peer.write_all(b"one").await.expect("written");
        let mut read = [0; 3];
        socket.read_exact(&mut read).await.expect("read");
        let other = std::thread::spawn(move || {
            worker::become_worker(1);
            let runtime = worker::runtime().expect("a runtime");
            runtime.block_on(async move {
                socket.write_all(b"ready").await.expect("written");
                assert_eq!(socket.watched_by, 1);
                socket.read_exact(&mut read).await.expect("read");
                read
            })
        });
        let mut ready = [0; 5];
        peer.read_exact(&mut ready).await.expect("read");
        peer.write_all(b"two").await.expect("written");
        // This runtime has to run while the other thread reads: it holds the peer.
        let read = tokio::task::spawn_blocking(move || other.join().expect("no panic")).await;
        assert_eq!(read.expect("no panic"), *b"two");
    }
}
