//! The store in a folder: one file for each record.
//!
//! Invariants: a file is replaced as a whole, durably, and under the lock of its table, so several processes may share
//! the folder. Reading takes no lock. Writes of this process wait for one another outside of threads, so that they
//! occupy one thread.
//!
//! Source: decision 10 says why this is not an embedded database.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::private_file;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::store::{self, MAX_RECORD, Store, StoreError, Table};

/// Time to wait for another process that writes.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The name of the folder in the state folder.
const FOLDER: &str = "authorization";
/// The file with the number that a removal of a grant changes, in the folder of the grants.
const REMOVED: &str = "records.removed";

/// A store in a folder.
#[derive(Debug, Clone)]
pub struct FolderStore {
    folder: PathBuf,
    /// Held by the task that writes.
    turn: Arc<Mutex<()>>,
}

impl FolderStore {
    /// A store in `folder`, which is made when the first record is written.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), turn: Arc::default() }
    }

    /// The store of the server at `issuer` in the state folder `state`, which other gateways may use too.
    pub fn of_issuer(state: &Path, issuer: &str) -> Self {
        Self::new(&state.join(FOLDER).join(store::name_of(issuer)))
    }

    /// The file of the record `id`, which becomes `record` if it is written.
    fn path(&self, table: Table, id: &str, record: Option<&[u8]>) -> Result<PathBuf, StoreError> {
        store::check(id, record)?;
        Ok(self.folder.join(table.as_str()).join(id))
    }

    /// The file whose lock is taken for writes to `table`.
    fn locked(&self, table: Table) -> PathBuf {
        self.folder.join(table.as_str()).join("records")
    }

    fn removed(&self) -> PathBuf {
        self.folder.join(Table::Grants.as_str()).join(REMOVED)
    }
}

impl Store for FolderStore {
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        let path = self.path(table, id, None);
        on_a_thread("read", move || read(&path?)).boxed()
    }

    fn get_all<'a>(
        &'a self,
        table: Table,
        ids: &'a [String],
    ) -> BoxFuture<'a, Vec<Result<Option<Vec<u8>>, StoreError>>> {
        let paths: Vec<_> = ids.iter().map(|id| self.path(table, id, None)).collect();
        let work = move || Ok(paths.into_iter().map(|path| read(&path?)).collect());
        async move { on_a_thread("read", work).await.unwrap_or_else(|error| vec![Err(error)]) }.boxed()
    }

    fn swap<'a>(
        &'a self,
        table: Table,
        id: &'a str,
        before: Option<&'a [u8]>,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let (path, locked) = (self.path(table, id, after), self.locked(table));
        let removed = (table == Table::Grants).then(|| self.removed());
        let (before, after) = (before.map(<[u8]>::to_vec), after.map(<[u8]>::to_vec));
        let turn = Arc::clone(&self.turn);
        async move {
            let turn = turn.lock_owned().await;
            let written = on_a_thread("written", move || {
                let _turn = turn;
                let is_done = swap(&path?, &locked, before.as_deref(), after.as_deref(), removed.as_deref());
                is_done.map_err(|source| StoreError { action: "written", source })
            });
            written.await
        }
        .boxed()
    }

    fn ids<'a>(&'a self, table: Table, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let (folder, prefix) = (self.folder.join(table.as_str()), prefix.to_owned());
        on_a_thread("listed", move || ids(&folder, &prefix)).boxed()
    }

    fn removed_grants(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        let path = self.removed();
        let work = move || count(&path).map_err(|source| StoreError { action: "read", source });
        on_a_thread("read", work).boxed()
    }
}

async fn on_a_thread<T: Send + 'static>(
    action: &'static str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = |_| Err(StoreError { action, source: io::Error::other("the program ends") });
    spawn_blocking(work).await.unwrap_or_else(ended)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match private_file::read(path, MAX_RECORD as u64) {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError { action: "read", source }),
    }
}

/// Replaces the record at `path`, and counts it in the file `removed` if it is removed.
fn swap(
    path: &Path,
    locked: &Path,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
    removed: Option<&Path>,
) -> io::Result<bool> {
    let _lock = lock(locked)?;
    if read(path).map_err(|error| error.source)?.as_deref() != before {
        return Ok(false);
    }
    match after {
        Some(record) => private_file::replace(path, record)?,
        None if before.is_some() => {
            // Before, so that no removal stays unknown to others: not if the disk is full, nor if the process dies.
            removed.map_or(Ok(()), add_one)?;
            remove(path)?;
            // Again for those who looked in between, and found the record.
            let _ = removed.map(add_one);
        }
        None => {}
    }
    Ok(true)
}

/// Returns the number in the file at `path`.
fn count(path: &Path) -> io::Result<u64> {
    let mut number = [0; 8];
    match private_file::open(path).and_then(|mut file| file.read_exact(&mut number)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => Ok(0),
        read => read.map(|()| u64::from_le_bytes(number)),
    }
}

/// Adds one to the number in the file at `path`. It tells processes that run, so it need not outlive the machine.
fn add_one(path: &Path) -> io::Result<()> {
    let next = count(path)? + 1;
    private_file::open_to_change(path)?.write_all_at(&next.to_le_bytes(), 0)
}

/// Removes the file durably: a grant that was revoked must not be back after a crash.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn lock(path: &Path) -> io::Result<File> {
    private_file::lock(path, LOCK_WAIT).map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::Error::new(ErrorKind::TimedOut, "another process has locked it"),
    })
}

fn ids(folder: &Path, prefix: &str) -> Result<Vec<String>, StoreError> {
    let failed = |source| StoreError { action: "listed", source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name().into_string().unwrap_or_default();
        if store::is_id(&name) && name.starts_with(prefix) {
            ids.push(name);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}
