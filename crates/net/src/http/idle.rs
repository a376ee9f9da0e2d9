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
/// How often it is looked for those whose time is over.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Idle connections to one server that one worker keeps; more are closed.
pub(super) const AT_MOST: usize = 256;

/// The idle connections to one server.
pub(super) struct Idle {
    shelves: Arc<Shelves>,
    /// How many are to be kept.
    most: usize,
    shutdown: Shutdown,
}

/// A shelf for each worker.
#[derive(Default)]
struct Shelves([OnceLock<Arc<IdleSet>>; worker::SHARES]);

impl Shelves {
    fn len(&self) -> usize {
        self.0.iter().filter_map(OnceLock::get).map(|shelf| shelf.len()).sum()
    }
}

impl Idle {
    /// None yet; `most` are kept when they are not needed just now.
    pub(super) fn new(most: usize, shutdown: &Shutdown) -> Self {
        Self { shelves: Arc::default(), most, shutdown: shutdown.clone() }
    }

    /// Those of this worker.
    pub(super) fn here(&self) -> &Arc<IdleSet> {
        self.shelves.0[worker::share()].get_or_init(|| {
            let (all, shutdown) = (Arc::downgrade(&self.shelves), self.shutdown.clone());
            Arc::new(IdleSet { rested: Mutex::default(), all, most: self.most, shutdown })
        })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.shelves.len()
    }
}

/// The idle connections of one worker to one server.
pub(super) struct IdleSet {
    rested: Mutex<Rested>,
    /// It among those of all workers.
    all: Weak<Shelves>,
    /// How many are kept on all of them.
    most: usize,
    shutdown: Shutdown,
}

#[derive(Default)]
struct Rested {
    /// The longest idle first.
    links: Vec<(Box<Link>, Instant)>,
    /// Whether somebody will close them in time.
    is_swept: bool,
}

impl IdleSet {
    /// One that may still be open.
    pub(super) fn take(&self) -> Option<Box<Link>> {
        let (link, since) = self.lock().links.pop()?;
        link.note_idle();
        (worker::now().saturating_duration_since(since) < IDLE_LIMIT).then_some(link)
    }

    /// Keeps `link`, which is ready for a request.
    pub(super) fn put(self: &Arc<Self>, link: Box<Link>) {
        let mut rested = self.lock();
        if rested.links.len() >= AT_MOST {
            drop(rested); // before the connection, which is closed here
            return;
        }
        rested.links.push((link, worker::now()));
        let was_swept = std::mem::replace(&mut rested.is_swept, true);
        drop(rested);
        if was_swept {
            return;
        }
        let sweep = sweep(Sweep(Arc::downgrade(self)));
        // Without a runtime, at the end of one, nobody could use the connection either.
        if Handle::try_current().is_ok() {
            self.shutdown.spawn_until_end(sweep);
        }
    }

    /// Keeps `link` when its last request is off, within `limit`.
    pub(super) fn settle(self: &Arc<Self>, mut link: Box<Link>, limit: Duration) {
        let idle = Arc::clone(self);
        self.shutdown.spawn_until_end(async move {
            if timeout(limit, link.settle()).await == Ok(true) {
                idle.put(link);
            }
        });
    }

    /// Closes what has waited for too long; when to look again, if anything is left.
    fn close_old(&self) -> Option<Instant> {
        let surplus = self.all.upgrade().map_or(0, |all| all.len()).saturating_sub(self.most);
        let mut rested = self.lock();
        let now = Instant::now();
        let older = |limit| rested.links.partition_point(|(_, since)| now.duration_since(*since) >= limit);
        let gone = older(IDLE_LIMIT).max(older(SURPLUS_LIMIT).min(surplus));
        let gone: Vec<_> = rested.links.drain(..gone).collect();
        let next = rested.links.first().map(|(_, since)| (*since + IDLE_LIMIT).min(now + LOOK_EVERY));
        rested.is_swept = next.is_some();
        drop((rested, gone)); // closed without the lock
        next
    }

    pub(super) fn len(&self) -> usize {
        self.lock().links.len()
    }

    fn lock(&self) -> MutexGuard<'_, Rested> {
        self.rested.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep(mut sweep: Sweep) {
    while let Some(next) = sweep.0.upgrade().and_then(|shelf| shelf.close_old()) {
        sleep_until(next).await;
    }
    sweep.0 = Weak::new();
}

/// The task that closes connections in time. When it is dropped before its end, at the end of the
/// program, nothing stays idle without it.
struct Sweep(Weak<IdleSet>);

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some(shelf) = self.0.upgrade() {
            let left = std::mem::take(&mut *shelf.lock());
            drop(left);
        }
    }
}
