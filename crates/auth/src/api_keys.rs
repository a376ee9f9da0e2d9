//! All API keys of a configuration: finds the entry of a key and checks it.
//!
//! Invariant: an unknown id takes as long to check as a known one. The time of a check reveals only that an id has a
//! slow hash of another system.
//!
//! Not here: the form of a key and its hash (`api_key`), and slow hashes (`password_check`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::api_key::{ApiKey, KeyEntry, KeyHash, MAX_KEY_BYTES, Sha, id_of};
use super::password_check::{CheckQueue, PasswordHashes};
use super::principal::Principal;
use super::{Denied, Reason};
use crate::revocation::RevocationState;

/// All keys in their configured order, and separately those of other systems.
#[derive(Debug)]
pub(super) struct ApiKeys {
    all: Vec<KeyEntry>,
    /// Index in `all` by id.
    places: HashMap<String, usize>,
    slow: Option<Arc<PasswordHashes>>,
}

impl ApiKeys {
    /// The keys of a configuration. No id may occur twice.
    pub(super) fn new(keys: &[ApiKey]) -> Self {
        Self::with(keys.iter().map(KeyEntry::of).collect(), None)
    }

    /// If two entries have slow hashes of the same key, the first one counts, so their order must stay.
    fn with(all: Vec<KeyEntry>, before: Option<&PasswordHashes>) -> Self {
        let slow = PasswordHashes::new(&all, before);
        let places = all.iter().enumerate().map(|(place, entry)| (entry.key.id.clone(), place)).collect();
        Self { all, places, slow }
    }

    /// The entry of the key `id`.
    pub(super) fn get(&self, id: &str) -> Option<&KeyEntry> {
        self.all.get(*self.places.get(id)?)
    }

    /// Replaces `before`. The holder of a key that is in both stays authenticated.
    pub(super) fn after(mut self, before: &Self, now: SystemTime) -> Self {
        for entry in &mut self.all {
            if let Some(old) = before.get(&entry.key.id) {
                entry.succeed(old, now);
            }
        }
        Self::with(self.all, before.slow.as_deref())
    }

    /// The entries of all keys.
    pub(super) fn entries(&self) -> &[KeyEntry] {
        &self.all
    }

    /// The revocation states of all keys.
    pub(super) fn revocation_states(&self) -> impl Iterator<Item = &RevocationState> {
        self.all.iter().map(KeyEntry::revocation_state)
    }

    /// Returns the holder of the key `text`, or [`Denied::Unchecked`] if it needs a slow hash.
    pub(super) fn check(&self, text: &str, now: SystemTime) -> Result<Principal, Denied> {
        if let Some((slow, _)) = self.slow_for(text) {
            return slow.remembered(text, now);
        }
        let found = id_of(text).and_then(|id| self.get(id));
        // For an unknown key a hash that fits no key is compared, so that the check takes as long.
        let stored = match found.map(|entry| &entry.key.hash) {
            Some(KeyHash::Sha256(hash)) => *hash,
            Some(KeyHash::Slow(_)) | None => Sha::NONE,
        };
        let sent = Sha::of(&text[..text.floor_char_boundary(MAX_KEY_BYTES)]);
        let equal = stored.equals(&sent);
        match found {
            Some(entry) if equal && text.len() <= MAX_KEY_BYTES => entry.principal(now),
            _ => Err(Denied::Credential(Reason::UnknownKey)),
        }
    }

    /// Returns the holder of the key `text`; also checks slow hashes.
    pub(super) async fn check_slowly(
        &self,
        desk: &CheckQueue,
        text: &str,
        now: SystemTime,
    ) -> Result<Principal, Denied> {
        match self.slow_for(text) {
            Some((slow, id)) => slow.check(desk, text, id, now).await,
            None => self.check(text, now),
        }
    }

    /// Returns the slow hashes that `text` must be checked against, and the id of the only entry if `text` names one.
    fn slow_for<'t>(&self, text: &'t str) -> Option<(&Arc<PasswordHashes>, Option<&'t str>)> {
        let slow = self.slow.as_ref()?;
        match id_of(text) {
            Some(id) => self.get(id)?.key.hash.slow().map(|_| (slow, Some(id))),
            None => Some((slow, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::ExposeSecret;

    use super::*;
    use crate::{Role, generate};

    fn entry(id: &str, role: Role) -> (String, ApiKey) {
        let (key, hash) = generate(id);
        let hash = KeyHash::Sha256(hash);
        (key.expose_secret().to_owned(), ApiKey { id: id.into(), hash, role, expires: None, view: None })
    }

    #[test]
    fn a_key_opens_what_its_entry_says_and_nothing_else_does() {
        let ((ci, one), (ops, two)) = (entry("ci", Role::Reader), entry("ops-2", Role::Superuser));
        let keys = ApiKeys::new(&[one, two]);
        let now = SystemTime::now();
        assert_eq!(keys.check(&ci, now), Ok(Principal::of_key("ci", Role::Reader)));
        assert_eq!(keys.check(&ops, now), Ok(Principal::of_key("ops-2", Role::Superuser)));
        let flipped = format!("{}{}", &ci[..ci.len() - 1], if ci.ends_with('0') { '1' } else { '0' });
        let bad = [
            flipped,
            ci.replace("swy_ci_", "swy_ops-2_"),
            ci.replace("swy_ci_", "swy_nobody_"),
            ci.to_uppercase(),
            format!("{ci} "),
            format!("{ci}\0"),
            format!("{ci}{}", "x".repeat(10_000)),
            ci[..ci.len() - 2].into(),
            String::new(),
            "swy_".into(),
            "swy_ci_".into(),
            "swy__".into(),
            "ü".repeat(100),
            ops.replacen("swy_", "", 1),
        ];
        for key in bad {
            assert_eq!(keys.check(&key, now), Err(Denied::Credential(Reason::UnknownKey)), "{key}");
        }
    }

    #[test]
    fn a_key_ends_when_it_is_said_to() {
        let (key, mut entry) = entry("ci", Role::Reader);
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        entry.expires = Some(end);
        let keys = ApiKeys::new(&[entry]);
        assert!(keys.check(&key, end - Duration::from_secs(1)).is_ok());
        assert_eq!(keys.check(&key, end), Err(Denied::Credential(Reason::Expired)));
    }
}
