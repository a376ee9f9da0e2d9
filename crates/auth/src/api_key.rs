//! API keys: stored as hashes, and compared in constant time if Switchyard made them.
//!
//! A key has the form `swy_<id>_<48 hex digits>`: the id finds the entry, and the 192 random bits are the secret. One
//! round of SHA-256 is enough for a long random secret; slow hashes protect secrets that people invent. An unknown id
//! takes as long to check as a known one.
//!
//! Keys that another system made may have any form, and keep the hashes of that system (`password_hash`). The time of a
//! check reveals that an id has such a hash.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::SecretString;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::principal::{Principal, Role};
use super::{Denied, Reason};
use crate::password_hash;
use crate::password_hash::{Desk, Slow};
use crate::revocation::Standing;
use runtime::hex::{hex, read_sha256};

const PREFIX: &str = "swy_";
const RANDOM_BYTES: usize = 24;
/// Limit of the length of a key; longer texts are not hashed.
const MAX_KEY_BYTES: usize = PREFIX.len() + MAX_ID_BYTES + 1 + 2 * RANDOM_BYTES;
/// The longest id.
const MAX_ID_BYTES: usize = 64;

/// The stored hash of a key.
#[derive(Clone, PartialEq, Eq)]
pub enum Hash {
    /// Hash of a key that Switchyard made.
    Sha256(Sha),
    /// Hash of a key that another system made.
    Slow(password_hash::Hash),
}

impl Hash {
    /// Reads `sha256:…`, `$2b$…` or `$argon2id$…`. Returns `None` for any other form; the error says why a hash is not
    /// accepted.
    pub fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        match Sha::parse(text) {
            Some(hash) => Some(Ok(Self::Sha256(hash))),
            None => password_hash::Hash::parse(text).map(|read| read.map(Self::Slow)),
        }
    }

    pub(super) const fn slow(&self) -> Option<&password_hash::Hash> {
        match self {
            Self::Sha256(_) => None,
            Self::Slow(hash) => Some(hash),
        }
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(_)")
    }
}

/// SHA-256 of a whole key; written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha([u8; 32]);

impl Sha {
    fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    fn parse(text: &str) -> Option<Self> {
        read_sha256(text).map(Self)
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

/// One key in the configuration.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Its name, part of the key itself.
    pub id: String,
    /// The hash of the key.
    pub hash: Hash,
    /// The role of its holder.
    pub role: Role,
    /// From when on the key is refused.
    pub expires: Option<SystemTime>,
}

/// One key and the principal that holds it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: ApiKey,
    holder: Principal,
}

impl Entry {
    pub(super) fn of(key: &ApiKey) -> Self {
        Self { holder: Principal::of_key(&key.id, key.role), key: key.clone() }
    }

    /// Returns the principal, if the key has not expired.
    pub(super) fn principal(&self, now: SystemTime) -> Result<Principal, Denied> {
        if self.has_ended(now) { Err(Denied::Credential(Reason::Expired)) } else { Ok(self.holder.clone()) }
    }

    fn has_ended(&self, now: SystemTime) -> bool {
        self.key.expires.is_some_and(|end| end <= now)
    }

    /// Whether a holder of `before` stays authenticated: the secret and the role are unchanged, and the key is valid.
    fn goes_on(&self, before: &Self, now: SystemTime) -> bool {
        self.key.hash == before.key.hash && self.key.role == before.key.role && !self.has_ended(now)
    }
}

/// Whether `text` can name a key: lower-case letters, digits and `-`.
pub fn is_id(text: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Makes a key. Show the text once and then drop it; only the hash is stored.
pub fn mint(id: &str) -> (SecretString, Sha) {
    let random: [u8; RANDOM_BYTES] = rand::random();
    let key = format!("{PREFIX}{id}_{}", hex(&random));
    let hash = Sha::of(&key);
    (key.into(), hash)
}

/// All keys in their configured order, and separately those of other systems.
#[derive(Debug)]
pub(super) struct Keys {
    all: Vec<Entry>,
    /// Index in `all` by id.
    places: HashMap<String, usize>,
    slow: Option<Arc<Slow>>,
}

impl Keys {
    /// The keys of a configuration. No id may occur twice.
    pub(super) fn new(keys: &[ApiKey]) -> Self {
        Self::with(keys.iter().map(Entry::of).collect(), None)
    }

    /// If two entries have slow hashes of the same key, the first one counts, so their order must stay.
    fn with(all: Vec<Entry>, before: Option<&Slow>) -> Self {
        let slow = Slow::new(&all, before);
        let places = all.iter().enumerate().map(|(place, entry)| (entry.key.id.clone(), place)).collect();
        Self { all, places, slow }
    }

    fn get(&self, id: &str) -> Option<&Entry> {
        self.all.get(*self.places.get(id)?)
    }

    /// Replaces `before`. The holder of a key that is in both stays authenticated.
    pub(super) fn after(mut self, before: &Self, now: SystemTime) -> Self {
        for entry in &mut self.all {
            if let Some(old) = before.get(&entry.key.id).filter(|old| entry.goes_on(old, now)) {
                entry.holder = old.holder.clone();
            }
        }
        Self::with(self.all, before.slow.as_deref())
    }

    /// The revocation states of all keys.
    pub(super) fn standings(&self) -> impl Iterator<Item = &Standing> {
        self.all.iter().map(|entry| entry.holder.standing())
    }

    /// Returns the holder of the key `text`, or [`Denied::Unchecked`] if it needs a slow hash.
    pub(super) fn check(&self, text: &str, now: SystemTime) -> Result<Principal, Denied> {
        if let Some((slow, _)) = self.slow_for(text) {
            return slow.remembered(text, now);
        }
        let found = id_of(text).and_then(|id| self.get(id));
        // For an unknown key a hash that fits no key is compared, so that the check takes as long.
        let stored = match found.map(|entry| &entry.key.hash) {
            Some(Hash::Sha256(hash)) => *hash,
            Some(Hash::Slow(_)) | None => Sha([0; 32]),
        };
        let sent = Sha::of(&text[..text.floor_char_boundary(MAX_KEY_BYTES)]);
        let equal = bool::from(stored.0.ct_eq(&sent.0));
        match found {
            Some(entry) if equal && text.len() <= MAX_KEY_BYTES => entry.principal(now),
            _ => Err(Denied::Credential(Reason::UnknownKey)),
        }
    }

    /// Returns the holder of the key `text`; also checks slow hashes.
    pub(super) async fn check_slowly(
        &self,
        desk: &Desk,
        text: &str,
        now: SystemTime,
    ) -> Result<Principal, Denied> {
        match self.slow_for(text) {
            Some((slow, id)) => slow.check(desk, text, id, now).await,
            None => self.check(text, now),
        }
    }

    /// Returns the slow hashes that `text` must be checked against, and the id of the only entry if `text` names one.
    fn slow_for<'t>(&self, text: &'t str) -> Option<(&Arc<Slow>, Option<&'t str>)> {
        let slow = self.slow.as_ref()?;
        match id_of(text) {
            Some(id) => self.get(id)?.key.hash.slow().map(|_| (slow, Some(id))),
            None => Some((slow, None)),
        }
    }
}

fn id_of(key: &str) -> Option<&str> {
    let (id, _) = key.strip_prefix(PREFIX)?.split_once('_')?;
    is_id(id).then_some(id)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::ExposeSecret;

    use super::*;

    fn entry(id: &str, role: Role) -> (String, ApiKey) {
        let (key, hash) = mint(id);
        let hash = Hash::Sha256(hash);
        (key.expose_secret().to_owned(), ApiKey { id: id.into(), hash, role, expires: None })
    }

    #[test]
    fn a_key_opens_what_its_entry_says_and_nothing_else_does() {
        let ((ci, one), (ops, two)) = (entry("ci", Role::Reader), entry("ops-2", Role::Superuser));
        let keys = Keys::new(&[one, two]);
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
        let keys = Keys::new(&[entry]);
        assert!(keys.check(&key, end - Duration::from_secs(1)).is_ok());
        assert_eq!(keys.check(&key, end), Err(Denied::Credential(Reason::Expired)));
    }

    #[test]
    fn hashes_are_read_as_written() {
        let hash = Sha::of("swy_ci_00");
        assert_eq!(Hash::parse(&hash.to_string()), Some(Ok(Hash::Sha256(hash))));
        assert_eq!(Hash::parse(&hash.to_string().to_uppercase()), None, "the prefix is lower case");
        for bad in ["", "sha256:", "sha256:zz", "md5:00", &hash.to_string()[..70], &format!("{hash}0")] {
            assert_eq!(Hash::parse(bad), None, "{bad}");
        }
        assert_eq!(format!("{:?}", Hash::Sha256(hash)), "Hash(_)");
    }

    #[test]
    fn minted_keys_are_random_and_have_the_documented_form() {
        let ((one, _), (two, hash)) = (mint("ci"), mint("ci"));
        assert_ne!(one.expose_secret(), two.expose_secret());
        assert_eq!(two.expose_secret().len(), "swy_ci_".len() + 48);
        assert!(Sha::of(two.expose_secret()) == hash);
        assert!(is_id("a-0") && !is_id("A") && !is_id("a_b") && !is_id("") && !is_id(&"a".repeat(65)));
    }
}
