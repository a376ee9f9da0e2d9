//! The file of API keys that commands change while a gateway runs (`keys_file`), and the task that follows it.
//!
//! Invariants: the file has hashes and no key. It is replaced as a whole, by one writer at a time, with the mode 0600. A file
//! that another user can write is refused. A file that does not exist has no keys. A new key is accepted and a revoked one
//! refused without a reload. Only these keys change then, so no other fault keeps a revoked key valid: a key with a mistake is
//! left out, and the others count. While the file cannot be used at all, the keys that were read before stay. A reload that
//! read an older file is corrected by the next look.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::api_key::{ApiKey, KeyHash, parse_time};
use super::api_keys::ApiKeys;
use super::principal::Role;
use super::{ApiKeyList, Authenticator, Config, Error, Verification, api_key};
use runtime::private_file;
use runtime::regular_file::FileStamp;

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

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The API keys of the configuration that is in effect, and its file of further ones.
#[derive(Debug)]
pub(super) struct FollowedKeys {
    keys: ApiKeyList,
    /// The file just before it was read.
    seen: Option<FileStamp>,
}

/// The keys as they were read again.
struct ReadAgain {
    keys: ApiKeys,
    followed: FollowedKeys,
    /// The mistakes of keys that are left out.
    mistakes: Vec<String>,
}

impl FollowedKeys {
    /// Notes the file of `config` as it is before it is read.
    pub(super) fn of(config: &Config) -> Option<Self> {
        config.api_keys().cloned().map(Self::of_keys)
    }

    fn of_keys(keys: ApiKeyList) -> Self {
        let seen = keys.file.as_ref().and_then(|file| FileStamp::of(&file.path));
        Self { keys, seen }
    }

    /// Reads the file. Blocks.
    fn read(keys: ApiKeyList) -> Result<ReadAgain, Error> {
        let followed = Self::of_keys(keys);
        let (keys, mistakes) = followed.keys.usable()?;
        Ok(ReadAgain { keys: ApiKeys::new(&keys), followed, mistakes })
    }
}

impl Authenticator {
    /// Reads the file of keys whenever it changed. Returns only when it is dropped.
    pub(super) async fn follow_key_file(&self) {
        let (mut logged, mut renewals) = (None, self.renewals());
        loop {
            renewals.mark_unchanged();
            let followed = self.followed.load_full();
            let file = followed.as_ref().and_then(|followed| Some((followed, followed.keys.file.as_ref()?)));
            let Some((followed, file)) = file else {
                // A reload may name a file. The sender is in `self`.
                let _ = renewals.changed().await;
                continue;
            };
            tokio::time::sleep(LOOK_EVERY).await;
            let now = tokio::fs::metadata(&file.path).await.ok().map(FileStamp::from);
            if now == followed.seen {
                continue;
            }
            let read = self.read_again(followed).await;
            logged = match read {
                Err(error) if logged != Some(now) => {
                    tracing::error!(%error, "the API keys were not read again: those that were read before stay");
                    Some(now)
                }
                Err(_) => logged,
                Ok(()) => None,
            };
        }
    }

    /// Reads the file of keys now, if there is one. A fault is logged by the next look.
    pub async fn read_key_file(&self) {
        // Twice, because a reader that began before the file changed may be the first to end.
        for _ in 0..2 {
            if let Some(followed) = self.followed.load_full() {
                let _ = self.read_again(&followed).await;
            }
        }
    }

    /// The API keys of the configuration, and their file; none if no key is accepted.
    pub fn api_keys(&self) -> Option<ApiKeyList> {
        self.followed.load().as_ref().map(|followed| followed.keys.clone())
    }

    async fn read_again(&self, followed: &Arc<FollowedKeys>) -> Result<(), Error> {
        let keys = followed.keys.clone();
        let read = tokio::task::spawn_blocking(move || FollowedKeys::read(keys)).await;
        let ReadAgain { keys, followed: now, mistakes } =
            read.unwrap_or(Err(Error::Key("reading the API keys failed")))?;
        self.renew_followed(followed, keys, now);
        tracing::info!("the API keys were read again");
        for mistake in mistakes {
            tracing::error!("an API key is left out: {mistake}");
        }
        Ok(())
    }

    /// Replaces the keys, unless a reload has replaced the configuration meanwhile.
    fn renew_followed(&self, followed: &Arc<FollowedKeys>, keys: ApiKeys, now: FollowedKeys) {
        let _turn = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.followed.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, followed)) {
            let next = match &*self.mode.load_full() {
                Verification::ApiKey(_) => Verification::ApiKey(keys),
                Verification::Any(_, verifier) => Verification::Any(keys, Arc::clone(verifier)),
                Verification::None(_) | Verification::Jwt(_) => return,
            };
            self.replace(next, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use http::HeaderMap;
    use jsonwebtoken::Algorithm;
    use secrecy::ExposeSecret;

    use super::*;
    use crate::{ApiKeyList, Jwt, KeyFile, KeySource, Principal, Role};

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

    /// An Ed25519 key of RFC 8037, appendix A.2.
    const KEY_SET: &str = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "use": "sig", "alg": "EdDSA",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    struct Door {
        folder: tempfile::TempDir,
        file: KeyFile,
        listed: Vec<crate::ApiKey>,
    }

    impl Door {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join("set.json"), KEY_SET).expect("written");
            Self { file: KeyFile { path: folder.path().join("keys.json") }, folder, listed: Vec::new() }
        }

        fn key_set(&self) -> PathBuf {
            self.folder.path().join("set.json")
        }

        /// Accepts keys and tokens.
        fn open(&self) -> Authenticator {
            let keys = ApiKeyList { listed: self.listed.clone(), file: Some(self.file.clone()) };
            let key = KeySource::JwksFile(self.key_set());
            let jwt = Jwt { algorithms: vec![Algorithm::EdDSA], key, ..crate::jwt::tests::hmac() };
            Authenticator::new(&Config::Any(keys, Box::new(jwt))).expect("good files")
        }

        /// Makes a key, and returns it as it is sent.
        fn add(&self, id: &str) -> HeaderMap {
            let key = self.file.add(id, Role::Caller, None, None).expect("added");
            let value = key.expose_secret().parse().expect("a value");
            HeaderMap::from_iter([(crate::API_KEY_HEADER, value)])
        }
    }

    /// Whether `principal` is revoked within ten looks.
    async fn is_revoked(door: &Authenticator, principal: &Principal) -> bool {
        tokio::select! {
            () = door.follow_key_file() => unreachable!("it never returns"),
            () = principal.revoked() => true,
            () = tokio::time::sleep(LOOK_EVERY * 10) => false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_revoked_although_the_keys_of_tokens_cannot_be_read() {
        let files = Door::new();
        let (gone, stays) = (files.add("gone"), files.add("stays"));
        let door = files.open();
        let [gone_holder, stays_holder] = [&gone, &stays].map(|key| door.authenticate(key).expect("good"));
        fs::remove_file(files.key_set()).expect("removed");
        files.file.revoke("gone").expect("revoked");
        assert!(is_revoked(&door, &gone_holder).await);
        assert!(door.authenticate(&gone).is_err());
        assert_eq!(door.authenticate(&stays), Ok(stays_holder.clone()));
        assert!(!stays_holder.is_revoked());
        // The next change is seen too.
        files.file.revoke("stays").expect("revoked");
        assert!(is_revoked(&door, &stays_holder).await);
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_revoked_although_another_one_has_a_mistake() {
        let mut files = Door::new();
        let (gone, stays) = (files.add("gone"), files.add("stays"));
        let (_, hash) = crate::generate("listed");
        let hash = crate::KeyHash::Sha256(hash);
        files.listed.push(crate::ApiKey {
            id: "listed".into(),
            hash,
            role: Role::Reader,
            expires: None,
            view: None,
        });
        let door = files.open();
        let [gone, stays] = [gone, stays].map(|key| door.authenticate(&key).expect("good"));
        files.add("odd");
        files.add("listed"); // the configuration on disk has it no longer
        let text = fs::read_to_string(&files.file.path).expect("there");
        let (before, odd) = text.split_once(r#""id": "odd""#).expect("it is there");
        let odd = odd.replacen("caller", "king", 1);
        fs::write(&files.file.path, format!(r#"{before}"id": "odd"{odd}"#)).expect("written");
        files.file.revoke("gone").expect("revoked");
        assert!(is_revoked(&door, &gone).await);
        assert!(!is_revoked(&door, &stays).await);
    }
}
