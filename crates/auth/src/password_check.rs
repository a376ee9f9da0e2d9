//! Checks API keys from another system, which are stored with its hashes (`password_hash`).
//!
//! Such a hash takes a tenth of a second of CPU time, and most such keys do not name their entry. Invariants: the whole
//! process computes one hash at a time ([`CheckQueue`]), and few requests wait for it briefly, so wrong keys cost one
//! processor at most. A text is not checked again if its result, good or bad, is still cached. The cache uses a keyed
//! hash of the text and lasts [`GOOD_FOR`] or [`BAD_FOR`] at most. A reload keeps the good results of entries that
//! stay.
//!
//! Not here: keys that Switchyard made (`api_key`), for which one round of SHA-256 is enough.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use lru::LruCache;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::api_key::KeyEntry;
use super::principal::Principal;
use super::{Denied, Reason};

/// Limit of entries with such a hash: a key that does not name its entry is compared with all.
pub(super) const MOST_KEYS: usize = 16;
/// Limit of the length of a key.
const MAX_KEY_BYTES: usize = 256;

/// Limit of requests that wait for a check, and of their waiting time.
const MOST_WAITING: usize = 32;
pub(super) const QUEUE_WAIT: Duration = Duration::from_secs(5);

/// How long a good result is cached.
const GOOD_FOR: Duration = Duration::from_hours(1);
/// How long a bad result is cached.
const BAD_FOR: Duration = Duration::from_mins(1);
/// Limit of cached bad results: some hundred bytes each.
const MOST_BAD: NonZeroUsize = NonZeroUsize::new(1_024).expect("not zero");
const MOST_GOOD: NonZeroUsize = NonZeroUsize::new(4 * MOST_KEYS).expect("not zero");

/// Runs checks one after another, also across reloads of the keys.
#[derive(Debug)]
pub(super) struct CheckQueue {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Default for CheckQueue {
    fn default() -> Self {
        Self { running: Arc::new(Semaphore::new(1)), waiting: Semaphore::new(MOST_WAITING) }
    }
}

impl CheckQueue {
    /// Waits for the right to compute, which lasts until it is dropped. None if too many wait, or for too long.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let _place = self.waiting.try_acquire().ok()?;
        timeout(QUEUE_WAIT, Arc::clone(&self.running).acquire_owned()).await.ok()?.ok()
    }
}

/// The keys with such hashes, and the cached results.
pub(super) struct PasswordHashes {
    keys: Vec<KeyEntry>,
    /// A key of this process, so that the cache says nothing to a reader of its memory later.
    secret: hmac::Key,
    seen: Mutex<CheckCache>,
}

type CheckId = [u8; 32];

struct CheckCache {
    /// Index of the matching key, and the time of the check.
    good: LruCache<CheckId, (usize, Instant)>,
    bad: LruCache<CheckId, Instant>,
}

impl PasswordHashes {
    /// The keys with such hashes, and the good results of `before` for entries that stay. Returns `None` if no key has
    /// such a hash.
    pub(super) fn new(keys: &[KeyEntry], before: Option<&Self>) -> Option<Arc<Self>> {
        let keys: Vec<KeyEntry> =
            keys.iter().filter(|entry| entry.key.hash.slow().is_some()).cloned().collect();
        if keys.is_empty() {
            return None;
        }
        let made = || hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>());
        let secret = before.map_or_else(made, |before| before.secret.clone());
        let good = before.map_or_else(|| LruCache::new(MOST_GOOD), |before| before.valid_results(&keys));
        let seen = CheckCache { good, bad: LruCache::new(MOST_BAD) };
        Some(Arc::new(Self { keys, secret, seen: Mutex::new(seen) }))
    }

    /// Returns the good results of entries that are unchanged in `keys`.
    fn valid_results(&self, keys: &[KeyEntry]) -> LruCache<CheckId, (usize, Instant)> {
        let mut good = LruCache::new(MOST_GOOD);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, (index, since)) in seen.good.iter().rev() {
            let is_same = |entry: &KeyEntry, old: &KeyEntry| {
                entry.key.id == old.key.id && entry.key.hash == old.key.hash
            };
            let old = self.keys.get(*index);
            let now = old.and_then(|old| keys.iter().position(|entry| is_same(entry, old)));
            if let Some(now) = now {
                good.put(*name, (now, *since));
            }
        }
        good
    }

    /// Returns the holder of the key `text`, if a result is cached.
    pub(super) fn remembered(&self, text: &str, now: SystemTime) -> Result<Principal, Denied> {
        if text.len() > MAX_KEY_BYTES {
            return Err(Denied::Credential(Reason::UnknownKey));
        }
        let (name, moment) = (self.name(text), Instant::now());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((index, since)) = seen.good.get(&name)
            && moment.saturating_duration_since(*since) < GOOD_FOR
        {
            let key = self.keys.get(*index).ok_or(Denied::Unchecked)?;
            return key.principal(now);
        }
        match seen.bad.get(&name) {
            Some(since) if moment.saturating_duration_since(*since) < BAD_FOR => {
                Err(Denied::Credential(Reason::UnknownKey))
            }
            _ => Err(Denied::Unchecked),
        }
    }

    /// Returns the holder of the key `text`, and computes hashes if no result is cached. `id` names the only entry that
    /// can match.
    pub(super) async fn check(
        self: &Arc<Self>,
        checks: &CheckQueue,
        text: &str,
        id: Option<&str>,
        now: SystemTime,
    ) -> Result<Principal, Denied> {
        let turn = checks.turn().await.ok_or(Denied::Busy)?;
        // Another request may have checked this text while this one waited.
        let known = self.remembered(text, now);
        if known != Err(Denied::Unchecked) {
            return known;
        }
        let (slow, sent, id) = (Arc::clone(self), SecretString::from(text), id.map(str::to_owned));
        let checked = spawn_blocking(move || {
            slow.compute(sent.expose_secret(), id.as_deref(), now);
            drop(turn);
        });
        checked.await.map_err(|_| Denied::Busy)?;
        match self.remembered(text, now) {
            Err(Denied::Unchecked) => Err(Denied::Busy),
            known => known,
        }
    }

    /// Compares `text` with the keys that can match, and caches the result.
    fn compute(&self, text: &str, id: Option<&str>, now: SystemTime) {
        let can_be =
            |entry: &KeyEntry| id.is_none_or(|id| id == entry.key.id) && entry.principal(now).is_ok();
        let is = |entry: &KeyEntry| entry.key.hash.slow().is_some_and(|hash| hash.is_of(text));
        let found = self.keys.iter().position(|entry| can_be(entry) && is(entry));
        let (name, since) = (self.name(text), Instant::now());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(index) => drop(seen.good.put(name, (index, since))),
            None => drop(seen.bad.put(name, since)),
        }
    }

    fn name(&self, text: &str) -> CheckId {
        let mut name = CheckId::default();
        name.copy_from_slice(hmac::sign(&self.secret, text.as_bytes()).as_ref());
        name
    }
}

impl fmt::Debug for PasswordHashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slow").field("keys", &self.keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "password_check_tests.rs"]
mod tests;
