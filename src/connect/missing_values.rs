//! Servers of a new configuration file whose variables or secrets have no value on this machine.
//!
//! Invariant: such a server is written with `enabled: false` and the reason as a comment, so that `check` accepts the file and
//! the other servers run.
//!
//! Not here: which references have no value (`settings::expand`).

use std::path::Path;

use crate::config::Config;
use gateway::manager::NotConfigured;
use settings::expand::Lookup;
use settings::{Node, Problems, Value, document};

/// The line that disables a server, below its key in a file that Switchyard wrote.
const DISABLED: &str = "    enabled: false";

/// Disables the servers of `text`, which Switchyard wrote, that lack values. Returns the text, and a note for each.
pub(super) fn disable(path: &Path, text: String, environment: &Lookup<'_>) -> (String, Vec<String>) {
    let Ok((config, _)) = Config::parse_each(path, text.as_bytes(), environment) else {
        return (text, Vec::new());
    };
    let lacks_values =
        |wrong: &&NotConfigured| wrong.is_enabled && wrong.problems.iter().all(|problem| problem.lacks_value);
    let root = document::parse(&text, &Problems::default()).root;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut notes = Vec::new();
    // From the end, so that the numbers of earlier lines stay.
    for wrong in config.manager.not_configured.iter().filter(lacks_values).rev() {
        let Some(line) = line_of(&root, &wrong.name) else { continue };
        let reasons = reasons(wrong);
        let comments = reasons.iter().map(|reason| format!("    # Disabled, because {reason}."));
        let added = comments.chain([DISABLED.to_owned()]);
        lines.splice(line..line, added);
        let reasons = reasons.join(", and ");
        notes
            .push(format!("{}: it is disabled, because {reasons}; then remove `enabled: false`", wrong.name));
    }
    notes.reverse();
    (lines.join("\n") + "\n", notes)
}

/// The different reasons of the problems of one entry.
fn reasons(wrong: &NotConfigured) -> Vec<&str> {
    let mut reasons: Vec<&str> = Vec::new();
    for problem in &wrong.problems {
        if !reasons.contains(&problem.message.as_str()) {
            reasons.push(&problem.message);
        }
    }
    reasons
}

/// The number of the line with the key of a server, which is also the index of the line after it.
fn line_of(root: &Node, server: &str) -> Option<usize> {
    let entry = |node: &Node, key: &str| match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == key).cloned(),
        _ => None,
    };
    let servers = entry(root, "mcp_servers")?.node;
    usize::try_from(entry(&servers, server)?.key_mark.line).ok()
}
