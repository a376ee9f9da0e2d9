//! Problems of a configuration document.
//!
//! Not here: how a problem is shown beside its line of the file (`config::error`).

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;

use super::node::Mark;
use super::places::Places;
use super::recorded::{Description, Expected, Recorded};
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
