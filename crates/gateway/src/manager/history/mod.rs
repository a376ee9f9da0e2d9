//! The last calls, kept without anybody watching.
//!
//! ```text
//! recorded_call ─► CallHistory ─► ring (memory)  ─┐
//!                        └──► writer ─► files ─┴─► search
//! ```
//!
//! Invariants: a call pays for one entry in the ring, and waits for no disk. Ring and queue of the writer are bounded and
//! charged to the memory budget. A principal has a share of the ring, of the queue and of the files, so calls of one take
//! none of another out of the history. Calls have increasing numbers, also after a restart and while the clock goes back, so a
//! page continues at the same place while new calls come in. A reader finds the calls that it may see
//! (`Principal::may_see`), and no sign of others.
//!
//! Not here: making the record of a call (`recorded_call`), its text (`live_events`).

mod files;
mod ring;
mod search;
mod segment;
mod thinning;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

use super::live_events::ToolCall;
use super::stepped_charge::SteppedCharge;
use files::Files;
use ring::Ring;
use runtime::fair_shares::FairShares;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;

pub use super::history_config::{Config, folder};
pub use search::{CallPage, Filter, OUTCOMES};

/// Most bytes of calls in memory. A call without texts takes some 400.
const RING_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes of calls that wait to be written.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Searches at a time, each of which reads files.
const SEARCHES: usize = 2;

/// The last calls of one gateway.
#[derive(Debug)]
pub struct CallHistory {
    is_on: AtomicBool,
    has_arguments: AtomicBool,
    state: Mutex<State>,
    /// The folder of the files, if there is one.
    folder: Option<PathBuf>,
    files: Option<Mutex<Files>>,
    /// Notified when a call waits to be written.
    filled: Notify,
    /// Notified when so many calls wait that the writer must not wait for more.
    half_full: Notify,
    searches: Semaphore,
}

/// A call that ended.
#[derive(Debug, Clone)]
struct Ended {
    /// Its number. Later ones have larger numbers.
    id: u64,
    at: SystemTime,
    call: Arc<ToolCall>,
}

#[derive(Debug)]
struct State {
    config: Config,
    /// The number of the last call.
    last: u64,
    ring: Ring,
    ring_charge: SteppedCharge,
    /// Calls that are not written yet.
    queue: Vec<Ended>,
    /// Their bytes, with shares as in the ring.
    queue_shares: FairShares<ring::Owner, { ring::ALPHA }>,
    queue_charge: SteppedCharge,
}

impl CallHistory {
    /// Makes the history, with files in `folder`. It reads the number of the last call there, and blocks meanwhile.
    pub(super) fn new(folder: Option<PathBuf>) -> Arc<Self> {
        let files = folder.clone().map(Files::new);
        let last = files.as_ref().map_or(0, Files::last_id);
        let state = State {
            config: Config { calls: 0, ..Config::default() },
            last,
            ring: Ring::new(RING_BYTES, 0),
            ring_charge: SteppedCharge::new(),
            queue: Vec::new(),
            queue_shares: FairShares::new(),
            queue_charge: SteppedCharge::new(),
        };
        let [is_on, has_arguments] = [false; 2].map(AtomicBool::new);
        Arc::new(Self {
            is_on,
            has_arguments,
            state: Mutex::new(state),
            folder,
            files: files.map(Mutex::new),
            filled: Notify::new(),
            half_full: Notify::new(),
            searches: Semaphore::new(SEARCHES),
        })
    }

    /// Applies `config` to what is kept, too.
    pub(super) fn configure(&self, config: &Config) {
        self.is_on.store(config.calls > 0, Ordering::Relaxed);
        self.has_arguments.store(config.arguments, Ordering::Relaxed);
        let mut state = self.lock();
        state.config = *config;
        state.ring.limit(config.calls);
        drop(state);
        // Files that are no longer wanted are removed.
        self.filled.notify_one();
    }

    /// Writes calls to the files as a task of `shutdown`.
    pub(super) fn start(self: &Arc<Self>, shutdown: &Shutdown) {
        if self.files.is_some() {
            shutdown.spawn(run(Arc::clone(self), shutdown.clone()));
        }
    }

    /// Whether calls are kept.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether calls are kept with their arguments.
    pub(super) fn has_arguments(&self) -> bool {
        self.has_arguments.load(Ordering::Relaxed)
    }

    /// Keeps a call that ended now.
    pub(super) fn record(&self, call: Arc<ToolCall>) {
        let (size, at) = (ring::size(&call), SystemTime::now());
        let mut state = self.lock();
        let id = micros(at).max(state.last + 1);
        state.last = id;
        let ended = Ended { id, at, call };
        let before = state.queue_shares.sum();
        let is_written = self.files.is_some() && state.config.days > 0;
        let is_lost = is_written && !state.enqueue(&ended, size);
        let after = state.queue_shares.sum();
        let reaches = |bytes| before < bytes && after >= bytes;
        let (is_first, is_half_full) = (reaches(1), reaches(QUEUE_BYTES / 2));
        state.keep(ended, size);
        drop(state);
        if is_first {
            self.filled.notify_one();
        }
        if is_half_full {
            self.half_full.notify_one();
        }
        if is_lost {
            Limit::HistoryLines.met(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds the call to those that wait to be written. Returns whether there is room for it.
    fn enqueue(&mut self, ended: &Ended, size: usize) -> bool {
        let (owner, bytes) = (&ended.call.principal, self.queue_shares.sum() + size);
        if self.queue_shares.take(owner, size, QUEUE_BYTES.saturating_sub(bytes)).is_err() {
            return false;
        }
        let has_room = self.queue_charge.covers(bytes);
        if has_room {
            self.queue.push(ended.clone());
        } else {
            self.queue_shares.give_back(owner, size);
        }
        has_room
    }

    fn keep(&mut self, ended: Ended, size: usize) {
        self.ring.push(ended, size);
        while !self.ring_charge.covers(self.ring.bytes()) {
            self.ring.drop_largest();
        }
    }
}

/// Microseconds from the epoch to `at`.
fn micros(at: SystemTime) -> u64 {
    u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// Calls within this time are written together.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// How often files that are too old are removed while nothing is written.
const CLEANUP: Duration = Duration::from_hours(1);

/// Writes until `shutdown` begins, and a last time then.
///
/// Invariants: files are written on a blocking thread. Calls that cannot be written are counted, and the log says it
/// once until writing works again.
async fn run(history: Arc<CallHistory>, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.requested() => break,
            _ = timeout(CLEANUP, history.filled.notified()) => {}
        }
        tokio::select! {
            () = shutdown.requested() => break,
            () = sleep(DEBOUNCE) => {}
            () = history.half_full.notified() => {}
        }
        write(&history).await;
    }
    write(&history).await;
}

async fn write(history: &Arc<CallHistory>) {
    let history = Arc::clone(history);
    let write = move || {
        let (queue, config) = {
            let mut state = history.lock();
            state.queue_shares = FairShares::new();
            state.queue_charge.clear();
            (std::mem::take(&mut state.queue), state.config)
        };
        let Some(files) = &history.files else { return };
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        let written = files.write(&queue, config);
        report(written, &queue, &files.folder);
    };
    // It fails only if the program ends.
    let _ = tokio::task::spawn_blocking(write).await;
}

/// Counts the calls that were lost, and logs the first failure of several.
fn report(written: files::Written, queue: &[Ended], folder: &Path) {
    for _ in written.calls..queue.len() {
        Limit::HistoryLines.met(());
    }
    if let Some(error) = written.failure {
        let path = folder.display();
        tracing::warn!(%path, %error, "calls are missing in the history, because they cannot be written");
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
