//! Problems of servers' entries in the configuration file, as the API shows them.
//!
//! Invariant: the texts have no secret, as those of [`Problem`].

use serde::Serialize;
use utoipa::ToSchema;

use protocol::sanitize::clipped;
use settings::Problem;

/// Most problems of one entry in an answer.
const MOST: usize = 20;

/// One problem of an entry in the configuration file.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EntryProblem {
    /// The line in the file, from 1 on.
    line: u32,
    /// The column in the line, from 1 on.
    column: u32,
    /// The setting.
    #[schema(examples("mcp_servers.issues.timeout"))]
    setting: String,
    /// The actual and the expected value.
    #[schema(examples("900 is out of range, expected 1 to 600 seconds"))]
    message: String,
    /// The action that corrects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hint: Option<String>,
}

impl From<&Problem> for EntryProblem {
    fn from(problem: &Problem) -> Self {
        Self {
            line: problem.mark.line,
            column: problem.mark.column,
            setting: clipped(problem.path.clone()),
            message: clipped(problem.message.clone()),
            hint: problem.hint.clone().map(clipped),
        }
    }
}

impl EntryProblem {
    /// The first of `problems`.
    pub(super) fn all(problems: &[Problem]) -> Vec<Self> {
        problems.iter().take(MOST).map(Self::from).collect()
    }
}
