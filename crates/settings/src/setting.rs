//! One value of the document with its path, read as the expected type.
//!
//! Every read reports an invalid value and returns `None`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::document::seconds_with_unit;
use super::expand::{CallerPart, caller_parts};
use super::nearest::nearest;
use super::node::{Fingerprint, Mark, Node, Text, Value};
use super::places::{Expected, Places};
use super::problem::{Problem, Problems, Shown, one_line};

/// The value of every setting while readers describe themselves ([`Setting::any`]).
static ANY: Node = Node { mark: Mark::START, value: Value::Unusable };

/// One value with its position, its path, and the list for its problems.
#[derive(Debug, Clone)]
pub struct Setting<'a> {
    node: &'a Node,
    key_mark: Mark,
    path: String,
    problems: &'a Problems,
    folder: &'a Path,
}

impl<'a> Setting<'a> {
    /// The document itself.
    pub fn root(node: &'a Node, problems: &'a Problems) -> Self {
        Self { node, key_mark: node.mark, path: String::new(), problems, folder: Path::new("") }
    }

    /// A document that has every setting, each without a usable value. Its readers record in `problems` what they
    /// expect ([`Problems::recording`]).
    pub fn any(problems: &'a Problems) -> Self {
        Self::root(&ANY, problems)
    }

    /// Returns the setting with the folder that relative paths in it begin at.
    #[must_use]
    pub fn in_folder(self, folder: &'a Path) -> Self {
        Self { folder, ..self }
    }

    /// Whether it is the value that has every setting ([`Setting::any`]).
    pub fn is_any(&self) -> bool {
        self.problems.is_recording() && matches!(self.node.value, Value::Unusable)
    }

    /// Whether a file that the document names is read with it.
    pub fn reads_files(&self) -> bool {
        !self.problems.skips_files()
    }

    /// Returns the member `name` of a mapping, if it is there.
    pub fn member(&self, name: &str) -> Option<Self> {
        let Value::Map(entries) = &self.node.value else { return self.any_part(name) };
        let entry = entries.iter().find(|entry| entry.key == name)?;
        Some(self.part(member_path(&self.path, name), entry.key_mark, &entry.node))
    }

    /// Returns the part `name` of the value that has every setting. `*` is any key, and `[]` any element.
    pub(super) fn any_part(&self, name: &str) -> Option<Self> {
        let separator = if self.path.is_empty() { "" } else { "." };
        self.is_any().then(|| self.part(format!("{}{separator}{name}", self.path), Mark::START, &ANY))
    }

    fn part(&self, path: String, key_mark: Mark, node: &'a Node) -> Self {
        Self { node, key_mark, path, ..self.clone() }
    }

    /// Describes the member `name` for the schema and the pages of the documentation.
    pub(super) fn describe(&self, name: &str, text: &'static str, default: impl FnOnce() -> String) {
        if let Some(member) = self.any_part(name) {
            self.problems.describe(member.path, text, default());
        }
    }

    /// The path of the setting, such as `mcp_servers.files.timeout`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The places of all keys of the document, if its layout is known.
    pub(super) fn places(&self) -> Option<&Places> {
        self.problems.places()
    }

    /// The position of the value.
    pub fn mark(&self) -> Mark {
        self.node.mark
    }

    /// The fingerprint of the value.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.node)
    }

    /// The fingerprint of the value without some of its keys.
    pub(super) fn fingerprint_without(&self, keys: &[&str]) -> Fingerprint {
        Fingerprint::without(self.node, keys)
    }

    /// Whether nothing is written, such as in a section with only comments.
    pub fn is_null(&self) -> bool {
        matches!(self.node.value, Value::Null)
    }

    /// Reports a problem with the value, and shows the value in its line. `message` must not contain the result of
    /// [`Setting::text`]: use [`Setting::quoted`].
    pub fn problem(&self, message: impl Into<String>, hint: Option<String>) {
        self.report(self.node.mark, message.into(), hint, Shown::Value);
    }

    /// Reports a problem with a value that may be secret, without showing the value.
    pub fn hidden_problem(&self, message: impl Into<String>, hint: Option<String>) {
        self.report(self.node.mark, message.into(), hint, Shown::Keys);
    }

    /// Reports a problem with the setting as a whole, at its key: something is missing, or conflicts with another
    /// setting.
    pub fn key_problem(&self, message: impl Into<String>, hint: Option<String>) {
        self.report(self.key_mark, message.into(), hint, Shown::Keys);
    }

    /// The problems so far with the setting and all that is below it, in the order of the document.
    pub fn problems(&self) -> Vec<Problem> {
        let is_here = |problem: &Problem| {
            let below = problem.path.strip_prefix(&self.path);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.problems.sorted_if(is_here)
    }

    /// Records the expected value, for the schema of the file.
    pub(super) fn expects(&self, expected: impl FnOnce() -> Expected) {
        self.problems.expect(|| (self.path.clone(), expected()));
    }

    fn report(&self, mark: Mark, message: String, hint: Option<String>, shown: Shown) {
        let path = self.path.clone();
        self.problems.add(Problem { mark, path, message, hint, shown, lacks_value: false });
    }

    /// The value as it is written in the document, for use in a problem.
    pub fn quoted(&self) -> String {
        match &self.node.value {
            Value::Null | Value::Unusable => "nothing".into(),
            Value::Bool(value) => value.to_string(),
            Value::Integer { written, .. } | Value::Float { written, .. } => written.clone(),
            Value::Text(text) => format!("`{}`", one_line(text.written())),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
        }
    }

    /// Whether it is a string without a reference to the environment.
    pub fn is_literal(&self) -> bool {
        matches!(&self.node.value, Value::Text(text) if !text.is_reference())
    }

    /// The string for operators, see [`Text::shown`]; empty if the value is not a string.
    pub fn shown(&self) -> &'a str {
        match &self.node.value {
            Value::Text(text) => text.shown(),
            _ => "",
        }
    }

    /// Reads a string.
    pub fn text(&self) -> Option<&'a str> {
        self.expects(|| Expected::Text);
        self.string()
    }

    fn string(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text.value()),
            _ => self.refuse("a text", Shown::Value),
        }
    }

    /// Reads a string that may be secret. No problem ever quotes it.
    pub fn secret(&self) -> Option<SecretString> {
        self.expects(|| Expected::Text);
        match &self.node.value {
            Value::Text(text) => Some(SecretString::from(text.value())),
            _ => self.refuse("a text", Shown::Keys),
        }
    }

    /// The parts of a string that has values of callers, `${principal:NAME}`; `None` for any other value.
    pub fn caller_parts(&self) -> Option<Vec<CallerPart>> {
        match &self.node.value {
            Value::Text(text) if !text.is_reference() => caller_parts(text.written()),
            _ => None,
        }
    }

    /// See [`Node::secrets`].
    pub fn secrets(&self) -> Vec<SecretString> {
        self.node.secrets()
    }

    /// Reads a string with `parse`. `expected` completes "is not …". `parse` returns no reason, because a reason might
    /// quote the value of a reference.
    pub fn parsed<T>(&self, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        self.judged(self.text()?, expected, parse)
    }

    /// Like [`Setting::parsed`], for a value that may also be written as a bare whole number.
    pub fn number_or_text<T>(&self, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        self.expects(|| Expected::NumberOrText);
        let text = match &self.node.value {
            Value::Integer { written, .. } => written,
            Value::Text(text) => text.value(),
            _ => return self.refuse(expected, Shown::Value),
        };
        self.judged(text, expected, parse)
    }

    fn judged<T>(&self, text: &str, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let parsed = parse(text);
        if parsed.is_none() {
            self.problem(format!("{} is not {expected}", self.quoted()), None);
        }
        parsed
    }

    /// Reads a path, relative to the folder of the file unless it is absolute. `~/` at its beginning is the home folder.
    pub fn file_path(&self) -> Option<PathBuf> {
        self.expects(|| Expected::Path);
        let passable = |text: &str| (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned());
        let written = self.judged(self.string()?, "a path", passable)?;
        let Some(below) = written.strip_prefix("~/") else { return Some(self.folder.join(written)) };
        let home = std::env::home_dir();
        if home.is_none() {
            self.problem("there is no home folder", Some("write the whole path".into()));
        }
        Some(home?.join(below))
    }

    /// Reads the URL of an HTTP service.
    pub fn url(&self) -> Option<Url> {
        let hint = "write it as `http://host:port/path`";
        self.url_that("an http or https URL", hint, |url| matches!(url.scheme(), "http" | "https"))
    }

    /// Reads a URL with a host for which `is_one` returns true. `expected` completes "is not …".
    pub fn url_that(&self, expected: &str, hint: &str, is_one: impl FnOnce(&Url) -> bool) -> Option<Url> {
        self.expects(|| Expected::Url);
        let parsed = Url::parse(self.string()?).ok();
        let found = parsed.filter(|url| url.has_host() && is_one(url));
        if found.is_none() {
            // A user and a query may be credentials.
            let may_be_secret = self.written().is_some_and(|text| text.contains(['@', '?']));
            let quoted = if may_be_secret { "this".into() } else { self.quoted() };
            let shown = if may_be_secret { Shown::Keys } else { Shown::Value };
            let message = format!("{quoted} is not {expected}");
            self.report(self.node.mark, message, Some(hint.into()), shown);
        }
        found
    }

    /// Reads `true` or `false`, or a word that YAML 1.1 has for them.
    pub fn boolean(&self) -> Option<bool> {
        self.expects(|| Expected::Boolean);
        let found = match &self.node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) if !text.is_reference() => yes_or_no(text.written()),
            value => reference(value).and_then(|text| text.parse().ok().or_else(|| yes_or_no(text))),
        };
        if found.is_some() { found } else { self.refuse("`true` or `false`", Shown::Value) }
    }

    /// Reads a whole number within `range`.
    pub fn integer<T>(&self, range: RangeInclusive<T>) -> Option<T>
    where
        T: Copy + Display + PartialOrd + TryFrom<i64>,
    {
        let (least, most) = (range.start(), range.end());
        self.expects(|| Expected::Integer(least.to_string(), most.to_string()));
        let found = match &self.node.value {
            Value::Integer { value, .. } => Some(*value),
            value => reference(value).and_then(|text| text.parse().ok()),
        };
        let Some(found) = found else {
            return self.refuse(&format!("a whole number from {least} to {most}"), Shown::Value);
        };
        let found = T::try_from(found).ok().filter(|value| range.contains(value));
        if found.is_none() {
            self.problem(format!("{} is out of range, expected {least} to {most}", self.quoted()), None);
        }
        found
    }

    /// Reads a time within `range`, which is in seconds: a number of seconds, or a number with a unit such as `30s`.
    pub fn seconds(&self, range: RangeInclusive<f64>) -> Option<Duration> {
        let (least, most) = (range.start(), range.end());
        self.expects(|| Expected::Seconds(*least, *most));
        let found = match &self.node.value {
            #[allow(clippy::cast_precision_loss)] // no range reaches 2^53 seconds
            Value::Integer { value, .. } => Some(*value as f64),
            Value::Float { value, .. } => Some(*value),
            Value::Text(text) => seconds_with_unit(text.value())
                .or_else(|| reference(&self.node.value).and_then(|text| text.parse().ok())),
            _ => None,
        };
        let Some(found) = found else {
            let expected = format!("a number of seconds from {least} to {most}, or a time such as `30s`");
            return self.refuse(&expected, Shown::Value);
        };
        let found = Some(found).filter(|value| range.contains(value));
        if found.is_none() {
            let message = format!("{} is out of range, expected {least} to {most} seconds", self.quoted());
            self.problem(message, None);
        }
        found.and_then(|value| Duration::try_from_secs_f64(value).ok())
    }

    /// Reads any value as JSON, with its references expanded. No problem ever quotes it.
    pub fn json(&self) -> Option<serde_json::Value> {
        self.expects(|| Expected::Any);
        let json = json_of(self.node);
        if json.is_none() && !matches!(self.node.value, Value::Unusable) {
            self.hidden_problem("JSON has no such number", None);
        }
        json
    }

    /// Whether it is a string with a reference to the environment. Only such a string may stand for a number or a truth value.
    pub fn is_reference(&self) -> bool {
        reference(&self.node.value).is_some()
    }

    /// Reads one of a few words.
    pub fn choice<T: Copy>(&self, options: &[(&str, T)]) -> Option<T> {
        self.choice_or(options, &[])
    }

    /// Reads one of a few words. A word of `foreign` is refused with its hint.
    pub fn choice_or<T: Copy>(&self, options: &[(&str, T)], foreign: &[(&str, &str)]) -> Option<T> {
        self.expects(|| Expected::Words(options.iter().map(|(word, _)| (*word).to_owned()).collect()));
        let text = self.string()?;
        let found = options.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<_> = options.iter().map(|(word, _)| format!("`{word}`")).collect();
            let written = self.written().unwrap_or_default();
            let known = foreign.iter().find(|(word, _)| *word == written).map(|(_, hint)| (*hint).to_owned());
            let near = || nearest(written, options.iter().map(|(word, _)| *word));
            let hint = known.or_else(|| near().map(|word| format!("did you mean `{word}`?")));
            self.problem(format!("{} is not one of {}", self.quoted(), words.join(", ")), hint);
        }
        found.map(|(_, value)| *value)
    }

    /// Reads the elements of a list.
    pub fn list(&self) -> Option<Vec<Self>> {
        self.expects(|| Expected::List);
        if let Some(any) = self.any_part("[]") {
            return Some(vec![any]);
        }
        let Value::List(items) = &self.node.value else { return self.refuse("a list", Shown::Keys) };
        let element =
            |(at, node): (usize, &'a Node)| self.part(format!("{}[{at}]", self.path), node.mark, node);
        Some(items.iter().enumerate().map(element).collect())
    }

    /// Reads the elements of a list, or any other value as the only element.
    pub fn one_or_more(&self) -> Vec<Self> {
        self.expects(|| Expected::OneOrMore);
        let is_list = matches!(self.node.value, Value::List(_)) || self.is_any();
        if is_list { self.list().unwrap_or_default() } else { vec![self.clone()] }
    }

    /// Whether it is `word`, which stands for a value of another kind.
    pub fn is_word(&self, word: &str) -> bool {
        self.expects(|| Expected::Words(vec![word.to_owned()]));
        matches!(&self.node.value, Value::Text(text) if text.value() == word)
    }

    /// Returns the member `name` and reports its absence. `hint` says what to write.
    pub fn require(&self, name: &str, hint: &str) -> Option<Self> {
        let found = self.member(name);
        if found.is_none() {
            self.missing(name, hint);
        }
        found
    }

    /// Reports that the member `name` is missing. `hint` says what to write.
    pub fn missing(&self, name: &str, hint: &str) {
        self.key_problem(format!("`{name}` is missing"), Some(hint.to_owned()));
    }

    /// Reports the member `name`, if it is there, as one that does not go with `what`.
    pub fn refuse_member(&self, name: &str, what: impl Display, hint: impl Into<String>) {
        if let Some(member) = self.member(name) {
            member.key_problem(format!("`{name}` does not go with {what}"), Some(hint.into()));
        }
    }

    /// Reports a mapping that has only one of the two members `names`.
    pub fn belong_together(&self, names: [&str; 2]) {
        if let [Some(one), None] | [None, Some(one)] = names.map(|name| self.member(name)) {
            let message = format!("`{}` and `{}` belong together", names[0], names[1]);
            one.key_problem(message, Some("add the other one".into()));
        }
    }

    /// Reads a string with `text`, and any other value with `other`.
    pub fn text_or<T>(
        &self,
        text: impl FnOnce(&Self) -> Option<T>,
        other: impl FnOnce(&Self) -> Option<T>,
    ) -> Option<T> {
        if self.is_any() {
            text(self); // both describe themselves
        } else if let Value::Text(_) = self.node.value {
            return text(self);
        }
        other(self)
    }

    /// Reads key and value of each entry of a mapping with any keys. An empty value is an empty mapping.
    pub fn entries(&self) -> Option<Vec<(&'a str, Self)>> {
        self.expects(|| Expected::Mapping);
        if let Some(any) = self.any_part("*") {
            return Some(vec![("*", any)]);
        }
        let entries = match &self.node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => return self.refuse("a mapping", Shown::Keys),
        };
        let member = |entry: &'a super::Entry| {
            let path = member_path(&self.path, &entry.key);
            (entry.key.as_str(), self.part(path, entry.key_mark, &entry.node))
        };
        Some(entries.iter().map(member).collect())
    }

    fn written(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text.written()),
            _ => None,
        }
    }

    /// Reports that the value is not `expected`. Always returns `None`.
    fn refuse<T>(&self, expected: &str, shown: Shown) -> Option<T> {
        let quotes = shown == Shown::Value;
        let found = match &self.node.value {
            Value::Unusable => return None,
            Value::Text(text) if text.is_reference() && quotes => {
                let message = format!("expected {expected}, which {} does not expand to", self.quoted());
                self.report(self.node.mark, message, None, shown);
                return None;
            }
            Value::Text(_) if quotes => format!("the text {}", self.quoted()),
            Value::Text(_) => "a text".into(),
            Value::Integer { .. } | Value::Float { .. } if quotes => format!("the number {}", self.quoted()),
            Value::Integer { .. } | Value::Float { .. } => "a number".into(),
            Value::Bool(_) if !quotes => "`true` or `false`".into(),
            _ => self.quoted(),
        };
        let hint = self.hint_for(expected);
        self.report(self.node.mark, format!("expected {expected}, found {found}"), hint, shown);
        None
    }

    fn hint_for(&self, expected: &str) -> Option<String> {
        let wants_text = expected == "a text";
        let hint = match &self.node.value {
            Value::Null => "give it a value, or remove the key",
            Value::Bool(_) | Value::Integer { .. } | Value::Float { .. } if wants_text => {
                "write it in quotes"
            }
            Value::Text(text) if looks_like(expected, text) => "write it without quotes",
            Value::Text(_) if expected == "a list" => "write a list, such as [\"one\", \"two\"]",
            Value::Text(_) if expected == "a mapping" => "write `key: value` lines below it, indented",
            Value::List(_) if expected == "a mapping" => "write `key: value` lines below it, without `-`",
            _ => return None,
        };
        Some(hint.into())
    }
}

/// The path of the member `key` of the mapping at `path`.
pub fn member_path(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let key = if !key.is_empty() && key.chars().all(plain) { key.into() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// The value as JSON; `None` if it is a number that JSON does not have.
fn json_of(node: &Node) -> Option<serde_json::Value> {
    use serde_json::Value as Json;
    Some(match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Integer { value, .. } => (*value).into(),
        Value::Float { value, .. } => Json::Number(serde_json::Number::from_f64(*value)?),
        Value::Text(text) => text.value().into(),
        Value::List(items) => Json::Array(items.iter().map(json_of).collect::<Option<_>>()?),
        Value::Map(entries) => {
            let member = |entry: &super::Entry| Some((entry.key.clone(), json_of(&entry.node)?));
            Json::Object(entries.iter().map(member).collect::<Option<_>>()?)
        }
        Value::Unusable => return None,
    })
}

/// The expansion of a string with environment references. Only such a string may replace a number.
fn reference(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) if text.is_reference() => Some(text.value().trim()),
        _ => None,
    }
}

/// Parses the booleans of YAML 1.1. They are strings in YAML 1.2, and stay strings where no boolean is expected.
fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn looks_like(expected: &str, text: &Text) -> bool {
    let written = text.written();
    expected.contains("number") && written.parse::<f64>().is_ok()
        || expected.contains("`true`") && written.parse::<bool>().is_ok()
}
