//! How open calls learn that their connection ends.
//!
//! A token of the runtime keeps all who wait for it in one list under one lock, and every call takes that
//! lock several times on every worker. Here each worker has a list of its own. Invariants: who waits
//! before the end is woken by it, who comes later does not wait; a wait that is dropped leaves nothing.
//!
//! Not here: why it ends (`close_reason`), and whatever waits for it longer than a call.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use runtime::worker;

/// The end of one connection.
#[derive(Debug, Default)]
pub(super) struct Ending {
    has_come: AtomicBool,
    lists: [Mutex<List>; worker::SHARES],
}

/// Who waits; as many as there are open calls, which are limited.
#[derive(Debug, Default)]
struct List {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

/// Resolves at the end.
pub(super) struct Wait<'a> {
    ending: &'a Ending,
    /// The list, and the place in it.
    place: Option<(usize, usize)>,
}

impl Ending {
    /// It has come. Once and for all.
    pub(super) fn come(&self) {
        // Before the lists are looked at: who enters one later sees it.
        self.has_come.store(true, Ordering::Release);
        for number in 0..worker::SHARES {
            let woken: Vec<Waker> = self.list(number).places.iter_mut().filter_map(Option::take).collect();
            woken.into_iter().for_each(Waker::wake);
        }
    }

    /// Waits for it.
    pub(super) const fn wait(&self) -> Wait<'_> {
        Wait { ending: self, place: None }
    }

    fn list(&self, number: usize) -> MutexGuard<'_, List> {
        // Nothing panics while it is held, and every write leaves a valid list.
        self.lists[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    /// Takes a place for `waker`.
    fn enter(&mut self, waker: Waker) -> usize {
        let Some(place) = self.free.pop() else {
            self.places.push(Some(waker));
            return self.places.len() - 1;
        };
        self.places[place] = Some(waker);
        place
    }
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let ending = self.ending;
        if let Some((number, place)) = self.place {
            let mut list = ending.list(number);
            let known = &mut list.places[place];
            if known.as_ref().is_none_or(|known| !known.will_wake(context.waker())) {
                *known = Some(context.waker().clone());
            }
        } else {
            let number = worker::share();
            let place = ending.list(number).enter(context.waker().clone());
            self.place = Some((number, place));
        }
        // Only now, so that what comes in between is not missed.
        if ending.has_come.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some((number, place)) = self.place {
            let mut list = self.ending.list(number);
            let gone = list.places[place].take();
            list.free.push(place);
            drop((list, gone)); // the waker without the lock
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;
    use runtime::shutdown::Shutdown;

    #[tokio::test]
    async fn it_wakes_all_who_wait_and_nobody_waits_later() {
        let (ending, shutdown) = (Arc::new(Ending::default()), Shutdown::new());
        for _ in 0..3 {
            let ending = Arc::clone(&ending);
            shutdown.spawn(async move { ending.wait().await });
        }
        tokio::task::yield_now().await;
        assert_eq!(ending.wait().now_or_never(), None);
        ending.come();
        assert!(shutdown.wait(std::time::Duration::from_secs(5)).await);
        assert_eq!(ending.wait().now_or_never(), Some(()));
    }

    #[test]
    fn a_wait_that_is_dropped_leaves_its_place_to_the_next() {
        let ending = Ending::default();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            let (mut one, mut other) = (ending.wait(), ending.wait());
            for _ in 0..2 {
                assert!(Pin::new(&mut one).poll(&mut context).is_pending());
                assert!(Pin::new(&mut other).poll(&mut context).is_pending());
            }
        }
        let list = ending.list(worker::share());
        assert_eq!((list.places.len(), list.free.len()), (2, 2));
        assert!(list.places.iter().all(Option::is_none));
    }
}
