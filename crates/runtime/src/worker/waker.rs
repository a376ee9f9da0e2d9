//! The waker of a connection's task, which can suppress wake-ups that bring nothing new.
//!
//! Reading a piece of a request or response body wakes the task that writes the next piece. In Switchyard one task does
//! both, so each body would cost one more turn of its task without any work. A connection is therefore polled with a
//! [`ConnectionWaker`] instead of the waker of its task. While its body is read ([`suppress_wakes`]), wake-ups are reported to the reader,
//! which knows whether there is more to read.
//!
//! Invariants: only wake-ups of this one waker, on this thread and during the read, are suppressed. All others reach the
//! task.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A waker for the task that polled last with it.
#[derive(Debug)]
pub struct ConnectionWaker {
    task: Arc<Task>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Task(AtomicWaker);

impl ConnectionWaker {
    /// Returns a waker without a task.
    pub fn new() -> Self {
        let task = Arc::new(Task::default());
        Self { waker: Waker::from(Arc::clone(&task)), task }
    }

    /// Makes the waker wake the task of `context`. Returns the context to poll with.
    pub fn register(&self, context: &Context<'_>) -> Context<'_> {
        self.task.0.register(context.waker());
        Context::from_waker(&self.waker)
    }

    /// The waker to pass to [`suppress_wakes`].
    pub const fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Default for ConnectionWaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let me = Arc::as_ptr(self).cast();
        let is_held_back = SUPPRESSED.with(|suppressed| {
            let is_mine = ptr::eq(suppressed.own_waker.get(), me);
            if is_mine {
                suppressed.was_woken.set(true);
            }
            is_mine
        });
        if !is_held_back {
            self.0.wake();
        }
    }
}

thread_local! {
    static SUPPRESSED: Suppressed = const { Suppressed { own_waker: Cell::new(ptr::null()), was_woken: Cell::new(false) } };
}

/// The waker that is suppressed on this thread, if any, and whether it was woken.
struct Suppressed {
    own_waker: Cell<*const ()>,
    was_woken: Cell<bool>,
}

/// Runs `work` while wake-ups of the waker with `waker` are suppressed on this thread. Also returns whether there was
/// one. Other wakers are not affected.
pub fn suppress_wakes<T>(waker: &Waker, work: impl FnOnce() -> T) -> (T, bool) {
    /// Ends the suppression, even if `work` panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            SUPPRESSED.with(|suppressed| suppressed.own_waker.set(ptr::null()));
        }
    }
    SUPPRESSED.with(|suppressed| {
        suppressed.own_waker.set(waker.data());
        suppressed.was_woken.set(false);
    });
    let end = End;
    let output = work();
    drop(end);
    (output, SUPPRESSED.with(|suppressed| suppressed.was_woken.get()))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a waker, its waker, and the number of times that its task was woken.
    fn rung() -> (ConnectionWaker, Waker, impl Fn() -> usize) {
        let (own_waker, count) = (ConnectionWaker::new(), Arc::new(Count::default()));
        let task = Waker::from(Arc::clone(&count));
        let waker = own_waker.register(&Context::from_waker(&task)).waker().clone();
        (own_waker, waker, move || count.0.load(Ordering::Relaxed))
    }

    #[test]
    fn it_wakes_the_task_that_polled_last() {
        let (own_waker, waker, first) = rung();
        let second = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&second));
        waker.wake_by_ref();
        assert_eq!(first(), 1);
        let _ = own_waker.register(&Context::from_waker(&task));
        waker.wake();
        assert_eq!((first(), second.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn it_is_held_back_alone_and_only_meanwhile_and_here() {
        let (_bell, waker, count) = rung();
        let (_other, other, others) = rung();
        let ((), was_woken) = suppress_wakes(&waker, || {
            other.wake_by_ref();
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake_by_ref());
            });
        });
        assert_eq!((was_woken, others(), count()), (false, 1, 1), "another bell, and another thread");
    }

    #[test]
    fn suppressed_wakes_are_delivered_once() {
        let (_bell, waker, count) = rung();
        assert_eq!(suppress_wakes(&waker, || waker.wake_by_ref()), ((), true));
        assert_eq!((count(), suppress_wakes(&waker, || ())), (0, ((), false)));
        waker.wake_by_ref();
        assert_eq!(count(), 1, "afterwards it rings");
    }

    #[test]
    fn a_panic_ends_the_hush() {
        let (_bell, waker, count) = rung();
        let _ = catch_unwind(AssertUnwindSafe(|| suppress_wakes(&waker, || panic!("on purpose"))));
        waker.wake_by_ref();
        assert_eq!(count(), 1);
    }
}
