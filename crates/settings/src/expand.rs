//! References in the strings of a document: to variables of the environment, and to secrets of the vault.
//!
//! References are expanded in parsed values and never in the text of the file, so a value cannot change the structure
//! of the document. `shellexpand` does the expansion: `${NAME}`, `${NAME:-default}`, `$NAME`, `~` at the beginning,
//! `$$` for a dollar sign. As in a shell, an empty variable counts as unset if there is a default. `${secret:NAME}` is
//! a secret of the vault, with the same rule for defaults. `${principal:NAME}` is a value of each caller, which is known
//! when a request is sent: such a string stays as it is written ([`caller_parts`]).
//!
//! Invariant: a problem quotes the reference and never its value.
//!
//! Not here: the vault. The caller looks secrets up.

use std::env::VarError;

use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use crate::{Node, Problem, Problems, Shown, Text, Value, member_path};

/// The most bytes that all references of a document may expand to.
const MAX_EXPANDED: usize = 4 << 20;

/// The most bad references of one string that are reported.
const MAX_FAULTS: usize = 10;

/// The lookup of a variable: `std::env::var`, or the table of a test.
pub type Lookup<'e> = dyn Fn(&str) -> Result<String, VarError> + 'e;

/// The lookup of a secret by its name.
pub type SecretLookup<'e> = dyn Fn(&str) -> Result<SecretString, NoSecret> + 'e;

/// Precedes the name of a secret in a reference.
const SECRET: &str = "secret:";
/// Precedes the name of a value that each caller has in a reference.
const PRINCIPAL: &str = "principal:";

/// The reason of a failed lookup of a secret.
#[derive(Debug)]
pub enum NoSecret {
    /// There is no such secret.
    Unset,
    /// It cannot be looked up, for this reason.
    Refused(String),
}

/// The values of references.
pub struct Sources<'e> {
    /// Looks up `${NAME}`.
    pub environment: &'e Lookup<'e>,
    /// Looks up `${secret:NAME}`.
    pub secrets: &'e SecretLookup<'e>,
    /// Paths of the settings that are needed to look up secrets, so that these settings cannot refer to one.
    pub without_secrets: &'e [&'e str],
    /// Whether the setting at a path may have a value of each caller, `${principal:NAME}`.
    pub takes_caller_values: fn(&str) -> bool,
}

/// A part of a string with values of callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerPart {
    /// The text between the references.
    Text(String),
    /// The name in `${principal:NAME}`.
    Value(String),
}

/// Returns the parts of `written`, a string that was not expanded; `None` if it has no value of callers.
pub(crate) fn caller_parts(written: &str) -> Option<Vec<CallerPart>> {
    let (mut parts, mut rest) = (Vec::new(), written);
    let add = |parts: &mut Vec<CallerPart>, text: &str| {
        if !text.is_empty() {
            parts.push(CallerPart::Text(text.replace("$$", "$")));
        }
    };
    for reference in references(written) {
        let name = reference.name.strip_prefix(PRINCIPAL)?;
        let (before, after) = rest.split_once(reference.written)?;
        add(&mut parts, before);
        parts.push(CallerPart::Value(name.to_owned()));
        rest = after;
    }
    if parts.is_empty() {
        return None;
    }
    add(&mut parts, rest);
    Some(parts)
}

/// Expands every string below `root`. A string with a bad reference becomes [`Value::Unusable`].
pub fn expand(root: &mut Node, sources: &Sources<'_>, problems: &Problems) {
    Expander { sources, problems, left: MAX_EXPANDED }.node(root, "");
}

struct Expander<'e> {
    sources: &'e Sources<'e>,
    problems: &'e Problems,
    /// The bytes that may still be inserted.
    left: usize,
}

/// An expanded string, and the inserted values.
type Insertion = (String, Vec<SecretString>);

/// A reference as it is written.
#[derive(Debug, PartialEq)]
struct Reference<'t> {
    written: &'t str,
    name: &'t str,
    default: Option<&'t str>,
}

/// Why a string cannot be expanded, without the value.
struct Fault {
    message: String,
    hint: String,
    /// See [`Problem::lacks_value`].
    lacks_value: bool,
}

/// The reason why an expansion ends, without the value.
#[derive(Debug)]
enum Refused {
    Unset,
    TooLong,
}

/// The reason why a reference has no value.
enum Missing {
    Unset,
    NotUnicode,
    Refused(String),
}

impl Expander<'_> {
    fn node(&mut self, node: &mut Node, path: &str) {
        match &mut node.value {
            Value::Text(text) => match self.text(text.written(), path) {
                Ok(Some((expanded, inserted))) => {
                    let shown = self.shown(text.written());
                    *text = Text::expanded(text.written(), expanded, shown).with_inserted(inserted);
                }
                Ok(None) => {}
                Err(faults) => {
                    for Fault { message, hint, lacks_value } in faults {
                        let (mark, path, hint) = (node.mark, path.to_owned(), Some(hint));
                        let shown = Shown::Keys;
                        self.problems.add(Problem { mark, path, message, hint, shown, lacks_value });
                    }
                    node.value = Value::Unusable;
                }
            },
            Value::List(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.node(item, &format!("{path}[{at}]"));
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    self.node(&mut entry.node, &member_path(path, &entry.key));
                }
            }
            _ => {}
        }
    }

    /// Expands `text` and returns it with the inserted values; `None` if there is nothing to expand.
    fn text(&mut self, text: &str, path: &str) -> Result<Option<Insertion>, Vec<Fault>> {
        let home = text == "~" || text.starts_with("~/");
        if !home && !text.contains('$') {
            return Ok(None);
        }
        let found = references(text);
        let mut faults: Vec<_> =
            found.iter().filter_map(|reference| self.fault(reference, path)).take(MAX_FAULTS).collect();
        faults.extend(mixed(&found, home));
        if home && (self.sources.environment)("HOME").is_err() {
            faults.push(Fault::new("`~` is not known", "set HOME, or write the folder out"));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        if found.iter().any(Reference::is_of_callers) {
            return Ok(None);
        }
        match self.expanded(text, &found) {
            Ok(expanded) => Ok(Some(expanded)),
            Err(name) => Err(vec![Fault::new(
                format!("`${name}` makes this too long"),
                format!("all references of a file expand to {MAX_EXPANDED} bytes at most"),
            )]),
        }
    }

    /// Inserts the values of `found`, the references of `text`. The error is the name of the variable that was too
    /// long.
    fn expanded(&mut self, text: &str, found: &[Reference<'_>]) -> Result<Insertion, String> {
        let mut inserted = Vec::new();
        let mut found = found.iter(); // shellexpand asks for them in the order of the text
        let sources = self.sources;
        let home = || (sources.environment)("HOME").ok();
        let lookup = |name: &str| {
            let has_default = found.next().is_some_and(|reference| reference.default.is_some());
            let value = sources.value(name).map_err(|_| Refused::Unset)?;
            self.left = self.left.checked_sub(value.len()).ok_or(Refused::TooLong)?;
            if !value.is_empty() {
                inserted.push(SecretString::from(value.as_str()));
            }
            Ok((!(has_default && value.is_empty())).then_some(value))
        };
        let expanded = shellexpand::full_with_context(text, home, lookup)
            .map(std::borrow::Cow::into_owned)
            .map_err(|error: shellexpand::LookupError<Refused>| error.var_name)?;
        Ok((expanded, inserted))
    }

    /// Returns `text` for operators: a default in effect is expanded, any other reference stays as it is written.
    fn shown(&self, text: &str) -> String {
        let references = references(text);
        let mut references = references.iter();
        let lookup = |name: &str| {
            let reference = references.next()?;
            let is_set = self.sources.value(name).is_ok_and(|value| !value.is_empty());
            (is_set || reference.default.is_none()).then_some(reference.written)
        };
        shellexpand::env_with_context_no_errors(text, lookup).into_owned()
    }

    fn fault(&self, reference: &Reference<'_>, path: &str) -> Option<Fault> {
        let Reference { written, name, default } = reference;
        if reference.is_of_callers() {
            return self.fault_of_caller_value(reference, path);
        }
        if !written.ends_with('}') && written.starts_with("${") {
            return Some(Fault::new("`${` without its `}`", "write `$$` for a dollar sign"));
        }
        if default.is_some_and(|default| !references(default).is_empty()) {
            let message = format!("the default of `${{{name}:-…}}` holds a reference, which is not expanded");
            return Some(Fault::new(message, "a default is a plain text"));
        }
        if name.starts_with(|c: char| c.is_ascii_digit()) && default.is_none() {
            let message = format!("`{written}` is not a variable of the environment");
            return Some(Fault::new(message, format!("write `${written}` for a dollar sign and {name}")));
        }
        if name.starts_with(SECRET) && self.sources.needs(path) {
            let message = format!("`{written}` cannot stand here, because this setting opens the vault");
            return Some(Fault::new(message, "refer to a variable of the environment: `${NAME}`"));
        }
        match self.sources.value(name) {
            Err(Missing::Unset) if is_foreign(name) => Some(foreign(reference)),
            Err(Missing::Refused(reason)) => {
                Some(Fault::without_value(format!("`{}` has no value", reference.masked()), reason))
            }
            Err(Missing::NotUnicode) => {
                let message = format!("the value of `{}` is not UTF-8", reference.masked());
                Some(Fault::new(message, format!("set {name} to a text")))
            }
            Err(Missing::Unset) if default.is_none() => Some(unset(written, name)),
            _ => None,
        }
    }

    fn fault_of_caller_value(&self, reference: &Reference<'_>, path: &str) -> Option<Fault> {
        let Reference { written, name, default } = reference;
        if !(self.sources.takes_caller_values)(path) {
            let message =
                format!("`{written}` cannot stand here, because each caller has a value of its own");
            let name = name.strip_prefix(PRINCIPAL).unwrap_or(name);
            let hint = format!(
                "write it in `headers` of a server with a URL; `${{secret:{name}}}` is one value for all"
            );
            return Some(Fault::new(message, hint));
        }
        default.map(|_| {
            let message = format!("`${{{name}:-…}}` has a default");
            Fault::new(message, "a caller without the secret gets an error that names it; remove the default")
        })
    }
}

/// The fault of a string in which values of callers and other references are mixed.
fn mixed(found: &[Reference<'_>], has_home: bool) -> Option<Fault> {
    let of_callers = found.iter().find(|reference| reference.is_of_callers())?;
    let is_mixed = has_home || found.iter().any(|reference| !reference.is_of_callers());
    is_mixed.then(|| {
        let message = format!("`{}` stands beside another reference", of_callers.written);
        Fault::new(message, "put the whole value into the secret of each caller, or write the other part out")
    })
}

impl Reference<'_> {
    /// The reference without its default, which may be a secret.
    fn masked(&self) -> String {
        match self.default {
            Some(_) => format!("${{{}:-…}}", self.name),
            None => self.written.to_owned(),
        }
    }

    /// Whether it is a value that each caller has.
    fn is_of_callers(&self) -> bool {
        self.name.starts_with(PRINCIPAL) && self.written.ends_with('}')
    }
}

impl Fault {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), lacks_value: false }
    }

    fn without_value(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { lacks_value: true, ..Self::new(message, hint) }
    }
}

/// The fault of a reference without a value and without a default.
fn unset(written: &str, name: &str) -> Fault {
    if let Some(secret) = name.strip_prefix(SECRET) {
        return Fault::without_value(
            format!("`{written}` is not in the vault"),
            format!("run `switchyard secret set {secret}`"),
        );
    }
    // A shell reads `${NAME-default}`, where a name has no such sign.
    let variable = name.split_once('-').map(|(variable, _)| variable).filter(|name| !name.is_empty());
    let other = variable.map(|variable| format!("; a default of {variable} is `${{{variable}:-…}}`"));
    let other = other.unwrap_or_default();
    Fault::without_value(
        format!("`{written}` is not set in the environment"),
        format!("set {name}, or give a default: `${{{name}:-…}}`{other}; `$$` is a dollar sign"),
    )
}

/// Precede the name of a variable in references of other programs.
const FOREIGN_PREFIXES: [&str; 2] = ["env:", "env."];

/// Whether `name` is that of a reference of other programs, such as `${env:NAME}` and `${NAME:?text}`, or is no name at all.
fn is_foreign(name: &str) -> bool {
    let is_prefixed = FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let is_no_name = name.is_empty() || name.starts_with(':') || name.contains(char::is_whitespace);
    (is_prefixed || is_no_name || name.contains(":?")) && !name.starts_with(SECRET)
}

/// The fault of a foreign reference. Its default is not used: it would hide a variable that is set.
fn foreign(reference: &Reference<'_>) -> Fault {
    let bare = reference.name.trim();
    let unprefixed = FOREIGN_PREFIXES.iter().find_map(|prefix| bare.strip_prefix(prefix));
    let marks = if unprefixed.is_some() { "_-." } else { "_" };
    let bare = unprefixed.unwrap_or(bare);
    let end = bare.find(|c: char| !c.is_alphanumeric() && !marks.contains(c)).unwrap_or(bare.len());
    let hint = match bare.split_at(end) {
        ("", _) => None,
        (variable, "") if reference.default.is_none() => Some(format!("write `${{{variable}}}`")),
        (variable, rest) if rest.starts_with(":?") => Some(format!("write `${{{variable}}}`")),
        (variable, rest) if rest.is_empty() || rest.starts_with('-') => {
            Some(format!("write `${{{variable}:-…}}`"))
        }
        _ => None,
    };
    let hint = hint.unwrap_or_else(|| "write `${NAME}` or `${NAME:-default}`; `$$` is a dollar sign".into());
    // A secret may follow one of these signs.
    let shown = match reference.name.find(['-', '?']) {
        Some(sign) => format!("${{{}…}}", &reference.name[..=sign]),
        None => reference.masked(),
    };
    Fault::without_value(format!("`{shown}` is not a reference of this file"), hint)
}

impl Sources<'_> {
    /// Returns the value of the reference `name`.
    fn value(&self, name: &str) -> Result<Zeroizing<String>, Missing> {
        match name.strip_prefix(SECRET) {
            Some(secret) => match (self.secrets)(secret) {
                Ok(value) => Ok(Zeroizing::new(value.expose_secret().to_owned())),
                Err(NoSecret::Unset) => Err(Missing::Unset),
                Err(NoSecret::Refused(reason)) => Err(Missing::Refused(reason)),
            },
            None => (self.environment)(name).map(Zeroizing::new).map_err(|error| match error {
                VarError::NotPresent => Missing::Unset,
                VarError::NotUnicode(_) => Missing::NotUnicode,
            }),
        }
    }

    /// Whether the setting at `path` is needed to look up secrets.
    fn needs(&self, path: &str) -> bool {
        self.without_secrets.iter().any(|setting| {
            path.strip_prefix(setting).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
        })
    }
}

/// The references of `text`, by the rules of `shellexpand`.
fn references(text: &str) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (reference, length) = reference_at(&rest[at..]);
        found.extend(reference);
        rest = &rest[at + length..];
    }
    found
}

/// Parses the dollar sign at the beginning of `text`. Returns the reference, if any, and its length in bytes.
fn reference_at(text: &str) -> (Option<Reference<'_>>, usize) {
    if text.starts_with("$$") {
        return (None, 2);
    }
    if text.starts_with("${") {
        return text
            .find('}')
            .map_or((Some(Reference { written: "${", name: "", default: None }), 2), |end| {
                (Some(braced(&text[..=end])), end + 1)
            });
    }
    let name = text[1..].split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    let length = 1 + name.len();
    ((length > 1).then(|| Reference { written: &text[..length], name, default: None }), length)
}

/// `written` is `${…}`.
fn braced(written: &str) -> Reference<'_> {
    let inner = &written[2..written.len() - 1];
    match inner.split_once(":-") {
        Some((name, default)) if !name.is_empty() => Reference { written, name, default: Some(default) },
        _ => Reference { written, name: inner, default: None },
    }
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
