//! State of one connection, for its time limits, and memory for the heads of all requests of its listener.
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
//! too: when the connection does not ask for the next part of its answer within [`PART_LIMIT`]. The first [`FREE`] bytes of each
//! head are not counted, so an ordinary request is never refused here. The rest of all heads takes at most [`IN_SUM`].
//!
//! It also detects when the buffers of the connection are empty and can be replaced by small ones. And it knows whether the
//! connection only waits for its client, and therefore yields its slot to a new connection when all slots are taken
//! ([`Activity::waits`]).
//!
//! Not here: closing the connection (`http1`), bodies (`body_budget`), the slots (`socket_slots`, `socket_shares`).

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use http::Request;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::client_address::ClientAddress;
use super::socket_shares::HeldSlot;
use runtime::memory::Account;
use runtime::worker::now;

/// How long a connection may take for one part of a longer answer, some hundred kilobytes at most. The limit exists
/// because the answer occupies slots of servers.
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

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Fresh,
    Head,
    Busy,
    Idle,
}

/// Where the slot of a connection goes when that ends.
pub(super) type Claim = oneshot::Sender<OwnedSemaphorePermit>;

#[derive(Debug, Default)]
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
    /// Its share in `heads`, the sum of all heads of the listener.
    share: Share,
    heads: HeadBudget,
    /// Whether the buffers of the connection are larger than at its start.
    is_grown: bool,
    /// Whether written bytes were not flushed yet.
    is_unflushed: bool,
    /// Whether a request ended before its body was read. The connection may still read it.
    is_body_left: bool,
    /// Since when a request waits for more of its body.
    body_blocked: Option<Instant>,
    /// The share of the client of the last request. Without a valid credential, the connection yields its slot more often.
    held: Option<HeldSlot>,
    claims: Claims,
}

/// The claims of new connections to the slot of this one.
#[derive(Debug, Default)]
struct Claims {
    current: Option<Claim>,
    /// Whether one was refused before, because a request had arrived.
    has_refused: bool,
    /// Wakes the task of this connection.
    waker: Option<Waker>,
}

impl State {
    /// Whether the connection is between two requests, or before the first one, and nothing of an exchange is left.
    fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Fresh | Phase::Idle) && !self.is_unflushed && !self.is_body_left
    }

    /// Whether a principal keeps the slot. One that only counts for its client is not kept.
    fn is_kept(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.principal().is_some())
    }

    fn waits(&self) -> Option<Waiting> {
        let is_kept = self.is_kept();
        let since = match self.phase {
            _ if is_kept && !self.is_idle() => None,
            Phase::Fresh | Phase::Head | Phase::Idle => self.since,
            Phase::Busy => self.write_blocked.or(self.body_blocked),
        };
        since.map(|since| Waiting { is_kept, since })
    }
}

/// A connection that only waits for its client. The least one yields its slot first: one that is kept for no principal,
/// then the one that has waited longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    is_kept: bool,
    since: Instant,
}

/// The next step for a connection that waits for its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleAction {
    /// Nothing.
    Wait,
    /// Replace its large buffers, which are empty.
    Renew,
    /// Refuse its head, which is not complete and has no more room.
    HeadsFull,
    /// Close it, unless a request has arrived that was not read yet: a new connection claims its slot.
    YieldIfIdle,
    /// Close it: a new connection claims its slot.
    Yield,
}

/// Shared by the socket, the requests and the enforcer of the limits.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

impl Activity {
    pub(super) fn new(heads: HeadBudget) -> Self {
        let state = State { since: Some(Instant::now()), heads, ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Records that the connection is ready for requests, after its handshake. `waker` wakes its task.
    pub(super) fn opened(&self, waker: Waker) {
        let mut state = self.state();
        state.since = Some(Instant::now());
        state.claims.waker = Some(waker);
    }

    /// Whether the slot is kept for `principal`.
    pub(super) fn is_kept_for(&self, principal: &Arc<str>) -> bool {
        self.state().held.as_ref().is_some_and(|held| held.is_for(principal))
    }

    /// The account of the principal of the last request.
    pub(super) fn account(&self) -> Account {
        Account::of(self.state().held.as_ref().and_then(HeldSlot::principal))
    }

    /// Whether the slot is kept for a principal.
    pub(super) fn is_kept(&self) -> bool {
        self.state().is_kept()
    }

    /// Whether the slot counts for clients of `address` without a credential.
    pub(super) fn is_counted_for(&self, address: ClientAddress) -> bool {
        self.state().held.as_ref().is_some_and(|held| held.counts_for(address))
    }

    /// Keeps the slot as `held` says, and no longer for another principal.
    pub(super) fn keep(&self, held: Option<HeldSlot>) {
        let before = std::mem::replace(&mut self.state().held, held);
        drop(before); // without the lock
    }

    /// Keeps the slot for nobody if the connection is between two requests.
    pub(super) fn release_if_idle(&self) {
        let mut state = self.state();
        let released = if state.is_idle() { state.held.take() } else { None };
        if released.is_some() {
            // Claims that were refused while it was kept do not count as the one that it may refuse now.
            state.claims.has_refused = false;
        }
        drop(state);
        drop(released); // without the lock
    }

    /// Whether the connection only waits for its client, and for how long. If it is kept for a principal, that is the case
    /// only between two requests, else wherever it waits for bytes from the client or for the client to read.
    pub(super) fn waits(&self) -> Option<Waiting> {
        let state = self.state();
        if state.claims.current.is_some() { None } else { state.waits() }
    }

    /// Asks the connection to end and to give its slot to `claim`. It drops `claim` if it has become busy.
    pub(super) fn claim(&self, claim: Claim) {
        let mut state = self.state();
        state.claims.current = Some(claim);
        let waker = state.claims.waker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Refuses the claim, because a request has arrived.
    pub(super) fn refuse_claim(&self) {
        let mut state = self.state();
        state.claims.has_refused = true;
        state.claims.current = None;
    }

    /// Takes the claim on the slot, to give the slot to it.
    pub(super) fn take_claim(&self) -> Option<Claim> {
        self.state().claims.current.take()
    }

    /// Resolves when the slot is claimed. For the time before the connection is [opened](Self::opened).
    pub(super) async fn claimed(&self) {
        poll_fn(|cx| {
            let mut state = self.state();
            if state.claims.current.is_some() {
                return Poll::Ready(());
            }
            state.claims.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the state would be valid even then.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no request has begun yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.state().phase == Phase::Fresh
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
            share.resize(size, &state.heads)
        };
        drop(state);
        (RunningRequest(self.clone()), has_room.then_some(share))
    }

    /// Records that the body of the request was dropped before its end.
    pub(super) fn left_body(&self) {
        self.state().is_body_left = true;
    }

    /// Records whether a request waits for more of its body.
    pub(super) fn body_blocked(&self, is_blocked: bool) {
        let mut state = self.state();
        state.body_blocked = is_blocked.then(|| state.body_blocked.unwrap_or_else(now));
    }

    /// Returns the next step for the connection, after it was polled and waits.
    pub(super) fn rest(&self) -> IdleAction {
        let mut state = self.state();
        if state.claims.current.is_some() {
            // If it is kept for nobody, once is enough. Otherwise requests sent ahead would save it forever.
            if state.is_idle() && (state.is_kept() || !state.claims.has_refused) {
                return IdleAction::YieldIfIdle;
            }
            if state.waits().is_some() {
                return IdleAction::Yield;
            }
            state.claims.current = None;
        }
        match state.phase {
            Phase::Fresh | Phase::Head if state.received > FREE => {
                let State { share, heads, received, .. } = &mut *state;
                if share.resize(*received, heads) { IdleAction::Wait } else { IdleAction::HeadsFull }
            }
            Phase::Idle if state.is_grown && !state.is_unflushed && !state.is_body_left => {
                state.is_grown = false;
                IdleAction::Renew
            }
            _ => IdleAction::Wait,
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
    pub(super) fn received(&self, count: usize, room: usize) {
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

    /// Records that all written bytes are with the system.
    pub(super) fn flushed(&self) {
        let mut state = self.state();
        state.is_unflushed = false;
        state.write_blocked = None;
    }

    /// Records a write, or that the system took none of its bytes.
    pub(super) fn wrote(&self, progress: bool) {
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

    /// The account that pays for the answer.
    pub(super) fn account(&self) -> Account {
        self.0.account()
    }

    /// Records that the connection asks for the next part.
    pub(super) fn next_requested(&self) {
        self.0.state().handed = None;
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.handed = None;
        state.body_blocked = None;
        state.phase = Phase::Idle;
        state.since = None;
        // The last part of the answer may be with the connection, which writes it in the same turn.
        state.is_unflushed = true;
    }
}

/// Bytes of each head that are not counted.
const FREE: usize = 4 * 1024;
/// The largest sum of the bytes that are counted.
const IN_SUM: usize = 16 * 1024 * 1024;
/// Bytes that the header map takes for each entry, beside the name and the value.
const ENTRY: usize = 112;

/// The sum of one listener. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadBudget(Arc<AtomicUsize>);

/// The bytes of one head in a sum. Without any it belongs to none.
#[derive(Debug, Default)]
pub(super) struct Share {
    bytes: usize,
    budget: Option<HeadBudget>,
}

impl Share {
    /// Grows or shrinks to what a head of `bytes` takes of `budget`, which is that of its listener. False if there is no
    /// room; then nothing is taken.
    #[must_use]
    pub(super) fn resize(&mut self, bytes: usize, budget: &HeadBudget) -> bool {
        let (needed, taken) = (bytes.saturating_sub(FREE), &budget.0);
        if needed <= self.bytes {
            taken.fetch_sub(self.bytes - needed, Ordering::Relaxed);
            self.bytes = needed;
            return true;
        }
        let more = needed - self.bytes;
        if taken.fetch_add(more, Ordering::Relaxed) + more > IN_SUM {
            taken.fetch_sub(more + std::mem::take(&mut self.bytes), Ordering::Relaxed);
            return false;
        }
        self.bytes = needed;
        self.budget.get_or_insert_with(|| budget.clone());
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(HeadBudget(taken)) = &self.budget {
            taken.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// The memory that the head of `request` takes, in bytes.
pub(super) fn size_of<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let headers = request.headers().iter();
    target + headers.map(|(name, value)| name.as_str().len() + value.len() + ENTRY).sum::<usize>()
}

#[cfg(test)]
#[path = "activity_tests.rs"]
mod tests;
