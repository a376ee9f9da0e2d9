//! API keys: made here, stored as a hash, compared in constant time.
//!
//! A key reads `swy_<id>_<48 hex digits>`: the id finds the entry, the 192 random bits are the
//! secret. Because the secret is random and long, one round of SHA-256 is enough; a slow hash
//! protects only what people invent. An id that is not known costs the same as one that is.

use std::collections::HashMap;
use std::fmt;
use std::time::SystemTime;

use secrecy::SecretString;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::principal::{Principal, Role};
use super::{Denied, Reason};
use crate::hex::hex;

const PREFIX: &str = "swy_";
const RANDOM_BYTES: usize = 24;
/// No key is longer; more is not hashed.
const MAX_KEY_BYTES: usize = PREFIX.len() + MAX_ID_BYTES + 1 + 2 * RANDOM_BYTES;
/// The longest id.
const MAX_ID_BYTES: usize = 64;

/// SHA-256 of a whole key; written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Reads what [`struct@Hash`]'s `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(_)")
    }
}

/// One key as the configuration knows it.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Its name, part of the key itself.
    pub id: String,
    /// What is stored of it.
    pub hash: Hash,
    /// What its holder may do.
    pub role: Role,
    /// From when on it is refused.
    pub expires: Option<SystemTime>,
}

/// Whether `text` can name a key: lower-case letters, digits and `-`.
pub fn is_id(text: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Makes a key. The text is to be shown once and then forgotten; only the hash is stored.
pub fn mint(id: &str) -> (SecretString, Hash) {
    let random: [u8; RANDOM_BYTES] = rand::random();
    let key = format!("{PREFIX}{id}_{}", hex(&random));
    let hash = Hash::of(&key);
    (key.into(), hash)
}

/// All keys, by id.
#[derive(Debug)]
pub(super) struct Keys(HashMap<String, ApiKey>);

impl Keys {
    /// The keys of a configuration, in which no id stands twice.
    pub(super) fn new(keys: &[ApiKey]) -> Self {
        Self(keys.iter().map(|key| (key.id.clone(), key.clone())).collect())
    }

    /// Whose key `text` is.
    pub(super) fn check(&self, text: &str, now: SystemTime) -> Result<Principal, Denied> {
        let found = id_of(text).and_then(|id| self.0.get(id));
        // An unknown key is compared as well, with a hash nothing is known to have.
        let stored = found.map_or(Hash([0; 32]), |key| key.hash);
        let sent = Hash::of(&text[..text.floor_char_boundary(MAX_KEY_BYTES)]);
        let equal = bool::from(stored.0.ct_eq(&sent.0));
        match found {
            Some(key) if equal && text.len() <= MAX_KEY_BYTES => match key.expires {
                Some(end) if end <= now => Err(Denied::Credential(Reason::Expired)),
                _ => Ok(Principal::of_key(&key.id, key.role)),
            },
            _ => Err(Denied::Credential(Reason::UnknownKey)),
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
        let hash = Hash::of("swy_ci_00");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(Hash::parse(&hash.to_string().to_uppercase()), None, "the prefix is lower case");
        for bad in ["", "sha256:", "sha256:zz", "md5:00", &hash.to_string()[..70], &format!("{hash}0")] {
            assert_eq!(Hash::parse(bad), None, "{bad}");
        }
        assert_eq!(format!("{hash:?}"), "Hash(_)");
    }

    #[test]
    fn minted_keys_are_random_and_have_the_documented_form() {
        let ((one, _), (two, hash)) = (mint("ci"), mint("ci"));
        assert_ne!(one.expose_secret(), two.expose_secret());
        assert_eq!(two.expose_secret().len(), "swy_ci_".len() + 48);
        assert_eq!(Hash::of(two.expose_secret()), hash);
        assert!(is_id("a-0") && !is_id("A") && !is_id("a_b") && !is_id("") && !is_id(&"a".repeat(65)));
    }
}
