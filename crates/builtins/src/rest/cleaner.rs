//! Makes text of a service safe to show.
//!
//! Invariants: the text is one short line without control characters. It has no secret of the request, in no
//! usual encoding, and no stack trace.

use std::borrow::Cow;

use runtime::secret::{ExposeSecret, SecretString};
use upstream::api::Secrets;

/// Most characters of the message that are shown.
const LONGEST: usize = 300;

/// Makes text of a service safe to show: short, on one line, and without secrets and stack traces.
pub(crate) struct Cleaner<'a> {
    secrets: &'a [SecretString],
    /// The secrets in other forms, such as Base64.
    forms: Secrets,
}

impl<'a> Cleaner<'a> {
    /// Makes a cleaner that removes `secrets`.
    pub(crate) fn new(secrets: &'a [SecretString]) -> Self {
        Self { secrets, forms: Secrets::new(secrets) }
    }

    /// Returns `text` as one short line, or an empty string if it was only a stack trace.
    pub(crate) fn line(&self, text: String) -> String {
        line(&without_trace(&self.without_secrets(text)))
    }

    fn without_secrets(&self, text: String) -> String {
        let shown = self.secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty());
        let text = shown.fold(text, |text, secret| text.replace(secret, "…"));
        self.forms.redact(&text)
    }
}

/// Returns the message of a service as one short line, without `secrets` and stack traces. It is empty if
/// nothing else is left.
pub(crate) fn plain(text: String, secrets: &[SecretString]) -> String {
    Cleaner::new(secrets).line(text)
}

/// Returns `text` as one short line without control characters. Quotes stay, because people read it.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let whole = words.collect::<Vec<_>>().join(" ");
    let mut line: String = whole.chars().take(LONGEST).collect();
    if line.len() < whole.len() {
        line.push('…');
    }
    line
}

/// Start of a Python trace. The error follows the places, without indentation.
const PYTHON: &str = "Traceback (most recent call last)";
/// Start of a place in a Python trace.
const PLACE: &str = "File \"";
/// Start of a Rust trace, after the error.
const RUST: &str = "stack backtrace:";
/// Start of a Go trace: `goroutine 1 [running]:`.
const GO: &str = "goroutine ";

/// Returns `text` without the traces in it. The result is empty if there is nothing else.
fn without_trace(text: &str) -> Cow<'_, str> {
    if text.contains(PYTHON) {
        // In a text that was printed as a value, line ends are escaped.
        return Cow::Owned(of_python(&text.replace("\\n", "\n")).to_owned());
    }
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if is_place(line) {
            return Cow::Borrowed(&text[..end]);
        }
        end += line.len();
    }
    Cow::Borrowed(text)
}

/// Returns the last error, or the text before the trace.
fn of_python(text: &str) -> &str {
    let (before, trace) = text.rsplit_once(PYTHON).unwrap_or((text, ""));
    let is_cause = |line: &&str| {
        !line.trim().is_empty() && !line.starts_with([' ', '\t', ':']) && !line.starts_with(PLACE)
    };
    let first = before.split(PYTHON).next().unwrap_or_default();
    trace.lines().rev().find(is_cause).unwrap_or_else(|| first.trim_end().trim_end_matches(':'))
}

/// Whether a line is `    at function (file:line)`, as in JavaScript, Java and C#, or the start of another
/// trace.
fn is_place(line: &str) -> bool {
    let words = line.trim_start();
    let is_indented = words.len() < line.len();
    (is_indented && words.starts_with("at ") && words.contains(['(', ':', '/']))
        || words.starts_with(RUST)
        || (words.starts_with(GO) && words.contains('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_trace_is_reduced_to_its_error() {
        let python = "Traceback (most recent call last):\n  File \"/srv/app.py\", line 3, in f\n    g()\n";
        for (text, left) in [
            (format!("{python}KeyError: 'x'\n"), "KeyError: 'x'"),
            (format!("{python}KeyError: 'x'\n\nDuring that:\n\n{python}ValueError: y"), "ValueError: y"),
            (format!("{python}KeyError: 'x'\n    at sea"), "KeyError: 'x'"),
            (format!("it broke: {python}KeyError: 'x'"), "KeyError: 'x'"),
            (format!("{python}KeyError: 'x'").replace('\n', "\\n"), "KeyError: 'x'"),
            (python.to_owned(), ""),
            (format!("it broke:\n{python}"), "it broke"),
            (format!("it broke:\n{python}{python}"), "it broke"),
            (format!("it broke: {}", python.replace('\n', " ")), "it broke"),
            ("Error: no x\n    at f (/srv/app.js:1:2)\n    at g\n".to_owned(), "Error: no x\n"),
            ("panicked: no x\nstack backtrace:\n   0: f".to_owned(), "panicked: no x\n"),
            ("panic: no x\n\ngoroutine 1 [running]:\nmain.f()".to_owned(), "panic: no x\n\n"),
        ] {
            assert_eq!(without_trace(&text), left, "{text}");
        }
    }

    #[test]
    fn text_without_a_stack_trace_stays() {
        for text in [
            "",
            "no x\nat noon",
            "look at it",
            "no x\n at noon",
            "goroutine is a word",
            "it broke:\n  twice",
            "File \"a\" is not there",
        ] {
            assert_eq!(without_trace(text), text);
        }
    }
}
