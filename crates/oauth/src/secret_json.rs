//! Secrets in the JSON that the vault seals. Only types that rest in the vault use it.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serializer};

/// Writes the secret itself.
pub(crate) fn serialize<S: Serializer>(secret: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(secret.expose_secret())
}

/// Reads a secret.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
    String::deserialize(from).map(SecretString::from)
}

/// A secret that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, ExposeSecret, SecretString, Serializer};

    #[allow(clippy::ref_option)] // serde calls it with a reference to the field
    pub(crate) fn serialize<S: Serializer>(secret: &Option<SecretString>, to: S) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => to.serialize_some(secret.expose_secret()),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SecretString>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(SecretString::from))
    }
}

/// A moment in whole seconds since 1970.
pub(crate) mod seconds {
    use std::time::{Duration, SystemTime};

    use super::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::ref_option)] // serde calls it with a reference to the field
    pub(crate) fn serialize<S: Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => {
                let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                to.serialize_some(&since.as_secs())
            }
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SystemTime>, D::Error> {
        let since = Option::<u64>::deserialize(from)?;
        // A moment that the clock cannot express counts as unknown.
        Ok(since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since))))
    }
}
