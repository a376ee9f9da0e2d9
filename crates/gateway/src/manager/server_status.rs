//! The state of one server as operators see it, gathered from one snapshot.
//!
//! Not here: how it is shown (`admin`), and the state of connections (`upstream::status`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalog::MovedName;
use super::error::Error;
use super::not_configured::{NotConfigured, in_file_order, reason};
use super::snapshot::{Scope, Server, Snapshot};
use super::trust::{Change, Trust, definition_sha256};
use super::view::Holding;
use json::Raw;
use protocol::feature::{Kind, Tool};
use runtime::telemetry::durations::Durations;
use settings::Problem;
use upstream::{State, Status};

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
    /// The views that hold changed tools because they are new to them, by the name of the tool at the server.
    pub held_in: BTreeMap<String, Vec<Arc<str>>>,
    /// Its tools whose bare name another server had before.
    pub moved: Vec<MovedTool>,
    /// How long its calls took.
    pub durations: Arc<Durations>,
    /// The problems of its new entry in the configuration file, if it runs with the settings of an earlier one.
    pub problems: Vec<Problem>,
}

/// One entry of the configuration file, for operators.
#[derive(Debug, Clone)]
pub enum ServerEntry {
    /// A server.
    Server(Box<ServerStatus>),
    /// An entry that cannot be used.
    NotConfigured(NotConfigured),
}

impl ServerEntry {
    /// All entries, in the order of the configuration file.
    pub fn all(snapshot: &Snapshot) -> Vec<Self> {
        let all = in_file_order(snapshot.servers(), snapshot.not_configured());
        let entry = |entry: Result<&Arc<Server>, &NotConfigured>| match entry {
            Ok(server) => Some(Self::Server(Box::new(ServerStatus::of(snapshot, server)))),
            // A server that runs with earlier settings has its problems.
            Err(wrong) => snapshot.server(&wrong.name).is_err().then(|| Self::NotConfigured(wrong.clone())),
        };
        all.into_iter().filter_map(entry).collect()
    }

    /// The entry `name`.
    pub fn one(snapshot: &Snapshot, name: &str) -> Result<Self, Error> {
        match snapshot.server(name) {
            Err(Error::NotConfigured(wrong)) => Ok(Self::NotConfigured(*wrong)),
            server => server.map(|server| Self::Server(Box::new(ServerStatus::of(snapshot, server)))),
        }
    }

    /// The key in `mcp_servers`.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Server(server) => &server.config.name,
            Self::NotConfigured(wrong) => &wrong.name,
        }
    }

    /// Whether it is not disabled.
    pub fn is_enabled(&self) -> bool {
        match self {
            Self::Server(server) => server.config.enabled,
            Self::NotConfigured(wrong) => wrong.is_enabled,
        }
    }

    /// Whether it can be used.
    pub fn state(&self) -> State {
        match self {
            Self::Server(server) => server.status.state,
            Self::NotConfigured(wrong) => wrong.state(),
        }
    }

    /// Whether it is a server that is healthy.
    pub fn is_healthy(&self) -> bool {
        matches!(self, Self::Server(server) if server.status.is_healthy())
    }

    /// The problems of its entry.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Server(server) => &server.problems,
            Self::NotConfigured(wrong) => &wrong.problems,
        }
    }

    /// The last failure of the server, or the first problem of the entry.
    pub fn last_error(&self) -> Option<String> {
        match self {
            Self::Server(server) => server.status.last_error.clone(),
            Self::NotConfigured(wrong) => Some(reason(&wrong.problems)),
        }
    }
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
    /// All servers, in the order of the configuration file.
    pub fn all(snapshot: &Snapshot) -> Vec<Self> {
        snapshot.servers().iter().map(|server| Self::of(snapshot, server)).collect()
    }

    pub(super) fn of(snapshot: &Snapshot, server: &Server) -> Self {
        let count = |kind| server.catalog.listing(kind).entries().len();
        // Which definitions changed concerns operators, who are bound to no view.
        let is_whole = server.view.is_none();
        Self {
            config: server.upstream.config().clone(),
            status: server.upstream.status(),
            tools: count(Kind::Tools),
            resources: count(Kind::Resources),
            templates: count(Kind::Templates),
            prompts: count(Kind::Prompts),
            trust: if is_whole { Arc::clone(&server.trust) } else { Arc::default() },
            held_in: if is_whole { held_in(snapshot, server) } else { BTreeMap::new() },
            moved: if is_whole { moved(snapshot, server) } else { Vec::new() },
            durations: Arc::clone(&server.durations),
            problems: snapshot.problems_of(&server.upstream.config().name),
        }
    }

    /// How many of its tools changed: in their definition, or in the owner of their name.
    pub fn changed_tools(&self) -> usize {
        let is_new = |moved: &&MovedTool| self.trust.changes().all(|change| change.tool != moved.tool);
        self.trust.changes().count() + self.moved.iter().filter(is_new).count()
    }
}

fn held_in(snapshot: &Snapshot, server: &Server) -> BTreeMap<String, Vec<Arc<str>>> {
    let config = server.upstream.config();
    let mut changes = server.trust.changes().filter(|change| server.trust.is_new_to_views(change)).peekable();
    if changes.peek().is_none() {
        return BTreeMap::new();
    }
    let views = snapshot.all_views();
    let holding = Holding { views: &views, server: &config.name };
    let held = |change: &Change| {
        let tool = Tool::from_definition(change.definition.clone())?;
        let names: Vec<_> = holding.names(&config.tools, &tool).collect();
        (!names.is_empty()).then_some((tool.name, names))
    };
    changes.take(MAX_SHOWN).filter_map(held).collect()
}

fn moved(snapshot: &Snapshot, server: &Server) -> Vec<MovedTool> {
    let Ok(catalog) = snapshot.catalog(&Scope::ALL) else { return Vec::new() };
    let (name, offer) = (&server.upstream.config().name, server.offer.as_ref());
    let of_server = |moved: MovedName<'_>| {
        let (owner, tool) = moved.route;
        let found = offer.filter(|_| owner == name)?.tools.iter().find(|found| found.name == tool)?;
        let (previous_owner, definition) = (Arc::clone(moved.owner), found.definition.clone());
        Some(MovedTool { tool: tool.to_owned(), previous_owner, definition })
    };
    catalog.moved(Kind::Tools).filter_map(of_server).take(MAX_SHOWN).collect()
}

/// Tools of one kind that are shown of one server at most.
const MAX_SHOWN: usize = 100;
