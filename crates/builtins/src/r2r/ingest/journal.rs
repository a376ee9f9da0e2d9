//! The journal: documents whose ingestion is under way, kept on disk so that a restarted gateway resumes
//! them. It also lists the documents that could not be ingested, with the reasons.
//!
//! Invariants: the file is replaced as a whole, and only its owner can read it. When `Journal::add`
//! returns, the entry is on disk. A lock file beside the journal admits one gateway at a time. If the file
//! cannot be written, or another gateway holds the lock, documents are ingested without a journal. A restart
//! then loses those under way, and one warning is logged.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::failed::{AllFailed, FailedDocument};
use super::{IngestMode, file_name};
use crate::r2r::id::Id;
use runtime::private_file;

/// Largest file that is read, in bytes: more than all possible entries need.
const MOST_BYTES: u64 = 16 << 20;
/// Pause between two attempts to lock the file.
const LOCK_PAUSE: Duration = Duration::from_millis(250);
/// Attempts to lock the file. An earlier instance of this server releases the lock within that time.
const LOCK_TRIES: usize = 40;

/// One document under way: the task, without its progress, which R2R knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct JournalEntry {
    /// Id that was promised to the client.
    pub(super) document: Id,
    /// Path of the file as the client wrote it.
    pub(super) path: String,
    pub(super) collection: Id,
    pub(super) mode: IngestMode,
    pub(super) metadata: Map<String, Value>,
    /// Resource that changes when the ingestion ends.
    pub(super) resource: Option<String>,
    /// Earlier version that was removed for this document, or is about to be.
    #[serde(default)]
    pub(super) removed: Option<RemovedDocument>,
}

/// A removed document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RemovedDocument {
    /// The metadata of the document.
    pub(super) metadata: Map<String, Value>,
    /// Whether its content was saved.
    pub(super) is_kept: bool,
}

/// The journal file. Clones share its state.
#[derive(Debug, Clone)]
pub(super) struct Journal(Arc<JournalState>);

#[derive(Debug)]
struct JournalState {
    path: PathBuf,
    state: Mutex<State>,
    /// Version of the state that is on disk. The task that writes the file holds this lock.
    written: tokio::sync::Mutex<u64>,
    /// The locked lock file. While it is open, this gateway owns the journal.
    lock: Mutex<Option<File>>,
    complained: AtomicBool,
    /// Whether locking the file was attempted at least once.
    tried: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Noted>,
    failed: AllFailed,
    last: u64,
    /// Number of changes so far.
    version: u64,
}

#[derive(Debug)]
struct Noted {
    number: u64,
    since: OffsetDateTime,
    entry: JournalEntry,
}

/// Content of the file, for writing.
#[derive(Serialize)]
struct JournalFile<'a> {
    under_way: Vec<&'a JournalEntry>,
    /// The oldest first.
    failed: Vec<&'a FailedDocument>,
}

/// Content of the file, for reading.
#[derive(Default, Deserialize)]
struct JournalContent {
    under_way: Vec<JournalEntry>,
    failed: Vec<FailedDocument>,
}

/// The journal of the server `name`, in the folder of the file `mapping`.
pub(in super::super) fn beside(mapping: &Path, name: &str) -> PathBuf {
    mapping.with_file_name(format!("r2r_ingest_{}.json", private_file::of(name)))
}

impl Journal {
    /// Makes the journal for `path` without opening it. An empty path means that nothing is written to disk.
    pub(super) fn new(path: PathBuf) -> Self {
        let (state, lock) = <(Mutex<State>, Mutex<Option<File>>)>::default();
        let (written, complained) = (tokio::sync::Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(JournalState {
            path,
            state,
            written,
            lock,
            complained,
            tried: watch::Sender::new(false),
        }))
    }

    /// Locks the file and returns the documents that an earlier instance left in it. They are under way
    /// again.
    pub(super) async fn take_over(&self) -> Vec<(u64, JournalEntry)> {
        if self.0.path.as_os_str().is_empty() {
            self.0.tried.send_replace(true);
            return Vec::new();
        }
        for _ in 0..LOCK_TRIES {
            let locked = self.locked().await;
            self.0.tried.send_replace(true);
            match locked {
                Ok(Some(left)) => return self.adopt(left).await,
                Ok(None) => tokio::time::sleep(LOCK_PAUSE).await,
                Err(error) => {
                    self.complain(&error);
                    return Vec::new();
                }
            }
        }
        self.complain(&io::Error::other("another gateway uses it"));
        Vec::new()
    }

    /// Notes a document and returns its number for `remove`.
    pub(super) async fn add(&self, entry: JournalEntry) -> u64 {
        let number = self.state().add(entry);
        // This waits only right after the start. The channel cannot close, because `self` holds its sender.
        let _ = self.0.tried.subscribe().wait_for(|tried| *tried).await;
        self.save().await;
        number
    }

    /// Notes what is about to be removed for entry `number`.
    pub(super) async fn note_removal(&self, number: u64, removed: RemovedDocument) {
        {
            let mut state = self.state();
            state.version += 1;
            let noted = state.entries.iter_mut().find(|noted| noted.number == number);
            if let Some(noted) = noted {
                noted.entry.removed = Some(removed);
            }
        }
        self.save().await;
    }

    /// Returns what was removed for entry `number`.
    pub(super) fn removed(&self, number: u64) -> Option<RemovedDocument> {
        self.state().entries.iter().find(|noted| noted.number == number)?.entry.removed.clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether this gateway owns the journal and may write beside it.
    pub(super) fn is_ours(&self) -> bool {
        self.0.lock.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the file and the time of the latest entry for `document`, while it is under way.
    pub(super) fn noted(&self, document: Id) -> Option<(String, OffsetDateTime)> {
        let state = self.state();
        let latest = state.entries.iter().rev().find(|noted| noted.entry.document == document)?;
        Some((latest.entry.path.clone(), latest.since))
    }

    /// Records the result of entry `number`, which is struck out later. `failure` is the reason and the size
    /// of the file in bytes; without it the document was ingested.
    pub(super) fn conclude(&self, number: u64, failure: Option<(String, u64)>) {
        let mut state = self.state();
        let Some(noted) = state.entries.iter().find(|noted| noted.number == number) else { return };
        let (entry, since, at) = (&noted.entry, noted.since, OffsetDateTime::now_utc());
        let (document, collection) = (entry.document, entry.collection);
        let file_name = file_name(&entry.path);
        match failure {
            Some((reason, size)) => {
                state.failed.put(FailedDocument { document, collection, file_name, size, since, at, reason });
            }
            None => state.failed.remove(document),
        }
    }

    /// Returns why the last attempt to ingest `document` failed.
    pub(super) fn failed(&self, document: Id) -> Option<FailedDocument> {
        self.state().failed.get(document).cloned()
    }

    /// Returns the documents of `collection` that could not be ingested, the newest first.
    pub(super) fn all_failed(&self, collection: Id) -> Vec<FailedDocument> {
        self.state().failed.iter().filter(|failed| failed.collection == collection).cloned().collect()
    }

    /// Removes entry `number`.
    pub(super) async fn remove(&self, number: u64) {
        {
            let mut state = self.state();
            state.entries.retain(|noted| noted.number != number);
            state.version += 1;
        }
        self.save().await;
    }

    /// Tries to lock the file. Returns its content if this gateway owns it now.
    async fn locked(&self) -> io::Result<Option<JournalContent>> {
        let inner = Arc::clone(&self.0);
        let locked = spawn_blocking(move || {
            let Some(lock) = lock(&inner.path)? else { return Ok(None) };
            *inner.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
            Ok(Some(read(&inner.path)))
        });
        locked.await.map_err(io::Error::other)?
    }

    async fn adopt(&self, left: JournalContent) -> Vec<(u64, JournalEntry)> {
        let adopted = {
            let mut state = self.state();
            // Failures recorded since the start are newer than those in the file.
            let newer = std::mem::take(&mut state.failed);
            left.failed.into_iter().chain(newer.iter().rev().cloned()).for_each(|one| state.failed.put(one));
            left.under_way.into_iter().map(|entry| (state.add(entry.clone()), entry)).collect()
        };
        self.save().await;
        adopted
    }

    /// Writes the current state. One write covers all tasks that wait for it.
    async fn save(&self) {
        let mine = self.state().version;
        let mut written = self.0.written.lock().await;
        if *written >= mine || !self.is_ours() {
            return;
        }
        let (version, text) = {
            let state = self.state();
            let under_way = state.entries.iter().map(|noted| &noted.entry).collect();
            let written = JournalFile { under_way, failed: state.failed.iter().rev().collect() };
            (state.version, serde_json::to_vec_pretty(&written).unwrap_or_default())
        };
        let path = self.0.path.clone();
        let saved = spawn_blocking(move || private_file::replace(&path, &text)).await;
        match saved.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => *written = version,
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&self, error: &io::Error) {
        if !self.0.complained.swap(true, Ordering::Relaxed) {
            let file = self.0.path.display().to_string();
            tracing::warn!(
                file,
                %error,
                "the journal of documents under way cannot be used; a restart forgets those under way"
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, entry: JournalEntry) -> u64 {
        self.last += 1;
        self.version += 1;
        let since = OffsetDateTime::now_utc();
        self.entries.push(Noted { number: self.last, since, entry });
        self.last
    }
}

/// Locks the file `path`. Returns `None` if another gateway holds the lock.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = private_file::open_lock(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Reads the file. An unreadable one is renamed, and the journal starts empty.
fn read(path: &Path) -> JournalContent {
    let left = match private_file::read(path, MOST_BYTES) {
        Ok(text) => parse(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(JournalContent::default()),
        Err(error) => Err(error),
    };
    left.unwrap_or_else(|error| {
        let aside = path.with_extension("unreadable");
        let kept = fs::rename(path, &aside).is_ok();
        tracing::warn!(%error, kept, file = %aside.display(), "the journal of documents under way is unreadable");
        JournalContent::default()
    })
}

fn parse(text: &[u8]) -> serde_json::Result<JournalContent> {
    // Earlier versions wrote only the list of documents under way.
    match serde_json::from_slice(text) {
        Ok(under_way) => Ok(JournalContent { under_way, failed: Vec::new() }),
        Err(_) => serde_json::from_slice(text),
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
