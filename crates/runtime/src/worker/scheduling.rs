//! How the system schedules a worker: at once, or after whoever is at work.
//!
//! When data comes for a thread that sleeps, Linux lets that thread interrupt what runs on its processor,
//! which mostly is who has just written the data. For one client this is the shortest way to its answer.
//! Where several clients share a worker, and few processors with it, each loses by it: the one that was
//! about to bring the second request is interrupted for the answer to the first, after which the worker
//! sleeps again. From [`MANY`] connections on a worker is therefore a batch thread (`SCHED_BATCH` in
//! sched(7)), whose turn comes when the others have come to their end. What that brings, and what it costs
//! where all processors have other work too, is in `benches/NOTES.md`.
//!
//! Invariants: only threads that were declared [`ours`] are changed, and none when the program was started
//! under another policy than the usual one; threads and processes that a worker starts are scheduled as
//! usual. A system that does not allow the change is asked once for each worker.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use system::Policy;

/// Connections of a worker from which on it lets others come to their end.
const MANY: usize = 4;
/// Connections below which it does so no more. Less than [`MANY`], so that who comes and goes changes nothing.
const FEW: usize = 2;

thread_local! {
    /// What this thread was made; none where it is not ours to change.
    static MADE: Cell<Option<Policy>> = const { Cell::new(None) };
}

/// Whether some thread of this program is changed at times, and new ones may begin as it is.
static IS_CHANGED: AtomicBool = AtomicBool::new(false);

/// Declares this thread a worker of the program, to be scheduled as suits its work.
pub fn ours() {
    if system::policy() == Some(Policy::Usual) {
        IS_CHANGED.store(true, Ordering::Relaxed);
        MADE.set(Some(Policy::Usual));
    }
}

/// Has this thread, which is no worker, scheduled as usual, whoever started it.
pub fn as_usual() {
    if IS_CHANGED.load(Ordering::Relaxed) {
        change(Policy::Usual);
    }
}

/// Schedules this worker as suits so many connections.
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

/// Young: pinned, and used here only.
#[cfg(target_os = "linux")]
mod system {
    use preempt_rt::sched::{Pid, Scheduler, SchedulerParams, get_scheduler, set_scheduler};

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Policy {
        Usual,
        Batch,
    }

    /// That of this thread, if it is one of these.
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

/// Other systems have no such policy: nothing is ours to change.
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

    /// What `work` says, in a thread of its own: the policy outlives a test on the same thread.
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
    fn what_a_worker_starts_is_scheduled_as_usual() {
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
