//! Reads one mapping with known keys: each key is taken by name, and the rest is unknown.

use super::nearest::nearest;
use super::node::Fingerprint;
use super::places::Expected;
use super::setting::Setting;

/// The most unknown keys of one mapping that are compared with the known ones.
const MAX_HINTS: usize = 100;
/// The most known keys that are listed for an unknown one.
const MAX_LISTED: usize = 12;

/// One mapping while it is read.
#[derive(Debug)]
#[must_use = "call `finish`, or unknown keys go unnoticed"]
pub struct Fields<'a> {
    setting: Setting<'a>,
    left: Vec<(&'a str, Setting<'a>)>,
    known: Vec<&'static str>,
}

impl<'a> Setting<'a> {
    /// Reads a mapping with known keys. An empty value is an empty mapping.
    pub fn fields(&self) -> Option<Fields<'a>> {
        Some(Fields::new(self.clone(), self.entries()?))
    }
}

impl<'a> Fields<'a> {
    fn new(setting: Setting<'a>, entries: Vec<(&'a str, Setting<'a>)>) -> Self {
        Self { setting, left: entries, known: Vec::new() }
    }

    /// The mapping itself, to report problems with it as a whole.
    pub fn setting(&self) -> &Setting<'a> {
        &self.setting
    }

    /// Takes the value of `name`, whatever its type.
    pub fn take(&mut self, name: &'static str) -> Option<Setting<'a>> {
        self.known.push(name);
        match self.left.iter().position(|(key, _)| *key == name) {
            Some(at) => Some(self.left.remove(at).1),
            None => self.setting.any_part(name),
        }
    }

    /// Describes the setting `name` for the schema and the pages of the documentation.
    pub fn describe(&self, name: &'static str, text: &'static str, default: impl FnOnce() -> String) {
        self.setting.describe(name, text, default);
    }

    /// Leaves out settings that have no effect, so that they are neither read nor unknown.
    pub fn ignore(&mut self, names: &[&str]) {
        self.left.retain(|(key, _)| !names.contains(key));
    }

    /// Treats a null value of `names` as absent, as the readers of existing files do.
    pub fn without_nulls(&mut self, names: &[&str]) {
        for any in names.iter().filter_map(|name| self.setting.any_part(name)) {
            any.expects(|| Expected::Nothing);
        }
        self.left.retain(|(key, setting)| !(setting.is_null() && names.contains(key)));
    }

    /// The fingerprint of the value of `name`, or of its absence. The keys in `but` do not count.
    pub fn fingerprint(&self, name: &str, but: &[&str]) -> Fingerprint {
        let found = self.left.iter().find(|(key, _)| *key == name);
        found.map_or(Fingerprint::ABSENT, |(_, setting)| setting.fingerprint_without(but))
    }

    /// Takes the value of `name` and reports its absence. `hint` says what to write.
    pub fn require(&mut self, name: &'static str, hint: &str) -> Option<Setting<'a>> {
        let found = self.take(name);
        if found.is_none() {
            self.setting.missing(name, hint);
        }
        found
    }

    /// Reads the value of `name`, such as `fields.part("server", Config::from_setting)`.
    pub fn part<T>(&mut self, name: &'static str, read: impl FnOnce(&Setting<'a>) -> Option<T>) -> Option<T> {
        read(&self.take(name)?)
    }

    /// Reports keys that belong to other programs, each with the text to write instead.
    pub fn refuse_foreign(&mut self, names: &[(&str, &str)]) {
        for (name, hint) in names {
            let Some(at) = self.left.iter().position(|(key, _)| key == name) else { continue };
            let message = format!("`{name}` is a key of another program");
            self.left.remove(at).1.key_problem(message, Some((*hint).to_owned()));
        }
    }

    /// Reports every key that was not taken, with the nearest known key as a hint.
    pub fn finish(self) {
        self.setting.expects(|| Expected::Fields(self.known.clone()));
        for (at, (key, setting)) in self.left.iter().enumerate() {
            let hint = (at < MAX_HINTS).then(|| self.hint(key)).flatten();
            setting.key_problem("unknown key", hint);
        }
    }

    /// Says where an unknown key belongs: a known key near it, its place in the document, or the keys that are known here.
    fn hint(&self, key: &str) -> Option<String> {
        let near = nearest(key, self.known.iter().copied()).map(|name| format!("did you mean `{name}`?"));
        let places = self.setting.places();
        let place = places.and_then(|places| places.hint(key, self.setting.path(), near.is_none()));
        match (near, place) {
            (Some(near), Some(place)) => Some(format!("{near} Or {place}")),
            (near, place) => near.or(place).or_else(|| places.and_then(|_| self.known_keys())),
        }
    }

    fn known_keys(&self) -> Option<String> {
        let mut known = self.known.clone();
        known.sort_unstable();
        known.dedup();
        let known: Vec<_> = known.into_iter().map(|name| format!("`{name}`")).collect();
        match known.as_slice() {
            [] => None,
            [one] => Some(format!("the only key here is {one}")),
            all if all.len() <= MAX_LISTED => Some(format!("the keys here are {}", all.join(", "))),
            _ => Some(
                "no setting is called like this: remove it, or see `switchyard schema` for all settings"
                    .to_owned(),
            ),
        }
    }
}
