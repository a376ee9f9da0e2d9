//! The arguments of the tools.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::refusal::Refusal;
use crate::schema_validator::NOT_BLANK;
use crate::tool::Tool;
use json::Raw;

/// A call of one of the tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandbookCall {
    /// `ping`
    Ping,
    /// `search_handbook`
    Search(Search),
    /// `get_handbook_section`
    Section {
        /// Path of the document or section.
        path: String,
    },
    /// `list_handbook_topics`
    Topics,
    /// `get_recent_updates`
    Updates {
        /// Days to look back.
        days: u32,
    },
}

/// Arguments of a search.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Search {
    /// The query, not blank, with single spaces.
    pub query: String,
    /// The folder, document or section to search.
    pub section: Option<String>,
    /// Most hits.
    pub n_results: usize,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SearchArguments {
    /// A question or keywords in plain language. Exact names such as `retry_attempts` are found too. There is no query
    /// syntax.
    #[schemars(length(min = 1), regex(pattern = NOT_BLANK), example = "how do I add a server")]
    query: String,
    /// Search only here: the path of a folder, document or section as `list_handbook_topics` shows it, or its title.
    section: Option<String>,
    /// How many hits at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 20))]
    n_results: u32,
}

const fn ten() -> u32 {
    10
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct DocumentPath {
    /// A document, such as engineering/onboarding, or one of its sections, such as
    /// engineering/onboarding#first-week.
    #[schemars(length(min = 1), regex(pattern = NOT_BLANK), example = "engineering/onboarding")]
    path: String,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Since {
    /// How many days to look back.
    #[serde(default = "seven")]
    #[schemars(range(min = 1, max = 3_650))]
    days: u32,
}

const fn seven() -> u32 {
    7
}

impl HandbookCall {
    /// Reads a call of `tool`, which must be one of `tools::definitions`.
    pub(super) fn read(tool: &Tool, arguments: &Raw) -> Result<Self, Refusal> {
        match tool.name() {
            "search_handbook" => tool.read(arguments).map(|requested| Self::Search(Search::of(requested))),
            "get_handbook_section" => {
                tool.read(arguments).map(|DocumentPath { path }| Self::Section { path })
            }
            "list_handbook_topics" => tool.read(arguments).map(|Nothing {}| Self::Topics),
            "get_recent_updates" => tool.read(arguments).map(|Since { days }| Self::Updates { days }),
            _ => tool.read(arguments).map(|Nothing {}| Self::Ping),
        }
    }
}

impl Search {
    fn of(requested: SearchArguments) -> Self {
        let query = requested.query.split_whitespace().collect::<Vec<_>>().join(" ");
        let section = requested.section.filter(|section| !section.trim().is_empty());
        Self { query, section, n_results: requested.n_results as usize }
    }
}
