//! The scheduling policy of a worker: run at once, or let running threads finish first.
//!
//! When data arrives for a sleeping thread, Linux lets that thread interrupt the one that runs on its processor. That
//! is mostly the thread that has just written the data. With one client this gives the shortest latency.
//!
//! If several clients share a worker and there are few processors, each interruption costs time. A thread that is about
//! to send the second request is interrupted for the answer to the first, after which the worker sleeps again. A worker
//! with [`MANY`] or more connections is therefore a batch thread (`SCHED_BATCH` in sched(7)), which does not interrupt
//! others. `benches/NOTES.md` has the gain, and the cost if all processors have other work too.
//!
//! Invariants: only threads declared [`ours`] are changed, and none if the program was started under an unusual policy.
//! Threads and processes that a worker starts have the usual policy. If a system does not allow the change, each worker
//! tries it once.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use system::Policy;

/// The number of connections from which on a worker does not interrupt others.
const MANY: usize = 4;
/// The number of connections below which a worker has the usual policy again. Less than [`MANY`], so that a single
/// connection that closes and opens changes nothing.
const FEW: usize = 2;

thread_local! {
    /// The current policy of this thread; `None` if Switchyard must not change it.
    static MADE: Cell<Option<Policy>> = const { Cell::new(None) };
}

/// Whether some thread of this program may have a changed policy, which new threads inherit.
static IS_CHANGED: AtomicBool = AtomicBool::new(false);

/// Declares this thread a worker of the program, whose policy may change.
pub fn ours() {
    if system::policy() == Some(Policy::Usual) {
        IS_CHANGED.store(true, Ordering::Relaxed);
        MADE.set(Some(Policy::Usual));
    }
}

/// Gives this thread the usual policy. It is not a worker, and may have inherited the policy of one.
pub fn as_usual() {
    if IS_CHANGED.load(Ordering::Relaxed) {
        change(Policy::Usual);
    }
}

/// Sets the policy of this worker for this number of connections.
pub(super) fn suit(connections: usize) {
    let better = match MADE.get() {
        Some(Policy::Usual) if connections >= MANY => Policy::Batch,
        Some(Policy::Batch) if connections < FEW => Policy::Usual,
        _ => return,
    };
    MADE.set(change(better).then_some(better));
}

fn change(policy: Policy) -> bool {
    system::change(policy)
        .inspect_err(|error| tracing::debug!(error, "a thread stays scheduled as it is"))
        .is_ok()
}

/// The library is young: its version is pinned, and it is used only here.
#[cfg(target_os = "linux")]
mod system {
    use preempt_rt::sched::{Pid, Scheduler, SchedulerParams, get_scheduler, set_scheduler};

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Policy {
        Usual,
        Batch,
    }

    /// The policy of this thread, if it is one of these.
    pub(super) fn policy() -> Option<Policy> {
        match get_scheduler(Pid::current_thread()) {
            Ok(Scheduler::SCHED_NORMAL) => Some(Policy::Usual),
            Ok(Scheduler::SCHED_BATCH) => Some(Policy::Batch),
            _ => None,
        }
    }

    pub(super) fn change(policy: Policy) -> Result<(), String> {
        let scheduler = match policy {
            Policy::Usual => Scheduler::SCHED_NORMAL,
            Policy::Batch => Scheduler::SCHED_BATCH,
        };
        let changed = set_scheduler(Pid::current_thread(), scheduler, SchedulerParams { priority: 0 });
        changed.map_err(|error| error.to_string())
    }
}

/// Other systems have no such policy, so nothing is changed.
#[cfg(not(target_os = "linux"))]
mod system {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Policy {
        Usual,
        Batch,
    }

    pub(super) fn policy() -> Option<Policy> {
        None
    }

    pub(super) fn change(_: Policy) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use Policy::{Batch, Usual};

    use super::system::{change, policy};
    use super::*;

    /// Returns the result of `work`, run in a new thread, because a policy would outlive the test on its thread.
    fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
    }

    #[test]
    fn a_worker_is_patient_from_many_connections_until_few() {
        let seen = apart(|| {
            ours();
            [0, 3, 4, 9, 2, 1, 3, 4].map(|connections| {
                suit(connections);
                policy().expect("one of the two")
            })
        });
        assert_eq!(seen, [Usual, Usual, Batch, Batch, Batch, Usual, Usual, Batch]);
    }

    #[test]
    fn threads_of_others_stay_as_they_are() {
        let embedded = apart(|| {
            suit(100);
            policy()
        });
        assert_eq!(embedded, Some(Usual), "nobody said that it is ours");
        let chosen = apart(|| {
            change(Batch).expect("allowed");
            ours();
            suit(100);
            suit(0);
            policy()
        });
        assert_eq!(chosen, Some(Batch), "whoever started us chose it");
    }

    #[test]
    fn process_started_by_a_worker_has_the_usual_scheduling() {
        let (inherited, of_runtime) = apart(|| {
            ours();
            suit(100);
            let runtime = super::super::runtime().expect("a runtime");
            let blocking = runtime.block_on(async { tokio::task::spawn_blocking(policy).await });
            (apart(policy), blocking.expect("no panic"))
        });
        assert_eq!((inherited, of_runtime), (Some(Batch), Some(Usual)));
    }
}
