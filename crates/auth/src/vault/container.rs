//! The file of the vault: sealed entries under hidden names, in JSON, and the names of values.
//!
//! Invariants: the file shows the number and the sizes of entries and nothing else. A label or a value that was moved to
//! another entry does not open. Entries that no key opens stay as they are, so damage of one entry is not spread.
//!
//! Not detected: an older copy of the whole file, or of a whole entry, put back by somebody who can write the file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use secrecy::zeroize::Zeroizing;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::keys::VaultKey;

/// The only version so far.
const VERSION: u32 = 1;

/// Separates the sealed label of an entry from its sealed value.
const SEPARATOR: char = '.';

/// The content of the file.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Container {
    /// The version of this format.
    version: u32,
    /// The mark of the key that sealed all readable entries.
    key: String,
    /// Label and value of each entry, under the id of its name.
    entries: BTreeMap<String, String>,
}

/// The sealed part of an entry that a list shows.
#[derive(Serialize, Deserialize)]
struct Label {
    entry: Entry,
    /// When the value was set, in seconds since 1970.
    set_at: u64,
}

/// The size of an entry in the file.
pub(super) struct Size {
    /// The entry; `None` if it does not open.
    pub(super) entry: Option<Entry>,
    pub(super) bytes: usize,
}

/// The result of looking for an entry.
pub(super) enum Lookup {
    /// There is no such entry.
    Missing,
    /// It does not open.
    Damaged,
    /// Its value.
    Value(Zeroizing<Vec<u8>>),
}

impl Container {
    /// A container without entries.
    pub(super) fn new() -> Self {
        Self { version: VERSION, key: String::new(), entries: BTreeMap::new() }
    }

    /// Parses the content of the file. The error says what is wrong, without any content.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let parsed: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("line {}, column {}", error.line(), error.column()))?;
        if parsed.version == VERSION {
            Ok(parsed)
        } else {
            Err(format!("its version is {}, and this program knows version {VERSION}", parsed.version))
        }
    }

    /// The content of the file. Each entry has a line of its own.
    pub(super) fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// Whether `key` sealed the entries.
    pub(super) fn is_sealed_by(&self, key: &VaultKey) -> bool {
        self.key == key.mark()
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Looks for `entry` under each of `keys`.
    pub(super) fn find(&self, keys: &[Arc<VaultKey>], entry: &Entry) -> Lookup {
        let name = entry.encoded();
        let sealed = keys.iter().find_map(|key| Some((key, self.entries.get(&key.id(&name))?)));
        let Some((key, sealed)) = sealed else { return Lookup::Missing };
        let value = sealed.split_once(SEPARATOR).and_then(|(_, value)| key.open(&of_value(&name), value));
        value.map_or(Lookup::Damaged, Lookup::Value)
    }

    /// A text that differs after each change of `entry`; `None` without such an entry.
    pub(super) fn version(&self, keys: &[Arc<VaultKey>], entry: &Entry) -> Option<String> {
        let name = entry.encoded();
        // Each sealing has a nonce of its own.
        let sealed = keys.iter().find_map(|key| self.entries.get(&key.id(&name)))?;
        Some(hex::encode(&Sha256::digest(sealed)[..16]))
    }

    /// The entries with the times at which they were set, and the number of entries that do not open.
    pub(super) fn list(&self, keys: &[Arc<VaultKey>]) -> (Vec<(Entry, SystemTime)>, usize) {
        let opened = self.entries.iter().filter_map(|(id, sealed)| {
            let label = keys.iter().find_map(|key| open_label(key, id, sealed))?;
            Some((label.entry, SystemTime::UNIX_EPOCH + Duration::from_secs(label.set_at.min(MAX_SECONDS))))
        });
        let opened: Vec<_> = opened.collect();
        let damaged = self.entries.len() - opened.len();
        (opened, damaged)
    }

    /// The sizes of all entries.
    pub(super) fn sizes(&self, keys: &[Arc<VaultKey>]) -> Vec<Size> {
        let size = |(id, sealed): (&String, &String)| Size {
            entry: keys.iter().find_map(|key| open_label(key, id, sealed)).map(|label| label.entry),
            bytes: id.len() + sealed.len(),
        };
        self.entries.iter().map(size).collect()
    }

    /// Seals with `first` what other `keys` have sealed. Entries that do not open stay as they are.
    pub(super) fn reseal(&mut self, first: &VaultKey, keys: &[Arc<VaultKey>]) -> io::Result<()> {
        if self.is_sealed_by(first) {
            return Ok(());
        }
        for (id, sealed) in std::mem::take(&mut self.entries) {
            match keys.iter().find_map(|key| open(key, &id, &sealed)) {
                Some((label, value)) => self.insert(first, &label, &value)?,
                None => _ = self.entries.insert(id, sealed),
            }
        }
        first.mark().clone_into(&mut self.key);
        Ok(())
    }

    /// Sets the value of `entry`, sealed with `key`.
    pub(super) fn set(&mut self, key: &VaultKey, entry: &Entry, value: &[u8]) -> io::Result<()> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.insert(key, &Label { entry: entry.clone(), set_at: since.as_secs() }, value)
    }

    fn insert(&mut self, key: &VaultKey, label: &Label, value: &[u8]) -> io::Result<()> {
        let name = label.entry.encoded();
        let id = key.id(&name);
        let plain = serde_json::to_vec(label)?;
        let (label, value) = (key.seal(&of_label(&id), &plain)?, key.seal(&of_value(&name), value)?);
        self.entries.insert(id, format!("{label}{SEPARATOR}{value}"));
        Ok(())
    }

    /// Removes `entry`, whichever of `keys` has sealed it. Returns whether it was there.
    pub(super) fn remove(&mut self, keys: &[Arc<VaultKey>], entry: &Entry) -> bool {
        let name = entry.encoded();
        // Each key is tried: an entry that was damaged during a rotation keeps the id of its old key.
        keys.iter().filter(|key| self.entries.remove(&key.id(&name)).is_some()).count() > 0
    }
}

/// The last second of the year 9999, which every system can represent.
const MAX_SECONDS: u64 = 253_402_300_799;

fn open_label(key: &VaultKey, id: &str, sealed: &str) -> Option<Label> {
    let (label, _) = sealed.split_once(SEPARATOR)?;
    let label: Label = serde_json::from_slice(&key.open(&of_label(id), label)?).ok()?;
    (key.id(&label.entry.encoded()) == id).then_some(label)
}

fn open(key: &VaultKey, id: &str, sealed: &str) -> Option<(Label, Zeroizing<Vec<u8>>)> {
    let label = open_label(key, id, sealed)?;
    let (_, value) = sealed.split_once(SEPARATOR)?;
    let value = key.open(&of_value(&label.entry.encoded()), value)?;
    Some((label, value))
}

/// The authenticated data of a label.
fn of_label(id: &str) -> Vec<u8> {
    [b"label:", id.as_bytes()].concat()
}

/// The authenticated data of a value.
fn of_value(name: &[u8]) -> Vec<u8> {
    [b"value:", name].concat()
}

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
