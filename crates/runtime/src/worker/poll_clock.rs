//! One poll of the task of a client's connection: the time within it, the time of the next one, and its waker.
//!
//! A call is polled in the task of its connection, so that task can keep the time for every wait inside it. The task
//! has one timer for its own limits, and moves it if a wait ends earlier. A wait with a deadline ([`until`]) then costs
//! a comparison instead of a timer of the runtime. The clock is read once in a turn ([`now`]).
//!
//! Reading a piece of a body wakes the task that writes the next piece. In Switchyard one task does both, so each body would
//! cost one more turn without any work. While a body is read ([`suppress_wakes`]), wake-ups of a [`ConnectionWaker`] are
//! reported to the reader, which knows whether there is more to read.
//!
//! Invariants: no wait exceeds its deadline, wherever it is polled. A wait that is polled by another task, or with
//! another waker, has its own timer. Only wake-ups of one waker, on this thread and during the read, are suppressed.

use std::cell::Cell;
use std::future::pending;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep_until};

thread_local! {
    static TURN: CurrentPoll = const { CurrentPoll { waker: Cell::new(ptr::null()), now: Cell::new(None), due: Cell::new(None) } };
}

/// The turn on this thread, if there is one.
struct CurrentPoll {
    /// The data pointer of the task's waker; null outside of turns.
    waker: Cell<*const ()>,
    now: Cell<Option<Instant>>,
    due: Cell<Option<Instant>>,
}

/// Runs `work` as a turn of the task that `waker` wakes. The caller must read [`due`] at the end and schedule the next
/// turn for that time.
///
/// A turn must not begin within another turn on the same thread, because the state of the outer turn would be lost.
pub fn turn<T>(waker: &Waker, work: impl FnOnce() -> T) -> T {
    /// Ends the turn, even if `work` panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            TURN.with(|turn| turn.begin(ptr::null()));
        }
    }
    debug_assert!(
        TURN.with(|turn| turn.waker.get().is_null()),
        "a turn begins within another one: only the task of a connection has turns, and it has one at a time"
    );
    TURN.with(|turn| turn.begin(waker.data()));
    let end = End;
    let output = work();
    drop(end);
    output
}

/// The time at which the task needs its next turn: the earliest deadline that was polled in this turn.
pub fn due() -> Option<Instant> {
    TURN.with(|turn| turn.due.get())
}

/// The time. Within a turn it is the time of the first call.
pub fn now() -> Instant {
    TURN.with(|turn| {
        if turn.waker.get().is_null() {
            return Instant::now();
        }
        let now = turn.now.get().unwrap_or_else(Instant::now);
        turn.now.set(Some(now));
        now
    })
}

/// Resolves at `when`; never if it is `None`.
pub async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => pending().await,
    }
}

/// Resolves at `deadline`.
pub const fn until(deadline: Instant) -> Until {
    Until { deadline, own: None }
}

/// A wait for a deadline, see [`until`].
#[derive(Debug)]
pub struct Until {
    deadline: Instant,
    /// The wait's own timer, once it was polled outside of the turns of a connection.
    own: Option<Pin<Box<Sleep>>>,
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        if self.own.is_none() && TURN.with(|turn| turn.is_of(context.waker())) {
            if now() >= deadline {
                return Poll::Ready(());
            }
            TURN.with(|turn| turn.end_by(deadline));
            return Poll::Pending;
        }
        self.own.get_or_insert_with(|| Box::pin(sleep_until(deadline))).as_mut().poll(context)
    }
}

impl CurrentPoll {
    fn begin(&self, waker: *const ()) {
        self.waker.set(waker);
        self.now.set(None);
        self.due.set(None);
    }

    fn is_of(&self, waker: &Waker) -> bool {
        ptr::eq(self.waker.get(), waker.data()) && !waker.data().is_null()
    }

    fn end_by(&self, deadline: Instant) {
        let due = self.due.get().map_or(deadline, |due| due.min(deadline));
        self.due.set(Some(due));
    }
}

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
    use std::time::Duration;

    use super::super::ConnectionWaker;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Polls `wait` in a new turn. Returns whether it ended, and when the next turn is due.
    fn in_a_turn(waker: &ConnectionWaker, wait: &mut Until) -> (bool, Option<Instant>) {
        let mut context = Context::from_waker(waker.waker());
        turn(waker.waker(), || (Pin::new(wait).poll(&mut context).is_ready(), due()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_due_when_the_first_who_waits_in_it_is() {
        let (waker, started) = (ConnectionWaker::new(), Instant::now());
        let (mut soon, mut later) = (until(started + SECOND), until(started + 2 * SECOND));
        let mut context = Context::from_waker(waker.waker());
        let due_then = turn(waker.waker(), || {
            let polled = [&mut later, &mut soon].map(|wait| Pin::new(wait).poll(&mut context));
            assert!(polled.iter().all(Poll::is_pending));
            due()
        });
        assert_eq!((due_then, due()), (Some(started + SECOND), None), "it says so while it lasts");
        tokio::time::advance(SECOND).await;
        assert_eq!(in_a_turn(&waker, &mut soon), (true, None));
        assert_eq!(in_a_turn(&waker, &mut later), (false, Some(started + 2 * SECOND)));
        assert!(soon.own.is_none() && later.own.is_none(), "without a timer");
    }

    #[tokio::test(start_paused = true)]
    async fn elsewhere_and_with_another_waker_it_waits_by_itself() {
        let (waker, other, started) = (ConnectionWaker::new(), ConnectionWaker::new(), Instant::now());
        let (mut moved, mut foreign) = (until(started + SECOND), until(started + SECOND));
        assert_eq!(in_a_turn(&waker, &mut moved), (false, Some(started + SECOND)));
        let mut context = Context::from_waker(other.waker());
        let (polled, due) =
            turn(waker.waker(), || (Pin::new(&mut foreign).poll(&mut context).is_pending(), due()));
        assert_eq!((polled, due), (true, None), "the turn would not poll it");
        tokio::join!(moved, foreign);
        assert_eq!(started.elapsed(), SECOND);
    }

    #[test]
    fn no_time_passes_in_a_turn() {
        let waker = ConnectionWaker::new();
        let (first, second) = turn(waker.waker(), || {
            let first = now();
            std::thread::scope(|scope| {
                // Another thread has no turn, so its clock continues.
                scope.spawn(|| while now() <= first {});
            });
            (first, now())
        });
        assert_eq!(first, second);
        assert!(now() > first);
    }

    #[test]
    #[cfg(debug_assertions)] // other builds do not check
    #[should_panic = "a turn begins within another one"]
    fn a_turn_is_never_within_another_one() {
        let waker = ConnectionWaker::new();
        turn(waker.waker(), || turn(waker.waker(), || ()));
    }

    #[test]
    fn a_panic_ends_the_turn() {
        let waker = ConnectionWaker::new();
        let _ = catch_unwind(AssertUnwindSafe(|| turn(waker.waker(), || panic!("on purpose"))));
        let first = now();
        while now() <= first {}
    }

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
