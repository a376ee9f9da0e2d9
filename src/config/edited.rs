//! Checks the content of a file before it is written.
//!
//! Invariant: a mistake that the file had before does not matter, so that one entry with a mistake stops no change of another.

use std::path::Path;

use secrecy::SecretString;

use super::{Config, Error, document, report, text_of};
use settings::expand::Lookup;
use settings::{Problem, Problems};

/// Values of variables and secrets that have none while a file is checked. With the first, a URL with a variable as its port
/// is valid; with the second, a URL that is a single variable.
const TRIED: [&str; 2] = ["1", "http://localhost"];

impl Config {
    /// Checks the content of a file that is about to be written. Variables and secrets that have no value yet do not
    /// matter, and neither do files that it names. The file is valid if it is with one of two values for all of them.
    pub fn check(path: &Path, content: &str, environment: &Lookup<'_>) -> Result<(), Error> {
        Self::check_change(path, "", content, environment).map(drop)
    }

    /// Checks like [`Config::check`] that the content `after` has no mistake that `before` had not. Returns the number of
    /// mistakes that both have.
    pub fn check_change(
        path: &Path,
        before: &str,
        after: &str,
        environment: &Lookup<'_>,
    ) -> Result<usize, Error> {
        let with = |value: &str| {
            let there = if before.trim().is_empty() {
                Vec::new()
            } else {
                mistakes(path, before, environment, value)
            };
            let is_there = |problem: &Problem| {
                there.iter().any(|other| other.path == problem.path && other.message == problem.message)
            };
            let (old, new): (Vec<_>, Vec<_>) =
                mistakes(path, after, environment, value).into_iter().partition(is_there);
            if new.is_empty() { Ok(old.len()) } else { Err(new) }
        };
        let [first, second] = TRIED;
        with(first).or_else(|new| with(second).map_err(|_| new)).map_err(|new| {
            let document =
                document::parse(text_of(after.as_bytes(), &Problems::default()), &Problems::default());
            Error::Invalid(report(path, after, &document, new))
        })
    }
}

/// The mistakes of `content` if every variable and secret without a value has `value`.
fn mistakes(path: &Path, content: &str, environment: &Lookup<'_>, value: &str) -> Vec<Problem> {
    let set = |name: &str| environment(name).or_else(|_| Ok(value.to_owned()));
    let secret = |_: &str| Ok(SecretString::from(value));
    match Config::parse_with(path, content.as_bytes(), &set, Some(&secret), builtins::KINDS) {
        Ok((_, report)) => report.map(|report| report.problems).unwrap_or_default(),
        Err(Error::Invalid(report)) => report.problems,
        Err(Error::Unreadable { .. }) => Vec::new(),
    }
}
