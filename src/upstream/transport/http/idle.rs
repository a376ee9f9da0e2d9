//! Connections that wait for their next request.
//!
//! Invariants: those of one worker are handed out on that worker only, the last one first, so that
//! few are kept warm; one that has waited for [`IDLE_LIMIT`] is closed and never handed out; at most
//! [`AT_MOST`] wait. While none waits nothing runs.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};

use super::link::Link;
use crate::shutdown::Shutdown;
use crate::worker;

/// Idle connections are closed before the server does: common MCP runtimes close after 5 s.
const IDLE_LIMIT: Duration = Duration::from_secs(4);
/// Idle connections to one server that one worker keeps; more are closed.
pub(super) const AT_MOST: usize = 256;

/// The idle connections to one server.
pub(super) struct Idle {
    shelves: [OnceLock<Arc<Shelf>>; worker::SHARES],
    shutdown: Shutdown,
}

impl Idle {
    pub(super) fn new(shutdown: &Shutdown) -> Self {
        Self { shelves: Default::default(), shutdown: shutdown.clone() }
    }

    /// Those of this worker.
    pub(super) fn here(&self) -> &Arc<Shelf> {
        let new = || Arc::new(Shelf { rested: Mutex::default(), shutdown: self.shutdown.clone() });
        self.shelves[worker::share()].get_or_init(new)
    }
}

/// The idle connections of one worker to one server.
pub(super) struct Shelf {
    rested: Mutex<Rested>,
    shutdown: Shutdown,
}

#[derive(Default)]
struct Rested {
    /// The longest idle first.
    links: Vec<(Box<Link>, Instant)>,
    /// Whether somebody will close them in time.
    is_swept: bool,
}

impl Shelf {
    /// One that may still be open.
    pub(super) fn take(&self) -> Option<Box<Link>> {
        let (link, since) = self.lock().links.pop()?;
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
        let mut rested = self.lock();
        let now = Instant::now();
        let young = rested.links.partition_point(|(_, since)| now.duration_since(*since) >= IDLE_LIMIT);
        let old: Vec<_> = rested.links.drain(..young).collect();
        let next = rested.links.first().map(|(_, since)| *since + IDLE_LIMIT);
        rested.is_swept = next.is_some();
        drop((rested, old)); // closed without the lock
        next
    }

    #[cfg(test)]
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
struct Sweep(Weak<Shelf>);

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some(shelf) = self.0.upgrade() {
            let left = std::mem::take(&mut *shelf.lock());
            drop(left);
        }
    }
}
