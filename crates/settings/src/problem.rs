//! Problems of a configuration document.
//!
//! Not here: how a problem is shown beside its line of the file (`config::error`).

use std::cell::RefCell;
use std::fmt;

use super::node::Mark;
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
    /// Reads of the document, if they are recorded.
    records: Option<RefCell<Vec<Record>>>,
}

impl Problems {
    /// A list that also records what readers ask for.
    pub fn recording() -> Self {
        Self { records: Some(RefCell::default()), ..Self::default() }
    }

    /// Returns what readers asked for.
    pub fn into_records(self) -> Vec<Record> {
        self.records.map(RefCell::into_inner).unwrap_or_default()
    }

    pub(super) fn record(&self, record: impl FnOnce() -> Record) {
        if let Some(records) = &self.records {
            records.borrow_mut().push(record());
        }
    }

    /// Reports a problem.
    pub fn add(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        if found.len() < MAX_PROBLEMS {
            found.push(problem);
        }
    }

    /// Whether there is no problem so far.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// All kept problems, in the order of the document.
    pub fn sorted(&self) -> Vec<Problem> {
        let mut all = self.found.borrow().clone();
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

/// One typed read of a document, from which a JSON Schema is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The setting, such as `mcp_servers.files.timeout`.
    pub path: String,
    /// The expected value.
    pub expected: Expected,
}

/// The value that a reader expects.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Any string.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number, as the text of its least and its greatest value.
    Integer(String, String),
    /// A time in seconds, at least and at most.
    Seconds(f64, f64),
    /// One of these strings.
    Words(Vec<String>),
    /// A whole number or a string.
    NumberOrText,
    /// A list.
    List,
    /// A list, or one element of it.
    OneOrMore,
    /// A mapping with any keys.
    Mapping,
    /// A mapping with these keys.
    Fields(Vec<&'static str>),
    /// Nothing: an empty value counts as absent.
    Nothing,
}
