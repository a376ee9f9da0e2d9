//! An API key: its form, its hash and its holder.
//!
//! A key has the form `swy_<id>_<48 hex digits>`: the id finds the entry, and the 192 random bits are the secret. One
//! round of SHA-256 is enough for a long random secret; slow hashes protect secrets that people invent.
//!
//! Keys that another system made may have any form, and keep the hashes of that system (`password_hash`).
//!
//! Not here: finding the entry of a key, and checking it (`api_keys`).

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::SecretString;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::principal::{Principal, Role};
use super::{Denied, Reason};
use crate::password_hash;
use crate::revocation::RevocationState;
use settings::read_sha256;

pub(super) const PREFIX: &str = "swy_";
const RANDOM_BYTES: usize = 24;
/// Limit of the length of a key; longer texts are not hashed.
pub(super) const MAX_KEY_BYTES: usize = PREFIX.len() + MAX_ID_BYTES + 1 + 2 * RANDOM_BYTES;
/// Bytes of the tag of a key.
const TAG_BYTES: usize = 16;
/// The longest id.
const MAX_ID_BYTES: usize = 64;

/// The stored hash of a key.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyHash {
    /// Hash of a key that Switchyard made.
    Sha256(Sha),
    /// Hash of a key that another system made.
    Slow(password_hash::SlowHash),
}

impl KeyHash {
    /// Reads `sha256:…`, `$2b$…` or `$argon2id$…`. Returns `None` for any other form; the error says why a hash is not
    /// accepted.
    pub fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        match Sha::parse(text) {
            Some(hash) => Some(Ok(Self::Sha256(hash))),
            None => password_hash::SlowHash::parse(text).map(|read| read.map(Self::Slow)),
        }
    }

    /// A tag of the key of this hash. It does not reveal the hash.
    pub(super) fn tag(&self) -> String {
        let digest = Sha256::new().chain_update("tag of an API key\0");
        let digest = match self {
            Self::Sha256(Sha(hash)) => digest.chain_update(hash),
            Self::Slow(hash) => digest.chain_update(hash.as_str()),
        };
        hex::encode(&digest.finalize()[..TAG_BYTES])
    }

    pub(super) const fn slow(&self) -> Option<&password_hash::SlowHash> {
        match self {
            Self::Sha256(_) => None,
            Self::Slow(hash) => Some(hash),
        }
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(_)")
    }
}

/// SHA-256 of a whole key; written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha([u8; 32]);

impl Sha {
    /// A hash that fits no key.
    pub(super) const NONE: Self = Self([0; 32]);

    pub(super) fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    fn parse(text: &str) -> Option<Self> {
        read_sha256(text).map(Self)
    }

    /// Compares both in constant time.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

/// One key in the configuration.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Its name, part of the key itself.
    pub id: String,
    /// The hash of the key.
    pub hash: KeyHash,
    /// The role of its holder.
    pub role: Role,
    /// From when on the key is refused.
    pub expires: Option<SystemTime>,
    /// The view that its holder is bound to.
    pub view: Option<Arc<str>>,
}

/// One key and the principal that holds it.
#[derive(Debug, Clone)]
pub(super) struct KeyEntry {
    pub(super) key: ApiKey,
    holder: Principal,
}

impl KeyEntry {
    pub(super) fn of(key: &ApiKey) -> Self {
        let holder = Principal::of_key(&key.id, key.role).bound_to(key.view.clone());
        Self { holder, key: key.clone() }
    }

    /// Returns the principal, if the key has not expired.
    pub(super) fn principal(&self, now: SystemTime) -> Result<Principal, Denied> {
        if self.has_ended(now) { Err(Denied::Credential(Reason::Expired)) } else { Ok(self.holder.clone()) }
    }

    /// The principal that holds it.
    pub(super) const fn holder(&self) -> &Principal {
        &self.holder
    }

    /// The revocation state of its holder.
    pub(super) fn revocation_state(&self) -> &RevocationState {
        self.holder.revocation_state()
    }

    /// Replaces `before`, whose holder stays authenticated if the key still permits it.
    pub(super) fn succeed(&mut self, before: &Self, now: SystemTime) {
        if self.continues(before, now) {
            self.holder = before.holder.clone();
        }
    }

    fn has_ended(&self, now: SystemTime) -> bool {
        self.key.expires.is_some_and(|end| end <= now)
    }

    /// Whether a holder of `before` stays authenticated: the secret, the role and the view are unchanged, and the key is valid.
    fn continues(&self, before: &Self, now: SystemTime) -> bool {
        let has_same_rights = self.key.role == before.key.role && self.key.view == before.key.view;
        self.key.hash == before.key.hash && has_same_rights && !self.has_ended(now)
    }
}

/// Whether `text` can name a key: lower-case letters, digits and `-`.
pub fn is_id(text: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Makes a key. Show the text once and then drop it; only the hash is stored.
pub fn generate(id: &str) -> (SecretString, Sha) {
    let random: [u8; RANDOM_BYTES] = rand::random();
    let key = format!("{PREFIX}{id}_{}", hex::encode(random));
    let hash = Sha::of(&key);
    (key.into(), hash)
}

/// Parses a date (its first moment) or an RFC 3339 time, both in UTC.
pub fn parse_time(text: &str) -> Option<SystemTime> {
    let is_time = text.len() == "2027-06-30T12:00:00Z".len() && text.as_bytes().get(10) == Some(&b'T');
    let time = if is_time { text.to_owned() } else { format!("{text}T00:00:00Z") };
    let time = SystemTime::from(OffsetDateTime::parse(&time, &Rfc3339).ok()?);
    (time >= SystemTime::UNIX_EPOCH).then_some(time)
}

/// Writes a time in RFC 3339, in UTC and whole seconds.
pub fn time_text(at: SystemTime) -> String {
    let time = OffsetDateTime::from(at).replace_nanosecond(0);
    time.ok().and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// The id in a key of Switchyard, if it has the form of one.
pub(super) fn id_of(key: &str) -> Option<&str> {
    let (id, _) = key.strip_prefix(PREFIX)?.split_once('_')?;
    is_id(id).then_some(id)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn hashes_are_read_as_written() {
        let hash = Sha::of("swy_ci_00");
        assert_eq!(KeyHash::parse(&hash.to_string()), Some(Ok(KeyHash::Sha256(hash))));
        assert_eq!(KeyHash::parse(&hash.to_string().to_uppercase()), None, "the prefix is lower case");
        for bad in ["", "sha256:", "sha256:zz", "md5:00", &hash.to_string()[..70], &format!("{hash}0")] {
            assert_eq!(KeyHash::parse(bad), None, "{bad}");
        }
        assert_eq!(format!("{:?}", KeyHash::Sha256(hash)), "Hash(_)");
    }

    #[test]
    fn minted_keys_are_random_and_have_the_documented_form() {
        let ((one, _), (two, hash)) = (generate("ci"), generate("ci"));
        assert_ne!(one.expose_secret(), two.expose_secret());
        assert_eq!(two.expose_secret().len(), "swy_ci_".len() + 48);
        assert!(Sha::of(two.expose_secret()) == hash);
        assert!(is_id("a-0") && !is_id("A") && !is_id("a_b") && !is_id("") && !is_id(&"a".repeat(65)));
    }
}
