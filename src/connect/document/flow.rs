//! YAML mappings in braces, `{a: …, b: …}`, as one line or more for each entry.
//!
//! Invariant: an entry keeps its text, and every comment stays. The caller parses the result, so a text that is split at a
//! wrong place is refused there.
//!
//! Not here: the lines around the mapping (`yaml`).

use std::ops::Range;

/// A mapping in braces, as the lines of a block.
pub(super) struct Unfolded {
    /// Comments beside the braces, for the line of the key.
    pub(super) beside: String,
    /// The entries and the comments between them, without the indentation of the block.
    pub(super) lines: Vec<String>,
    /// The lines of each entry.
    pub(super) entries: Vec<Range<usize>>,
    /// The length of the mapping, to the end of its last line.
    pub(super) length: usize,
}

/// A part of the text between the braces.
enum FlowPart<'t> {
    Entry(&'t str),
    /// A comment, and whether it is beside what is before it.
    Comment(&'t str, bool),
}

/// Returns the bracket that opens the value in `text`, which begins after the colon of its key.
pub(super) fn opening(text: &str) -> Option<char> {
    let mut lines = text.lines().map(str::trim_start);
    lines
        .find(|line| !line.is_empty() && !line.starts_with('#'))?
        .chars()
        .next()
        .filter(|c| "{[".contains(*c))
}

/// Splits the mapping in braces at the beginning of `text`, which begins after the colon of its key.
pub(super) fn unfolded(text: &str) -> Option<Unfolded> {
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
                self.lines.extend(entry_lines(text));
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
fn entry_lines(text: &str) -> Vec<String> {
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
