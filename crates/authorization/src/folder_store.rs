//! The store in a folder: one file for each record.
//!
//! Invariants: a file is replaced as a whole, durably, and under the lock of its table, so several processes may share
//! the folder. Reading takes no lock. Writes of this process wait for one another outside of threads, so that they
//! occupy one thread.
//!
//! Source: decision 10 says why this is not an embedded database.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runtime::private_file;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::store::{Store, StoreError, Table};

/// Limit of the bytes of a record.
const MAX_RECORD: u64 = 64 << 10;
/// Time to wait for another process that writes.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The name of the folder in the state folder.
const FOLDER: &str = "authorization";
/// Bytes of the hash of an issuer in the name of its folder.
const NAME_BYTES: usize = 8;
/// Limit of the length of an id.
const MAX_ID: usize = 64;

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
        let name = hex::encode(&digest(&SHA256, issuer.as_bytes()).as_ref()[..NAME_BYTES]);
        Self::new(&state.join(FOLDER).join(name))
    }

    fn path(&self, table: Table, id: &str) -> Result<PathBuf, StoreError> {
        if is_id(id) {
            return Ok(self.folder.join(table.as_str()).join(id));
        }
        Err(StoreError {
            action: "read",
            source: io::Error::new(ErrorKind::InvalidInput, "an id is malformed"),
        })
    }

    /// The file whose lock is taken for writes to `table`.
    fn locked(&self, table: Table) -> PathBuf {
        self.folder.join(table.as_str()).join("records")
    }
}

impl Store for FolderStore {
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        let path = self.path(table, id);
        on_a_thread("read", move || read(&path?)).boxed()
    }

    fn swap<'a>(
        &'a self,
        table: Table,
        id: &'a str,
        before: Option<&'a [u8]>,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let (path, locked) = (self.path(table, id), self.locked(table));
        let (before, after) = (before.map(<[u8]>::to_vec), after.map(<[u8]>::to_vec));
        let turn = Arc::clone(&self.turn);
        async move {
            let turn = turn.lock_owned().await;
            let written = on_a_thread("written", move || {
                let _turn = turn;
                swap(&path?, &locked, before.as_deref(), after.as_deref())
            });
            written.await
        }
        .boxed()
    }

    fn ids<'a>(&'a self, table: Table, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let (folder, prefix) = (self.folder.join(table.as_str()), prefix.to_owned());
        on_a_thread("listed", move || ids(&folder, &prefix)).boxed()
    }
}

/// Whether `id` is a name that can be a file. Files of writers have a dot in their names.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_plain)
}

async fn on_a_thread<T: Send + 'static>(
    action: &'static str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = |_| Err(StoreError { action, source: io::Error::other("the program ends") });
    spawn_blocking(work).await.unwrap_or_else(ended)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match private_file::read(path, MAX_RECORD) {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError { action: "read", source }),
    }
}

fn swap(path: &Path, locked: &Path, before: Option<&[u8]>, after: Option<&[u8]>) -> Result<bool, StoreError> {
    let failed = |source| StoreError { action: "written", source };
    if after.is_some_and(|record| record.len() as u64 > MAX_RECORD) {
        return Err(failed(io::Error::new(ErrorKind::FileTooLarge, "a record is larger than 64 KiB")));
    }
    let _lock = lock(locked).map_err(failed)?;
    if read(path)?.as_deref() != before {
        return Ok(false);
    }
    match after {
        Some(record) => private_file::replace(path, record).map_err(failed)?,
        None if before.is_some() => remove(path).map_err(failed)?,
        None => {}
    }
    Ok(true)
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
        if is_id(&name) && name.starts_with(prefix) {
            ids.push(name);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn record_is_replaced_only_if_it_is_the_one_that_was_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = FolderStore::new(folder.path());
        assert!(store.ids(Table::Grants, "").await.expect("ids").is_empty());
        assert_eq!(store.get(Table::Grants, "a").await.expect("a read"), None);
        for (before, after, expected) in [
            (Some(&b"1"[..]), Some(&b"2"[..]), false),
            (None, Some(b"1"), true),
            (None, Some(b"2"), false),
            (Some(b"1"), Some(b"2"), true),
            (Some(b"1"), None, false),
        ] {
            let swapped = store.swap(Table::Grants, "a", before, after).await.expect("a write");
            assert_eq!(swapped, expected, "{before:?} {after:?}");
        }
        assert_eq!(store.get(Table::Grants, "a").await.expect("a read").as_deref(), Some(&b"2"[..]));
        assert_eq!(store.get(Table::Clients, "a").await.expect("a read"), None, "another table");
        let mode = fs::metadata(folder.path().join("grants/a")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(store.swap(Table::Grants, "a", Some(b"2"), None).await.expect("a write"));
        assert_eq!(store.get(Table::Grants, "a").await.expect("a read"), None);
    }

    #[tokio::test]
    async fn ids_are_listed_by_prefix_without_files_of_writers() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = FolderStore::new(folder.path());
        for id in ["aa-2", "aa-1", "ab-1"] {
            assert!(store.swap(Table::Grants, id, None, Some(b"x")).await.expect("a write"));
        }
        fs::write(folder.path().join("grants/aa-3.new"), "x").expect("a file");
        assert_eq!(store.ids(Table::Grants, "aa-").await.expect("ids"), ["aa-1", "aa-2"]);
        for id in ["", "../x", "a/b", "a.b", &"a".repeat(MAX_ID + 1)] {
            assert!(store.swap(Table::Grants, id, None, Some(b"x")).await.is_err(), "{id:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_of_many_writers_in_two_stores_of_a_folder_wins() {
        let folder = tempfile::tempdir().expect("a folder");
        let stores = [FolderStore::new(folder.path()), FolderStore::new(folder.path())];
        assert!(stores[0].swap(Table::Grants, "a", None, Some(b"0")).await.expect("a write"));
        let writes = (1..=20_u8).map(|at| {
            let store = stores[usize::from(at % 2)].clone();
            async move { store.swap(Table::Grants, "a", Some(b"0"), Some(&[at])).await.expect("a write") }
        });
        let won = futures_util::future::join_all(writes).await;
        assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
    }
}
