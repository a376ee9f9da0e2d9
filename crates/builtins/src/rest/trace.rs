//! Removes stack traces from the error texts of a service, because they reveal where its code is.
//!
//! Invariant: only the error message remains of a trace, and never a line with a place in code. Unknown
//! formats stay unchanged.

use std::borrow::Cow;

/// Start of a Python trace. The error follows the places, without indentation.
const PYTHON: &str = "Traceback (most recent call last)";
/// Start of a place in a Python trace.
const PLACE: &str = "File \"";
/// Start of a Rust trace, after the error.
const RUST: &str = "stack backtrace:";
/// Start of a Go trace: `goroutine 1 [running]:`.
const GO: &str = "goroutine ";

/// Returns `text` without the traces in it. The result is empty if there is nothing else.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
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
    fn of_a_trace_is_left_what_went_wrong() {
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
            assert_eq!(cut(&text), left, "{text}");
        }
    }

    #[test]
    fn what_is_no_trace_stays() {
        for text in [
            "",
            "no x\nat noon",
            "look at it",
            "no x\n at noon",
            "goroutine is a word",
            "it broke:\n  twice",
            "File \"a\" is not there",
        ] {
            assert_eq!(cut(text), text);
        }
    }
}
