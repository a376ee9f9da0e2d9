//! The name of a value in the vault.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Limit of the name of a static secret, in bytes.
const MAX_SECRET_NAME: usize = 64;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// Tokens of one login.
    Token,
    /// The clients that are registered for one server at authorization servers.
    Client,
    /// The authorization servers to which credentials of the configuration file belong.
    Issuer,
    /// A static secret: of all for `${secret:NAME}`, and of one principal for `${principal:NAME}`.
    Secret,
    /// The keys of the authorization server of this gateway.
    Authorization,
}

impl EntryKind {
    /// The kind as it is shown and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Client => "client",
            Self::Issuer => "issuer",
            Self::Secret => "secret",
            Self::Authorization => "authorization",
        }
    }
}

/// The name of one value. Two values with different names never replace each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The kind of the value.
    pub kind: EntryKind,
    /// The server, or the name of the secret.
    pub name: String,
    /// The principal that owns the value; `None` for a value that all principals share.
    pub principal: Option<String>,
}

impl Entry {
    /// The static secret `name`.
    pub fn secret(name: &str) -> Self {
        Self { kind: EntryKind::Secret, name: name.to_owned(), principal: None }
    }

    /// The secret `name` of `principal`.
    pub fn secret_of(principal: &str, name: &str) -> Self {
        Self { principal: Some(principal.to_owned()), ..Self::secret(name) }
    }

    /// Whether it is a secret of one principal.
    pub fn is_secret_of_principal(&self) -> bool {
        self.kind == EntryKind::Secret && self.principal.is_some()
    }

    /// Encodes the name without ambiguity: each part has its length before it.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let parts = [Some(self.kind.as_str()), Some(&self.name), self.principal.as_deref()];
        let mut bytes = Vec::new();
        for part in parts.into_iter().flatten() {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        bytes
    }

    /// The length of all parts in bytes.
    pub(super) fn length(&self) -> usize {
        self.name.len() + self.principal.as_ref().map_or(0, String::len)
    }
}

impl fmt::Display for Entry {
    /// Names of secrets only: an id of a principal may be an e-mail address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} `{}`", self.kind.as_str(), settings::one_line(&self.name))
    }
}

/// Describes the names for which [`is_secret_name`] returns true.
pub const SECRET_NAME: &str = "letters, digits, `_`, `-` and `.`, at most 64, and a letter or `_` first";

/// Whether `name` can be the name of a static secret.
pub fn is_secret_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    begins && name.len() <= MAX_SECRET_NAME && name.bytes().all(allowed)
}
