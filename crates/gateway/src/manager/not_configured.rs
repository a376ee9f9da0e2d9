//! Servers whose entries in the configuration file cannot be used.
//!
//! Invariant: such an entry costs its own server only. Its name stays reserved, and nothing that is known of the server is
//! lost. Its texts have no secret, as those of [`Problem`].
//!
//! Not here: which entries have problems (`config`), and what a reload does with them (`apply`).

use std::sync::Arc;

use settings::Problem;
use upstream::State;

/// A server whose entry in the configuration file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotConfigured {
    /// The key in `mcp_servers`.
    pub name: Arc<str>,
    /// How many servers before it in the file can be used.
    pub position: usize,
    /// Whether the entry has no `enabled: false`.
    pub is_enabled: bool,
    /// The problems of its entry, each with its place: at least one.
    pub problems: Vec<Problem>,
}

impl NotConfigured {
    /// `disabled` if the server is disabled and only values of variables or secrets are missing, which it does not need.
    /// Otherwise `not_configured`.
    pub fn state(&self) -> State {
        let needs_nothing = !self.is_enabled && self.problems.iter().all(|problem| problem.lacks_value);
        if needs_nothing { State::Disabled } else { State::NotConfigured }
    }

    /// Whether the file has to be corrected.
    pub fn is_mistake(&self) -> bool {
        self.state() == State::NotConfigured
    }

    /// Its first problem with its place, and how many more there are.
    pub fn reason(&self) -> String {
        reason(&self.problems)
    }

    /// Logs each problem. `is_running`: whether the server runs with its old settings.
    pub(super) fn log(&self, is_running: bool) {
        let consequence = match (self.state(), is_running) {
            (State::Disabled, _) => return,
            (_, true) => "its old settings stay in effect",
            (_, false) => "it is not configured",
        };
        for problem in &self.problems {
            let (server, setting, hint) = (&self.name, &problem.path, problem.hint.as_deref());
            let (line, column, message) = (problem.mark.line, problem.mark.column, &problem.message);
            tracing::error!(%server, line, column, setting, hint, "a server has a mistake, {consequence}: {message}");
        }
    }
}

/// The first of the `problems` with its place, and how many more there are.
pub(super) fn reason(problems: &[Problem]) -> String {
    let Some(first) = problems.first() else { return String::new() };
    let more = match problems.len() - 1 {
        0 => String::new(),
        1 => "; and 1 more problem".to_owned(),
        more => format!("; and {more} more problems"),
    };
    format!("line {}, column {}: {first}{more}", first.mark.line, first.mark.column)
}

/// Joins `servers` and the entries of `not_configured` in the order of the file.
pub(super) fn in_file_order<S>(
    servers: impl IntoIterator<Item = S>,
    not_configured: &[NotConfigured],
) -> Vec<Result<S, &NotConfigured>> {
    let mut rest = not_configured.iter().peekable();
    let mut all = Vec::new();
    for (at, server) in servers.into_iter().enumerate() {
        while let Some(wrong) = rest.next_if(|wrong| wrong.position <= at) {
            all.push(Err(wrong));
        }
        all.push(Ok(server));
    }
    all.extend(rest.map(Err));
    all
}
