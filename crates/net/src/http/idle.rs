//! Connections that wait for their next request.
//!
//! Invariants: a connection is handed out on its worker only, and the last one first, so that few are kept warm. After
//! [`IDLE_LIMIT`] it is closed and never handed out. All workers together keep no more than the configured number of
//! connections that have been idle for [`SURPLUS_LIMIT`], and each worker at most [`AT_MOST`]. Without idle connections
//! no task runs.
//!
//! Not here: how many connections are in use. Each request has its own.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::Link;
use runtime::shutdown::Shutdown;
use runtime::worker;

/// Idle connections are closed before the server does: common MCP runtimes close after 5 s.
const IDLE_LIMIT: Duration = Duration::from_secs(4);
/// Time for which more connections are kept than configured. Calls in bursts leave some of them idle again and again,
/// and opening new ones for each burst would cost more.
const SURPLUS_LIMIT: Duration = Duration::from_secs(1);
/// The pause between two searches for connections that have been idle for too long.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Idle connections to one server that one worker keeps; more are closed.
pub(super) const AT_MOST: usize = 256;

/// The idle connections to one server.
pub(super) struct Idle {
    sets: Arc<IdleSets>,
    /// Connections that may stay idle longer than [`SURPLUS_LIMIT`].
    most: usize,
    shutdown: Shutdown,
}

/// One set for each worker.
#[derive(Default)]
struct IdleSets([OnceLock<Arc<IdleSet>>; worker::SHARES]);

impl IdleSets {
    fn len(&self) -> usize {
        self.0.iter().filter_map(OnceLock::get).map(|set| set.len()).sum()
    }
}

impl Idle {
    /// A pool without connections. `most` of them may stay idle longer than [`SURPLUS_LIMIT`].
    pub(super) fn new(most: usize, shutdown: &Shutdown) -> Self {
        Self { sets: Arc::default(), most, shutdown: shutdown.clone() }
    }

    /// Returns the set of this worker.
    pub(super) fn here(&self) -> &Arc<IdleSet> {
        self.sets.0[worker::share()].get_or_init(|| {
            let (all, shutdown) = (Arc::downgrade(&self.sets), self.shutdown.clone());
            Arc::new(IdleSet { waiting: Mutex::default(), all, most: self.most, shutdown })
        })
    }

    /// Returns the number of idle connections.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }
}

/// The idle connections of one worker to one server.
pub(super) struct IdleSet {
    waiting: Mutex<Waiting>,
    /// The sets of all workers, of which this is one.
    all: Weak<IdleSets>,
    /// Connections that may stay idle longer than [`SURPLUS_LIMIT`], on all workers together.
    most: usize,
    shutdown: Shutdown,
}

#[derive(Default)]
struct Waiting {
    /// The longest idle first.
    links: Vec<(Box<Link>, Instant)>,
    /// Whether a task runs that will close them in time.
    is_swept: bool,
}

impl IdleSet {
    /// Takes the connection that was used last. Its server may have closed it.
    pub(super) fn take(&self) -> Option<Box<Link>> {
        let (link, since) = self.lock().links.pop()?;
        link.note_idle();
        (worker::now().saturating_duration_since(since) < IDLE_LIMIT).then_some(link)
    }

    /// Keeps `link`, which is ready for a request.
    pub(super) fn put(self: &Arc<Self>, link: Box<Link>) {
        let mut waiting = self.lock();
        if waiting.links.len() >= AT_MOST {
            drop(waiting); // before the connection, which is closed here
            return;
        }
        waiting.links.push((link, worker::now()));
        let was_swept = std::mem::replace(&mut waiting.is_swept, true);
        drop(waiting);
        if was_swept {
            return;
        }
        let sweep = sweep(Sweep(Arc::downgrade(self)));
        // At the end of a runtime no task can be spawned, and no request could use the connection.
        if Handle::try_current().is_ok() {
            self.shutdown.spawn_until_end(sweep);
        }
    }

    /// Keeps `link` as soon as its last request is sent completely, if that is within `limit`.
    pub(super) fn settle(self: &Arc<Self>, mut link: Box<Link>, limit: Duration) {
        let idle = Arc::clone(self);
        self.shutdown.spawn_until_end(async move {
            if timeout(limit, link.settle()).await == Ok(true) {
                idle.put(link);
            }
        });
    }

    /// Closes connections that have been idle for too long. Returns the time of the next search if any are left.
    fn close_old(&self) -> Option<Instant> {
        let surplus = self.all.upgrade().map_or(0, |all| all.len()).saturating_sub(self.most);
        let mut waiting = self.lock();
        let now = Instant::now();
        let older = |limit| waiting.links.partition_point(|(_, since)| now.duration_since(*since) >= limit);
        let gone = older(IDLE_LIMIT).max(older(SURPLUS_LIMIT).min(surplus));
        let gone: Vec<_> = waiting.links.drain(..gone).collect();
        let next = waiting.links.first().map(|(_, since)| (*since + IDLE_LIMIT).min(now + LOOK_EVERY));
        waiting.is_swept = next.is_some();
        drop((waiting, gone)); // closed without the lock
        next
    }

    pub(super) fn len(&self) -> usize {
        self.lock().links.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep(mut sweep: Sweep) {
    while let Some(next) = sweep.0.upgrade().and_then(|set| set.close_old()) {
        sleep_until(next).await;
    }
    sweep.0 = Weak::new();
}

/// The task that closes connections in time. If it is dropped before its end, because the program ends, all idle
/// connections are closed.
struct Sweep(Weak<IdleSet>);

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some(set) = self.0.upgrade() {
            let left = std::mem::take(&mut *set.lock());
            drop(left);
        }
    }
}
