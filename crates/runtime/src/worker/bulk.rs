//! Threads for connections that send large requests.
//!
//! To receive, check and pass on a message of megabytes takes milliseconds. A worker that does this all the time uses
//! up its share of the processors. Then the system lets it wait for whole time slices, and the calls of all its other
//! connections wait with it. Therefore a connection with a large request moves to a thread of this module. The workers
//! sleep most of the time, so the system lets them run as soon as they are woken.
//!
//! Invariants: a connection moves at most once and stays until it is closed. The threads start with the first large
//! request. Where there are none, the connection stays on its worker.
//! Not here: which requests are large (`downstream::body_budget`), moving the task of a connection (`downstream::listener`).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::{become_worker, runtime, scheduling};

thread_local! {
    static IS_BULK: Cell<bool> = const { Cell::new(false) };
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Asks for the connection in whose task this runs to be moved. Returns on the bulk thread, or on the worker if the
/// connection stays there.
pub async fn enter() {
    if !IS_BULK.get() {
        IS_ASKED.set(true);
        yield_now().await;
    }
}

/// How a connection left its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveReason {
    /// It has ended.
    Ended,
    /// It asked to be moved and has not ended.
    Asked,
}

/// Runs `connection` until it ends or asks to be moved.
pub async fn until_asked<F: Future<Output = ()> + ?Sized>(mut connection: Pin<&mut F>) -> LeaveReason {
    poll_fn(|context| {
        IS_ASKED.set(false);
        match connection.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(LeaveReason::Ended),
            Poll::Pending if IS_ASKED.take() => Poll::Ready(LeaveReason::Asked),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The bulk threads of a program. Clones are the same threads.
#[derive(Debug, Clone)]
pub struct BulkThreads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The most threads.
    most: usize,
    /// The number of the first thread as a worker.
    first: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Ends the thread when it is dropped.
    end: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

/// A connection's place on a bulk thread, which counts as taken until this is dropped.
#[derive(Debug)]
pub struct BulkSlot {
    /// The runtime of the thread.
    pub runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Drop for BulkSlot {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BulkThreads {
    /// At most `most` threads. `first` is the number of the first one among the workers.
    pub(super) fn new(most: usize, first: usize) -> Self {
        Self(Arc::new(Shared { most, first, state: Mutex::default() }))
    }

    /// A place on the thread with the fewest connections. None if the system gives no thread, or at the end.
    pub fn place(&self) -> Option<BulkSlot> {
        let mut state = self.lock();
        if state.is_over {
            return None;
        }
        let is_busy = |thread: &Thread| thread.connections.load(Ordering::Relaxed) > 0;
        if state.threads.len() < self.0.most && state.threads.iter().all(is_busy) {
            let started = Thread::start(self.0.first + state.threads.len());
            let started = started.inspect_err(|error| tracing::warn!(%error, "no thread for large requests"));
            state.threads.extend(started);
        }
        let idlest = state.threads.iter().min_by_key(|thread| thread.connections.load(Ordering::Relaxed))?;
        idlest.connections.fetch_add(1, Ordering::Relaxed);
        Some(BulkSlot { runtime: idlest.runtime.clone(), connections: Arc::clone(&idlest.connections) })
    }

    /// Ends the threads with all that still runs on them, and waits for them.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        for Thread { end, running, .. } in threads {
            drop(end);
            // The thread does not panic, because all its work runs in tasks.
            let _ = running.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thread {
    fn start(number: usize) -> io::Result<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let runtime = runtime()?;
        let handle = runtime.handle().clone();
        let running = std::thread::Builder::new().name(format!("bulk-{number}")).spawn(move || {
            become_worker(number);
            IS_BULK.set(true);
            scheduling::ours();
            // It never interrupts a worker.
            scheduling::suit(usize::MAX);
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, connections: Arc::default(), end, running })
    }
}

#[cfg(test)]
mod tests {
    use super::super::current;
    use super::*;

    const FIRST: usize = 5;

    /// A connection that asks to be moved, and reports the workers before and after that.
    async fn large(sender: oneshot::Sender<[usize; 2]>) {
        let began = current();
        enter().await;
        enter().await;
        let _ = sender.send([began, current()]);
    }

    #[tokio::test]
    async fn a_connection_goes_on_where_it_was_moved_to() {
        let (threads, (sender, receiver)) = (BulkThreads::new(2, FIRST), oneshot::channel());
        let mut connection = Box::pin(large(sender));
        assert_eq!(until_asked(connection.as_mut()).await, LeaveReason::Asked);
        let place = threads.place().expect("a thread");
        let runtime = place.runtime.clone();
        #[allow(clippy::disallowed_methods)] // a test without a `Shutdown`
        runtime.spawn(async move {
            connection.await;
            drop(place);
        });
        assert_eq!(receiver.await, Ok([0, FIRST]));
        threads.end();
        assert!(threads.place().is_none(), "they have ended");
    }

    #[tokio::test]
    async fn a_connection_that_is_not_moved_goes_on_where_it_is() {
        let (sender, receiver) = oneshot::channel();
        large(sender).await;
        assert_eq!(receiver.await, Ok([0, 0]));
        assert_eq!(until_asked(Box::pin(std::future::ready(())).as_mut()).await, LeaveReason::Ended);
    }

    #[test]
    fn another_thread_starts_only_where_all_others_have_a_connection() {
        let threads = BulkThreads::new(2, FIRST);
        let count = || threads.lock().threads.len();
        assert_eq!(count(), 0, "none without a large request");
        drop(threads.place());
        drop(threads.place());
        assert_eq!(count(), 1);
        let _places = [0; 3].map(|_| threads.place().expect("a thread"));
        let taken: Vec<usize> =
            threads.lock().threads.iter().map(|thread| thread.connections.load(Ordering::Relaxed)).collect();
        assert_eq!(taken.iter().sum::<usize>(), 3, "{taken:?}");
        assert_eq!(taken.len(), 2);
        threads.end();
    }
}
