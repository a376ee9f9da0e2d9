//! Reads one mapping with known keys: each key is taken by name, and the rest is unknown.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use secrecy::SecretString;

use super::fingerprint::Fingerprint;
use super::nearest::nearest;
use super::problem::Expected;
use super::setting::Setting;

/// The most unknown keys of one mapping that are compared with the known ones.
const MAX_HINTS: usize = 100;

/// One mapping while it is read. The typed methods return `None` if the key is absent, or if its value is invalid,
/// which then was reported.
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
        let at = self.left.iter().position(|(key, _)| *key == name)?;
        Some(self.left.remove(at).1)
    }

    /// Treats a null value of `names` as absent, as the readers of existing files do.
    pub fn without_nulls(&mut self, names: &[&str]) {
        for (_, setting) in self.left.iter().filter(|(key, _)| names.contains(key)) {
            setting.expects(|| Expected::Nothing);
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
            self.setting.key_problem(format!("`{name}` is missing"), Some(hint.to_owned()));
        }
        found
    }

    /// See [`Setting::text`].
    pub fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.take(name)?.text()
    }

    /// See [`Setting::secret`].
    pub fn secret(&mut self, name: &'static str) -> Option<SecretString> {
        self.take(name)?.secret()
    }

    /// See [`Setting::parsed`].
    pub fn parsed<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.take(name)?.parsed(expected, parse)
    }

    /// See [`Setting::boolean`].
    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.take(name)?.boolean()
    }

    /// See [`Setting::integer`].
    pub fn integer<T>(&mut self, name: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: Copy + Display + PartialOrd + TryFrom<i64>,
    {
        self.take(name)?.integer(range)
    }

    /// See [`Setting::seconds`].
    pub fn seconds(&mut self, name: &'static str, range: RangeInclusive<f64>) -> Option<Duration> {
        self.take(name)?.seconds(range)
    }

    /// See [`Setting::choice`].
    pub fn choice<T: Copy>(&mut self, name: &'static str, options: &[(&str, T)]) -> Option<T> {
        self.take(name)?.choice(options)
    }

    /// See [`Setting::list_of_text`].
    pub fn list_of_text(&mut self, name: &'static str) -> Option<Vec<String>> {
        self.take(name)?.list_of_text()
    }

    /// Reads a nested mapping with its own reader, such as `fields.part("auth", auth::Config::from_settings)`.
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
            let near = if at < MAX_HINTS { nearest(key, self.known.iter().copied()) } else { None };
            setting.key_problem("unknown key", near.map(|name| format!("did you mean `{name}`?")));
        }
    }
}
