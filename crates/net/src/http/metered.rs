//! A socket that stops being read when its connection has had its share of one poll, and that is read past the runtime
//! when its connection was idle.
//!
//! hyper skips interim (1xx) responses in a loop that ends only when the socket has nothing to read, so a server
//! that sends them without end would occupy the worker. At the limit, [`Metered`] reports that nothing is there.
//!
//! The runtime knows only what had arrived on a socket when it last waited for events. Before hyper writes a request to
//! an idle connection, it reads from it, and that read asks the system itself. An end that arrived by then is seen, and
//! the request goes to another connection.
//!
//! Writes are cut into pieces of [`MOST_WRITTEN`]: while the system copies megabytes in one call, it runs no other thread
//! on that processor.
//!
//! Invariant: a read that was refused wakes nobody, so the owner of the [`Meter`] raises the limit and polls again.
//! Not here: the limits themselves (`connection`).

use std::io::{self, IoSlice, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::poll_write_joined;

/// Bytes that one write takes at most. They fit into two packets of the loopback interface, each with at most 65,464
/// bytes over IPv6. With 128 KiB, each write would send a third packet for its last hundred bytes.
const MOST_WRITTEN: usize = 2 * 65_464;
/// Slices that one write takes at most. hyper queues 16 parts behind the head of a request.
const MOST_SLICES: usize = 17;
/// Bytes that one read past the runtime takes at most. Usually there is nothing.
const MOST_UNANNOUNCED: usize = 64;

/// Counts the bytes that are read from one socket, and limits them.
///
/// All of it happens in the task that polls the connection, so the order of the accesses does not matter.
#[derive(Debug, Clone)]
pub(super) struct Meter(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    read: AtomicUsize,
    limit: AtomicUsize,
    /// Whether more may have arrived than the runtime knows.
    was_idle: AtomicBool,
}

impl Meter {
    /// A meter without a limit.
    pub(super) fn unlimited() -> Self {
        Self(Arc::new(Counters {
            read: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            was_idle: AtomicBool::new(false),
        }))
    }

    /// Bytes that were read so far.
    pub(super) fn read(&self) -> usize {
        self.0.read.load(Ordering::Relaxed)
    }

    /// Lets `bytes` more be read. The last read may exceed them.
    pub(super) fn allow(&self, bytes: usize) {
        self.0.limit.store(self.read().saturating_add(bytes), Ordering::Relaxed);
    }

    /// Removes the limit.
    pub(super) fn allow_all(&self) {
        self.0.limit.store(usize::MAX, Ordering::Relaxed);
    }

    /// Whether the limit is reached.
    pub(super) fn is_at_limit(&self) -> bool {
        self.read() >= self.0.limit.load(Ordering::Relaxed)
    }

    /// Makes the next reads ask the system itself, until nothing more has arrived.
    pub(super) fn note_idle(&self) {
        self.0.was_idle.store(true, Ordering::Relaxed);
    }

    fn was_idle(&self) -> bool {
        self.0.was_idle.load(Ordering::Relaxed)
    }

    fn note_read(&self) {
        self.0.was_idle.store(false, Ordering::Relaxed);
    }

    fn count(&self, bytes: usize) {
        self.0.read.store(self.read().saturating_add(bytes), Ordering::Relaxed);
    }
}

/// A socket that can be read without the runtime.
pub(super) trait ReadNow {
    /// Reads the bytes that have arrived. `WouldBlock` means that there are none.
    fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadNow for TcpStream {
    fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*SockRef::from(self)).read(buffer)
    }
}

/// A socket whose reads a [`Meter`] counts.
#[derive(Debug)]
pub(super) struct Metered<S> {
    socket: S,
    meter: Meter,
}

impl<S> Metered<S> {
    /// `socket`, with no limit yet.
    pub(super) fn new(socket: S) -> Self {
        Self { socket, meter: Meter::unlimited() }
    }

    pub(super) const fn get_ref(&self) -> &S {
        &self.socket
    }

    pub(super) const fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl<S: ReadNow> Metered<S> {
    /// Reads bytes that the runtime does not know of yet. The waker is registered already, so later bytes wake the task.
    fn poll_unannounced(&self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = buffer.remaining().min(MOST_UNANNOUNCED);
        match self.socket.read_now(buffer.initialize_unfilled_to(room)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.meter.note_read();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
            Ok(count) => {
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl<S: AsyncRead + ReadNow + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.meter.is_at_limit() {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let mut read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if read.is_pending() && self.meter.was_idle() {
            read = self.poll_unannounced(buffer);
        }
        self.meter.count(buffer.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, &buffer[..buffer.len().min(MOST_WRITTEN)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let (mut slices, mut count, mut room) = ([IoSlice::new(&[]); MOST_SLICES], 0, MOST_WRITTEN);
        for (slice, buffer) in slices.iter_mut().zip(buffers) {
            let fitting = &buffer[..buffer.len().min(room)];
            *slice = IoSlice::new(fitting);
            (count, room) = (count + 1, room - fitting.len());
            if room == 0 {
                break;
            }
        }
        poll_write_joined(Pin::new(&mut self.socket), context, &slices[..count])
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_socket::{FakeSocket, written_at_once};

    #[test]
    fn writes_stay_together_up_to_a_limit_and_large_ones_are_cut() {
        let (large, rest) = (vec![0; 3 * MOST_WRITTEN], vec![0; MOST_WRITTEN - 4]);
        let cases: [(&[&[u8]], usize); 7] = [
            (&[b"head", b"body"], 8),
            (&[b"head", &rest], MOST_WRITTEN),
            (&[b"heads", &rest], MOST_WRITTEN),
            (&[b"head", &large, b"tail"], MOST_WRITTEN),
            (&[b"", &large], MOST_WRITTEN),
            (&[&large], MOST_WRITTEN),
            (&[&b"part"[..]; MOST_SLICES + 1], 4 * MOST_SLICES),
        ];
        for (buffers, expected) in cases {
            let mut socket = Metered::new(FakeSocket::taking(usize::MAX));
            let written = written_at_once(buffers, |context, slices| {
                Pin::new(&mut socket).poll_write_vectored(context, slices)
            });
            assert_eq!(written, expected);
            let sizes: Vec<_> = socket.socket.writes.iter().map(|(bytes, _)| *bytes).collect();
            assert_eq!(sizes, [expected]);
        }
        let mut socket = Metered::new(FakeSocket::taking(usize::MAX));
        let written = written_at_once(&[&large], |context, slices| {
            Pin::new(&mut socket).poll_write(context, &slices[0])
        });
        assert_eq!(written, MOST_WRITTEN);
    }
}
