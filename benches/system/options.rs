//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::server;

/// Measures the gateway against direct calls and against a bare pass-through.
#[derive(Debug, Parser)]
pub struct Options {
    #[command(subcommand)]
    pub part: Option<Part>,
    /// Only scenarios whose name begins with one of these; `--list` shows them
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Show the names of the scenarios
    #[arg(long)]
    pub list: bool,
    /// The main scenarios in a minute
    #[arg(long)]
    pub quick: bool,
    /// How often each cell is visited
    #[arg(long)]
    rounds: Option<usize>,
    /// How long each visit counts calls
    #[arg(long)]
    seconds: Option<f64>,
    /// The gateway to measure
    #[arg(long, default_value = env!("CARGO_BIN_EXE_switchyard"))]
    pub binary: PathBuf,
    /// A second gateway, measured in the same rounds
    #[arg(long)]
    pub versus: Option<PathBuf>,
    /// Another build of this benchmark, made as the gateway was, which the bare hops are started from
    #[arg(long)]
    pub bare: Option<PathBuf>,
    /// Calls per second of the open loop, instead of three shares of what the gateway can do
    #[arg(long)]
    pub rate: Option<f64>,
    /// Where the figures are written [default: system.json in the target folder]
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Where a chart of the ratios is written
    #[arg(long)]
    pub chart: Option<PathBuf>,
    /// A page whose figures are replaced
    #[arg(long)]
    pub page: Option<PathBuf>,
    /// An argument that `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part of the benchmark that runs in its own process.
#[derive(Debug, Subcommand)]
pub enum Part {
    /// Our own MCP server over HTTP
    Server(server::ServerOptions),
    /// Our own MCP server over standard input and output
    StdioServer(server::ServerOptions),
    /// The bare HTTP pass-through
    Bare {
        /// Where to
        server: SocketAddr,
    },
    /// The bare pass-through from HTTP to our own stdio server
    BareStdio,
    /// One load for some time; the process id of the gateway is printed first, for a profiler
    Hold(Hold),
    /// A server that answers every request with the same bytes
    Fixed {
        /// Which
        file: PathBuf,
    },
}

/// The load for a profiler.
#[derive(Debug, Args)]
pub struct Hold {
    /// echo, legacy, rest, stream, kib64, mib1, list (500 tools) or page (the same in five)
    #[arg(long, default_value = "echo")]
    pub call: String,
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// The gateway
    #[arg(long, default_value = env!("CARGO_BIN_EXE_switchyard"))]
    pub gateway: PathBuf,
}

/// The durations of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How often each cell is measured.
    pub rounds: usize,
    /// The time of calls that do not count, before those that do.
    pub warm_up: Duration,
    /// How long calls count.
    pub slice: Duration,
    /// Whether only the main scenarios run.
    pub is_quick: bool,
}

impl Options {
    /// Returns the durations of the measurement.
    pub fn pace(&self) -> Pace {
        let (rounds, seconds) = if self.quick { (3, 0.3) } else { (7, 0.6) };
        Pace {
            rounds: self.rounds.unwrap_or(rounds).max(1),
            warm_up: Duration::from_millis(100),
            slice: Duration::from_secs_f64(self.seconds.unwrap_or(seconds).clamp(0.05, 60.0)),
            is_quick: self.quick,
        }
    }

    /// Whether only the main scenarios run.
    pub fn is_quick_choice(&self) -> bool {
        self.quick && self.only.is_empty()
    }

    /// Whether the scenario of this name runs.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only.as_str()))
    }
}
