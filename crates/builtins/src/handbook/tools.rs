//! The definitions of the tools, as `tools/list` shows them. All of them change nothing and depend on the folder only.

use super::answers::{Pong, Recent, SearchResult, Whole};
use super::arguments::{DocumentPath, Nothing, SearchArguments, Since};
use super::topics::Tree;
use crate::tool::{Effect, Tool, ToolInfo};

const PING: ToolInfo = ToolInfo {
    name: "ping",
    title: "Ping",
    description: "Check that the handbook server answers.",
    effect: Effect::Reads,
};

const SEARCH: ToolInfo = ToolInfo {
    name: "search_handbook",
    title: "Search the handbook",
    description: "Search the handbook and get the sections that fit best, best first. Each hit \
        holds the text of a section; when it is cut off, get the rest with get_handbook_section and \
        the path in its metadata.",
    effect: Effect::Reads,
};

const SECTION: ToolInfo = ToolInfo {
    name: "get_handbook_section",
    title: "Get a handbook section",
    description: "Get a whole document of the handbook, or one whole section with everything \
        below it, by its path. Paths come from search_handbook and list_handbook_topics.",
    effect: Effect::Reads,
};

const TOPICS: ToolInfo = ToolInfo {
    name: "list_handbook_topics",
    title: "List handbook topics",
    description: "List what the handbook is about: folders, documents and their sections as a \
        tree. Use it to find out where to look when a search does not help.",
    effect: Effect::Reads,
};

const UPDATES: ToolInfo = ToolInfo {
    name: "get_recent_updates",
    title: "Get recent updates",
    description: "List the documents of the handbook that were changed lately, newest first.",
    effect: Effect::Reads,
};

/// Returns all tools, in the order of the list.
pub(super) fn definitions() -> Vec<Tool> {
    vec![
        Tool::new::<Nothing, Pong>(&PING),
        Tool::new::<SearchArguments, SearchResult<'_>>(&SEARCH),
        Tool::new::<DocumentPath, Whole<'_>>(&SECTION),
        Tool::new::<Nothing, Tree>(&TOPICS),
        Tool::new::<Since, Recent>(&UPDATES),
    ]
}
