//! Which name each tool or prompt is offered under, and what every other spelling of it means.
//!
//! Pure: a function of the servers, what they have and the mode, independent of the order in which
//! servers connected. Invariants (property-tested): no two share an exposed name; names fit
//! the limit and the alphabet unless the mode is `verbatim`; the answer for a set of offers never
//! depends on history, so it survives restarts.
//!
//! Not here: what a tool or a prompt is, whether its server is up; URIs (`uris`).

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use super::config::ToolNames;

/// Joins server and name in a qualified name.
pub const SEPARATOR: &str = "__";
/// Hexadecimal digits of the hash that tells shortened names apart.
const HASH_DIGITS: usize = 8;

/// A tool, or a prompt, by its server and the name it goes by there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The server's name.
    pub server: String,
    /// Its name at the server, or the operator's `rename` of it.
    pub name: String,
}

impl Key {
    /// `server__name`, always accepted.
    pub fn qualified(&self) -> String {
        format!("{}{SEPARATOR}{}", self.server, self.name)
    }
}

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// One, by its place in the list given to [`Names::assign`].
    One(usize),
    /// Several; their exposed names.
    Ambiguous(Vec<String>),
}

/// The names of a set of tools, or of prompts.
#[derive(Debug, Default)]
pub struct Names {
    exposed: Vec<String>,
    meanings: HashMap<String, Meaning>,
}

impl Names {
    /// Gives every one of `keys` its name. `keys` stand in the order of the registry file, which
    /// decides who keeps a bare name in `verbatim`; no key stands twice.
    pub fn assign(keys: &[Key], mode: ToolNames, max_length: usize) -> Self {
        let exposed = match mode {
            ToolNames::Verbatim => verbatim(keys),
            ToolNames::Auto | ToolNames::Prefixed => {
                let wanted = wanted(keys, mode == ToolNames::Prefixed);
                fitted(keys, &wanted, max_length)
            }
        };
        let meanings = meanings(keys, &exposed);
        Self { exposed, meanings }
    }

    /// The name under which the one at `index` is offered.
    pub fn exposed(&self, index: usize) -> &str {
        &self.exposed[index]
    }

    /// What `name` means: an exposed name, a qualified one, or a bare one.
    pub fn meaning(&self, name: &str) -> Option<&Meaning> {
        self.meanings.get(name)
    }

    /// Every exposed name, in the order of the keys.
    pub fn all(&self) -> &[String] {
        &self.exposed
    }
}

/// A name that a key would like, and whether it must carry a hash to be its own.
struct Wanted {
    name: String,
    shared: bool,
}

fn wanted(keys: &[Key], prefixed: bool) -> Vec<Wanted> {
    let bare = count(keys.iter().map(|key| key.name.clone()));
    let qualified = count(keys.iter().map(Key::qualified));
    let wants = |key: &Key| {
        // A bare name that reads like somebody's qualified name would shadow it.
        if !prefixed && bare[&key.name] == 1 && !qualified.contains_key(&key.name) {
            return Wanted { name: key.name.clone(), shared: false };
        }
        let name = key.qualified();
        Wanted { shared: qualified[&name] > 1, name }
    };
    keys.iter().map(wants).collect()
}

fn count(names: impl Iterator<Item = String>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Makes every wanted name fit; names that had to change carry a hash, longer while it collides.
fn fitted(keys: &[Key], wanted: &[Wanted], max_length: usize) -> Vec<String> {
    let is_changed = |want: &Wanted| want.shared || !fits(&want.name, max_length);
    let mut digits: Vec<usize> =
        wanted.iter().map(|want| if is_changed(want) { HASH_DIGITS } else { 0 }).collect();
    loop {
        let names: Vec<String> = wanted
            .iter()
            .zip(keys)
            .zip(&digits)
            .map(|((want, key), &digits)| match digits {
                0 => want.name.clone(),
                _ => hashed(&want.name, key, digits, max_length),
            })
            .collect();
        let counts = count(names.iter().cloned());
        let collides = |index: &usize| digits[*index] > 0 && counts[&names[*index]] > 1;
        let again: Vec<usize> = (0..names.len()).filter(collides).collect();
        let longest = max_length.min(64);
        if again.is_empty() || again.iter().all(|&index| digits[index] >= longest) {
            return names;
        }
        for index in again {
            digits[index] = (digits[index] + 1).min(longest);
        }
    }
}

fn fits(name: &str, max_length: usize) -> bool {
    name.len() <= max_length && name.bytes().all(is_plain)
}

/// The characters every client accepts in a tool name (2026-07-28, `server/tools`, Tool Names).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The beginning of `name` in the plain alphabet, then `_` and `digits` digits that only this key has.
fn hashed(name: &str, key: &Key, digits: usize, max_length: usize) -> String {
    let mut hash = Sha256::new();
    hash.update(key.server.as_bytes());
    hash.update([0]);
    hash.update(key.name.as_bytes());
    let nibbles = hash.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hash: String = nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect();
    let plain: String =
        name.chars().map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' }).collect();
    let room = max_length.saturating_sub(digits + 1);
    let head = &plain[..plain.len().min(room)];
    let joint = if room == 0 { "" } else { "_" };
    format!("{head}{joint}{}", &hash[..digits])
}

/// Names as they are; the first server in the file keeps a bare name that several want.
fn verbatim(keys: &[Key]) -> Vec<String> {
    let mut taken = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        taken.entry(key.name.clone()).or_insert(index);
    }
    let bare = |index: usize| taken.get(&keys[index].name) == Some(&index);
    let mut names: Vec<String> = keys.iter().map(|key| key.name.clone()).collect();
    let mut used: std::collections::HashSet<String> = taken.keys().cloned().collect();
    for index in (0..keys.len()).filter(|&index| !bare(index)) {
        let mut name = keys[index].qualified();
        if !used.insert(name.clone()) {
            name = hashed(&name, &keys[index], 64, usize::MAX);
            used.insert(name.clone());
        }
        names[index] = name;
    }
    names
}

/// Exposed names win over qualified ones, and those over bare ones.
fn meanings(keys: &[Key], exposed: &[String]) -> HashMap<String, Meaning> {
    let mut meanings: HashMap<String, Meaning> =
        exposed.iter().enumerate().map(|(index, name)| (name.clone(), Meaning::One(index))).collect();
    for spelling in [Key::qualified, |key: &Key| key.name.clone()] {
        let mut claims: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, key) in keys.iter().enumerate() {
            claims.entry(spelling(key)).or_default().push(index);
        }
        for (name, claimants) in claims {
            meanings.entry(name).or_insert_with(|| match claimants.as_slice() {
                [only] => Meaning::One(*only),
                several => Meaning::Ambiguous(several.iter().map(|&i| exposed[i].clone()).collect()),
            });
        }
    }
    meanings
}

#[cfg(test)]
#[path = "naming_tests.rs"]
mod tests;
