//! The file that maps projects to their R2R collections.
//!
//! Invariants: the file is replaced as a whole, and only its owner can read it ([`private_file`]). A writer
//! takes a lock that all gateways use, and reads the file before it writes. A file that cannot be parsed is
//! never overwritten. A file of another program, an object of projects and ids, keeps its form.
//!
//! All functions may block, except for waiting for the lock.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use super::model::Id;
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

/// The file in one of its forms.
enum Content {
    /// That of Switchyard.
    Own(Vec<MappingEntry>),
    /// That of other programs: `{"my-app": "uuid"}`. It names no account.
    Foreign(BTreeMap<String, Id>),
}

impl Content {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let said = |error: serde_json::Error| error.to_string();
        let members: BTreeMap<String, Value> = serde_json::from_slice(bytes).map_err(said)?;
        if !members.is_empty() && members.values().all(Value::is_string) {
            return serde_json::from_slice(bytes).map(Self::Foreign).map_err(said);
        }
        let file: MappingFile = serde_json::from_slice(bytes).map_err(said)?;
        match file.version {
            VERSION => Ok(Self::Own(file.collections)),
            other => Err(format!("its version is {other}, and Switchyard knows {VERSION}")),
        }
    }

    /// Returns the collection of `owner`. A file without accounts may call it `name`.
    fn get(&self, owner: &Owner, name: &str) -> Option<Remembered> {
        match self {
            Self::Own(entries) => {
                let entry = entries.iter().find(|entry| entry.owner == *owner)?;
                Some(Remembered { id: entry.collection_id, is_foreign: false })
            }
            Self::Foreign(ids) => {
                let id = ids.get(&owner.project).or_else(|| ids.get(name))?;
                Some(Remembered { id: *id, is_foreign: true })
            }
        }
    }

    fn put(&mut self, entry: MappingEntry) {
        match self {
            Self::Own(entries) => {
                entries.retain(|known| known.owner != entry.owner);
                entries.push(entry);
                entries.sort_by(|a, b| a.owner.cmp(&b.owner));
            }
            Self::Foreign(ids) => {
                let is_by_name =
                    !ids.contains_key(&entry.owner.project) && ids.contains_key(&entry.collection_name);
                let key = if is_by_name { entry.collection_name } else { entry.owner.project };
                ids.insert(key, entry.collection_id);
            }
        }
    }

    fn text(self) -> Vec<u8> {
        let text = match self {
            Self::Own(collections) => {
                serde_json::to_vec_pretty(&MappingFile { version: VERSION, collections })
            }
            Self::Foreign(ids) => serde_json::to_vec_pretty(&ids),
        };
        let mut text = text.unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// The collection of a project, as the file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remembered {
    pub id: Id,
    /// Whether another program wrote it, which may have given the collection any name.
    pub is_foreign: bool,
}

/// Access to the file, which may be missing.
#[derive(Debug, Clone)]
pub(super) struct Mapping(PathBuf);

impl Mapping {
    /// The file at `path` or at the default path. `None` if there is no default path.
    pub(super) fn new(path: Option<&Path>) -> Option<Self> {
        path.map(Path::to_owned).or_else(usual_path).map(Self)
    }

    /// Returns the collection of `owner`, which is called `name` at R2R.
    pub(super) async fn get(&self, owner: &Owner, name: &str) -> Result<Option<Remembered>, Error> {
        let file = self.clone();
        Ok(on_a_thread(move || file.read()).await?.get(owner, name))
    }

    /// Stores `entry` in place of its owner's former one.
    pub(super) async fn put(&self, entry: MappingEntry) -> Result<(), Error> {
        let lock = self.lock().await?;
        let file = self.clone();
        on_a_thread(move || {
            let _held = lock; // until the new file is in place
            let mut content = file.read()?;
            content.put(entry);
            private_file::replace(&file.0, &content.text()).map_err(file.failed("written"))
        })
        .await
    }

    fn read(&self) -> Result<Content, Error> {
        match private_file::read(&self.0, MOST_BYTES) {
            Ok(bytes) => {
                Content::parse(&bytes).map_err(|reason| Error::Broken { path: self.0.clone(), reason })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::Own(Vec::new())),
            Err(error) => Err(self.failed("read")(error)),
        }
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

    async fn found(mapping: &Mapping, entry: &MappingEntry) -> Option<Id> {
        mapping.get(&entry.owner, &entry.collection_name).await.expect("read").map(|found| found.id)
    }

    fn mapping(folder: &tempfile::TempDir) -> Mapping {
        Mapping::new(Some(&folder.path().join("state/x.json"))).expect("a path")
    }

    #[tokio::test]
    async fn entry_is_found_by_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let mapping = mapping(&folder);
        let (one, other) = (entry("one", 1), entry("other", 2));
        assert_eq!(mapping.get(&one.owner, "").await.expect("no file is no fault"), None);
        mapping.put(one.clone()).await.expect("written");
        mapping.put(other.clone()).await.expect("written");
        mapping.put(entry("one", 3)).await.expect("written");
        assert_eq!(found(&mapping, &one).await, Some(entry("one", 3).collection_id));
        assert_eq!(found(&mapping, &other).await, Some(other.collection_id));
        let stranger = Owner { identity: "j".to_owned(), ..one.owner };
        assert_eq!(mapping.get(&stranger, "c-one").await.expect("read"), None);
    }

    #[tokio::test]
    async fn a_broken_file_is_named_and_not_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let mapping = mapping(&folder);
        fs::create_dir_all(mapping.0.parent().expect("a folder")).expect("made");
        for text in [
            "{",
            "",
            "[]",
            "{}",
            r#"{"a":"no id"}"#,
            r#"{"version":2,"collections":[]}"#,
            r#"{"version":1,"collections":[{}]}"#,
        ] {
            fs::write(&mapping.0, text).expect("written");
            let error = mapping.get(&entry("a", 1).owner, "c-a").await.expect_err(text).to_string();
            assert!(error.contains("x.json") && error.contains("repair it"), "{error}");
            mapping.put(entry("a", 1)).await.expect_err("it is left alone");
            assert_eq!(fs::read_to_string(&mapping.0).expect("read"), text);
        }
    }

    #[tokio::test]
    async fn file_of_another_program_is_read_and_keeps_its_form() {
        let folder = tempfile::tempdir().expect("a folder");
        let mapping = mapping(&folder);
        fs::create_dir_all(mapping.0.parent().expect("a folder")).expect("made");
        let id = |n: u128| Uuid::from_u128(n).to_string();
        let theirs = serde_json::json!({"one": id(1), "c-other": id(2)});
        fs::write(&mapping.0, theirs.to_string()).expect("written");
        for (project, number) in [("one", 1), ("other", 2)] {
            let expected = Remembered { id: entry(project, number).collection_id, is_foreign: true };
            let entry = entry(project, number);
            let read = mapping.get(&entry.owner, &entry.collection_name).await.expect("read");
            assert_eq!(read, Some(expected), "{project}");
        }
        for (project, number) in [("one", 3), ("other", 4), ("new", 5)] {
            mapping.put(entry(project, number)).await.expect("written");
        }
        let written: Value =
            serde_json::from_str(&fs::read_to_string(&mapping.0).expect("read")).expect("JSON");
        assert_eq!(written, serde_json::json!({"one": id(3), "c-other": id(4), "new": id(5)}));
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
            let expected = entry(&format!("p{n}"), n);
            assert_eq!(found(&shared, &expected).await, Some(expected.collection_id));
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
