//! A socket for tests of writes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;

/// Takes the first bytes of each write, and notes all writes.
#[derive(Debug)]
pub(crate) struct FakeSocket {
    /// Bytes that it takes of one write at most.
    most: usize,
    /// All bytes that were written.
    pub(crate) written: Vec<u8>,
    /// The bytes that each write gave it, and in how many buffers they were.
    pub(crate) writes: Vec<(usize, usize)>,
}

impl FakeSocket {
    pub(crate) const fn taking(most: usize) -> Self {
        Self { most, written: Vec::new(), writes: Vec::new() }
    }

    fn take(&mut self, buffers: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let all: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        self.writes.push((all.len(), buffers.len()));
        let taken = all.len().min(self.most);
        self.written.extend_from_slice(&all[..taken]);
        Poll::Ready(Ok(taken))
    }
}

impl AsyncWrite for FakeSocket {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.take(&[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.take(buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Calls `write` with `buffers`, and returns how many bytes it wrote at once.
pub(crate) fn written_at_once(
    buffers: &[&[u8]],
    write: impl FnOnce(&mut Context<'_>, &[IoSlice<'_>]) -> Poll<io::Result<usize>>,
) -> usize {
    let slices: Vec<_> = buffers.iter().map(|buffer| IoSlice::new(buffer)).collect();
    match write(&mut Context::from_waker(Waker::noop()), &slices) {
        Poll::Ready(Ok(count)) => count,
        other => panic!("{other:?}"),
    }
}
