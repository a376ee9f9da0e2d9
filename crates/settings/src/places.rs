//! The record of what the readers of a document expect, and where each key belongs that is written in another place.
//!
//! Invariant: of many places of a key, only the nearest ones are named.
//!
//! Not here: how the record is made ([`crate::Problems::recording`]), and keys that are misspelled where they belong (`fields`).

use super::nearest::nearest;

/// The most places that are named for one key.
const MAX_NAMED: usize = 3;
/// The most names in the path of a main part: an entry of a section.
const MAIN_PART: usize = 2;
/// Stands for any key in the layout of a document, and for an element of a list.
const ANY: [&str; 2] = ["*", "[]"];

/// The mappings of a document, each with the keys that it knows.
#[derive(Debug)]
pub(super) struct Places(Vec<Place>);

#[derive(Debug)]
struct Place {
    /// The names of its path; `*` and `[]` stand for any.
    path: Vec<String>,
    keys: Vec<&'static str>,
}

impl Places {
    pub(super) fn of(layout: Recorded) -> Self {
        let place = |(path, expected): (String, Expected)| match expected {
            Expected::Fields(keys) => {
                let path =
                    if path.is_empty() { Vec::new() } else { path.split('.').map(str::to_owned).collect() };
                Some(Place { path, keys })
            }
            _ => None,
        };
        Self(layout.expected.into_iter().filter_map(place).collect())
    }

    /// Says where `key`, which the mapping at `path` does not know, belongs. A key that no mapping knows is one near it, if
    /// `may_be_near`.
    pub(super) fn hint(&self, key: &str, path: &str, may_be_near: bool) -> Option<String> {
        let names = names_of(path);
        let known = self.named(key, &names).or_else(|| {
            let all = self.0.iter().flat_map(|place| place.keys.iter().copied());
            let near = may_be_near.then(|| nearest(key, all)).flatten()?;
            self.named(near, &names)
        })?;
        Some(format!("write it as {known}"))
    }

    /// Returns the places of `key` that are nearest to the mapping `names`.
    fn named(&self, key: &str, names: &[String]) -> Option<String> {
        let all = self.0.iter().filter(|place| place.keys.contains(&key) && place.is_related(names));
        let mut found: Vec<_> = all.map(|place| (place.distance(names), place.shown(names, key))).collect();
        found.sort();
        found.dedup();
        let least = found.first()?.0;
        let near: Vec<_> = found.into_iter().take_while(|(distance, _)| *distance == least).collect();
        let texts: Vec<_> = near.into_iter().take(MAX_NAMED).map(|(_, text)| format!("`{text}`")).collect();
        Some(texts.join(" or "))
    }
}

impl Place {
    /// Whether a key can have been meant for this mapping: it is above or below the other one, or another main part of the
    /// document. Keys of unrelated parts are often called the same.
    fn is_related(&self, names: &[String]) -> bool {
        let common = self.common(names);
        common == self.path.len().min(names.len()) || (common == 0 && self.path.len() <= MAIN_PART)
    }

    /// The number of steps between two mappings.
    fn distance(&self, names: &[String]) -> usize {
        let common = self.common(names);
        self.path.len() + names.len() - 2 * common
    }

    fn common(&self, names: &[String]) -> usize {
        let is_same = |(own, name): &(&String, &String)| own == name || ANY.contains(&own.as_str());
        self.path.iter().zip(names).take_while(is_same).count()
    }

    /// The path of `key` in this mapping, with the names of the document where they are known.
    fn shown(&self, names: &[String], key: &str) -> String {
        let common = self.common(names);
        let mut text = String::new();
        for (at, own) in self.path.iter().enumerate() {
            match (own.as_str(), names.get(at).filter(|_| at < common)) {
                ("[]", Some(name)) => text.push_str(name),
                ("[]", None) => text.push_str("[]"),
                (_, Some(name)) => push(&mut text, name),
                ("*", None) => push(&mut text, "NAME"),
                (own, None) => push(&mut text, own),
            }
        }
        push(&mut text, key);
        text
    }
}

fn push(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Returns the names of a path such as `servers."my.name".list[2]`. An index is a name of its own.
fn names_of(path: &str) -> Vec<String> {
    let (mut names, mut is_quoted, mut is_escaped) = (vec![String::new()], false, false);
    for character in path.chars() {
        let is_end = !is_quoted && matches!(character, '.' | '[');
        is_quoted ^= character == '"' && !is_escaped;
        is_escaped = is_quoted && character == '\\' && !is_escaped;
        if is_end {
            names.push(String::new());
        }
        if let Some(name) = names.last_mut().filter(|_| !is_end || character == '[') {
            name.push(character);
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The values that the readers of a document expect. The JSON Schema and the tables of pages are made of them. A path is
/// the names of settings with dots between them; `*` is any key, and `[]` any element.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The expected values, in the order of the reads.
    pub expected: Vec<(String, Expected)>,
    /// The declared settings, in the order of their declarations.
    pub described: Vec<Description>,
}

/// A declared setting.
#[derive(Debug, Clone)]
pub struct Description {
    /// Its path.
    pub path: String,
    /// Its meaning, as the lines of a doc comment.
    pub text: &'static str,
    /// Its default, for a page.
    pub default: String,
}

/// The value that a reader expects.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Any string.
    Text,
    /// The path of a file or folder.
    Path,
    /// A URL.
    Url,
    /// `true` or `false`.
    Boolean,
    /// A whole number, as the text of its least and its greatest value.
    Integer(String, String),
    /// A time in seconds, at least and at most.
    Seconds(f64, f64),
    /// One of these strings.
    Words(Vec<String>),
    /// A whole number or a string.
    NumberOrText,
    /// A list.
    List,
    /// A list, or one element of it.
    OneOrMore,
    /// A mapping with any keys.
    Mapping,
    /// A mapping with these keys.
    Fields(Vec<&'static str>),
    /// Nothing: an empty value counts as absent.
    Nothing,
    /// Any value of JSON.
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let fields = |path: &str, keys: &[&'static str]| (path.to_owned(), Expected::Fields(keys.to_vec()));
        let expected = vec![
            fields("", &["servers", "server", "cache"]),
            fields("servers.*", &["url", "timeout", "auth"]),
            fields("servers.*.auth", &["bearer"]),
            fields("servers.*.store", &["token"]),
            fields("server", &["listen", "keys", "timeout"]),
            fields("server.keys.[]", &["id", "role"]),
            fields("cache", &["url", "size_bytes"]),
        ];
        Places::of(Recorded { expected, described: Vec::new() })
    }

    #[test]
    fn misplaced_key_is_told_its_place() {
        for (key, path, expected) in [
            ("listen", "servers.one", Some("write it as `server.listen`")),
            ("listen", "", Some("write it as `server.listen`")),
            ("bearer", "servers.one", Some("write it as `servers.one.auth.bearer`")),
            ("bearer", "", Some("write it as `servers.NAME.auth.bearer`")),
            ("timeout", "servers.\"my.one\".auth", Some("write it as `servers.\"my.one\".timeout`")),
            ("url", "server", Some("write it as `cache.url`")),
            ("role", "server", Some("write it as `server.keys[].role`")),
            ("listen", "server.keys[2]", Some("write it as `server.listen`")),
            ("sizebytes", "servers.one", Some("write it as `cache.size_bytes`")),
            ("colour", "servers.one", None),
            ("token", "servers.one.auth", None),
        ] {
            assert_eq!(places().hint(key, path, true).as_deref(), expected, "{key} in {path}");
        }
        assert_eq!(places().hint("sizebytes", "servers.one", false), None);
    }
}
