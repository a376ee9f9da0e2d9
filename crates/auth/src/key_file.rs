//! The file of API keys that commands change while a gateway runs (`keys_file`).
//!
//! Invariants: it has hashes and no key. It is replaced as a whole, by one writer at a time, with the mode 0600. A file that
//! another user can write is refused. A file that does not exist has no keys.
//!
//! Not here: when a running gateway reads it (`key_file_task`). All functions block.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::Error;
use super::api_key::{self, ApiKey, KeyHash, parse_time};
use super::principal::Role;
use runtime::private_file;

/// The largest file, in bytes: several thousand keys.
const MAX_BYTES: u64 = 1024 * 1024;
/// Permissions of others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A file of API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// Its path.
    pub path: PathBuf,
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeys {
    keys: Vec<StoredKey>,
}

/// One key as the file has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKey {
    /// Its name, part of the key itself.
    pub id: String,
    hash: String,
    /// The role of its holder.
    pub role: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<String>,
    /// From when on it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The view that its holder is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
}

impl StoredKey {
    pub(super) fn read(&self) -> Result<ApiKey, String> {
        let Self { id, hash, role, expires, view, .. } = self;
        if !api_key::is_id(id) {
            return Err("the `id` of a key is not lower-case letters, digits and `-`".to_owned());
        }
        let Some(Ok(hash @ KeyHash::Sha256(_))) = KeyHash::parse(hash) else {
            return Err(format!("the `hash` of `{id}` is not `sha256:` and 64 hexadecimal digits"));
        };
        let role = Role::from_name(role)
            .ok_or_else(|| format!("the `role` of `{id}` is none of `reader`, `caller` and `superuser`"))?;
        let time =
            |text: &String| parse_time(text).ok_or_else(|| format!("`expires` of `{id}` is not a date"));
        let (expires, view) = (expires.as_ref().map(time).transpose()?, view.as_deref().map(Arc::from));
        Ok(ApiKey { id: id.clone(), hash, role, expires, view })
    }
}

impl KeyFile {
    /// The keys of the file as it has them.
    pub fn list(&self) -> Result<Vec<StoredKey>, Error> {
        let mode = match self.path.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(format!("it cannot be read: {error}"))),
            Ok(found) => found.permissions().mode() & 0o7777,
        };
        if mode & WRITABLE_BY_OTHERS != 0 {
            let path = self.path.display();
            return Err(self.failed(format!("other users can write it (mode {mode:o}): `chmod 600 {path}`")));
        }
        let content = private_file::read(&self.path, MAX_BYTES);
        let content = content.map_err(|error| self.failed(format!("it cannot be read: {error}")))?;
        let read: Result<StoredKeys, _> = serde_json::from_slice(&content);
        Ok(read.map_err(|error| self.failed(format!("it is not a file of keys: {error}")))?.keys)
    }

    /// Makes a key, bound to `view` if there is one, and stores its hash. Returns the key, which is stored nowhere.
    pub fn add(
        &self,
        id: &str,
        role: Role,
        expires: Option<&str>,
        view: Option<&str>,
    ) -> Result<SecretString, Error> {
        if view.is_some() && role == Role::Superuser {
            return Err(
                self.failed("a key with a view operates nothing: choose the role caller or reader".into())
            );
        }
        let (key, hash) = api_key::generate(id);
        self.change(|keys| {
            if keys.iter().any(|other| other.id == id) {
                let hint = format!("`switchyard key revoke {id}` ends it, or choose another name");
                return Err(self.failed(format!("there is a key `{id}` already: {hint}")));
            }
            keys.push(StoredKey {
                id: id.to_owned(),
                hash: hash.to_string(),
                role: role.as_str().to_owned(),
                added: Some(api_key::time_text(SystemTime::now())),
                expires: expires.map(str::to_owned),
                view: view.map(str::to_owned),
            });
            Ok(())
        })?;
        Ok(key)
    }

    /// Removes the key `id`.
    pub fn revoke(&self, id: &str) -> Result<(), Error> {
        self.change(|keys| {
            let before = keys.len();
            keys.retain(|key| key.id != id);
            if keys.len() < before { Ok(()) } else { Err(Error::NoSuchKey(id.to_owned())) }
        })
    }

    /// Changes the keys while no other process does.
    fn change(&self, change: impl FnOnce(&mut Vec<StoredKey>) -> Result<(), Error>) -> Result<(), Error> {
        let unwritable = |error| self.failed(format!("it cannot be written: {error}"));
        // A link stays, and the file that it leads to is replaced.
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let lock = private_file::open_lock(&path).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut content = StoredKeys { keys: self.list()? };
        change(&mut content.keys)?;
        let mut text = serde_json::to_vec_pretty(&content).unwrap_or_default();
        text.push(b'\n');
        if text.len() as u64 > MAX_BYTES {
            return Err(self
                .failed(format!("it would have more than {MAX_BYTES} bytes: revoke keys that nobody uses")));
        }
        private_file::replace(&path, &text).map_err(unwritable)
    }

    pub(super) fn failed(&self, reason: String) -> Error {
        Error::KeyFile { path: self.path.display().to_string(), reason }
    }
}

impl From<&Path> for KeyFile {
    fn from(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file() -> (tempfile::TempDir, KeyFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = KeyFile { path: folder.path().join("keys.json") };
        (folder, file)
    }

    fn all_of(file: &KeyFile) -> Result<Vec<ApiKey>, Error> {
        crate::ApiKeyList { listed: Vec::new(), file: Some(file.clone()) }.all()
    }

    #[test]
    fn keys_are_stored_as_hashes_for_their_owner_only() {
        let (_folder, file) = file();
        assert!(all_of(&file).expect("no file").is_empty());
        let key = file.add("laptop", Role::Caller, Some("2027-06-30"), None).expect("added");
        let text = fs::read_to_string(&file.path).expect("written");
        assert!(!text.contains(secrecy::ExposeSecret::expose_secret(&key)), "{text}");
        assert_eq!(file.path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        let keys = all_of(&file).expect("valid");
        assert_eq!((keys[0].id.as_str(), keys[0].role), ("laptop", Role::Caller));
        assert!(keys[0].expires.is_some());
        let twice = file.add("laptop", Role::Reader, None, None).expect_err("taken").to_string();
        assert!(twice.contains("there is a key `laptop` already"), "{twice}");
        file.revoke("laptop").expect("revoked");
        assert!(all_of(&file).expect("valid").is_empty());
        assert!(file.revoke("laptop").expect_err("gone").to_string().contains("there is no key `laptop`"));
    }

    #[test]
    fn concurrent_writers_lose_no_key() {
        let (_folder, file) = file();
        std::thread::scope(|threads| {
            for writer in 0..8 {
                let file = &file;
                threads.spawn(move || {
                    for number in 0..4 {
                        file.add(&format!("key-{writer}-{number}"), Role::Reader, None, None).expect("added");
                    }
                });
            }
        });
        assert_eq!(all_of(&file).expect("valid").len(), 32);
    }

    #[test]
    fn file_that_others_can_write_or_that_is_not_valid_is_refused() {
        let (_folder, file) = file();
        let hash = format!("sha256:{}", "0".repeat(64));
        for (text, reason) in [
            ("[]".to_owned(), "not a file of keys"),
            ("{\"keys\": [{\"id\": \"A\", \"hash\": \"\", \"role\": \"reader\"}]}".to_owned(), "`id`"),
            (
                "{\"keys\": [{\"id\": \"a\", \"hash\": \"x\", \"role\": \"reader\"}]}".to_owned(),
                "`hash` of `a`",
            ),
            (
                format!("{{\"keys\": [{{\"id\": \"a\", \"hash\": \"{hash}\", \"role\": \"x\"}}]}}"),
                "`role` of `a`",
            ),
        ] {
            fs::write(&file.path, text).expect("written");
            let error = all_of(&file).expect_err(reason).to_string();
            assert!(error.contains(reason) && error.contains("keys.json"), "{error}");
        }
        fs::write(&file.path, "{\"keys\": []}").expect("written");
        fs::set_permissions(&file.path, PermissionsExt::from_mode(0o622)).expect("allowed");
        let error = all_of(&file).expect_err("writable").to_string();
        assert!(error.contains("`chmod 600"), "{error}");
    }
}
