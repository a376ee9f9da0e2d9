//! Parses YAML text into a tree of located values. The only module that uses the YAML crate.
//!
//! It uses the crate's event parser instead of its serde front end, because only events have the position of every key,
//! the end of a scalar, and its quotes.
//!
//! Accepted: one document of YAML 1.2 with the core schema for plain scalars (section 10.3.2), aliases, and the merge key `<<`.
//! Unlike in YAML 1.1, `yes` and `on` are strings, and `0777` is the number 777.
//! Rejected: duplicate keys, keys that are not strings, tags other than `!!str`, a second document. After a problem of
//! structure, parsing continues. A problem of syntax is the last one of its document.
//!
//! Limits: [`MAX_BYTES`] of text, [`MAX_DEPTH`] levels, [`MAX_COST`] after aliases are resolved. A few lines of nested
//! aliases could otherwise expand to terabytes.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use serde_saphyr::granit_parser::{
    ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, options,
};

use crate::{Entry, Mark, Node, Problem, Problems, Shown, Text, Value, member_path};

/// The largest file in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The deepest nesting.
const MAX_DEPTH: usize = 32;
/// The longest key in bytes.
const MAX_KEY: usize = 256;
/// Bytes of text plus [`NODE_COST`] for each value, copies made by aliases included.
const MAX_COST: usize = 8 << 20;
const NODE_COST: usize = 16;

/// The tree of a text, and the positions of its keys and values.
pub struct Document {
    /// The tree. Its strings are not expanded yet.
    pub root: Node,
    /// The tokens in the order of the text.
    pub tokens: Vec<Token>,
}

/// A piece of the text.
pub struct Token {
    pub(super) bytes: Range<usize>,
    /// Whether it is a value, which may be a secret. A key or an alias is not.
    pub(super) is_value: bool,
}

/// Parses `text` and reports every problem. After a syntax error the root is [`Value::Unusable`].
pub fn parse(text: &str, problems: &Problems) -> Document {
    let limits = options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut composer = Composer {
        events: Parser::new_from_str_with_options(text, limits),
        problems,
        tokens: Vec::new(),
        anchors: HashMap::new(),
        cost: 0,
    };
    let root = composer.document().unwrap_or_else(|problem| {
        problems.add(problem);
        Value::Unusable.into()
    });
    composer.tokens.sort_by_key(|token| token.bytes.start);
    Document { root, tokens: composer.tokens }
}

struct Composer<'t> {
    events: Parser<'t, StrInput<'t>>,
    problems: &'t Problems,
    tokens: Vec<Token>,
    anchors: HashMap<usize, Node>,
    cost: usize,
}

type Step<T> = Result<T, Problem>;

impl<'t> Composer<'t> {
    fn next(&mut self) -> Step<(Event<'t>, Span)> {
        match self.events.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(broken(&error)),
            None => Ok((Event::StreamEnd, Span::empty(Marker::new(0, 1, 0)))),
        }
    }

    fn document(&mut self) -> Step<Node> {
        let mut root = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(root.unwrap_or_else(|| Value::Null.into())),
                (Event::DocumentStart(..), span) if root.is_some() => {
                    return Err(fatal(span.start, "", "a second document begins here, only one is read"));
                }
                (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
                (event, span) => root = Some(self.node(event, span, "", 0)?),
            }
        }
    }

    /// The value that begins with `event`.
    fn node(&mut self, event: Event<'t>, span: Span, path: &str, depth: usize) -> Step<Node> {
        if depth > MAX_DEPTH {
            return Err(fatal(span.start, path, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.spend(NODE_COST, span.start, path)?;
        let tag = self.tag(&event, &span, path);
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                self.token(&span, true);
                self.spend(text.len(), span.start, path)?;
                let plain = style == ScalarStyle::Plain && tag != Tag::Text;
                let value = if plain { plain_value(&text) } else { Value::Text(Text::literal(text)) };
                (value, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(path, depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(path, depth)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, &span, path),
            _ => return Err(fatal(span.start, path, "a value was expected")),
        };
        let value = if tag == Tag::Refused { Value::Unusable } else { value };
        let node = Node { mark: mark(span.start), value };
        if anchor != 0 {
            self.spend(cost(&node), span.start, path)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, path: &str, depth: usize) -> Step<Value> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, span) => {
                    let path = format!("{path}[{}]", items.len());
                    items.push(self.node(event, span, &path, depth + 1)?);
                }
            }
        }
    }

    fn map(&mut self, path: &str, depth: usize) -> Step<Value> {
        let mut mapping = Mapping::default();
        loop {
            let (key, at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Value::Map(mapping.complete())),
                (Event::Scalar(text, style, ..), span) => {
                    self.token(&span, false);
                    if text.len() > MAX_KEY {
                        let message = format!("a key is longer than {MAX_KEY} bytes");
                        return Err(fatal(span.start, path, message));
                    }
                    let merges = style == ScalarStyle::Plain && text == "<<";
                    ((!merges).then(|| text.into_owned()), span.start)
                }
                (_, span) => return Err(fatal(span.start, path, "a key must be a text")),
            };
            let path = key.as_deref().map_or_else(|| path.to_owned(), |key| member_path(path, key));
            let (event, span) = self.next()?;
            let mut node = self.node(event, span, &path, depth + 1)?;
            if span.start.index() == span.end.index() && matches!(node.value, Value::Null) {
                node.mark = mark(at); // nothing is written, so the problem is shown at the key
            }
            let Some(key) = key else {
                self.merge(node, &mut mapping, &path);
                continue;
            };
            if let Some(first) = mapping.add(Entry { key, key_mark: mark(at), node }) {
                let message =
                    format!("this key stands twice, first in line {}, column {}", first.line, first.column);
                self.report(at, &path, &message);
            }
        }
    }

    /// `<<: *one` or `<<: [*one, *other]`.
    fn merge(&mut self, node: Node, mapping: &mut Mapping, path: &str) {
        let sources = match node.value {
            Value::List(items) => items,
            _ => vec![node],
        };
        for source in sources {
            match source.value {
                Value::Map(entries) => mapping.merged.extend(entries),
                _ => self.problems.add(problem(source.mark, path, "`<<` merges mappings, this is none")),
            }
        }
    }

    fn alias(&mut self, anchor: usize, span: &Span, path: &str) -> Step<Node> {
        self.token(span, false);
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(fatal(span.start, path, "this alias stands inside the value that it repeats"));
        };
        self.spend(cost(&node), span.start, path)?;
        Ok(node)
    }

    fn tag(&mut self, event: &Event<'_>, span: &Span, path: &str) -> Tag {
        let (Event::Scalar(.., tag) | Event::SequenceStart(.., tag) | Event::MappingStart(.., tag)) = event
        else {
            return Tag::None;
        };
        match tag {
            None => Tag::None,
            Some(tag) if tag.is_yaml_core_schema_tag("str") && matches!(event, Event::Scalar(..)) => {
                Tag::Text
            }
            Some(_) => {
                self.report(span.tag_start().unwrap_or(span.start), path, "tags are not supported");
                Tag::Refused
            }
        }
    }

    fn token(&mut self, span: &Span, is_value: bool) {
        if let Some(bytes) = span.byte_range() {
            self.tokens.push(Token { bytes, is_value });
        }
    }

    fn spend(&mut self, amount: usize, at: Marker, path: &str) -> Step<()> {
        self.cost += amount;
        if self.cost > MAX_COST {
            return Err(fatal(at, path, "the document is too large, with its aliases resolved"));
        }
        Ok(())
    }

    fn report(&self, at: Marker, path: &str, message: &str) {
        self.problems.add(problem(mark(at), path, message));
    }
}

/// The meaning of a value's tag.
#[derive(PartialEq)]
enum Tag {
    None,
    /// The value is a string, whatever it looks like.
    Text,
    /// The tag is not supported, which was reported.
    Refused,
}

/// A mapping while it is read.
#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// The position of each key.
    places: HashMap<String, Mark>,
    /// The entries that `<<` adds for keys that are not written.
    merged: Vec<Entry>,
}

impl Mapping {
    /// Adds `entry`, or returns the position of the first entry with its key.
    fn add(&mut self, entry: Entry) -> Option<Mark> {
        if let Some(first) = self.places.get(&entry.key) {
            return Some(*first);
        }
        self.places.insert(entry.key.clone(), entry.key_mark);
        self.entries.push(entry);
        None
    }

    fn complete(mut self) -> Vec<Entry> {
        for entry in std::mem::take(&mut self.merged) {
            self.add(entry);
        }
        self.entries
    }
}

fn cost(node: &Node) -> usize {
    NODE_COST
        + match &node.value {
            Value::Text(text) => text.written().len(),
            Value::List(items) => items.iter().map(cost).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.key.len() + cost(&entry.node)).sum(),
            _ => 0,
        }
}

fn mark(at: Marker) -> Mark {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Mark { line: count(at.line()), column: count(at.col()).saturating_add(1) }
}

fn problem(mark: Mark, path: &str, message: impl Into<String>) -> Problem {
    let (path, message) = (path.to_owned(), message.into());
    Problem { mark, path, message, hint: None, shown: Shown::Keys, lacks_value: false }
}

fn fatal(at: Marker, path: &str, message: impl Into<String>) -> Problem {
    problem(mark(at), path, message)
}

/// The crate's messages quote nothing of the document except brackets and single odd characters.
fn broken(error: &ScanError) -> Problem {
    let message = match error.kind() {
        ErrorKind::RecursionLimitExceeded => format!("nested deeper than {MAX_DEPTH} levels"),
        kind => format!("this is not valid YAML: {kind}"),
    };
    let hint = match error.kind() {
        ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation => {
            Some("indent with spaces")
        }
        ErrorKind::MappingValueNotAllowed => Some("a text that holds `: ` needs quotes"),
        ErrorKind::UnknownAnchor => Some("a text that begins with `*` needs quotes"),
        ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::InvalidColonPlacement => Some(
            "is a bracket left open? Between brackets, a text that holds `${…}`, `,` or `: ` needs quotes",
        ),
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent => Some("is a bracket or a quote left open?"),
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidIndentation => {
            Some("all keys of a mapping begin in the same column")
        }
        ErrorKind::UnexpectedCharacter { .. } => Some("a text that begins with this character needs quotes"),
        _ => None,
    };
    Problem { hint: hint.map(str::to_owned), ..problem(mark(*error.marker()), "", message) }
}

/// The value of a plain scalar.
fn plain_value(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).unwrap_or_else(|| Value::Text(Text::literal(text))),
    }
}

fn number(text: &str) -> Option<Value> {
    let written = || text.to_owned();
    if let Some(value) = integer(text) {
        return Some(Value::Integer { written: written(), value });
    }
    let value = if is_float(text) { text.parse().ok()? } else { special(text)? };
    Some(Value::Float { written: written(), value })
}

/// A whole number that fits. A larger one is parsed as a float.
fn integer(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0o") {
        return digits_of(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return digits_of(digits, 16);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let decimal = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    decimal.then(|| text.parse().ok()).flatten()
}

fn digits_of(digits: &str, radix: u32) -> Option<i64> {
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| i64::from_str_radix(digits, radix).ok()).flatten()
}

/// `[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.map(|text| text.strip_prefix(['-', '+']).unwrap_or(text));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|text| !text.is_empty() && digits(text))
}

fn special(text: &str) -> Option<f64> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ => None,
    }
}

/// Units with their seconds. `ms` comes first, because it ends as `s` does.
const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// Reads a number with a unit, whole or with a fraction: `500ms`, `30s`, `1.5m`, `2h` or `7d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds_with_unit(text)?).ok()
}

pub(crate) fn seconds_with_unit(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) =
        UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_plain { Some(number.parse::<f64>().ok()? * unit) } else { None }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
