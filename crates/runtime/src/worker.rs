//! The threads that serve clients: a few workers, each with its own runtime.
//!
//! A client connection goes to the worker with the fewest connections and stays there, with everything that is done for
//! it. A call begins and ends on one thread, wakes no other thread, and uses the idle server connections of its worker.
//! There is no work stealing. Work that would block a worker (files, searches) runs on the threads for blocking work.
//! State that is kept per worker is indexed by the worker's number. In a program that embeds the crate, and in tests,
//! everything is worker 0.
//!
//! Not here: which tasks there are and how they end (`shutdown`).

pub mod bulk;
mod poll_clock;
mod scheduling;
mod work_budget;

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;

use bulk::BulkThreads;
pub use poll_clock::{ConnectionWaker, Until, at, due, now, suppress_wakes, turn, until};
pub use scheduling::{as_usual, ours};
pub use work_budget::WorkBudget;

/// Task polls after which a busy worker checks for events. At 200 µs a poll (`work_budget`), events are seen within 2
/// ms. The default of the runtime is 61.
const EVENT_INTERVAL: u32 = 8;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// The number of this thread's worker, from 0.
pub fn current() -> usize {
    NUMBER.get()
}

/// The number of shares of state that is kept per worker. Further workers use the same shares.
pub const SHARES: usize = 16;

/// The share of this worker, below [`SHARES`].
pub fn share() -> usize {
    current() % SHARES
}

/// The runtimes of the workers that were here, for tasks that must begin on another worker.
#[derive(Debug, Default)]
pub struct Runtimes([OnceLock<Handle>; SHARES]);

impl Runtimes {
    /// Records the runtime of this worker, the first time for its share.
    pub fn note_here(&self) {
        let share = &self.0[share()];
        if share.get().is_none()
            && let Ok(here) = Handle::try_current()
        {
            let _ = share.set(here);
        }
    }

    /// The runtime of a worker with this share, if one was recorded.
    pub fn of(&self, share: usize) -> Option<&Handle> {
        self.0.get(share)?.get()
    }
}

/// Makes this thread the worker `number` until it ends.
pub fn become_worker(number: usize) {
    NUMBER.set(number);
}

/// Makes a runtime for a worker.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .on_thread_start(as_usual)
        .build()
}

/// A function that begins a task on a worker, in its runtime. It must not block.
type TaskStart = Box<dyn FnOnce() + Send>;

/// The workers of a program: the runtime that created it, which is worker 0, and further threads. When it is dropped,
/// the threads end with all tasks that still run on them.
#[derive(Debug)]
pub struct Workers {
    own: Arc<AtomicUsize>,
    others: Vec<Worker>,
    bulk: Option<BulkThreads>,
}

#[derive(Debug)]
struct Worker {
    busy: Arc<AtomicUsize>,
    /// Unbounded, because the callers limit the number of tasks.
    starts: Option<mpsc::UnboundedSender<TaskStart>>,
    thread: Option<JoinHandle<()>>,
}

/// Counts as one task of a worker until it is dropped, which must happen on that worker.
#[derive(Debug)]
pub struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn on(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }

    /// Schedules this worker as its number of tasks requires.
    fn started(self) -> Self {
        scheduling::suit(self.0.load(Ordering::Relaxed));
        self
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        scheduling::suit(self.0.fetch_sub(1, Ordering::Relaxed) - 1);
    }
}

impl Workers {
    /// Starts `workers` workers, the calling thread included. An error means that the system refused a thread or an
    /// event queue.
    pub fn start(workers: usize) -> io::Result<Self> {
        let others = (1..workers).map(Worker::start).collect::<io::Result<_>>()?;
        Ok(Self { own: Arc::default(), others, bulk: None })
    }

    /// Adds threads for large requests: one for every two workers, so that they never occupy all processors.
    pub fn with_bulk_threads(mut self) -> Self {
        let workers = 1 + self.others.len();
        self.bulk = Some(BulkThreads::new((workers / 2).max(1), workers));
        self
    }

    /// The threads for large requests, if there are any.
    pub const fn bulk(&self) -> Option<&BulkThreads> {
        self.bulk.as_ref()
    }

    /// Begins a task on the worker with the fewest tasks. The task keeps the [`Busy`] as long as it runs. Must be
    /// called on worker 0.
    pub fn begin(&self, task: impl FnOnce(Busy) + Send + 'static) {
        let tasks = |count: &Arc<AtomicUsize>| count.load(Ordering::Relaxed);
        let idlest = self.others.iter().min_by_key(|worker| tasks(&worker.busy));
        match idlest.filter(|worker| tasks(&worker.busy) < tasks(&self.own)) {
            Some(worker) => {
                let busy = Busy::on(&worker.busy);
                if let Some(starts) = &worker.starts {
                    // A worker ends only with all of them.
                    let _ = starts.send(Box::new(move || task(busy.started())));
                }
            }
            None => task(Busy::on(&self.own).started()),
        }
    }
}

impl Drop for Workers {
    /// Bulk threads end first: sockets and timers of their connections belong to the runtimes of the workers.
    fn drop(&mut self) {
        if let Some(bulk) = self.bulk.take() {
            bulk.end();
        }
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let (starts, mut waiting) = mpsc::unbounded_channel::<TaskStart>();
        let runtime = runtime()?;
        let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            become_worker(number);
            ours();
            runtime.block_on(async {
                while let Some(begin) = waiting.recv().await {
                    begin();
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Self { busy: Arc::default(), starts: Some(starts), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.starts.take());
        // The thread does not panic, because all its work runs in tasks.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[allow(clippy::disallowed_methods)] // a test without a `Shutdown`
    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    #[tokio::test]
    async fn tasks_go_to_the_worker_with_the_fewest_and_run_in_its_runtime() {
        let workers = Workers::start(3).expect("threads");
        let (sender, receiver) = channel();
        let begin = |name: u32| {
            let sender = sender.clone();
            workers.begin(move |busy| {
                // In a task, because it needs the runtime of that worker.
                spawn(async move { sender.send((name, current(), busy)).expect("heard") });
            });
        };
        begin(0);
        tokio::task::yield_now().await;
        let (_, first, _kept) = receiver.recv().expect("begun");
        assert_eq!(first, 0, "who has none is asked first, ourselves before others");
        begin(1);
        let (_, second, of_second) = receiver.recv().expect("begun");
        begin(2);
        let (_, third, _kept_too) = receiver.recv().expect("begun");
        assert_eq!((second.min(third), second.max(third)), (1, 2), "then whoever has none");
        drop(of_second);
        begin(3);
        assert_eq!(receiver.recv().expect("begun").1, second, "then who has fewest again");
    }

    #[test]
    fn the_end_of_the_crew_ends_its_threads_and_tasks() {
        let workers = Workers::start(2).expect("threads");
        let (sender, receiver) = channel::<()>();
        let _ours = Busy::on(&workers.own);
        workers.begin(move |busy| {
            spawn(async move {
                let _kept = (busy, sender);
                std::future::pending::<()>().await;
            });
        });
        drop(workers);
        assert!(receiver.recv().is_err(), "its task is gone");
    }
}
