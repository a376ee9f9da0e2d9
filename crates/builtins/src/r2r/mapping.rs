//! The file that maps projects to their R2R collections.
//!
//! Invariants: the file is replaced as a whole, and only its owner can read it ([`private_file`]). A writer
//! takes a lock that all gateways use, and reads the file before it writes. A file that cannot be parsed is
//! never overwritten.
//!
//! All functions may block, except for waiting for the lock.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::id::Id;
use runtime::private_file;

const VERSION: u32 = 1;
/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// Attempts to take the lock. With the pauses they last two seconds.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// The project and the account that a collection belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Owner {
    /// The project.
    pub project: String,
    /// Hash of the R2R server and the account there, because a collection exists for one account only.
    pub identity: String,
}

/// One row of the file: the collection of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MappingEntry {
    #[serde(flatten)]
    pub owner: Owner,
    pub collection_id: Id,
    pub collection_name: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct MappingFile {
    version: u32,
    collections: Vec<MappingEntry>,
}

/// Why the file cannot be used. The texts name the file and are for operators.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the file of project collections {} cannot be {what}: {source}", path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error(
        "the file of project collections {} is broken ({reason}); repair it, or remove it and it is created again",
        path.display()
    )]
    Broken { path: PathBuf, reason: String },
    #[error("the file of project collections {} is held by another process", path.display())]
    Held { path: PathBuf },
}

/// Access to the file, which may be missing.
#[derive(Debug, Clone)]
pub(super) struct Mapping(PathBuf);

impl Mapping {
    /// The file at `path` or at the default path. `None` if there is no default path.
    pub(super) fn new(path: Option<&Path>) -> Option<Self> {
        path.map(Path::to_owned).or_else(usual_path).map(Self)
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the entry of `owner`.
    pub(super) async fn get(&self, owner: &Owner) -> Result<Option<MappingEntry>, Error> {
        let (file, owner) = (self.clone(), owner.clone());
        let entries = on_a_thread(move || file.read()).await?;
        Ok(entries.into_iter().find(|entry| entry.owner == owner))
    }

    /// Stores `entry` in place of its owner's former one.
    pub(super) async fn put(&self, entry: MappingEntry) -> Result<(), Error> {
        let lock = self.lock().await?;
        let file = self.clone();
        on_a_thread(move || {
            let _held = lock; // until the new file is in place
            let mut entries = file.read()?;
            entries.retain(|known| known.owner != entry.owner);
            entries.push(entry);
            entries.sort_by(|a, b| a.owner.cmp(&b.owner));
            file.replace(&entries)
        })
        .await
    }

    fn read(&self) -> Result<Vec<MappingEntry>, Error> {
        let broken = |reason: String| Error::Broken { path: self.0.clone(), reason };
        let bytes = match private_file::read(&self.0, MOST_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("read")(error)),
        };
        let content: MappingFile =
            serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        match content.version {
            VERSION => Ok(content.collections),
            other => Err(broken(format!("its version is {other}, and we know {VERSION}"))),
        }
    }

    fn replace(&self, entries: &[MappingEntry]) -> Result<(), Error> {
        let content = MappingFile { version: VERSION, collections: entries.to_vec() };
        let mut text = serde_json::to_vec_pretty(&content).unwrap_or_default();
        text.push(b'\n');
        private_file::replace(&self.0, &text).map_err(self.failed("written"))
    }

    /// Takes the lock, which is released when the returned file is closed.
    async fn lock(&self) -> Result<File, Error> {
        let file = self.clone();
        let lock =
            on_a_thread(move || private_file::open_lock(&file.0).map_err(file.failed("locked"))).await?;
        for _ in 0..TRIES {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) => sleep(PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(self.failed("locked")(error)),
            }
        }
        Err(Error::Held { path: self.0.clone() })
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.0.clone();
        move |source| Error::Io { path: path.clone(), what, source }
    }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let ended = |_| Error::Io {
        path: PathBuf::new(),
        what: "reached",
        source: io::Error::other("the work was given up"),
    };
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}

/// Returns `project_collections.json` in the state folder.
fn usual_path() -> Option<PathBuf> {
    Some(private_file::default_state_folder()?.join("project_collections.json"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uuid::Uuid;

    use super::*;

    fn entry(project: &str, id: u128) -> MappingEntry {
        let owner = Owner { project: project.to_owned(), identity: "i".to_owned() };
        MappingEntry {
            owner,
            collection_id: Id(Uuid::from_u128(id)),
            collection_name: format!("c-{project}"),
        }
    }

    fn mapping(folder: &tempfile::TempDir) -> Mapping {
        Mapping::new(Some(&folder.path().join("state/x.json"))).expect("a path")
    }

    #[tokio::test]
    async fn what_is_put_is_found_again_by_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let mapping = mapping(&folder);
        let (one, other) = (entry("one", 1), entry("other", 2));
        assert_eq!(mapping.get(&one.owner).await.expect("no file is no fault"), None);
        mapping.put(one.clone()).await.expect("written");
        mapping.put(other.clone()).await.expect("written");
        mapping.put(entry("one", 3)).await.expect("written");
        assert_eq!(mapping.get(&one.owner).await.expect("read"), Some(entry("one", 3)));
        assert_eq!(mapping.get(&other.owner).await.expect("read"), Some(other));
        let stranger = Owner { identity: "j".to_owned(), ..one.owner };
        assert_eq!(mapping.get(&stranger).await.expect("read"), None);
    }

    #[tokio::test]
    async fn a_broken_file_is_named_and_not_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let mapping = mapping(&folder);
        fs::create_dir_all(mapping.path().parent().expect("a folder")).expect("made");
        for text in
            ["{", "", "[]", r#"{"version":2,"collections":[]}"#, r#"{"version":1,"collections":[{}]}"#]
        {
            fs::write(mapping.path(), text).expect("written");
            let error = mapping.get(&entry("a", 1).owner).await.expect_err(text).to_string();
            assert!(error.contains("x.json") && error.contains("repair it"), "{error}");
            mapping.put(entry("a", 1)).await.expect_err("it is left alone");
            assert_eq!(fs::read_to_string(mapping.path()).expect("read"), text);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_writers_lose_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let shared = mapping(&folder);
        let write = |n: u128| {
            let mapping = shared.clone();
            async move { mapping.put(entry(&format!("p{n}"), n)).await.expect("written") }
        };
        futures_util::future::join_all((0..16).map(write)).await;
        for n in 0..16 {
            let wanted = entry(&format!("p{n}"), n);
            assert_eq!(shared.get(&wanted.owner).await.expect("read"), Some(wanted));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_never_given_back_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mapping = mapping(&folder);
        let held = mapping.lock().await.expect("free");
        assert!(matches!(mapping.put(entry("a", 1)).await, Err(Error::Held { .. })));
        drop(held);
        mapping.put(entry("a", 1)).await.expect("free again");
    }
}
