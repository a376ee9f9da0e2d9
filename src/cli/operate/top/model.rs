//! The state of the screen: servers with their history, the selection, and what the user types.
//!
//! ```text
//! told (samples, calls, results) ─┐
//!                                 ├─▶ Model ─▶ frame
//! keys ───────────────────────────┘     └────▶ Effect
//! ```
//!
//! Invariants: it asks nothing and draws nothing. The selection is a server, and not a row, so it stays where rows move.
//! The calls of a server and the text of a filter are bounded.
//!
//! Not here: which key does what (`keys`), and how it looks (`frame`).

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::history::History;
use super::seen::{EndedCall, SeenServer, StatusSample, shown};

/// Calls of one server that are kept.
const MAX_CALLS: usize = 20;

/// A server and what happened to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    pub(super) seen: SeenServer,
    pub(super) history: History,
    /// Calls that ended, the newest first.
    pub(super) calls: VecDeque<EndedCall>,
}

/// The order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Rate,
    Failures,
    P99,
    Running,
    Trouble,
    Name,
}

impl Sort {
    /// All of them, in the order of the key.
    const ALL: [Self; 6] = [Self::Rate, Self::Failures, Self::P99, Self::Running, Self::Trouble, Self::Name];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "calls/s",
            Self::Failures => "errors",
            Self::P99 => "p99",
            Self::Running => "running",
            Self::Trouble => "problems",
            Self::Name => "name",
        }
    }

    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    fn order(self, a: &Server, b: &Server) -> Ordering {
        let most = |value: fn(&Server) -> f64| value(b).total_cmp(&value(a));
        match self {
            Self::Rate => most(|server| server.history.rate().unwrap_or(0.0)),
            Self::Failures => b.seen.failures.cmp(&a.seen.failures),
            Self::P99 => most(|server| server.history.durations()[1].unwrap_or(-1.0)),
            Self::Running => (b.seen.running + b.seen.waiting).cmp(&(a.seen.running + a.seen.waiting)),
            Self::Trouble => trouble(&b.seen).cmp(&trouble(&a.seen)),
            Self::Name => a.seen.name.cmp(&b.seen.name),
        }
    }
}

/// How much a server needs a person: a disabled one the least.
fn trouble(seen: &SeenServer) -> u8 {
    match seen.state.as_str() {
        _ if seen.is_fine() => 1,
        "disabled" => 0,
        _ => 2,
    }
}

/// Which part of the gateway is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopView {
    List,
    /// One server, scrolled down by some lines.
    Detail {
        server: String,
        scroll: usize,
    },
}

/// A part of the screen that takes the keys instead of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Overlay {
    Help,
    /// The filter is typed.
    Filter,
    /// An action waits for `y`.
    Confirm(Action),
}

/// An action of an operator on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) deed: ServerCommand,
    pub(super) server: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerCommand {
    ResetBreaker,
    Reconnect,
}

/// Work outside of the model that a key causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    Ask(GatewayRequest),
}

/// A request to the gateway that a key causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GatewayRequest {
    /// For the tools of a server.
    Tools(String),
    Act(Action),
}

/// The tools of the server that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tools {
    Unknown,
    Known(Vec<(String, String)>),
    Failed(String),
}

/// All that the screen depends on.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// In the order of the registry.
    pub(super) servers: Vec<Server>,
    sampled: Option<Instant>,
    /// The URL of the gateway.
    pub(super) origin: String,
    /// Since when no answer came, and why.
    pub(super) away: Option<(Instant, String)>,
    /// None: the gateway does not say.
    pub(super) role: Option<String>,
    pub(super) view: TopView,
    pub(super) overlay: Option<Overlay>,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// The name of the selected server.
    pub(super) selected: Option<String>,
    /// Whether the user selected it. Before that, it is the first one.
    pub(super) is_chosen: bool,
    /// The first row that is shown.
    pub(super) scroll: usize,
    pub(super) tools: Tools,
    /// Events of calls that were not received.
    pub(super) missed: u64,
    /// The result of the last key that did something.
    pub(super) message: Option<String>,
    /// Columns and lines of the terminal.
    pub(super) size: (usize, usize),
}

impl Model {
    pub(super) fn new(origin: String, size: (usize, usize)) -> Self {
        Self {
            servers: Vec::new(),
            sampled: None,
            origin,
            away: None,
            role: None,
            view: TopView::List,
            overlay: None,
            sort: Sort::Rate,
            filter: String::new(),
            selected: None,
            is_chosen: false,
            scroll: 0,
            tools: Tools::Unknown,
            missed: 0,
            message: None,
            size,
        }
    }

    /// Takes the answers of the gateway.
    pub(super) fn sampled(&mut self, sample: StatusSample) {
        self.away = None;
        let time = self.sampled.replace(sample.at).map(|at| sample.at.saturating_duration_since(at));
        let mut old: HashMap<String, Server> =
            self.servers.drain(..).map(|server| (server.seen.name.clone(), server)).collect();
        let renewed = |seen: SeenServer| {
            let Some(mut server) = old.remove(&seen.name) else {
                return Server { seen, ..Server::default() };
            };
            if let Some(time) = time {
                server.history.note(&server.seen, &seen, time);
            }
            Server { seen, ..server }
        };
        self.servers = sample.servers.into_iter().map(renewed).collect();
        if matches!(&self.view, TopView::Detail { server, .. } if self.server(server).is_none()) {
            self.view = TopView::List;
            self.message = Some("the server is no longer configured".into());
        }
        self.settle();
    }

    /// Notes that the gateway did not answer.
    pub(super) fn lost(&mut self, reason: &str) {
        let since = self.away.take().map_or_else(Instant::now, |(since, _)| since);
        self.away = Some((since, shown(reason)));
    }

    /// Takes a call that ended.
    pub(super) fn called(&mut self, call: EndedCall) {
        let known = self.servers.iter_mut().find(|server| server.seen.name == call.server);
        let Some(Server { calls, .. }) = known else { return };
        calls.truncate(MAX_CALLS - 1);
        calls.push_front(call);
    }

    /// Takes the tools of a server, if that is still the one that is shown.
    pub(super) fn offered(&mut self, server: &str, tools: Result<Vec<(String, String)>, String>) {
        if matches!(&self.view, TopView::Detail { server: shown, .. } if shown == server) {
            self.tools = tools.map_or_else(Tools::Failed, Tools::Known);
        }
    }

    pub(super) fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.seen.name == name)
    }

    /// Returns the servers that the filter leaves, sorted.
    pub(super) fn rows(&self) -> Vec<&Server> {
        let wanted = self.filter.to_lowercase();
        let fits = |server: &&Server| server.seen.label.to_lowercase().contains(&wanted);
        let mut rows: Vec<_> = self.servers.iter().filter(fits).collect();
        rows.sort_by(|a, b| self.sort.order(a, b));
        rows
    }

    /// Returns the server that keys act on.
    pub(super) fn current(&self) -> Option<&Server> {
        match &self.view {
            TopView::Detail { server, .. } => self.server(server),
            TopView::List => self.selected.as_deref().and_then(|name| self.server(name)),
        }
    }

    /// Returns how many lines there are between the title and the footer.
    pub(super) const fn body(&self) -> usize {
        self.size.1.saturating_sub(2)
    }

    /// Returns how many servers fit there, beside the header and the reason of a problem.
    pub(super) fn page(&self) -> usize {
        self.body().saturating_sub(2).max(1)
    }

    /// Selects a server that is shown, and scrolls to it.
    pub(super) fn settle(&mut self) {
        let rows = self.rows();
        let is_it = |name: &String| rows.iter().position(|server| server.seen.name == *name);
        let at = self.selected.as_ref().filter(|_| self.is_chosen).and_then(is_it);
        let (count, index) = (rows.len(), at.unwrap_or(0));
        let first = rows.first().map(|server| server.seen.name.clone());
        if at.is_none() {
            self.selected = first;
            self.is_chosen = false;
        }
        let page = self.page();
        let most = count.saturating_sub(page);
        self.scroll = self.scroll.clamp((index + 1).saturating_sub(page), index).min(most);
    }
}
