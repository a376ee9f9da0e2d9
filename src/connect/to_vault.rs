//! Secrets that move from the entries of clients into the vault.
//!
//! Invariants: an entry gets a reference only for a value that [`MovedSecrets`] keeps, and a secret of the vault with another
//! value stays. An offer that names secrets itself stays unchanged, because its references would become active.

use std::path::Path;
use std::sync::Arc;

use auth::vault::{Entry, Settings, Vault};
use secrecy::zeroize::Zeroizing;

use super::Error;
use super::registry::Offer;
use crate::config::Config;
use crate::config::import::json::{Json, Members};
use crate::config::import::{named_secret, near_names, secrets, to_set};
use settings::expand::Lookup;

/// The longest part of a name that is made of one word.
const MAX_PART: usize = 24;

/// Secrets that entries refer to, and the vault for them.
pub(crate) struct MovedSecrets {
    vault: Arc<Vault>,
    /// Names and values.
    secrets: Vec<(String, Zeroizing<String>)>,
}

impl MovedSecrets {
    /// Secrets for the vault of a file without settings of its own.
    pub(crate) fn new() -> Result<Self, Error> {
        Self::of(&Settings::default())
    }

    /// Secrets for the vault of the file at `path`, which need not exist.
    pub(crate) fn of_file(path: &Path, environment: &Lookup<'_>) -> Result<Self, Error> {
        if path.exists() {
            Self::of(&Config::load_vault(path, environment).map_err(Error::Refused)?)
        } else {
            Self::new()
        }
    }

    fn of(settings: &Settings) -> Result<Self, Error> {
        let vault = settings.vault().and_then(Vault::open)?;
        Ok(Self { vault, secrets: Vec::new() })
    }

    /// Returns `offer` with references in the place of its secrets.
    pub(crate) fn take(&mut self, mut offer: Offer) -> Offer {
        if offer.is_own || offer.servers.iter().any(|(_, server)| named_secret(server).is_some()) {
            return offer;
        }
        for (name, server) in &mut offer.servers {
            if let Json::Object(members) = server {
                self.of_server(name, members);
            }
        }
        Offer { is_typed: true, ..offer }
    }

    /// Keeps only those that the new content `text` refers to, and removes the notes that ask the user to set them.
    pub(crate) fn settle(&mut self, text: &str, notes: &mut Vec<String>) {
        self.secrets.retain(|(name, _)| text.contains(&reference(name)));
        notes.retain(|note| !self.names().any(|name| note.starts_with(&to_set(name))));
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|(name, _)| name.as_str())
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Writes them into the vault. Returns its path.
    pub(crate) fn write(&self) -> Result<&Path, Error> {
        for (name, value) in &self.secrets {
            self.vault.put_blocking(&Entry::secret(name), value.as_bytes())?;
        }
        Ok(self.vault.path())
    }

    fn of_server(&mut self, server: &str, members: &mut Members) {
        for (key, value) in members {
            match (key.as_str(), value) {
                ("url" | "httpUrl" | "serverUrl", Json::Text(text)) => {
                    let found = secrets::parts("", text);
                    self.replace(server, "URL", text, found);
                }
                ("env" | "headers", Json::Object(pairs)) => {
                    for (key, value) in pairs {
                        if let Json::Text(text) = value {
                            let found = secrets::parts(key, text);
                            self.replace(server, key, text, found);
                        }
                    }
                }
                ("args", Json::List(items)) => self.of_arguments(server, items),
                _ => {}
            }
        }
    }

    fn of_arguments(&mut self, server: &str, items: &mut [Json]) {
        let mut option = String::new(); // the argument before
        for item in items {
            let Json::Text(text) = item else { continue };
            let next =
                if text.starts_with('-') && !text.contains('=') { text.clone() } else { String::new() };
            let found = secrets::in_argument(&option, text);
            let own = text.split('=').next().filter(|name| name.starts_with('-')).map(str::to_owned);
            let key = own.unwrap_or(if option.is_empty() { "ARGUMENT".to_owned() } else { option });
            self.replace(server, &key, text, found);
            option = next;
        }
    }

    /// Replaces parts of `text`, from the last to the first.
    fn replace(&mut self, server: &str, key: &str, text: &mut String, found: Vec<std::ops::Range<usize>>) {
        for part in found.into_iter().rev() {
            let name = self.keep(&format!("{}_{}", name_part(server), name_part(key)), &text[part.clone()]);
            text.replace_range(part, &reference(&name));
        }
    }

    /// Keeps a value under `name` or a name near it. Returns the name.
    fn keep(&mut self, name: &str, value: &str) -> String {
        let is_for = |name: &str| {
            let is_equal = self
                .secrets
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, stored)| stored.as_str() == value);
            is_equal.unwrap_or_else(|| match self.vault.get(&Entry::secret(name)) {
                Ok(there) => there.is_none_or(|there| there.as_slice() == value.as_bytes()),
                Err(_) => false,
            })
        };
        let name = near_names(name).find(|name| is_for(name)).unwrap_or_default();
        if !self.secrets.iter().any(|(other, _)| *other == name) {
            self.secrets.push((name.clone(), Zeroizing::new(value.to_owned())));
        }
        name
    }
}

fn reference(name: &str) -> String {
    format!("${{secret:{name}}}")
}

/// Returns words as a part of a name, in capitals.
fn name_part(words: &str) -> String {
    let of_name = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let part: String = words.trim_matches('-').chars().map(of_name).take(MAX_PART).collect();
    if part.starts_with(|c: char| c.is_ascii_digit()) { format!("_{part}") } else { part }
}
