//! State of one connection, for its time limits.
//!
//! ```text
//!         first byte          head complete
//! Fresh ─────────────▶ Head ─────────────────▶ Busy
//!   head_timeout         │ head_timeout           │ no limit here: the body and the call have their own
//!                        ▲                        ▼ last answer sent
//!                        └──── first byte ───── Idle
//!                                                 idle_timeout
//! ```
//!
//! A fresh connection has one `head_timeout` for its first byte and its first head together. In every
//! phase, a client that reads nothing for `write_timeout` is closed. A client that reads very little is closed
//! too: when the connection does not ask for the next part of its answer within [`PART_LIMIT`].
//!
//! It also counts the bytes of an incomplete head, and detects when the buffers of the connection are empty and can
//! be replaced by small ones.
//!
//! Not here: closing the connection (`http1`), the sum of all heads (`head_budget`).

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::head_budget::{FREE, Share};
use runtime::worker::now;

/// How long a connection may take for one part of a longer answer. A part can be some hundred kilobytes, so a slow
/// client has enough time. The limit exists because the answer occupies slots of servers.
const PART_LIMIT: Duration = Duration::from_mins(2);

/// Initial size of the read buffer of a connection, in bytes. An idle connection does not keep a larger one.
const USUAL_BUFFER: usize = 16 * 1024 - 1;

/// The time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) head: Duration,
    pub(super) idle: Duration,
    pub(super) write: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    Head,
    Busy,
    Idle,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// When the phase began; for the first `Head` of a connection, when that was accepted. It is set when the
    /// deadline is needed at the end of the turn, because most phases are over by then.
    since: Option<Instant>,
    write_blocked: Option<Instant>,
    /// Since when the connection has a part of an answer without asking for the next one.
    handed: Option<Instant>,
    /// Bytes of the head that is arriving.
    received: usize,
    /// Its share in the sum of all incomplete heads.
    share: Share,
    /// Whether the buffers of the connection are larger than at its start.
    is_grown: bool,
    /// Whether written bytes were not flushed yet.
    is_unflushed: bool,
    /// Whether a request ended before its body was read. The connection may still read it.
    is_body_left: bool,
}

/// The next step for a connection that waits for its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Wait,
    /// Replace its large buffers, which are empty.
    Renew,
    /// Refuse its head, which is not complete and has no more room.
    HeadsFull,
}

/// Shared by the socket, the requests and the enforcer of the limits.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

impl Activity {
    pub(super) fn new() -> Self {
        let since = Some(Instant::now());
        let state = State {
            phase: Phase::Fresh,
            since,
            write_blocked: None,
            handed: None,
            received: 0,
            share: Share::default(),
            is_grown: false,
            is_unflushed: false,
            is_body_left: false,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the state would be valid even then.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request, which ends when the returned value is dropped. `size` returns the bytes of its head; it
    /// is called only for a head that may be large. Without a share there is no room for the head.
    pub(super) fn request(&self, size: impl FnOnce() -> usize) -> (RunningRequest, Option<Share>) {
        let mut state = self.state();
        state.phase = Phase::Busy;
        let mut share = std::mem::take(&mut state.share);
        let has_room = std::mem::take(&mut state.received) <= FREE || {
            let size = size();
            state.is_grown |= size > FREE;
            share.resize(size)
        };
        drop(state);
        (RunningRequest(self.clone()), has_room.then_some(share))
    }

    /// Records that the body of the request was dropped before its end.
    pub(super) fn left_body(&self) {
        self.state().is_body_left = true;
    }

    /// Returns the next step for the connection, after it was polled and waits.
    pub(super) fn rest(&self) -> Rest {
        let mut state = self.state();
        match state.phase {
            Phase::Fresh | Phase::Head if state.received > FREE => {
                let received = state.received;
                if state.share.resize(received) { Rest::Wait } else { Rest::HeadsFull }
            }
            Phase::Idle if state.is_grown && !state.is_unflushed && !state.is_body_left => {
                state.is_grown = false;
                Rest::Renew
            }
            _ => Rest::Wait,
        }
    }

    /// Whether the connection waits for its client to read.
    pub(super) fn is_unread(&self) -> bool {
        let state = self.state();
        state.write_blocked.is_some() || state.handed.is_some()
    }

    /// Returns when the connection must be closed, unless something happens before.
    pub(super) fn deadline(&self, times: &Times) -> Option<Instant> {
        let mut state = self.state();
        let limit = match state.phase {
            Phase::Fresh | Phase::Head => Some(times.head),
            Phase::Idle => Some(times.idle),
            Phase::Busy => None,
        };
        let phase = limit.map(|limit| *state.since.get_or_insert_with(now) + limit);
        let write = state.write_blocked.map(|since| since + times.write);
        let part = state.handed.map(|since| since + times.write.max(PART_LIMIT));
        [phase, write, part].into_iter().flatten().min()
    }

    /// Records that `count` bytes were read into a buffer that had `room`.
    fn received(&self, count: usize, room: usize) {
        let mut state = self.state();
        state.is_grown |= room > USUAL_BUFFER;
        match state.phase {
            Phase::Fresh => state.phase = Phase::Head,
            Phase::Idle => {
                state.phase = Phase::Head;
                state.since = None;
            }
            Phase::Head => {}
            Phase::Busy => return,
        }
        state.received += count;
    }

    fn flushed(&self) {
        let mut state = self.state();
        state.is_unflushed = false;
        state.write_blocked = None;
    }

    fn wrote(&self, progress: bool) {
        let mut state = self.state();
        state.is_unflushed = true;
        match state.write_blocked {
            Some(_) if progress => state.write_blocked = None,
            None if !progress => state.write_blocked = Some(Instant::now()),
            _ => {}
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct RunningRequest(Activity);

impl RunningRequest {
    /// Records that the connection got a part of an answer that has more parts.
    pub(super) fn handed(&self) {
        self.0.state().handed = Some(now());
    }

    /// Records that the connection asks for the next part.
    pub(super) fn asked(&self) {
        self.0.state().handed = None;
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.handed = None;
        state.phase = Phase::Idle;
        state.since = None;
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
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
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
    use super::*;

    const TIMES: Times = Times {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
    };

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    /// Seconds from now until the deadline.
    fn left(activity: &Activity) -> Option<u64> {
        activity.deadline(&TIMES).map(|at| at.duration_since(Instant::now()).as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_walks_through_its_phases() {
        let activity = Activity::new();
        assert_eq!(left(&activity), Some(10));
        pass(4).await;
        activity.received(1, 1);
        assert_eq!(left(&activity), Some(6), "the first byte wins no time");
        let (request, _share) = activity.request(|| 0);
        activity.received(1, 1);
        assert_eq!(left(&activity), None, "a body is not a head");
        drop(request);
        assert_eq!(left(&activity), Some(75));
        pass(50).await;
        activity.received(1, 1);
        assert_eq!(left(&activity), Some(10), "a head has begun");
        pass(9).await;
        activity.received(1, 1);
        assert_eq!(left(&activity), Some(1), "more bytes win no time");
    }

    #[tokio::test]
    async fn buffers_are_renewed_only_where_nothing_is_in_them() {
        let activity = Activity::new();
        activity.received(100, USUAL_BUFFER + 1);
        assert_eq!(activity.rest(), Rest::Wait, "a head has begun");
        let (request, share) = activity.request(|| 100);
        activity.wrote(true);
        assert_eq!((share.is_some(), activity.rest()), (true, Rest::Wait), "a request runs");
        drop(request);
        assert_eq!(activity.rest(), Rest::Wait, "its answer is not flushed");
        activity.flushed();
        assert_eq!((activity.rest(), activity.rest()), (Rest::Renew, Rest::Wait), "once");
        activity.received(100, USUAL_BUFFER + 1);
        let request = activity.request(|| 100);
        activity.left_body();
        drop(request);
        assert_eq!(activity.rest(), Rest::Wait, "the connection may be reading the body that was left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_given_up() {
        let activity = Activity::new();
        let _request = activity.request(|| 0);
        activity.wrote(false);
        pass(20).await;
        activity.wrote(false);
        assert_eq!(left(&activity), Some(10), "from the first blocked write on");
        activity.wrote(true);
        assert_eq!(left(&activity), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_next_to_nothing_of_an_answer_is_given_up() {
        let activity = Activity::new();
        let (request, _share) = activity.request(|| 0);
        request.handed();
        pass(60).await;
        activity.wrote(false);
        activity.wrote(true);
        assert_eq!(left(&activity), Some(60), "a byte now and then wins no time");
        request.asked();
        assert_eq!(left(&activity), None, "the answer itself has its own");
        request.handed();
        drop(request);
        assert_eq!(left(&activity), Some(75), "it was the last part");
    }
}
