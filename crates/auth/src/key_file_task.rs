//! Follows the file of API keys (`keys_file`), so that a new key is accepted and a revoked one refused without a reload.
//!
//! Invariants: only these keys change, and the configuration stays the one that was loaded last. Nothing else is read again, so
//! that no other fault keeps a revoked key valid: a key with a mistake is left out, and the others count. While the file cannot
//! be used at all, the keys that were read before stay, and each look tries again. A reload that read an older file is corrected
//! by the next look.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{ApiKeyList, Authenticator, Config, Error, Verification, api_keys::ApiKeys};
use runtime::file_stamp::FileStamp;

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
