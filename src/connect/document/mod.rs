//! Edits one entry of a client's file and leaves all other bytes alone.
//!
//! Invariants: the result is parsed again before it is used. It differs from the input in the named entries only, and
//! the new entry reads back as it was meant. A file that cannot be edited in this way is refused, not rewritten. Line
//! ends and a byte order mark stay.
//!
//! Not here: what an entry says (`entry`), and files (`file`).

mod jsonc;
mod toml;
pub(super) mod yaml;

use crate::config::import::json::{self, Json, Members, member};
use settings::document as settings_document;
use settings::{Problems, one_line};

/// The syntax of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON, with comments and trailing commas where the file has them.
    Json,
    /// TOML.
    Toml,
    /// YAML with a mapping of servers.
    Yaml,
    /// YAML with a list of servers, each with its `name`.
    YamlList,
}

/// The place of the servers in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServersPlace {
    pub(super) format: Syntax,
    /// The keys that lead to the servers.
    pub(super) key: &'static [&'static str],
}

/// A change of a file.
pub(super) struct Edit<'e> {
    /// The name of the entry to write.
    pub(super) name: &'e str,
    /// The entry.
    pub(super) entry: &'e Json,
    /// Names of entries to remove.
    pub(super) remove: &'e [String],
}

const BYTE_ORDER_MARK: char = '\u{feff}';

impl ServersPlace {
    /// Returns `content` with `edit` applied.
    pub(super) fn apply(self, content: &str, edit: &Edit<'_>) -> Result<String, String> {
        with_unix_lines(content, |text| {
            let before = self.parse(text)?;
            let after = match self.format {
                Syntax::Json => jsonc::apply(text, self.key, edit),
                Syntax::Toml => toml::apply(text, self.key, edit),
                Syntax::Yaml | Syntax::YamlList => yaml::apply(text, self, edit),
            }?;
            self.verify(before, &after, edit)?;
            Ok(after)
        })
    }

    /// Parses a file. An empty file is an empty object.
    pub(super) fn parse(self, content: &str) -> Result<Json, String> {
        let text = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
        let root = match self.format {
            Syntax::Json if jsonc::is_empty(text) => Json::Object(Members::new()),
            Syntax::Json => json::read(text).map_err(|error| error.to_string())?,
            Syntax::Toml => toml::read(text)?,
            Syntax::Yaml | Syntax::YamlList => read_yaml(text)?,
        };
        match root {
            Json::Object(_) => Ok(root),
            Json::Null => Ok(Json::Object(Members::new())),
            other => Err(format!("1:1: error: this is {}, expected an object", other.kind())),
        }
    }

    /// Returns the servers of a parsed file, with their names.
    pub(super) fn entries(self, root: &Json) -> Vec<(String, &Json)> {
        match (self.servers(root), self.format) {
            (Some(Json::Object(members)), Syntax::Json | Syntax::Toml | Syntax::Yaml) => {
                members.iter().map(|(name, entry)| (name.clone(), entry)).collect()
            }
            (Some(Json::List(items)), Syntax::YamlList) => {
                items.iter().filter_map(|item| Some((name_of(item)?.to_owned(), item))).collect()
            }
            _ => Vec::new(),
        }
    }

    fn servers(self, root: &Json) -> Option<&Json> {
        self.key.iter().try_fold(root, |value, key| match value {
            Json::Object(members) => member(members, key),
            _ => None,
        })
    }

    /// Fails if `after` differs from `before` in more than the entries of `edit`.
    fn verify(self, before: Json, after: &str, edit: &Edit<'_>) -> Result<(), String> {
        let unsafe_edit = || "its layout cannot be edited safely".to_owned();
        let mut after = self.parse(after).map_err(|_| unsafe_edit())?;
        let entries = self.entries(&after);
        let mut written = entries.iter().filter(|(name, _)| name == edit.name);
        if written.next().is_none_or(|(_, entry)| *entry != edit.entry) || written.next().is_some() {
            return Err(unsafe_edit());
        }
        let is_edited = |name: &str| name == edit.name || edit.remove.iter().any(|other| other == name);
        let mut before = before;
        prune(&mut before, self.key, &is_edited);
        prune(&mut after, self.key, &is_edited);
        if before == after { Ok(()) } else { Err(unsafe_edit()) }
    }
}

/// Edits `content` without its byte order mark and with `\n` at the end of lines, and restores both.
pub(super) fn with_unix_lines(
    content: &str,
    edit: impl FnOnce(&str) -> Result<String, String>,
) -> Result<String, String> {
    let text = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let plain = text.replace("\r\n", "\n");
    let is_windows = plain != text && plain.replace('\n', "\r\n") == text;
    let mut after = edit(if is_windows { &plain } else { text })?;
    if is_windows {
        after = after.replace('\n', "\r\n");
    }
    if content.starts_with(BYTE_ORDER_MARK) {
        after.insert(0, BYTE_ORDER_MARK);
    }
    Ok(after)
}

/// Returns the `name` of an item of a list of servers.
pub(super) fn name_of(item: &Json) -> Option<&str> {
    let Json::Object(members) = item else { return None };
    member(members, "name")?.text()
}

/// Removes the entries below `key` whose name is edited, and then what is empty on the way to them.
fn prune(value: &mut Json, key: &[&str], is_edited: &dyn Fn(&str) -> bool) {
    match (value, key.split_first()) {
        (Json::Object(members), Some((first, rest))) => {
            for (_, below) in members.iter_mut().filter(|(name, _)| name == first) {
                prune(below, rest, is_edited);
            }
            members.retain(|(name, below)| name != first || !is_empty(below));
        }
        (Json::Object(members), None) => members.retain(|(name, _)| !is_edited(name)),
        (Json::List(items), None) => items.retain(|item| !name_of(item).is_some_and(is_edited)),
        _ => {}
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(members) => members.is_empty(),
        Json::List(items) => items.is_empty(),
        _ => false,
    }
}

fn read_yaml(text: &str) -> Result<Json, String> {
    let problems = Problems::default();
    let document = settings_document::parse(text, &problems);
    match problems.sorted().into_iter().next() {
        None => Ok(document.root.into()),
        Some(problem) => Err(format!("{}: error: {}", problem.mark, problem.message)),
    }
}

/// Says that the value at `key` is of another type than a place for servers.
fn not_servers(key: &str) -> String {
    format!("`{}` has another type than the servers of this client", one_line(key))
}

#[cfg(test)]
mod tests;
