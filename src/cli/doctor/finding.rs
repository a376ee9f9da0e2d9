//! The results of the checks of `doctor`: how bad each is, and the text to type.
//!
//! Invariant: texts have no secret. Control characters in the texts of servers and other programs are escaped when they are
//! shown.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It works, and may surprise.
    Warning,
    /// It does not work.
    Problem,
}

impl Level {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    #[serde(rename = "state")]
    pub(super) level: Level,
    /// The mistake and its place.
    pub(super) found: String,
    /// The command or the line that corrects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(found: impl Into<String>) -> Self {
        Self { level: Level::Ok, found: found.into(), fix: None }
    }

    pub(super) fn warning(found: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::ok(found) }
    }

    pub(super) fn problem(found: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::ok(found) }
    }

    /// Adds the text to type.
    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Returns the number with its noun, in the plural unless it is one.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
