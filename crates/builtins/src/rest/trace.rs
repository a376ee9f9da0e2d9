//! Traces of a program's stack within what it says of a failure: where its code stands is nobody else's business.
//!
//! Invariant: of a trace only what went wrong is left, never a line that names a place in code. What is not known
//! for a trace is left as it is.

use std::borrow::Cow;

/// How Python begins to say where a program failed; what went wrong stands behind the places, not indented.
const PYTHON: &str = "Traceback (most recent call last)";
/// How a place begins there.
const PLACE: &str = "File \"";
/// How Rust begins, behind what went wrong.
const RUST: &str = "stack backtrace:";
/// How Go does: `goroutine 1 [running]:`.
const GO: &str = "goroutine ";

/// `text` without the traces in it; empty when it is nothing else.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    if text.contains(PYTHON) {
        // A text that was printed as a value has its ends of lines written out.
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

/// The last thing that went wrong, or what was said before.
fn of_python(text: &str) -> &str {
    let (before, trace) = text.rsplit_once(PYTHON).unwrap_or((text, ""));
    let is_cause = |line: &&str| {
        !line.trim().is_empty() && !line.starts_with([' ', '\t', ':']) && !line.starts_with(PLACE)
    };
    let first = before.split(PYTHON).next().unwrap_or_default();
    trace.lines().rev().find(is_cause).unwrap_or_else(|| first.trim_end().trim_end_matches(':'))
}

/// `    at function (file:line)`, as JavaScript, Java and C# write it, or the head of what others write.
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
