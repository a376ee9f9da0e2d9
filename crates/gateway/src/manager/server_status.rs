//! The state of one server as operators see it, gathered from one snapshot.
//!
//! Not here: how it is shown (`admin`), and the state of connections (`upstream::status`).

use std::sync::Arc;

use super::catalog::MovedName;
use super::snapshot::{Scope, Server, Snapshot};
use super::trust::{Trust, definition_sha256};
use json::Raw;
use protocol::feature::Kind;
use runtime::telemetry::durations::Durations;
use upstream::Status;

/// The state of one server, for operators.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// Its configuration.
    pub config: upstream::Config,
    /// Its connections, breaker and counters now.
    pub status: Status,
    /// How many of its tools are offered.
    pub tools: usize,
    /// How many resources it offers.
    pub resources: usize,
    /// How many resource templates.
    pub templates: usize,
    /// How many prompts.
    pub prompts: usize,
    /// Which definitions of its tools are trusted.
    pub trust: Arc<Trust>,
    /// Its tools whose bare name another server had before.
    pub moved: Vec<MovedTool>,
    /// How long its calls took.
    pub durations: Arc<Durations>,
}

/// A tool whose bare name another server had before; until an operator approves, it is offered under its
/// qualified name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedTool {
    /// Its name at its server.
    pub tool: String,
    /// The server that had the bare name.
    pub previous_owner: Arc<str>,
    /// The definition as its server writes it now.
    pub definition: Raw,
}

impl MovedTool {
    /// The SHA-256 of its definition in hexadecimal digits.
    pub fn sha256(&self) -> String {
        definition_sha256(&self.definition)
    }
}

impl ServerStatus {
    pub(super) fn of(snapshot: &Snapshot, server: &Server) -> Self {
        let count = |kind| server.catalog.listing(kind).entries().len();
        Self {
            config: server.upstream.config().clone(),
            status: server.upstream.status(),
            tools: count(Kind::Tools),
            resources: count(Kind::Resources),
            templates: count(Kind::Templates),
            prompts: count(Kind::Prompts),
            trust: Arc::clone(&server.trust),
            moved: moved(snapshot, server),
            durations: Arc::clone(&server.durations),
        }
    }

    /// How many of its tools changed: in their definition, or in the owner of their name.
    pub fn changed_tools(&self) -> usize {
        let is_new = |moved: &&MovedTool| self.trust.changes().all(|change| change.tool != moved.tool);
        self.trust.changes().count() + self.moved.iter().filter(is_new).count()
    }
}

fn moved(snapshot: &Snapshot, server: &Server) -> Vec<MovedTool> {
    let Ok(catalog) = snapshot.catalog(&Scope::All) else { return Vec::new() };
    let (name, offer) = (&server.upstream.config().name, server.offer.as_ref());
    let of_server = |moved: MovedName<'_>| {
        let (owner, tool) = moved.route;
        let found = offer.filter(|_| owner == name)?.tools.iter().find(|found| found.name == tool)?;
        let (previous_owner, definition) = (Arc::clone(moved.owner), found.definition.clone());
        Some(MovedTool { tool: tool.to_owned(), previous_owner, definition })
    };
    catalog.moved(Kind::Tools).filter_map(of_server).take(MAX_MOVED).collect()
}

/// Tools with a moved name that are shown of one server at most.
const MAX_MOVED: usize = 100;
