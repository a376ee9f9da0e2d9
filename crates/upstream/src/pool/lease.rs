//! Exclusive lease of a connection whose server requests cannot be tied to one call.
//!
//! Invariants: after the server was seen sending requests, calls of two owners never share a connection at the same
//! time. Before that they may, and the transport refuses server requests. A free connection is never left unused
//! while an owner waits: a woken owner is about to take it, or the waiting owner checks again soon.
//!
//! Calls of the current owner always pass, because a client may need another call to answer a server request. An owner
//! that leaves cannot return before the owners woken at that moment had a chance. Owners therefore take turns, but an
//! owner that never leaves keeps its connection, and the deadlines of the others end their wait.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::connection::{Owner, Unanswered};
use runtime::worker::at;

/// How long an owner that left stays behind the owners woken at that moment.
const HEAD_START: Duration = Duration::from_millis(50);

/// Calls that wait for a connection of one dialect, in their order. The bulkhead limits their number.
#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Mutex<VecDeque<Waiter>>>);

/// A waiting owner, and the channel that wakes it.
type Waiter = (Owner, oneshot::Sender<()>);

impl Queue {
    /// Adds a waiting call of `owner` to the queue.
    pub(super) fn join(&self, owner: Owner) -> QueuePlace {
        let (wake, woken) = oneshot::channel();
        self.lock().push_back((owner, wake));
        QueuePlace { woken, head_start: None, unanswered: None, queue: self.clone(), is_taken: false }
    }

    /// Wakes all waiting calls, because the set of connections changed.
    pub(super) fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.lock());
        for (_, wake) in waiting {
            let _ = wake.send(()); // a call that left does not need it
        }
    }

    /// Wakes all calls of the owner that has waited longest. Returns whether there is one.
    fn wake_next(&self) -> bool {
        loop {
            let Some((owner, wake)) = self.lock().pop_front() else { return false };
            if wake.send(()).is_ok() {
                self.wake(owner);
                return true;
            }
        }
    }

    /// Wakes the calls of `owner`.
    fn wake(&self, owner: Owner) {
        let mut waiting = self.lock();
        let (its, others) = waiting.drain(..).partition(|(other, _)| *other == owner);
        *waiting = others;
        drop(waiting);
        let its: VecDeque<_> = its;
        for (_, wake) in its {
            let _ = wake.send(()); // a call that left does not need it
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Owner, oneshot::Sender<()>)>> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue. If it was woken and is dropped unused, it wakes the next one. If it is dropped before, it
/// leaves no entry.
pub(super) struct QueuePlace {
    woken: oneshot::Receiver<()>,
    head_start: Option<Instant>,
    /// Cancelled calls of others that keep the call off a connection while their answers may still arrive.
    unanswered: Option<Unanswered>,
    queue: Queue,
    is_taken: bool,
}

impl QueuePlace {
    /// Also resolves at the end of this head start. The favored owner may have found another connection, and the end of
    /// the time alone wakes no call.
    pub(super) const fn ends_with(&mut self, head_start: Option<Instant>) {
        self.head_start = head_start;
    }

    /// Also resolves when such cancelled calls were answered, or their time is over.
    pub(super) fn waits_for(&mut self, unanswered: Unanswered) {
        self.unanswered = Some(unanswered).filter(|unanswered| !unanswered.is_over());
    }

    /// Resolves when the caller should check again.
    pub(super) async fn comes(mut self) {
        let over = at(self.head_start);
        let unanswered = self.unanswered.take();
        let settled = async {
            match unanswered {
                Some(mut unanswered) => unanswered.settled().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            // The sender is dropped only with the whole queue.
            _ = &mut self.woken => self.is_taken = true,
            () = over => {}
            () = settled => {}
        }
    }

    /// Waits for a turn, or forever if it is `None`.
    pub(super) async fn of(turn: Option<Self>) {
        match turn {
            Some(turn) => turn.comes().await,
            None => pending().await,
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        // After this, no sender finds the receiver open.
        self.woken.close();
        if self.woken.try_recv().is_ok() {
            self.queue.wake_next();
        } else {
            self.queue.lock().retain(|(_, wake)| !wake.is_closed());
        }
    }
}

/// The owners on one connection, with the number of calls of each.
pub(super) struct Lease {
    state: Mutex<State>,
    queue: Queue,
}

#[derive(Default)]
struct State {
    holders: Vec<(Owner, usize)>,
    /// The owner that left last, if another one was woken at that moment.
    left: Option<(Owner, Instant)>,
}

impl Lease {
    pub(super) fn new(queue: &Queue) -> Self {
        Self { state: Mutex::default(), queue: queue.clone() }
    }

    /// Adds a call of `owner`. Returns false if the lease is `exclusive` and another owner holds it, or if another one
    /// was woken for it and `owner` was not.
    pub(super) fn take(&self, owner: Owner, exclusive: bool, is_woken: bool) -> bool {
        let mut state = self.lock();
        if exclusive {
            let left = |(who, at): (Owner, Instant)| who == owner && at.elapsed() < HEAD_START;
            let is_behind = state.holders.is_empty() && !is_woken && state.left.is_some_and(left);
            if is_behind || state.holders.iter().any(|(other, _)| *other != owner) {
                return false;
            }
        }
        match state.holders.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, calls)) => *calls += 1,
            None => state.holders.push((owner, 1)),
        }
        true
    }

    /// The end of the head start of others over `owner`, while no owner holds the lease.
    pub(super) fn head_start_of(&self, owner: Owner) -> Option<Instant> {
        let state = self.lock();
        let (_, at) = state.left.filter(|(who, _)| *who == owner && state.holders.is_empty())?;
        Some(at + HEAD_START)
    }

    /// Whether `owner` has a call here.
    pub(super) fn is_held_by(&self, owner: Owner) -> bool {
        self.lock().holders.iter().any(|(other, _)| *other == owner)
    }

    /// Removes a call of `owner`.
    pub(super) fn release(&self, owner: Owner) {
        let mut state = self.lock();
        let Some(at) = state.holders.iter().position(|(other, _)| *other == owner) else { return };
        state.holders[at].1 -= 1;
        if state.holders[at].1 > 0 {
            return;
        }
        state.holders.swap_remove(at);
        match state.holders.as_slice() {
            [] => state.left = self.queue.wake_next().then(|| (owner, Instant::now())),
            // A second owner remained from before the first server request. Now it is alone.
            [(last, _)] => self.queue.wake(*last),
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "leased_tests.rs"]
mod leased_tests;
