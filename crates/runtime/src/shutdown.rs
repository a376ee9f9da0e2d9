//! Starting and ending tasks. Every task of the program is spawned here, so none outlives it.
//!
//! The only place that may call `tokio::spawn` (`clippy.toml` forbids it elsewhere).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A handle to a group of tasks and the signal that ends them. Clones belong to the same group. [`Shutdown::child`] is
/// a group that can end alone and ends with its parent.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tracker: TaskTracker,
    end_flag: Arc<EndFlag>,
}

/// Whether the end of a group or of one of its parents was requested. Connections check this at every turn, and a check
/// of the token would take a lock.
#[derive(Debug, Default)]
struct EndFlag {
    is_requested: AtomicBool,
    parent: Option<Arc<EndFlag>>,
}

impl EndFlag {
    fn is_set(&self) -> bool {
        self.is_requested.load(Ordering::Acquire)
            || self.parent.as_ref().is_some_and(|parent| parent.is_set())
    }
}

impl Shutdown {
    /// Returns a new group without a parent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a group that ends when this one ends. It can also be ended and waited for alone.
    pub fn child(&self) -> Self {
        let end_flag =
            EndFlag { is_requested: AtomicBool::new(false), parent: Some(Arc::clone(&self.end_flag)) };
        Self { token: self.token.child_token(), tracker: TaskTracker::new(), end_flag: Arc::new(end_flag) }
    }

    /// Runs `task` in the background until it returns. [`Shutdown::begin`] does not stop it: the task must watch
    /// [`Shutdown::requested`] and finish its work.
    #[allow(clippy::disallowed_methods)] // the only place that spawns
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(task);
    }

    /// Runs `task` on another runtime, as [`Shutdown::spawn`] does. If that runtime has ended, `task` is dropped at
    /// once.
    #[allow(clippy::disallowed_methods)] // as in `spawn`
    pub fn spawn_on<F>(&self, task: F, runtime: &Handle)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn_on(task, runtime);
    }

    /// Makes [`Shutdown::wait`] wait until the returned value is dropped. For a task that another thread is about to spawn.
    pub fn hold(&self) -> TaskTrackerToken {
        self.tracker.token()
    }

    /// Runs `task` in the background and drops it when the end is requested.
    pub fn spawn_until_end<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token.clone();
        self.spawn(async move {
            token.run_until_cancelled(task).await;
        });
    }

    /// Makes [`Shutdown::wait`] of this group wait for `below` too, at most `limit` after the end of `below` was
    /// requested. By default a group does not wait for its children.
    pub fn include(&self, below: &Self, limit: Duration) {
        let below = below.clone();
        self.spawn(async move {
            below.requested().await;
            below.wait(limit).await;
        });
    }

    /// Requests the end of every task of the group.
    pub fn begin(&self) {
        // Set before the token, because tasks that the token wakes read it.
        self.end_flag.is_requested.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Whether the end was requested.
    pub fn is_begun(&self) -> bool {
        self.end_flag.is_set()
    }

    /// Resolves when the end is requested.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }

    /// Waits until every task has returned, at most `limit`. Returns false if some had not.
    pub async fn wait(&self, limit: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }

    /// Tasks of the group that have not returned.
    #[cfg(any(test, feature = "testing"))]
    pub fn count(&self) -> usize {
        self.tracker.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_child_ends_alone_and_with_its_parent() {
        let parent = Shutdown::new();
        let (one, two) = (parent.child(), parent.child());
        let watch = |group: &Shutdown| {
            let inner = group.clone();
            group.spawn(async move { inner.requested().await });
        };
        watch(&one);
        watch(&two);
        one.begin();
        assert!(one.is_begun() && !two.is_begun() && !parent.is_begun());
        assert!(one.wait(Duration::from_secs(1)).await);
        assert!(!two.is_begun() && !two.wait(Duration::from_secs(1)).await, "the other one goes on");
        parent.begin();
        assert!(two.is_begun() && two.child().is_begun());
        assert!(two.wait(Duration::from_secs(1)).await);
    }
}
