//! Problems of a configuration document, and their report in the style of a compiler.
//!
//! Invariant: only keys of the file are shown, and the value with the problem if its reader declares that it is not a
//! secret ([`Shown`]). Every other value and every comment may contain a secret, so it is left out of the source line.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use super::document::Token;
use super::node::Mark;
use super::places::{Description, Expected, Places, Recorded};
use protocol::visible::escaped;

/// One problem. Its texts contain no value of an environment reference, and nothing of a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The position of the problem.
    pub mark: Mark,
    /// The setting, such as `mcp_servers.files.timeout`; empty for the document.
    pub path: String,
    /// The actual and the expected value.
    pub message: String,
    /// The action that fixes it.
    pub hint: Option<String>,
    /// How much of its source line may be shown.
    pub shown: Shown,
    /// Whether only the value of a reference is missing. Where the reference has a value, the setting has no problem.
    pub lacks_value: bool,
}

/// How much of the source line of a problem may be shown. Any other value on that line may be a secret that is written
/// in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Keys only.
    Keys,
    /// Also the value that begins at the problem's mark.
    Value,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// The most problems that are kept; nobody corrects more of them at once.
const MAX_PROBLEMS: usize = 1_000;

/// The first thousand problems of one document. Its readers share it, so problems are added through `&self`.
#[derive(Debug, Default)]
pub struct Problems {
    found: RefCell<Vec<Problem>>,
    /// Whether further ones were left out.
    is_cut: Cell<bool>,
    /// Whether the files that the document names are not read.
    skips_files: bool,
    /// The record of the readers, if they are asked for one.
    recorded: Option<RefCell<Recorded>>,
    /// Returns the expectations of all readers of the document. Called for the first unknown key.
    layout: Option<fn() -> Recorded>,
    places: OnceCell<Box<Places>>,
}

impl Problems {
    /// A list that records what the readers of [`Setting::any`](crate::Setting::any) expect.
    pub fn recording() -> Self {
        Self { recorded: Some(RefCell::default()), ..Self::default() }
    }

    /// A list for a document that is checked before the files that it names are there.
    pub fn without_files() -> Self {
        Self { skips_files: true, ..Self::default() }
    }

    /// Adds the layout of the whole document, so that the hint of an unknown key names its place.
    #[must_use]
    pub fn with_layout(self, layout: fn() -> Recorded) -> Self {
        Self { layout: Some(layout), ..self }
    }

    /// The places of all keys of the document, if its layout is known.
    pub(super) fn places(&self) -> Option<&Places> {
        let layout = self.layout?;
        Some(self.places.get_or_init(|| Box::new(Places::of(layout()))))
    }

    pub(super) const fn skips_files(&self) -> bool {
        self.skips_files
    }

    /// Returns what readers expect.
    pub fn into_recorded(self) -> Recorded {
        self.recorded.map(RefCell::into_inner).unwrap_or_default()
    }

    pub(super) const fn is_recording(&self) -> bool {
        self.recorded.is_some()
    }

    pub(super) fn expect(&self, expected: impl FnOnce() -> (String, Expected)) {
        if let Some(recorded) = &self.recorded {
            recorded.borrow_mut().expected.push(expected());
        }
    }

    pub(super) fn describe(&self, path: String, text: &'static str, default: String) {
        if let Some(recorded) = &self.recorded {
            recorded.borrow_mut().described.push(Description { path, text, default });
        }
    }

    /// Reports a problem. A setting that is read twice has its problem once.
    pub fn add(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        if found.len() >= MAX_PROBLEMS {
            self.is_cut.set(true);
        } else if !found.contains(&problem) {
            found.push(problem);
        }
    }

    /// Whether there are more problems than are kept.
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Whether there is no problem so far.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// All kept problems, in the order of the document.
    pub fn sorted(&self) -> Vec<Problem> {
        self.sorted_if(|_| true)
    }

    /// The kept problems that `is_meant`, in the order of the document.
    pub(super) fn sorted_if(&self, is_meant: impl Fn(&Problem) -> bool) -> Vec<Problem> {
        let mut all: Vec<Problem> =
            self.found.borrow().iter().filter(|problem| is_meant(problem)).cloned().collect();
        all.sort_by(|one, next| (one.mark, &one.path).cmp(&(next.mark, &next.path)));
        all
    }
}

/// Shortens `text` to 80 characters and escapes invisible characters, so that a file cannot control the operator's
/// terminal.
pub fn one_line(text: &str) -> String {
    let mut line: String = text.chars().take(80).flat_map(escaped).collect();
    if text.chars().nth(80).is_some() {
        line.push('…');
    }
    line
}

/// The most problems that are shown. Further ones are only counted.
const MAX_SHOWN: usize = 50;
/// The most characters of a source line that are shown.
const MAX_WIDTH: usize = 120;
/// Replaces text that is not shown.
const HIDDEN: char = '…';

/// The reason why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{}: the configuration file cannot be read: {reason}{}", file.display(), advice(file, reason))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
    /// The file was read and has problems.
    #[error("{0}")]
    Invalid(Report),
}

/// Returns what to do about a file that does not exist, or nothing.
fn advice(file: &Path, reason: &io::Error) -> String {
    if reason.kind() != io::ErrorKind::NotFound {
        return String::new();
    }
    let looked = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    format!(
        "\nLooked for {}. Name another file with `--config FILE`, or with the variable SWITCHYARD_CONFIG.\n\
         `switchyard init` writes a first one, and `switchyard import FILE > mcp_servers.yaml` makes one from the file of \
         another MCP client.",
        looked.display()
    )
}

/// All problems of a file, formatted for a terminal.
#[derive(Debug)]
pub struct Report {
    /// The problems in the order of the file.
    pub problems: Vec<Problem>,
    rendered: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

/// The file and its tokens, to show source lines.
pub struct Source<'t> {
    /// The name of the file in messages.
    pub file: &'t str,
    /// Its content.
    pub text: &'t str,
    /// The tokens of the content, which say what an excerpt may show.
    pub tokens: &'t [Token],
}

/// The part of a source line that may be shown.
struct Excerpt {
    line: String,
    /// Characters before the marked piece.
    before: usize,
    /// Characters of the marked piece.
    width: usize,
}

impl Source<'_> {
    /// Formats `problems` of this file with excerpts.
    pub fn report(&self, problems: Vec<Problem>) -> Report {
        let mut rendered = String::new();
        for problem in problems.iter().take(MAX_SHOWN) {
            self.render(problem, &mut rendered);
            rendered.push('\n');
        }
        let (count, file) = (problems.len(), self.file);
        let plural = if count == 1 { "" } else { "s" };
        let shown =
            if count > MAX_SHOWN { format!(", the first {MAX_SHOWN} are shown") } else { String::new() };
        let _ = write!(rendered, "{file}: {count} problem{plural}{shown}");
        Report { problems, rendered }
    }

    fn render(&self, problem: &Problem, out: &mut String) {
        let Problem { mark, path, message, hint, .. } = problem;
        let separator = if path.is_empty() { "" } else { ": " };
        let _ = writeln!(out, "{}:{mark}: error: {path}{separator}{message}", self.file);
        let number = mark.line.to_string();
        let indent = " ".repeat(number.len());
        if let Some(Excerpt { line, before, width }) = self.excerpt(problem) {
            let _ = writeln!(out, "  {number} | {line}");
            let _ = writeln!(out, "  {indent} | {}{}", " ".repeat(before), "^".repeat(width));
        }
        if let Some(hint) = hint {
            let _ = writeln!(out, "  {indent} hint: {hint}");
        }
    }

    fn excerpt(&self, problem: &Problem) -> Option<Excerpt> {
        let line = line_bytes(self.text, problem.mark.line)?;
        let target = target_byte(self.text, &line, problem.mark);
        let mut excerpt = Excerpt { line: String::new(), before: 0, width: 1 };
        let mut at = line.start;
        while at < line.end {
            let before = excerpt.line.chars().count();
            if before > MAX_WIDTH {
                break; // the rest is not shown, and a line may be as long as a file
            }
            let fragment = self.fragment(at, &line, (problem.shown == Shown::Value).then_some(target));
            let next = match fragment {
                Fragment::End => break,
                Fragment::Shown(next) => {
                    let shown = self.text[at..next].replace('\t', " ");
                    excerpt.line.extend(shown.chars().flat_map(escaped));
                    next
                }
                Fragment::Hidden(next) => {
                    excerpt.line.push(HIDDEN);
                    next
                }
            };
            if (at..next).contains(&target) {
                (excerpt.before, excerpt.width) = (before, excerpt.line.chars().count() - before);
            }
            at = next;
        }
        if at <= target {
            excerpt.before = excerpt.line.trim_end().chars().count(); // after the shown text
        }
        excerpt.clip()
    }

    /// Returns the kind of the text that begins at byte `at` of `line`. The value at `visible` is shown.
    fn fragment(&self, at: usize, line: &Range<usize>, visible: Option<usize>) -> Fragment {
        let behind = self.tokens.partition_point(|token| token.bytes.end <= at);
        let next = self.tokens[behind..].iter().find(|token| !token.bytes.is_empty());
        let until = next.map_or(line.end, |token| token.bytes.start.min(line.end));
        match next {
            Some(token) if token.bytes.contains(&at) => {
                let end = token.bytes.end.min(line.end);
                let shown = !token.is_value || visible == Some(token.bytes.start);
                if shown { Fragment::Shown(end) } else { Fragment::Hidden(end) }
            }
            _ => match self.text[at..].chars().next() {
                Some('#') | None => Fragment::End,
                Some(c) if " \t-?:,[]{}|>&*!'\"".contains(c) => Fragment::Shown(at + c.len_utf8()),
                Some(_) => Fragment::Hidden(until),
            },
        }
    }
}

enum Fragment {
    /// Shown up to this byte.
    Shown(usize),
    /// Not shown up to this byte.
    Hidden(usize),
    /// The rest of this line does not matter.
    End,
}

impl Excerpt {
    /// Cuts the line to the maximum width. Returns `None` if the mark is beyond it.
    fn clip(mut self) -> Option<Self> {
        self.line.truncate(self.line.trim_end().len());
        if self.line.chars().count() > MAX_WIDTH {
            self.line = self.line.chars().take(MAX_WIDTH).chain([HIDDEN]).collect();
            self.width = self.width.min(MAX_WIDTH.saturating_sub(self.before));
        }
        (self.before < MAX_WIDTH && !self.line.is_empty()).then_some(self)
    }
}

/// The bytes of a line, without its end.
fn line_bytes(text: &str, line: u32) -> Option<Range<usize>> {
    let mut start = 0;
    for _ in 1..line {
        let end = start + text[start..].find(['\n', '\r'])?;
        start = end + if text[end..].starts_with("\r\n") { 2 } else { 1 };
    }
    let length = text[start..].find(['\n', '\r']).unwrap_or(text.len() - start);
    Some(start..start + length)
}

/// The byte of `text` at `mark`, or the end of the line if the line is shorter.
fn target_byte(text: &str, line: &Range<usize>, mark: Mark) -> usize {
    let column = mark.column.saturating_sub(1) as usize;
    text[line.clone()].char_indices().nth(column).map_or(line.end, |(at, _)| line.start + at)
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
