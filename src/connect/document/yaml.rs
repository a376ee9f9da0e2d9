//! YAML: inserts and removes whole lines of the text.
//!
//! The parser gives the line of every key, so that an entry is a range of lines. Blank lines and comments at the end of
//! a range belong to what follows. A mapping in braces is first written with lines for each entry. An entry keeps its text,
//! and every comment stays. A list in brackets is refused.
//!
//! No crate is used, because none of those that keep the format of YAML is maintained and refuses duplicate keys.

use std::ops::Range;

use super::{Edit, ServersPlace, Syntax, name_of};
use crate::config::import::json::Json;
use crate::config::import::yaml::block;
use settings::document as settings_document;
use settings::{Entry, Node, Problems, Value};

/// Applies `edit` to the servers, which stand at the top of the file.
pub(super) fn apply(text: &str, place: ServersPlace, edit: &Edit<'_>) -> Result<String, String> {
    let top = place.key.first().copied().unwrap_or_default();
    let mut block = Block::of(text, top)?;
    let indent = block.indent.unwrap_or(2);
    let lines = match place.format {
        Syntax::YamlList => item_lines(edit.entry, indent),
        _ => entry_lines(edit.name, edit.entry, indent),
    };
    // From the last to the first, so that earlier ranges stay valid.
    let mut is_written = false;
    for child in std::mem::take(&mut block.children).into_iter().rev() {
        if child.name == edit.name {
            block.replace(child.lines, &lines);
            is_written = true;
        } else if edit.remove.contains(&child.name) {
            block.replace(child.lines, "");
        }
    }
    if !is_written {
        block.append(&lines);
    }
    Ok(block.text())
}

/// Returns `text` with the lines of servers, indented by two, at the end of the mapping `top`.
pub(in crate::connect) fn append(text: &str, top: &str, lines: &str) -> Result<String, String> {
    let mut block = Block::of(text, top)?;
    let indent = block.indent.unwrap_or(2);
    let moved = lines.lines().map(|line| match line.strip_prefix("  ") {
        Some(line) => format!("{}{line}\n", " ".repeat(indent)),
        None => format!("{line}\n"),
    });
    let moved: String = moved.collect();
    block.append(&moved);
    Ok(block.text())
}

/// Returns `text` without these entries of the mapping `top`, and without the comment right above each of them.
pub(in crate::connect) fn remove(text: &str, top: &str, names: &[String]) -> Result<String, String> {
    let mut block = Block::of(text, top)?;
    for child in std::mem::take(&mut block.children).into_iter().rev() {
        if names.contains(&child.name) {
            block.replace(block.with_comment(child.lines), "");
        }
    }
    Ok(block.text())
}

/// One mapping or list at the top of a file, as lines.
struct Block<'t> {
    lines: Vec<String>,
    children: Vec<Child>,
    /// The column of its entries, if it has any.
    indent: Option<usize>,
    /// The line after its last entry.
    end: usize,
    top: &'t str,
}

/// One entry.
struct Child {
    name: String,
    lines: Range<usize>,
}

impl<'t> Block<'t> {
    /// Finds the block of the key `top`, or makes one at the end of the file.
    fn of(text: &str, top: &'t str) -> Result<Self, String> {
        let problems = Problems::default();
        let root = settings_document::parse(text, &problems).root;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let entries = match root.value {
            Value::Map(entries) => entries,
            Value::Null => Vec::new(),
            _ => return Err("this is not a mapping".into()),
        };
        let Some(at) = entries.iter().position(|entry| entry.key == top) else {
            lines.push(format!("{top}:"));
            let end = lines.len();
            return Ok(Self { lines, children: Vec::new(), indent: None, end, top });
        };
        let end = entries.get(at + 1).map_or(lines.len(), |next| line_of(next.key_mark.line));
        let mut block = Self { lines, children: Vec::new(), indent: None, end, top };
        block.read(&entries[at])?;
        Ok(block)
    }

    /// Finds the entries of the value at `entry`.
    fn read(&mut self, entry: &Entry) -> Result<(), String> {
        let at = line_of(entry.key_mark.line);
        let text = self.lines[at..self.end].join("\n");
        let value = text.split_once(':').map_or("", |(_, value)| value);
        match opening(value) {
            Some('{') => self.unfold(at, value, &entry.node),
            _ if is_nothing(&entry.node) => self.clear(at),
            Some(_) => Err(self.in_brackets()),
            None => self.find_children(entry),
        }
    }

    /// Turns `key: []` at `line` into `key:`.
    fn clear(&mut self, line: usize) -> Result<(), String> {
        let text = self.lines.get(line).map(String::as_str).unwrap_or_default();
        let (before, after) = text.split_once(':').ok_or("the key is not on one line")?;
        let rest = after.trim_start();
        let empty = ["[]", "null", "~"].iter().find_map(|empty| rest.strip_prefix(empty));
        let rest = empty.map_or(rest, str::trim_start);
        let cleared = format!("{before}:{}{rest}", if rest.is_empty() { "" } else { " " });
        cleared.trim_end().clone_into(&mut self.lines[line]);
        self.end = line + 1;
        Ok(())
    }

    fn find_children(&mut self, entry: &Entry) -> Result<(), String> {
        let starts: Vec<(String, usize)> = match &entry.node.value {
            Value::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), line_of(entry.key_mark.line))).collect()
            }
            Value::List(items) => {
                items.iter().map(|item| (item_name(item), line_of(item.mark.line))).collect()
            }
            _ => return Err(super::not_servers(self.top)),
        };
        let first = starts.first().map_or(0, |(_, line)| *line);
        if first <= line_of(entry.key_mark.line) {
            return Err(self.in_brackets());
        }
        self.indent = self.lines.get(first).map(|line| line.len() - line.trim_start().len());
        self.end = self.trimmed(first..self.end);
        let ends = starts.iter().skip(1).map(|(_, line)| *line).chain([self.end]);
        let children = starts.iter().zip(ends);
        self.children = children
            .map(|((name, start), end)| Child {
                name: name.clone(),
                lines: *start..self.trimmed(*start..end),
            })
            .collect();
        Ok(())
    }

    /// Turns `key: {a: …, b: …}`, whose key is on line `at`, into `key:` and lines for each entry. `value` is the text after
    /// the colon.
    fn unfold(&mut self, at: usize, value: &str, node: &Node) -> Result<(), String> {
        let names = match &node.value {
            Value::Map(entries) => entries.iter().map(|entry| entry.key.clone()).collect(),
            _ => Vec::new(),
        };
        let unfolded = unfolded(value).filter(|unfolded| unfolded.entries.len() == names.len());
        let Unfolded { beside, lines, entries, length } = unfolded.ok_or_else(|| self.in_brackets())?;
        let key = self.lines[at].split_once(':').map_or("", |(key, _)| key);
        let indented = lines.iter().map(|line| format!("  {line}").trim_end().to_owned());
        let new: Vec<_> = [format!("{key}:{beside}")].into_iter().chain(indented).collect();
        let end = at + value[..length].split('\n').count();
        self.end = at + new.len();
        let moved = |lines: Range<usize>| at + 1 + lines.start..at + 1 + lines.end;
        let children = names.into_iter().zip(entries);
        self.children = children.map(|(name, lines)| Child { name, lines: moved(lines) }).collect();
        self.lines.splice(at..end, new);
        (self.end, self.indent) = (self.trimmed(at + 1..self.end), Some(2));
        Ok(())
    }

    fn in_brackets(&self) -> String {
        format!("`{}` is written in brackets: write each server on lines of its own", self.top)
    }

    /// Returns the lines of an entry with the comment right above it, at the same column.
    fn with_comment(&self, lines: Range<usize>) -> Range<usize> {
        let indent = |line: &String| line.len() - line.trim_start().len();
        let column = self.lines.get(lines.start).map(indent);
        let is_its = |line: &&String| line.trim_start().starts_with('#') && Some(indent(line)) == column;
        let count = self.lines[..lines.start].iter().rev().take_while(is_its).count();
        lines.start - count..lines.end
    }

    /// Returns the end of `lines` without the blank lines and comments at its end.
    fn trimmed(&self, lines: Range<usize>) -> usize {
        let is_content = |line: &String| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with('#') && line != "..."
        };
        let last = self.lines[lines.clone()].iter().rposition(is_content);
        lines.start + last.map_or(0, |last| last + 1)
    }

    fn replace(&mut self, range: Range<usize>, lines: &str) {
        let new = lines.lines().map(str::to_owned);
        let (removed, before) = (range.len(), self.lines.len());
        self.lines.splice(range, new);
        self.end = (self.end + self.lines.len()).saturating_sub(before);
        debug_assert!(self.lines.len() + removed >= before, "only the range is removed");
    }

    fn append(&mut self, lines: &str) {
        self.replace(self.end..self.end, lines);
    }

    fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

fn line_of(line: u32) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1)
}

fn is_nothing(node: &Node) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Map(entries) => entries.is_empty(),
        Value::List(items) => items.is_empty(),
        _ => false,
    }
}

fn item_name(item: &Node) -> String {
    name_of(&Json::from(item.clone())).unwrap_or_default().to_owned()
}

/// The lines of an entry of a mapping.
fn entry_lines(name: &str, entry: &Json, indent: usize) -> String {
    indented(&block(vec![(name.to_owned(), entry.clone())]), indent)
}

/// The lines of an item of a list.
fn item_lines(entry: &Json, indent: usize) -> String {
    let Json::Object(members) = entry else { return String::new() };
    let dash = format!("{}- ", " ".repeat(indent));
    indented(&block(members.clone()), indent + 2).replacen(&" ".repeat(indent + 2), &dash, 1)
}

fn indented(lines: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    lines.lines().flat_map(|line| [&indent, line, "\n"]).collect()
}

/// A mapping in braces, as the lines of a block.
struct Unfolded {
    /// Comments beside the braces, for the line of the key.
    beside: String,
    /// The entries and the comments between them, without the indentation of the block.
    lines: Vec<String>,
    /// The lines of each entry.
    entries: Vec<Range<usize>>,
    /// The length of the mapping, to the end of its last line.
    length: usize,
}

/// A part of the text between the braces.
enum FlowPart<'t> {
    Entry(&'t str),
    /// A comment, and whether it is beside what is before it.
    Comment(&'t str, bool),
}

/// Returns the bracket that opens the value in `text`, which begins after the colon of its key.
fn opening(text: &str) -> Option<char> {
    let mut lines = text.lines().map(str::trim_start);
    lines
        .find(|line| !line.is_empty() && !line.starts_with('#'))?
        .chars()
        .next()
        .filter(|c| "{[".contains(*c))
}

/// Splits the mapping in braces at the beginning of `text`, which begins after the colon of its key.
fn unfolded(text: &str) -> Option<Unfolded> {
    let mut scanner = Scanner { text, at: 0, parts: Vec::new() };
    scanner.blanks(); // comments before the brace
    scanner.at += text[scanner.at..].strip_prefix('{').map(|_| 1)?;
    scanner.entries()?;
    let end = text[scanner.at..].find('\n').map_or(text.len(), |length| scanner.at + length);
    let after = text[scanner.at..end].trim();
    if !after.is_empty() && !after.starts_with('#') {
        return None;
    }
    let mut unfolded =
        Unfolded { beside: String::new(), lines: Vec::new(), entries: Vec::new(), length: end };
    for part in scanner.parts {
        unfolded.add(&part);
    }
    unfolded.add_beside(after);
    Some(unfolded)
}

impl Unfolded {
    fn add(&mut self, part: &FlowPart<'_>) {
        match part {
            FlowPart::Entry(text) => {
                let begin = self.lines.len();
                self.lines.extend(unfolded_lines(text));
                self.entries.push(begin..self.lines.len());
            }
            FlowPart::Comment(text, true) if !self.entries.is_empty() => {
                if let Some(line) = self.lines.last_mut() {
                    line.extend([" ", text]);
                }
            }
            FlowPart::Comment(text, true) if self.lines.is_empty() => self.add_beside(text),
            FlowPart::Comment(text, _) => self.lines.push((*text).to_owned()),
        }
    }

    fn add_beside(&mut self, comment: &str) {
        if !comment.is_empty() {
            self.beside.extend([" ", comment]);
        }
    }
}

/// The lines of an entry. Lines after the first one have to be deeper than the entry.
fn unfolded_lines(text: &str) -> Vec<String> {
    let spaced = spaced(text);
    let mut lines = spaced.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = lines.collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = rest.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or_default();
    let moved = rest.iter().map(|line| format!("  {}", line.get(least..).unwrap_or_default()));
    std::iter::once(first).chain(moved).collect()
}

/// Returns `"a":{}` as `"a": {}`: only braces allow the first form.
fn spaced(text: &str) -> String {
    let key = text.chars().next().filter(|quote| "\"'".contains(*quote)).map_or(0, |_| quoted(text));
    match text[key..].strip_prefix(':') {
        Some(value) if key > 0 && !value.starts_with(char::is_whitespace) => {
            format!("{}: {value}", &text[..key])
        }
        _ => text.to_owned(),
    }
}

/// Returns the length of the quoted text at the beginning of `text`.
fn quoted(text: &str) -> usize {
    let mut chars = text.char_indices();
    let quote = chars.next().map(|(_, quote)| quote);
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', Some('"')) => drop(chars.next()),
            ('\'', Some('\'')) if text[at + 1..].starts_with('\'') => drop(chars.next()),
            _ if Some(c) == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Reads the text between the braces.
struct Scanner<'t> {
    text: &'t str,
    /// The next byte.
    at: usize,
    parts: Vec<FlowPart<'t>>,
}

impl Scanner<'_> {
    /// Passes over blanks, line ends and comments, and keeps the comments.
    fn blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            let is_beside = !rest[..blank].contains('\n');
            if !rest[blank..].starts_with('#') {
                self.at += blank;
                return;
            }
            let comment = rest[blank..].lines().next().unwrap_or_default();
            self.parts.push(FlowPart::Comment(comment.trim_end(), is_beside));
            self.at += blank + comment.len();
        }
    }

    /// Reads all entries and the brace that closes the mapping.
    fn entries(&mut self) -> Option<()> {
        loop {
            self.blanks();
            let begin = self.at;
            let length = self.entry()?;
            if length > 0 {
                self.parts.push(FlowPart::Entry(&self.text[begin..begin + length]));
            }
            self.blanks();
            self.at += 1;
            match self.text.as_bytes().get(self.at - 1)? {
                b'}' => return Some(()),
                b',' => {}
                _ => return None,
            }
        }
    }

    /// Returns the length of the entry that begins here, and goes to its end.
    fn entry(&mut self) -> Option<usize> {
        let rest = &self.text[self.at..];
        // A quote begins a quoted text only where a value can begin.
        let (mut depth, mut length, mut can_quote, mut at) = (0_usize, 0, true, 0);
        while let Some(c) = rest[at..].chars().next() {
            let is_comment = c == '#' && rest[..at].ends_with(char::is_whitespace);
            match c {
                ',' | '}' if depth == 0 => {
                    self.at += length;
                    return Some(length);
                }
                _ if is_comment => at += rest[at..].find('\n').unwrap_or(rest.len() - at),
                '"' | '\'' if can_quote => {
                    at += quoted(&rest[at..]);
                    (length, can_quote) = (at, false);
                }
                c if c.is_whitespace() => at += c.len_utf8(),
                c => {
                    at += c.len_utf8();
                    length = at;
                    can_quote = "{[,:".contains(c);
                    match c {
                        '{' | '[' => depth += 1,
                        '}' | ']' => depth = depth.checked_sub(1)?,
                        _ => {}
                    }
                }
            }
        }
        None
    }
}
