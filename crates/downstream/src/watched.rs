//! The socket of a connection, which records what is read and written in the state of the connection.
//!
//! Not here: the state and its time limits (`activity`).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;
use net::poll_write_joined;

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
