//! Hashes of another system: bcrypt or Argon2id.
//!
//! Such a hash takes a tenth of a second of CPU time. Invariants: a hash that takes much longer, or much memory, is
//! not accepted. A text that bcrypt would truncate is refused, because keys that differ only after that point would be
//! equal.
//!
//! Not here: when a hash is computed (`password_check`).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordVerifier};
use bcrypt::HashParts;

/// The bytes of a text that bcrypt reads, without the final zero.
const BCRYPT_BYTES: usize = 71;
/// The highest accepted cost of bcrypt. Each step doubles the time; 14 takes about a second.
const MOST_COST: u32 = 14;
/// Limit of the memory of an Argon2id hash in KiB, and of that memory times the number of passes.
const MOST_KIB: u32 = 128 << 10;
const MOST_WORK: u32 = 512 << 10;

/// A hash of another system, as it is written in the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct SlowHash(HashScheme);

#[derive(Clone, PartialEq, Eq)]
enum HashScheme {
    Bcrypt(Arc<str>),
    Argon2id(Arc<str>),
}

impl SlowHash {
    /// The hash as it was written.
    pub(super) fn as_str(&self) -> &str {
        match &self.0 {
            HashScheme::Bcrypt(text) | HashScheme::Argon2id(text) => text,
        }
    }

    /// Reads `$2b$…` and `$argon2id$…`. Returns `None` for any other form; the error says why a hash is not accepted.
    pub(super) fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        if text.starts_with("$2") {
            Some(of_bcrypt(text).map(|()| Self(HashScheme::Bcrypt(text.into()))))
        } else if text.starts_with("$argon2") {
            Some(of_argon2(text).map(|()| Self(HashScheme::Argon2id(text.into()))))
        } else {
            None
        }
    }

    /// Whether this is the hash of `key`. It takes long.
    pub(super) fn is_of(&self, key: &str) -> bool {
        match &self.0 {
            HashScheme::Bcrypt(hash) => {
                key.len() <= BCRYPT_BYTES && bcrypt::verify(key, hash).unwrap_or(false)
            }
            HashScheme::Argon2id(hash) => PasswordHash::new(hash)
                .is_ok_and(|hash| Argon2::default().verify_password(key.as_bytes(), &hash).is_ok()),
        }
    }
}

impl fmt::Debug for SlowHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(_)")
    }
}

fn of_bcrypt(text: &str) -> Result<(), &'static str> {
    let is_variant = ["$2a$", "$2b$", "$2y$"].iter().any(|variant| text.starts_with(variant));
    match HashParts::from_str(text) {
        Ok(parts) if is_variant && parts.get_cost() <= MOST_COST => Ok(()),
        Ok(_) if is_variant => Err("its cost is higher than 14, so each check would take seconds"),
        _ => Err("it is not a complete bcrypt hash: $2b$, a cost, and 53 characters"),
    }
}

fn of_argon2(text: &str) -> Result<(), &'static str> {
    const INCOMPLETE: &str = "it is not a complete Argon2 hash: $argon2id$v=19$m=…,t=…,p=…$salt$hash";
    let hash = PasswordHash::new(text).map_err(|_| INCOMPLETE)?;
    if hash.algorithm.as_str() != Algorithm::Argon2id.as_str() {
        return Err("only Argon2id is taken of the Argon2 family");
    }
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(INCOMPLETE);
    }
    let params = Params::try_from(&hash).map_err(|_| INCOMPLETE)?;
    let work = params.m_cost().saturating_mul(params.t_cost());
    if params.m_cost() > MOST_KIB || work > MOST_WORK {
        return Err("it asks for more than 128 MiB, or for more than 512 MiB over all passes");
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD_NO_PAD;

    use super::*;

    const KEY: &str = "legacy-key-of-another-system";
    /// The beginning of a hash with the lowest cost.
    const ARGON2ID: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$";

    /// A hash of `key`.
    pub(crate) fn argon2id_of(key: &str) -> String {
        let params = Params::new(8, 1, 1, None).expect("the least there are");
        let mut out = [0; 32];
        let argon = Argon2::new(Algorithm::Argon2id, argon2::Version::V0x13, params);
        argon.hash_password_into(key.as_bytes(), b"somesalt", &mut out).expect("hashed");
        format!("{ARGON2ID}{}", STANDARD_NO_PAD.encode(out))
    }

    #[test]
    fn only_complete_hashes_of_a_bearable_price_are_taken() {
        let good = bcrypt::hash(KEY, 4).expect("hashed");
        for (text, why) in [
            (good.replacen("$2b$", "$2x$", 1), "complete bcrypt"),
            (good[..59].to_owned(), "complete bcrypt"),
            (good.replacen("$04$", "$15$", 1), "cost"),
            ("$2b$".to_owned(), "complete bcrypt"),
            ("$argon2id$".to_owned(), "complete Argon2"),
            (ARGON2ID.to_owned(), "complete Argon2"),
            (argon2id_of(KEY).replacen("argon2id", "argon2i", 1), "only Argon2id"),
            (argon2id_of(KEY).replacen("m=8", "m=262144", 1), "128 MiB"),
            (argon2id_of(KEY).replacen("m=8,t=1", "m=65536,t=16", 1), "512 MiB"),
        ] {
            let refused = SlowHash::parse(&text).expect("it is meant to be one").expect_err(&text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(SlowHash::parse("sha256:00").is_none() && SlowHash::parse(KEY).is_none());
        assert_eq!(format!("{:?}", SlowHash::parse(&good)), "Some(Ok(Hash(_)))");
    }
}
