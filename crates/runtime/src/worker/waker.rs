//! What wakes the task of a connection, and can be told that a ring would bring nothing new.
//!
//! Whoever takes a piece out of the body of a request or an answer wakes the task that puts the next one
//! in. Here that is the very task that takes, so each body cost a further turn of its task in which
//! nothing was left to do. A connection is polled with a [`Bell`] instead of its task's own waker, and
//! what rings it while its body is looked at ([`hushed`]) is told to who looks: it alone knows whether
//! there is more.
//!
//! Invariants: only rings of the one bell, on the thread that looks and while it looks, are held back;
//! all others reach the task.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Wakes the task that polled last with it.
#[derive(Debug)]
pub struct Bell {
    task: Arc<Task>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Task(AtomicWaker);

impl Bell {
    /// One that wakes nobody yet.
    pub fn new() -> Self {
        let task = Arc::new(Task::default());
        Self { waker: Waker::from(Arc::clone(&task)), task }
    }

    /// From now on it wakes the task of `context`; the context to poll with.
    pub fn answered_by(&self, context: &Context<'_>) -> Context<'_> {
        self.task.0.register(context.waker());
        Context::from_waker(&self.waker)
    }

    /// Its side of [`hushed`].
    pub const fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Default for Bell {
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
        let is_held_back = HUSH.with(|hush| {
            let is_mine = ptr::eq(hush.bell.get(), me);
            if is_mine {
                hush.rang.set(true);
            }
            is_mine
        });
        if !is_held_back {
            self.0.wake();
        }
    }
}

thread_local! {
    static HUSH: Hush = const { Hush { bell: Cell::new(ptr::null()), rang: Cell::new(false) } };
}

/// The bell that is held back on this thread, if any, and whether it rang.
struct Hush {
    bell: Cell<*const ()>,
    rang: Cell<bool>,
}

/// Does `work` while rings of the bell whose waker is `waker` are held back here, and says whether there
/// was one. Any other waker works as ever.
pub fn hushed<T>(waker: &Waker, work: impl FnOnce() -> T) -> (T, bool) {
    /// Ends it, whatever `work` does.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            HUSH.with(|hush| hush.bell.set(ptr::null()));
        }
    }
    HUSH.with(|hush| {
        hush.bell.set(waker.data());
        hush.rang.set(false);
    });
    let end = End;
    let output = work();
    drop(end);
    (output, HUSH.with(|hush| hush.rang.get()))
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

    /// A bell, the waker that it gives out, and how often its task was woken.
    fn rung() -> (Bell, Waker, impl Fn() -> usize) {
        let (bell, count) = (Bell::new(), Arc::new(Count::default()));
        let task = Waker::from(Arc::clone(&count));
        let waker = bell.answered_by(&Context::from_waker(&task)).waker().clone();
        (bell, waker, move || count.0.load(Ordering::Relaxed))
    }

    #[test]
    fn it_wakes_the_task_that_polled_last() {
        let (bell, waker, first) = rung();
        let second = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&second));
        waker.wake_by_ref();
        assert_eq!(first(), 1);
        let _ = bell.answered_by(&Context::from_waker(&task));
        waker.wake();
        assert_eq!((first(), second.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn it_is_held_back_alone_and_only_meanwhile_and_here() {
        let (_bell, waker, count) = rung();
        let (_other, other, others) = rung();
        let ((), rang) = hushed(&waker, || {
            other.wake_by_ref();
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake_by_ref());
            });
        });
        assert_eq!((rang, others(), count()), (false, 1, 1), "another bell, and another thread");
    }

    #[test]
    fn what_is_held_back_is_told_once() {
        let (_bell, waker, count) = rung();
        assert_eq!(hushed(&waker, || waker.wake_by_ref()), ((), true));
        assert_eq!((count(), hushed(&waker, || ())), (0, ((), false)));
        waker.wake_by_ref();
        assert_eq!(count(), 1, "afterwards it rings");
    }

    #[test]
    fn a_panic_ends_the_hush() {
        let (_bell, waker, count) = rung();
        let _ = catch_unwind(AssertUnwindSafe(|| hushed(&waker, || panic!("on purpose"))));
        waker.wake_by_ref();
        assert_eq!(count(), 1);
    }
}
