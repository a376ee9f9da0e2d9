//! Follows the file of API keys (`keys_file`), so that a new key is accepted and a revoked one refused without a reload.
//!
//! Invariants: only keys change, and the configuration stays the one that was loaded last. While the file cannot be used, the
//! keys that were read before stay. A reload that read an older file is corrected by the next look.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{Authenticator, Config, Keys};
use runtime::file_stamp::FileStamp;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The configuration whose keys are in effect, if it names a file of keys.
#[derive(Debug)]
pub(super) struct FollowedKeys {
    config: Config,
    /// The file just before it was read.
    seen: Option<FileStamp>,
}

impl FollowedKeys {
    /// Notes the file of `config` as it is before it is read.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let file = config.key_file()?;
        Some(Self { config: config.clone(), seen: FileStamp::of(&file.path) })
    }
}

impl Authenticator {
    /// Reads the file of keys whenever it changed. Returns only when it is dropped.
    pub(super) async fn follow_key_file(&self) {
        let (mut refused, mut renewals) = (None, self.renewals());
        loop {
            renewals.mark_unchanged();
            let followed = self.followed.load_full();
            let file = followed.as_ref().and_then(|followed| Some((followed, followed.config.key_file()?)));
            let Some((followed, file)) = file else {
                // A reload may name a file. The sender is in `self`.
                let _ = renewals.changed().await;
                continue;
            };
            tokio::time::sleep(LOOK_EVERY).await;
            let now = tokio::fs::metadata(&file.path).await.ok().map(FileStamp::from);
            if now == followed.seen || Some(now) == refused {
                continue;
            }
            let path = file.path.display().to_string();
            let read = Arc::clone(followed);
            let read = tokio::task::spawn_blocking(move || Keys::read(&read.config)).await;
            refused = match read {
                Ok(Ok(keys)) => {
                    self.renew_followed(followed, keys);
                    tracing::info!(path, "the API keys were read again");
                    None
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "the API keys were not read again: those that were read before stay");
                    Some(now)
                }
                Err(_panicked) => Some(now),
            };
        }
    }

    /// Replaces the keys, unless a reload has replaced the configuration meanwhile.
    fn renew_followed(&self, followed: &Arc<FollowedKeys>, keys: Keys) {
        let _turn = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.followed.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, followed)) {
            self.replace(keys);
        }
    }
}
