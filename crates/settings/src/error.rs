//! The report of a rejected configuration file, in the style of a compiler.
//!
//! Invariant: only keys of the file are shown, and the value with the problem if its reader declares that it is not a
//! secret ([`Shown`]). Every other value and every comment may contain a secret, so it is left out of the source line.

use std::fmt::{self, Write as _};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::document::Token;
use crate::{Mark, Problem, Shown};
use protocol::visible::escaped;

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
