//! Whose calls stand on a connection that does not tell whose a server's question is.
//!
//! Invariants: once the server was seen asking, calls of two owners never stand on one connection at
//! a time (before that they may, and what is asked then is refused by the transport); while a
//! connection is free and somebody waits for one, somebody who was woken is on the way to it, or who
//! waits looks again as soon as it may have it.
//!
//! Calls of the owner who is there always pass, because a client may have to call on to answer a
//! question. An owner who leaves cannot come back before those who were woken then had a chance. So
//! owners take turns, but one who never leaves keeps its connection; the deadlines of the others end
//! their waiting.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::connection::{Owner, Unanswered};
use runtime::worker::at;

/// How long an owner who left stays behind those who were woken then.
const HEAD_START: Duration = Duration::from_millis(50);

/// Calls that wait for a connection of one dialect, in their order. The bulkhead bounds them.
#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Mutex<VecDeque<Waiter>>>);

/// Who waits, and how to wake them.
type Waiter = (Owner, oneshot::Sender<()>);

impl Queue {
    /// Waits for a turn of `owner`, from now on.
    pub(super) fn join(&self, owner: Owner) -> Turn {
        let (wake, woken) = oneshot::channel();
        self.lock().push_back((owner, wake));
        Turn { woken, head_start: None, unanswered: None, queue: self.clone(), is_taken: false }
    }

    /// Wakes everybody: connections came or went.
    pub(super) fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.lock());
        for (_, wake) in waiting {
            let _ = wake.send(()); // whoever left does not need it
        }
    }

    /// Wakes the owner who has waited for longest, with all its calls; whether there is one.
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
            let _ = wake.send(()); // whoever left does not need it
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Owner, oneshot::Sender<()>)>> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue. One that was woken and leaves all the same wakes the next; of one that
/// leaves before, nothing stays behind.
pub(super) struct Turn {
    woken: oneshot::Receiver<()>,
    head_start: Option<Instant>,
    /// Cancelled calls of others that keep it off a connection, while their answers may come.
    unanswered: Option<Unanswered>,
    queue: Queue,
    is_taken: bool,
}

impl Turn {
    /// It comes at the end of this head start too: whom that is for may have found another connection,
    /// and nobody is woken by time.
    pub(super) const fn ends_with(&mut self, head_start: Option<Instant>) {
        self.head_start = head_start;
    }

    /// It comes too when such cancelled calls were answered, or are waited for no longer.
    pub(super) fn waits_for(&mut self, unanswered: Unanswered) {
        self.unanswered = Some(unanswered).filter(|unanswered| !unanswered.is_over());
    }

    /// Resolves when it is worth looking again.
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

    /// The same of a turn that may not be there: then it never comes.
    pub(super) async fn of(turn: Option<Self>) {
        match turn {
            Some(turn) => turn.comes().await,
            None => pending().await,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        // Whoever wakes from now on finds that nobody is there.
        self.woken.close();
        if self.woken.try_recv().is_ok() {
            self.queue.wake_next();
        } else {
            self.queue.lock().retain(|(_, wake)| !wake.is_closed());
        }
    }
}

/// The owners on one connection, with how many calls each.
pub(super) struct Lease {
    state: Mutex<State>,
    queue: Queue,
}

#[derive(Default)]
struct State {
    holders: Vec<(Owner, usize)>,
    /// Who left last, when somebody else was woken then.
    left: Option<(Owner, Instant)>,
}

impl Lease {
    pub(super) fn new(queue: &Queue) -> Self {
        Self { state: Mutex::default(), queue: queue.clone() }
    }

    /// Takes a place for `owner`; false when it is `exclusive` and somebody else is there, or was
    /// woken for it and `owner` was not.
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

    /// Until when `owner` stays behind others, though nobody holds it.
    pub(super) fn head_start_of(&self, owner: Owner) -> Option<Instant> {
        let state = self.lock();
        let (_, at) = state.left.filter(|(who, _)| *who == owner && state.holders.is_empty())?;
        Some(at + HEAD_START)
    }

    /// Whether `owner` has a call here.
    pub(super) fn is_held_by(&self, owner: Owner) -> bool {
        self.lock().holders.iter().any(|(other, _)| *other == owner)
    }

    /// Gives a place back.
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
            // From before the server asked: now it is alone.
            [(last, _)] => self.queue.wake(*last),
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "leased_tests.rs"]
mod leased_tests;
