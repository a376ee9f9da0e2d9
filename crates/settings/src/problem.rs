//! What is wrong with a configuration document.
//!
//! Not here: how a problem is shown beside its line of the file (`config::error`).

use std::cell::RefCell;
use std::fmt;

use super::node::Mark;

/// One thing that is wrong. Its texts hold nothing that an environment reference expands to, and
/// nothing of a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub mark: Mark,
    /// Which setting it is about, such as `mcp_servers.files.timeout`; empty for the document.
    pub path: String,
    /// What was found, and what was expected.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// How much of its source line may be shown.
    pub shown: Shown,
}

/// How much of the source line of a problem may be shown: any other value on that line may be a
/// secret that stands literally in the file.
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

/// Problems that are kept; nobody corrects more of them in one go.
const MAX_PROBLEMS: usize = 1_000;

/// The problems of one document, the first thousand. Shared by its readers, therefore filled
/// through `&self`.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    /// Reports one.
    pub fn add(&self, problem: Problem) {
        let mut found = self.0.borrow_mut();
        if found.len() < MAX_PROBLEMS {
            found.push(problem);
        }
    }

    /// Whether the document is fine so far.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// All that are kept, in the order of the document.
    pub fn sorted(&self) -> Vec<Problem> {
        let mut all = self.0.borrow().clone();
        all.sort_by(|one, next| (one.mark, &one.path).cmp(&(next.mark, &next.path)));
        all
    }
}
