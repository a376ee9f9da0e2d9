//! The scenarios, by name. Each one starts the processes it needs and ends them.

mod echo;
pub mod hold;
mod jwt;
mod large;
mod lists;
mod open;
mod servers;
mod sessions;
mod sse;
mod startup;
mod stdio;
mod watched;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::child::{self, Running};
use crate::load::Load;
use crate::load::call::Call;
use crate::measure::{self, Role, Way};
use crate::options::{Options, Pace};
use crate::report::Report;

/// The scenarios in their order.
const NAMES: &[(&str, &str)] = &[
    ("startup", "from starting the process to its first answer, and memory at rest"),
    ("echo", "100 bytes at 1, 16, 64 and 256 connections"),
    ("forms", "legacy sessions, REST and event streams beside the modern form, at 16 and 64 connections"),
    ("large", "results of 64 KiB and 1 MiB, the id before and behind them, and requests of these sizes"),
    ("stdio", "a child process as the server, for 1 and 16 callers"),
    ("lists", "tools/list of 500 tools, of ten servers and of one"),
    ("sse", "a server of the older HTTP+SSE"),
    ("jwt", "a token, a role and a deny list on every call"),
    ("watched", "a reader of the live events, beside calls that nobody watches"),
    ("sessions", "a thousand idle sessions"),
    ("servers", "fifty servers"),
    ("open", "latency at fixed rates"),
    ("scale", "up to ten thousand sessions, open streams and tools"),
];
/// The number of scenarios that `--quick` runs.
const QUICK: usize = 6;
/// Open files that one process may need: ten thousand connections on each side, and some more.
const FILES: u64 = 20_500;

/// A gateway to measure.
#[derive(Debug, Clone)]
pub struct Binary {
    /// Its name in the table.
    pub name: &'static str,
    /// The path of the program.
    pub path: PathBuf,
}

/// The state that the scenarios share.
#[derive(Debug)]
pub struct Bench {
    /// The gateways, the one under test first.
    pub binaries: Vec<Binary>,
    /// The build of this benchmark whose bare hops are started.
    hops: PathBuf,
    /// The durations of the measurement.
    pub pace: Pace,
    /// The limit of open files of a process.
    pub files: usize,
    /// The results so far.
    pub report: Report,
}

impl Bench {
    /// Measures a group and reports the results.
    pub async fn measure(&mut self, group: &str, ways: &[Way]) -> anyhow::Result<()> {
        let rows = measure::rounds(group, ways, self.pace).await?;
        self.report.add(rows);
        Ok(())
    }

    /// Starts the bare pass-through to `server`.
    pub fn bare(&self, server: &Running) -> anyhow::Result<Running> {
        self.hop(&["bare", &server.address.to_string()])
    }

    /// Starts a bare hop by its subcommand.
    pub fn hop(&self, arguments: &[&str]) -> anyhow::Result<Running> {
        child::part_of(&self.hops, arguments)
    }

    /// Starts each gateway with this configuration, and waits until it answers.
    pub async fn gateways(&self, config: &str, first: &Call) -> anyhow::Result<Vec<Gateway>> {
        let mut gateways = Vec::new();
        for binary in &self.binaries {
            let running = child::gateway(&binary.path, config)?;
            running.until_it_answers(first).await.with_context(|| binary.path.display().to_string())?;
            gateways.push(Gateway { name: binary.name, running });
        }
        Ok(gateways)
    }
}

/// A running gateway with its name.
#[derive(Debug)]
pub struct Gateway {
    /// Its name in the table.
    pub name: &'static str,
    /// The process.
    pub running: Running,
}

impl Gateway {
    /// Calls through this gateway; `what` describes them, and is empty for plain calls.
    pub fn way(&self, what: &str, call: &Call, connections: usize) -> Way {
        let is_plain = what.is_empty() && self.name == "gateway";
        let role = if is_plain { Role::Plain } else { Role::Other };
        let name = if what.is_empty() { self.name.to_owned() } else { format!("{}, {what}", self.name) };
        through(&name, role, &self.running, call, connections)
    }
}

/// Calls through `hop`.
pub fn through(name: &str, role: Role, hop: &Running, call: &Call, connections: usize) -> Way {
    Way::through(name, role, hop, Load { address: hop.address, call: call.clone(), connections })
}

/// Calls of `server` without a hop.
pub fn direct(server: &Running, call: &Call, connections: usize) -> Way {
    Way::direct(Load { address: server.address, call: call.clone(), connections })
}

/// A configuration with this one server.
pub fn one_server(server: &Running) -> String {
    format!("mcp_servers:\n  bench:\n    url: http://{}/mcp\n", server.address)
}

/// A configuration with `count` servers on one port.
pub fn several_servers(server: &Running, count: usize) -> String {
    let mut config = "mcp_servers:\n".to_owned();
    for number in 0..count {
        let _ = write!(config, "  s{number}:\n    url: http://{}/{number}/mcp\n", server.address);
    }
    config
}

/// Raises the limit of open files of this process and its children as far as the system allows.
fn allow_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(FILES, |maximum| maximum.min(FILES));
    let wanted = Rlimit { current: Some(most), maximum: limit.maximum };
    let is_raised = setrlimit(Resource::Nofile, wanted).is_ok();
    let allowed = if is_raised { Some(most) } else { limit.current };
    allowed.and_then(|allowed| usize::try_from(allowed).ok()).unwrap_or(usize::MAX)
}

/// Runs the selected scenarios.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let mut binaries = vec![Binary { name: "gateway", path: options.binary.clone() }];
    binaries.extend(options.versus.iter().map(|path| Binary { name: "versus", path: path.clone() }));
    let hops = options.bare.clone().map_or_else(std::env::current_exe, Ok)?;
    let (pace, report) = (options.pace(), Report::default());
    let mut bench = Bench { binaries, hops, pace, files: allow_files(), report };
    Report::begin();
    let names = if options.is_quick_choice() { &NAMES[..QUICK] } else { NAMES };
    for (name, _) in names.iter().filter(|(name, _)| options.wants(name)) {
        if let Err(error) = one(name, options, &mut bench).await {
            bench.report.failed(format!("{name}: {error:#}"));
        }
    }
    Ok(bench.report)
}

async fn one(name: &str, options: &Options, bench: &mut Bench) -> anyhow::Result<()> {
    match name {
        "startup" => startup::run(bench).await,
        "echo" => echo::connections(bench).await,
        "forms" => echo::forms(bench).await,
        "large" => large::run(bench).await,
        "stdio" => stdio::run(bench).await,
        "lists" => lists::run(bench).await,
        "sse" => sse::run(bench).await,
        "jwt" => jwt::run(bench).await,
        "watched" => watched::run(bench).await,
        "sessions" => sessions::idle(bench).await,
        "servers" => servers::run(bench).await,
        "open" => open::run(bench, options.rate).await,
        "scale" => sessions::scale(bench).await,
        other => anyhow::bail!("{other} is not a scenario"),
    }
}

/// Prints the names of the scenarios.
pub fn list() {
    for (name, what) in NAMES {
        println!("{name:<10} {what}");
    }
}
