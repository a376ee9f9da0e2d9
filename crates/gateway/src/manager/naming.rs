//! Assigns the name under which each tool or prompt is offered, and resolves every other spelling of it.
//!
//! Invariants, also against a server that knows this function (property-tested): no two share an exposed name.
//! Qualified and shortened names depend on the configuration and their own key alone, so that no other server can
//! take them. A bare name stays with the server that had it first (`owners`). Names fit the limit and the alphabet
//! unless the mode is `verbatim`. A dot becomes `_`, and the spelling with the dot stays understood.
//!
//! Not here: definitions, URIs (`uris`).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::config::ToolNames;
use super::owners::Owners;
use upstream::config::MAX_SERVER_NAME;

/// Joins server and name in a qualified name.
pub const SEPARATOR: &str = "__";
/// Fewest and most hexadecimal digits of the hash that tells shortened names apart.
const HASH_DIGITS: usize = 8;
const ALL_DIGITS: usize = 64;

/// A tool, or a prompt, by its server and the name it goes by there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemKey {
    /// The server's name.
    pub server: Arc<str>,
    /// Its name at the server, or the operator's `rename` of it.
    pub name: String,
}

impl ItemKey {
    /// `server__name`, always accepted.
    pub fn qualified(&self) -> String {
        format!("{}{SEPARATOR}{}", self.server, self.name)
    }
}

/// How names are made.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// How tools and prompts are named.
    pub mode: ToolNames,
    /// The longest exposed name, in bytes.
    pub max_length: usize,
    /// Every configured server, also those that offer nothing yet: names that begin with theirs are reserved.
    /// Empty for the names of one server alone, which stay as they are.
    pub servers: &'a HashSet<Arc<str>>,
    /// Whether dots stay. Model services never see the names of prompts.
    pub keeps_dots: bool,
}

/// A resolved name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedName {
    /// One, by its place in the list given to [`Names::assign`].
    One(usize),
    /// Several; their exposed names.
    Ambiguous(Vec<String>),
    /// A name that another server had before, by its place in [`Names::moved`].
    Moved(usize),
}

/// A bare name that its server does not get, because another one had it before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The key that would have the name, by its place in the list given to [`Names::assign`].
    pub index: usize,
    /// The bare name.
    pub name: String,
    /// The server that had it.
    pub owner: Arc<str>,
}

/// The names of a set of tools, or of prompts.
#[derive(Debug, Default)]
pub struct Names {
    exposed: Vec<String>,
    meanings: HashMap<String, ResolvedName>,
    moved: Vec<Moved>,
}

impl Names {
    /// Gives each of `keys` its name and records in `owners` which server has it. The order of `keys` is that of the
    /// configuration file. In `verbatim` mode a bare name without an owner goes to the first server that has it. No key
    /// occurs twice.
    pub fn assign(own: &[ItemKey], rules: &Rules<'_>, owners: &mut Owners) -> Self {
        let without_dots = without_dots(own, rules);
        let keys = without_dots.as_ref();
        let bare = bare_names(keys, rules, owners);
        let candidates: Vec<NameCandidate> =
            keys.iter().zip(&bare.keep).map(|(key, keeps)| NameCandidate::of(key, *keeps, rules)).collect();
        let exposed = fitted(keys, &candidates, rules, owners);
        let mut names = Self { meanings: HashMap::new(), exposed, moved: bare.moved };
        names.meanings = names.spellings(keys, rules, owners);
        if let Cow::Owned(keys) = &without_dots {
            names.add_dotted((own, keys), rules, owners);
        }
        names
    }

    /// The name under which the one at `index` is offered.
    pub fn exposed(&self, index: usize) -> &str {
        &self.exposed[index]
    }

    /// Resolves `name`: an exposed name, a qualified one, or a bare one.
    pub fn meaning(&self, name: &str) -> Option<&ResolvedName> {
        self.meanings.get(name)
    }

    /// Every exposed name, in the order of the keys.
    pub fn all(&self) -> &[String] {
        &self.exposed
    }

    /// The bare names that are not given to their servers, because another one had them.
    pub fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// Resolves every spelling. Exposed names win over qualified ones, and those over bare ones.
    fn spellings(
        &self,
        keys: &[ItemKey],
        rules: &Rules<'_>,
        owners: &mut Owners,
    ) -> HashMap<String, ResolvedName> {
        let one = |(index, name): (usize, &String)| (name.clone(), ResolvedName::One(index));
        let mut meanings: HashMap<String, ResolvedName> = self.exposed.iter().enumerate().map(one).collect();
        for (index, key) in keys.iter().enumerate() {
            let qualified = key.qualified();
            if rules.is_own(&qualified, &key.server) {
                meanings.entry(qualified).or_insert(ResolvedName::One(index));
            }
        }
        for (place, moved) in self.moved.iter().enumerate() {
            meanings.entry(moved.name.clone()).or_insert(ResolvedName::Moved(place));
        }
        for (name, claimants) in claimants(keys, rules) {
            let meaning = match claimants.as_slice() {
                _ if meanings.contains_key(name) || rules.replaces_dots_of(name) => continue,
                [only] if owners.claim(name, &keys[*only].server) => ResolvedName::One(*only),
                [_] => continue,
                several => self.ambiguous(several),
            };
            meanings.insert(name.to_owned(), meaning);
        }
        meanings
    }

    fn ambiguous(&self, claimants: &[usize]) -> ResolvedName {
        ResolvedName::Ambiguous(claimants.iter().map(|&index| self.exposed[index].clone()).collect())
    }

    /// Adds the spellings of `own` that differ from those of `keys`. Every other meaning comes first.
    fn add_dotted(&mut self, (own, keys): (&[ItemKey], &[ItemKey]), rules: &Rules<'_>, owners: &mut Owners) {
        let is_dotted = |index: &usize| own[*index].name != keys[*index].name;
        for index in (0..own.len()).filter(is_dotted) {
            let qualified = own[index].qualified();
            if rules.is_own(&qualified, &own[index].server) {
                self.meanings.entry(qualified).or_insert(ResolvedName::One(index));
            }
        }
        for (name, claimants) in claimants(own, rules) {
            let moved = |index: usize| self.moved.iter().position(|moved| moved.index == index);
            let meaning = match claimants.as_slice() {
                _ if self.meanings.contains_key(name) || !rules.replaces_dots_of(name) => continue,
                [only] if let Some(place) = moved(*only) => ResolvedName::Moved(place),
                [only] if owners.claim(name, &own[*only].server) => ResolvedName::One(*only),
                [_] => continue,
                several => self.ambiguous(several),
            };
            self.meanings.insert(name.to_owned(), meaning);
        }
    }
}

/// The keys with `_` in the place of dots. A key keeps its dots if its server has another key that would read the same.
fn without_dots<'k>(keys: &'k [ItemKey], rules: &Rules<'_>) -> Cow<'k, [ItemKey]> {
    if !keys.iter().any(|key| rules.replaces_dots_of(&key.name)) {
        return Cow::Borrowed(keys);
    }
    let undotted = |key: &ItemKey| ItemKey { name: key.name.replace('.', "_"), ..key.clone() };
    let counts = count(keys.iter().map(undotted));
    let safe = |key: &ItemKey| Some(undotted(key)).filter(|safe| counts[safe] == 1);
    keys.iter().map(|key| safe(key).unwrap_or_else(|| key.clone())).collect()
}

impl Rules<'_> {
    pub(super) fn fits(&self, name: &str) -> bool {
        name.len() <= self.max_length && name.bytes().all(|byte| self.is_plain(byte))
    }

    /// Whether clients accept `byte`. MCP allows dots (2026-07-28 `server/tools`), which model services refuse.
    const fn is_plain(&self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || byte == b'.' && self.keeps_dots
    }

    fn replaces_dots_of(&self, name: &str) -> bool {
        !self.keeps_dots && self.mode != ToolNames::Verbatim && name.contains('.')
    }

    /// `name` with `_` in the place of each character that is not plain.
    pub(super) fn plain(&self, name: &str) -> String {
        name.chars().map(|c| if c.is_ascii() && self.is_plain(c as u8) { c } else { '_' }).collect()
    }

    /// The configured server whose qualified names `name` reads like.
    fn prefix(&self, name: &str) -> Option<&str> {
        qualifier(name, |server| self.servers.get(server)).map(|(server, _)| server.as_ref())
    }

    /// Whether `name` reads like a qualified name of `server`.
    fn is_own(&self, name: &str, server: &str) -> bool {
        self.prefix(name).is_none_or(|found| found == server) && name.starts_with(server)
    }

    /// Whether the bare name of `key` reads like a name that belongs to another server whatever that lists.
    fn is_reserved(&self, key: &ItemKey) -> bool {
        let is_others = |found: &str| found != &*key.server;
        !self.servers.is_empty()
            && (self.prefix(&key.name).is_some_and(is_others) || self.is_shortened(&key.name))
    }

    /// Whether `name` ends as shortened names do: `_`, then hexadecimal digits, not all of them decimal. The longest
    /// hash leaves no room for more.
    fn is_shortened(&self, name: &str) -> bool {
        let is_hash = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let fewest = if self.mode == ToolNames::Verbatim { ALL_DIGITS } else { HASH_DIGITS };
        let has_room = self.mode == ToolNames::Verbatim || name.len() + 1 < self.max_length;
        let ends_so = |(_, digits): (&str, &str)| {
            (fewest..=ALL_DIGITS).contains(&digits.len())
                && is_hash(digits)
                && digits.bytes().any(|byte| byte.is_ascii_lowercase())
        };
        !has_room && is_hash(name) || name.rsplit_once('_').is_some_and(ends_so)
    }
}

/// The server whose qualified names `name` reads like, and the rest of `name`. The longest server name counts.
pub(super) fn qualifier<'n, S>(name: &'n str, find: impl Fn(&'n str) -> Option<S>) -> Option<(S, &'n str)> {
    let pairs = name.as_bytes().windows(SEPARATOR.len()).take(MAX_SERVER_NAME + 1).enumerate();
    let ends = pairs.filter(|(_, pair)| *pair == SEPARATOR.as_bytes()).map(|(end, _)| end);
    let found = |end: usize| Some((find(&name[..end])?, &name[end + SEPARATOR.len()..]));
    ends.filter_map(found).next_back()
}

/// The keys of each bare name that can mean them.
fn claimants<'a>(keys: &'a [ItemKey], rules: &Rules<'_>) -> BTreeMap<&'a str, Vec<usize>> {
    let mut claimants: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate().filter(|(_, key)| !rules.is_reserved(key)) {
        claimants.entry(&key.name).or_default().push(index);
    }
    claimants
}

/// Which keys are offered under their bare names.
struct Bare {
    keep: Vec<bool>,
    moved: Vec<Moved>,
}

fn bare_names(keys: &[ItemKey], rules: &Rules<'_>, owners: &mut Owners) -> Bare {
    let qualified: HashSet<String> = keys.iter().map(ItemKey::qualified).collect();
    let is_taken = |name: &str| !rules.servers.is_empty() && qualified.contains(name);
    let mut bare = Bare { keep: vec![false; keys.len()], moved: Vec::new() };
    for (name, claimants) in claimants(keys, rules) {
        let owner = owners.owner(name).cloned();
        let is_owner = |index: &&usize| owner.as_ref().is_none_or(|owner| *owner == keys[**index].server);
        let chosen = match claimants.as_slice() {
            [_, _, ..] if rules.mode != ToolNames::Verbatim => continue,
            several => several.iter().find(is_owner),
        };
        match (chosen, owner, claimants.as_slice()) {
            (Some(&index), ..) if rules.mode != ToolNames::Prefixed && !is_taken(name) => {
                bare.keep[index] = owners.claim(name, &keys[index].server);
            }
            (None, Some(owner), [index]) => {
                bare.moved.push(Moved { index: *index, name: name.to_owned(), owner });
            }
            _ => {}
        }
    }
    bare
}

/// The preferred name of a key, and whether it must carry a hash.
struct NameCandidate {
    name: String,
    is_hashed: bool,
}

impl NameCandidate {
    fn of(key: &ItemKey, keeps_bare: bool, rules: &Rules<'_>) -> Self {
        let is_changed = |name: &str| rules.mode != ToolNames::Verbatim && !rules.fits(name);
        if keeps_bare {
            return Self { is_hashed: is_changed(&key.name), name: key.name.clone() };
        }
        let name = key.qualified();
        Self { is_hashed: is_changed(&name) || !rules.is_own(&name, &key.server), name }
    }
}

fn count<T: Eq + Hash>(items: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::with_capacity(items.size_hint().0);
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}

/// Makes every wanted name fit; names that had to change carry a hash, longer while it collides.
fn fitted(
    keys: &[ItemKey],
    candidates: &[NameCandidate],
    rules: &Rules<'_>,
    owners: &mut Owners,
) -> Vec<String> {
    let shorteners: Vec<Option<Shortener<'_>>> = candidates
        .iter()
        .zip(keys)
        .map(|(want, key)| want.is_hashed.then(|| Shortener::of(key, &want.name, *rules)))
        .collect();
    let mut digits: Vec<usize> =
        shorteners.iter().map(|found| found.as_ref().map_or(0, Shortener::fewest_digits)).collect();
    loop {
        let shortened = |index: usize| Some(shorteners[index].as_ref()?.name(digits[index]));
        let name = |index: usize| shortened(index).unwrap_or_else(|| candidates[index].name.clone());
        let names: Vec<String> = (0..keys.len()).map(name).collect();
        let counts = count(names.iter().map(String::as_str));
        let collides = |index: &usize| {
            digits[*index] > 0
                && (counts[names[*index].as_str()] > 1
                    || !owners.is_free_for(&names[*index], &keys[*index].server))
        };
        let again: Vec<usize> = (0..names.len()).filter(collides).collect();
        if again.iter().all(|&index| digits[index] >= ALL_DIGITS) {
            for index in (0..names.len()).filter(|index| digits[*index] > 0) {
                owners.claim(&names[index], &keys[index].server);
            }
            return names;
        }
        for index in again {
            digits[index] = (digits[index] + 1).min(ALL_DIGITS);
        }
    }
}

/// Makes the shortened names of one key.
struct Shortener<'a> {
    key: &'a ItemKey,
    rules: Rules<'a>,
    /// Beginnings to choose from, in the plain alphabet. The last one never reads like a qualified name.
    bases: [String; 3],
    /// The hash of the key in hexadecimal digits.
    hash: String,
}

impl<'a> Shortener<'a> {
    fn of(key: &'a ItemKey, candidates: &str, rules: Rules<'a>) -> Self {
        let mut hash = Sha256::new();
        hash.update(key.server.as_bytes());
        hash.update([0]);
        hash.update(key.name.as_bytes());
        let whole: [u8; 32] = hash.finalize().into();
        let qualified = rules.plain(&key.qualified());
        let words: Vec<&str> = qualified.split('_').filter(|word| !word.is_empty()).collect();
        let bases = [rules.plain(candidates), qualified.clone(), words.join("_")];
        Self { key, rules, bases, hash: hex::encode(whole) }
    }

    /// How many digits it has unless they collide: enough that one of them is a letter.
    fn fewest_digits(&self) -> usize {
        if self.rules.mode == ToolNames::Verbatim {
            return ALL_DIGITS;
        }
        let letter = self.hash.bytes().position(|byte| byte.is_ascii_lowercase());
        letter.map_or(ALL_DIGITS, |at| HASH_DIGITS.max(at + 1))
    }

    /// The beginning of its wanted name, or of another one if that reads like another server's, and its hash.
    fn name(&self, digits: usize) -> String {
        let max = if self.rules.mode == ToolNames::Verbatim { usize::MAX } else { self.rules.max_length };
        let (digits, room) = (digits.min(max), max.saturating_sub(digits + 1));
        let joint = if room == 0 { "" } else { "_" };
        let name = |base: &str| format!("{base}{joint}{}", &self.hash[..digits]);
        let [first, second, last] = self.bases.each_ref().map(|base| &base[..base.len().min(room)]);
        let is_free = |name: &String| self.rules.prefix(name).is_none_or(|found| found == &*self.key.server);
        let found = [first, second].into_iter().map(name).find(is_free);
        found.unwrap_or_else(|| name(last.trim_end_matches('_')))
    }
}

#[cfg(test)]
#[path = "naming_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "naming_attack_tests.rs"]
mod attack_tests;
