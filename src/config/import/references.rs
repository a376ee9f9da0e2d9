//! Converts references in a client's strings to those of the configuration file.
//!
//! | written | understood by | here |
//! |---|---|---|
//! | `${X}`, `${X:-default}` | Claude Code | unchanged; in `args`, `$${X}` if `env` of the server sets `X` to another text: the program expands it |
//! | `${env:X}` | VS Code, Cursor | `${X}` |
//! | `$X`, in capitals and as a word | shells; Gemini CLI, Qwen Code | `${X}`, with a note; unchanged in a script |
//! | `${secret:X}`, `${secret:X:-default}` | Switchyard | a literal text with a note, unless the operator typed it as an argument |
//! | `${input:x}` | VS Code | a variable named after it, to be set by the user |
//! | `${workspaceFolder}` and similar, `${config:x}`, `${command:x}` | VS Code, Cursor | a variable named after it, too |
//! | `${userHome}`; `${/}`, `${pathSeparator}` | VS Code, Cursor | `${HOME}`; `/` |
//!
//! Any other dollar sign is literal and written as `$$`. Invariant: a variable that is made up here has no name that
//! the file uses, and none that every process has.

use std::collections::{BTreeMap, BTreeSet};

use auth::vault::is_secret_name;

use super::json::{Json, Members, member};
use settings::one_line;

/// Variables of every process: reusing one of these names would go unnoticed.
const USUAL: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "LANG", "TERM", "TMPDIR"];
/// Begins a reference to a secret of the vault.
pub(super) const SECRET: &str = "secret:";
/// Characters before `$NAME` that begin a word, besides blanks.
const BEFORE_BARE: [char; 6] = ['=', ':', '/', ',', '"', '\''];
/// Names that VS Code and Cursor give to values of the editor.
const EDITOR: [&str; 3] = ["workspaceFolder", "workspaceFolderBasename", "cwd"];

/// The references found so far.
#[derive(Clone)]
pub(super) struct References<'j> {
    inputs: Vec<&'j Members>,
    /// References of other kinds, and their replacements.
    made: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    /// Variables, and secrets as `secret:NAME`, that the user must set, in the order of the file, and their purpose; empty
    /// until the server is known.
    pub(super) needed: Vec<(String, String)>,
    /// Variables that the current server sets for its program.
    own: BTreeSet<String>,
    /// Whether the operator wrote the texts. A file of others must not name the secrets of the vault.
    reads_secrets: bool,
}

/// A converted string.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Translated {
    pub(super) text: String,
    pub(super) has_reference: bool,
    /// Variables whose default could not be kept.
    pub(super) lost_defaults: Vec<String>,
    /// Variables that the program expands itself.
    pub(super) left_to_program: Vec<String>,
    /// Variables that were written `$NAME`.
    pub(super) bare: Vec<String>,
    /// Secrets of the vault that stay a text.
    pub(super) inactive_secrets: Vec<String>,
}

/// The use of a text, which decides about the references in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextUsage {
    Value,
    /// People read it, so `$NAME` in it is a name.
    Prose,
    /// Variables that the server sets for its program stay, so that the program expands them, as mcp-remote does.
    Argument,
    /// An argument that a shell reads, which expands `$NAME`.
    Script,
}

impl TextUsage {
    const fn is_argument(self) -> bool {
        matches!(self, Self::Argument | Self::Script)
    }

    /// Whether `$NAME` is a reference.
    const fn has_bare_references(self) -> bool {
        matches!(self, Self::Value | Self::Argument)
    }
}

#[derive(Clone, Copy)]
enum ReferencePiece<'t> {
    Literal(&'t str),
    /// The text between `${` and `}`.
    Reference(&'t str),
    /// The name in `$NAME`.
    Bare(&'t str),
}

impl<'t> ReferencePiece<'t> {
    /// Returns the environment variable that it refers to, and its default.
    fn variable(&self) -> Option<(&'t str, Option<&'t str>)> {
        match self {
            Self::Literal(_) => None,
            Self::Reference(inner) => variable(inner),
            Self::Bare(name) => Some((name, None)),
        }
    }

    /// Whether it is a reference to the variable `variable`.
    fn names(&self, variable: &str) -> bool {
        self.variable().is_some_and(|(name, _)| name == variable)
    }
}

impl<'j> References<'j> {
    /// For a file with `inputs` and these servers.
    pub(super) fn new(inputs: &'j [Json], servers: &[&'j Json]) -> Self {
        let mut taken: BTreeSet<String> = USUAL.map(str::to_owned).into();
        let mut note = |text: &'j str| {
            taken.extend(pieces(text).iter().filter_map(|piece| Some(piece.variable()?.0.to_owned())));
        };
        for server in servers {
            server.texts(&mut note);
        }
        let object = |input: &'j Json| if let Json::Object(members) = input { Some(members) } else { None };
        let inputs = inputs.iter().filter_map(object).collect();
        let (made, needed, own) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { inputs, made, taken, needed, own, reads_secrets: false }
    }

    /// Makes `${secret:NAME}` a reference.
    pub(super) fn reading_secrets(self) -> Self {
        Self { reads_secrets: true, ..self }
    }

    /// Notes the variables that `env` of a server sets to another value than Switchyard's variable of that name.
    pub(super) fn begin_server(&mut self, env: Option<&Json>) {
        let Some(Json::Object(members)) = env else { return self.own.clear() };
        let is_own = |(name, value): &&(String, Json)| match value {
            Json::Text(text) => !pieces(text).iter().any(|piece| piece.names(name)),
            Json::Null => false,
            _ => true,
        };
        self.own = members.iter().filter(is_own).map(|(name, _)| name.clone()).collect();
    }

    /// Converts `text`: it then expands to the value that the client would have used.
    pub(super) fn translate(&mut self, text: &str, usage: TextUsage) -> Translated {
        let mut translated = Translated::default();
        for piece in pieces(text) {
            let is_own = |name: &str| usage.is_argument() && self.own.contains(name);
            match piece {
                ReferencePiece::Literal(literal) => translated.text.push_str(&literal.replace('$', "$$")),
                ReferencePiece::Reference(inner) if is_own(inner) => {
                    translated.left_to_program.push(inner.to_owned());
                    translated.text.extend(["$${", inner, "}"]);
                }
                ReferencePiece::Reference(inner) => self.reference(inner, &mut translated),
                ReferencePiece::Bare(name) if !usage.has_bare_references() || is_own(name) => {
                    translated.text.extend(["$$", name]);
                }
                ReferencePiece::Bare(name) => {
                    translated.bare.push(name.to_owned());
                    self.reference(name, &mut translated);
                }
            }
        }
        translated
    }

    /// Adds a variable that the user must set.
    fn need(&mut self, name: &str) {
        let is_known = USUAL.contains(&name) || self.needed.iter().any(|(known, _)| known == name);
        if !is_known {
            self.needed.push((name.to_owned(), String::new()));
        }
    }

    /// Records that the server `name` needs the variables that were added for it.
    pub(super) fn needed_by(&mut self, name: &str) {
        for (_, what) in self.needed.iter_mut().filter(|(_, what)| what.is_empty()) {
            *what = format!("needed by `{name}`");
        }
    }

    fn reference(&mut self, inner: &str, into: &mut Translated) {
        let reference = match (inner, variable(inner)) {
            ("/" | "pathSeparator", _) => return into.text.push('/'),
            ("userHome", _) => "${HOME}".to_owned(),
            _ if is_editors(inner) => self.made_up(inner),
            _ if is_secret(inner) && !self.reads_secrets => {
                into.inactive_secrets.push(inner.to_owned());
                return into.text.extend(["$${", inner, "}"]);
            }
            _ if is_secret(inner) => {
                if !inner.contains(":-") {
                    self.need(inner);
                }
                format!("${{{inner}}}")
            }
            (_, Some((name, None))) => {
                self.need(name);
                format!("${{{name}}}")
            }
            (_, Some((name, Some(default)))) if default.contains('$') => {
                self.need(name);
                into.lost_defaults.push(name.to_owned());
                format!("${{{name}}}")
            }
            (_, Some((name, Some(default)))) => format!("${{{name}:-{default}}}"),
            (_, None) => {
                let literal = inner.replace('$', "$$");
                return into.text.extend(["$${", &literal, "}"]);
            }
        };
        into.has_reference = true;
        into.text.push_str(&reference);
    }

    /// Returns the reference that replaces `${inner}`, which only an editor knows.
    fn made_up(&mut self, inner: &str) -> String {
        if let Some(reference) = self.made.get(inner) {
            return reference.clone();
        }
        let id = inner.strip_prefix("input:");
        let name = self.free_name(id.unwrap_or(inner));
        let input = id.and_then(|id| self.input(id));
        let mut what = id.map_or_else(|| format!("`${{{}}}`", one_line(inner)), |id| described(id, input));
        let reference = match input.and_then(default) {
            Some(default) => {
                what = format!("{what}, else it is `{}`", one_line(default));
                format!("${{{name}:-{default}}}")
            }
            None => format!("${{{name}}}"),
        };
        self.needed.push((name, what));
        self.made.insert(inner.to_owned(), reference.clone());
        reference
    }

    fn input(&self, id: &str) -> Option<&'j Members> {
        let is_it = |input: &&'j Members| member(input, "id").and_then(Json::text) == Some(id);
        self.inputs.iter().copied().find(is_it)
    }

    /// Returns an unused name of a variable, made of `words`.
    fn free_name(&mut self, words: &str) -> String {
        let name = upper_snake(words);
        let is_free = !name.starts_with(|c: char| c.is_ascii_digit()) && !USUAL.contains(&name.as_str());
        let name = match name.as_str() {
            "" => "INPUT".to_owned(),
            _ if is_free => name,
            _ => format!("INPUT_{name}"),
        };
        let numbered = (2..).map(|number: u64| format!("{name}_{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(free.clone());
        free
    }
}

/// Splits a text into literal parts and references.
fn pieces(text: &str) -> Vec<ReferencePiece<'_>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find("${") {
        let Some(length) = closing(&rest[start..]) else { break };
        add_literal(&rest[..start], &mut found);
        found.push(ReferencePiece::Reference(&rest[start + 2..start + length]));
        rest = &rest[start + length + 1..];
    }
    add_literal(rest, &mut found);
    found
}

/// Returns the place of the brace that closes the reference at the beginning of `text`: its default may have references.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    text.char_indices().map(|(at, c)| (at, c, text[at..].starts_with("${"))).find_map(|(at, c, begins)| {
        open += usize::from(begins);
        let closes = c == '}';
        open -= usize::from(closes);
        (closes && open == 0).then_some(at)
    })
}

/// Adds a text without `${…}`, split at each `$NAME`.
fn add_literal<'t>(mut text: &'t str, found: &mut Vec<ReferencePiece<'t>>) {
    while let Some((at, name)) = bare(text) {
        found.extend([ReferencePiece::Literal(&text[..at]), ReferencePiece::Bare(name)]);
        text = &text[at + 1 + name.len()..];
    }
    found.push(ReferencePiece::Literal(text));
}

/// Returns the place and the name of the first `$NAME` in `text`. The name is in capitals and a word of its own, because
/// passwords have dollar signs too.
fn bare(text: &str) -> Option<(usize, &str)> {
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.match_indices('$').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let (name, after) = rest.split_at(rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()));
        let begins = |c: char| c.is_whitespace() || BEFORE_BARE.contains(&c);
        let ends = |c: char| !c.is_alphanumeric() && c != '$';
        let is_word =
            text[..at].chars().next_back().is_none_or(begins) && after.chars().next().is_none_or(ends);
        let is_name = name.len() > 1 && !name.starts_with(|c: char| c.is_ascii_digit());
        (is_word && is_name).then_some((at, name))
    })
}

/// Whether `text` refers to a variable or a secret.
pub(super) fn has_reference(text: &str) -> bool {
    text.contains("${") || bare(text).is_some()
}

/// Returns the variables without a default in a string of a configuration file.
pub(super) fn without_default(text: &str) -> impl Iterator<Item = &str> {
    let names = pieces(text).into_iter().filter_map(|piece| piece.variable());
    names.filter(|(name, default)| default.is_none() && !USUAL.contains(name)).map(|(name, _)| name)
}

/// Whether only an editor knows the value.
fn is_editors(inner: &str) -> bool {
    let (kind, name) = inner.split_once(':').unwrap_or((inner, ""));
    EDITOR.contains(&kind) && !name.starts_with('-')
        || matches!(kind, "input" | "config" | "command") && !name.is_empty() && !name.starts_with('-')
}

/// Returns the secrets of the vault that a string of a configuration file names.
pub(super) fn secrets_in(text: &str) -> impl Iterator<Item = &str> {
    // The first dollar sign of a reference is not the second one of an escape, `$$`.
    let begins = text.match_indices("${").map(|(at, _)| at).filter(|at| {
        let before = text[..*at].len() - text[..*at].trim_end_matches('$').len();
        before.is_multiple_of(2)
    });
    begins.filter_map(|at| text[at + 2..].split_once('}')?.0.strip_prefix(SECRET))
}

/// Whether `${inner}` is a secret of the vault, which only the configuration file refers to.
fn is_secret(inner: &str) -> bool {
    let Some(name) = inner.strip_prefix(SECRET) else { return false };
    let (name, default) = name.split_once(":-").unwrap_or((name, ""));
    is_secret_name(name) && !default.contains('$')
}

/// Returns the environment variable that `${inner}` names, and its default.
fn variable(inner: &str) -> Option<(&str, Option<&str>)> {
    let named = inner.strip_prefix("env:");
    let (name, default) = match named.unwrap_or(inner).split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (named.unwrap_or(inner), None),
    };
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name =
        name.starts_with(begins) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_()".contains(c));
    let is_plain = named.is_some() || !name.contains(['(', ')']);
    (is_name && is_plain).then_some((name, default))
}

/// Returns the default of an input, if it is not a secret and can be written.
fn default(input: &Members) -> Option<&str> {
    let is_secret = member(input, "password") == Some(&Json::Bool(true));
    let default = member(input, "default").and_then(Json::text)?;
    (!is_secret && !default.is_empty() && !default.contains(['$', '}'])).then_some(default)
}

/// Describes the purpose of an input.
fn described(id: &str, input: Option<&Members>) -> String {
    let text = input.and_then(|input| member(input, "description")).and_then(Json::text);
    let text = text.map_or_else(String::new, |text| format!(" ({})", one_line(text)));
    format!("the input `{}`{text}", one_line(id))
}

/// Converts `api-key` and `apiKey` to `API_KEY`.
fn upper_snake(words: &str) -> String {
    let mut name = String::new();
    let mut was_lower = false;
    for c in words.chars() {
        let is_word = c.is_ascii_alphanumeric();
        let begins = is_word && c.is_ascii_uppercase() && was_lower;
        if (begins || !is_word) && !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        name.extend(is_word.then(|| c.to_ascii_uppercase()));
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    name.trim_end_matches('_').to_owned()
}

#[cfg(test)]
#[path = "references_tests.rs"]
mod tests;
