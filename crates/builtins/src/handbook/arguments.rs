//! Reads the arguments of the tools.
//!
//! Names, types and ranges were checked against the schemas before (`schema_validator`).

use serde::Deserialize;

use crate::refusal::Refusal;
use crate::tool::Tool;
use json::Raw;

/// Most hits of one search.
pub(super) const MOST_RESULTS: u32 = 20;
/// Default number of hits.
pub(super) const DEFAULT_RESULTS: u32 = 10;
/// Most days to look back.
pub(super) const MOST_DAYS: u32 = 3_650;
/// Default number of days.
pub(super) const DEFAULT_DAYS: u32 = 7;

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

#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    section: Option<String>,
    n_results: Option<u32>,
}

#[derive(Deserialize)]
struct DocumentPath {
    path: String,
}

#[derive(Deserialize)]
struct Since {
    days: Option<u32>,
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
            "get_recent_updates" => {
                let updates = |Since { days }| Self::Updates { days: days.unwrap_or(DEFAULT_DAYS) };
                tool.read(arguments).map(updates)
            }
            _ => tool.read(arguments).map(|Nothing {}| Self::Ping),
        }
    }
}

impl Search {
    fn of(requested: SearchArguments) -> Self {
        let query = requested.query.split_whitespace().collect::<Vec<_>>().join(" ");
        let section = requested.section.filter(|section| !section.trim().is_empty());
        Self { query, section, n_results: requested.n_results.unwrap_or(DEFAULT_RESULTS) as usize }
    }
}
