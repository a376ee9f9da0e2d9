//! `switchyard warm`: starts servers once, remembers what they offer, and stops them.
//!
//! Afterwards the gateway lists their tools from its start on, and starts a program only when it is needed. Programs that
//! are installed by their first start, such as those of `npx` and `uvx`, are then installed too.
//!
//! Invariants: at most [`AT_A_TIME`] servers run at a time, and each is stopped before the command ends. No tool is
//! called.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::stream::{self, StreamExt};

use super::error::{CommandError, exit_unless_done};
use super::{ConfigFile, connect_check, visible};
use crate::app::CLOSE_TIME;
use gateway::manager::{self, Manager, NotConfigured, ServerStatus};
use runtime::shutdown::Shutdown;
use runtime::worker;
use upstream::State;

pub(super) const HELP: &str = "\
Examples:
  switchyard warm                every enabled server
  switchyard warm issues files   these two

Exit codes: 0 all are remembered, 1 some could not be started or read, 2 invalid arguments or configuration file";

/// The advice of commands that add servers.
pub(super) const OFFER: &str =
    "`switchyard warm` starts new servers once, so that their tools are listed from the first start on.";
/// Most servers that run at a time.
const AT_A_TIME: usize = 4;
/// How long lists other than the tools may take after the tools.
const LISTS: Duration = Duration::from_secs(15);
/// The width of the bar.
const BAR: usize = 20;

/// Arguments of `warm`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Warm {
    /// The servers, as the configuration file names them [default: every enabled server].
    #[arg(value_name = "SERVER")]
    pub servers: Vec<String>,
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
}

/// Runs the command.
pub(super) fn run(arguments: &Warm) -> ExitCode {
    let mut err = io::stderr().lock();
    let warmed = warm_and_tell(arguments, &mut err);
    exit_unless_done(warmed, &mut err)
}

/// Warms the chosen servers. Unless servers were named, those with mistakes are reported after the others.
fn warm_and_tell(arguments: &Warm, err: &mut dyn Write) -> Result<(), CommandError> {
    let config = chosen(arguments.file.load()?.manager, &arguments.servers).map_err(CommandError::Usage)?;
    let wrong: Vec<NotConfigured> = match arguments.servers.as_slice() {
        [] => config.not_configured.iter().filter(|wrong| wrong.is_mistake()).cloned().collect(),
        _ => Vec::new(),
    };
    let is_good = warm(config, err)?;
    for wrong in &wrong {
        writeln!(err, "{}", visible::lines(&not_configured(wrong)))?;
    }
    if is_good && wrong.is_empty() {
        return Ok(());
    }
    Err(CommandError::Refused("not all of the servers are remembered".to_owned()))
}

fn not_configured(wrong: &NotConfigured) -> String {
    format!("{} is not configured: {}", wrong.name, wrong.reason())
}

/// Enables the wanted servers only.
fn chosen(mut config: manager::Config, names: &[String]) -> Result<manager::Config, String> {
    if let Some(wrong) =
        config.not_configured.iter().find(|wrong| names.iter().any(|name| **name == *wrong.name))
    {
        return Err(not_configured(wrong));
    }
    let unknown = names.iter().find(|name| config.servers.iter().all(|server| *server.name != ***name));
    if let Some(name) = unknown {
        return Err(format!("the configuration file has no server {name:?}"));
    }
    if config.remembered.is_none() {
        return Err(
            "no state folder is known: set `state_dir` under `server:` in the configuration file".into()
        );
    }
    for server in &mut config.servers {
        let is_named = names.iter().any(|name| **name == *server.name);
        server.enabled = if names.is_empty() { server.enabled } else { is_named };
    }
    Ok(config)
}

/// Starts, remembers and stops the enabled servers of `config`. Returns whether all could be read.
fn warm(config: manager::Config, err: &mut dyn Write) -> Result<bool, CommandError> {
    let runtime = worker::runtime().map_err(|error| CommandError::Refused(error.to_string()))?;
    let done = runtime.block_on(warm_all(config, err));
    // Blocking reads of a built-in are not waited for.
    runtime.shutdown_background();
    Ok(done?)
}

async fn warm_all(mut config: manager::Config, err: &mut dyn Write) -> io::Result<bool> {
    let enabled = config.servers.iter().filter(|server| server.enabled);
    let names: Vec<Arc<str>> = enabled.map(|server| Arc::clone(&server.name)).collect();
    // Each is enabled when its turn comes.
    config.servers.iter_mut().for_each(|server| server.enabled = false);
    let manager = match Manager::initialize(config, &Shutdown::new()) {
        Ok(manager) => manager,
        Err(error) => return writeln!(err, "{error}").map(|()| false),
    };
    let mut bar = Bar { is_terminal: io::stderr().is_terminal(), all: names.len(), done: 0 };
    let warmed = stream::iter(names).map(|name| warm_one(&manager, name));
    let mut warmed = std::pin::pin!(warmed.buffer_unordered(AT_A_TIME));
    bar.show(err)?;
    let mut is_good = true;
    while let Some((name, outcome)) = warmed.next().await {
        is_good &= outcome.is_ok();
        bar.done += 1;
        let text = outcome.unwrap_or_else(|reason| reason);
        bar.print_line(&format!("{name}: {text}"), err)?;
    }
    bar.clear(err)?;
    manager.shutdown(CLOSE_TIME).await;
    Ok(is_good)
}

async fn warm_one(manager: &Manager, name: Arc<str>) -> (Arc<str>, Result<String, String>) {
    let outcome = read(manager, &name).await;
    manager.remember().await;
    // A server that cannot be stopped now is stopped with the manager.
    let _ = manager.disconnect(&name).await;
    (name, outcome)
}

async fn read(manager: &Manager, name: &str) -> Result<String, String> {
    manager.set_enabled(name, true).await.map_err(|error| error.to_string())?;
    manager.listed(LISTS).await;
    let ServerStatus { status, tools, .. } = manager.server(name).map_err(|error| error.to_string())?;
    match status.state {
        State::Ready | State::Idle => Ok(format!("{tools} {}", if tools == 1 { "tool" } else { "tools" })),
        _ => Err(format!("not remembered: {}", connect_check::reason(&status))),
    }
}

/// The progress of all servers on one line of the terminal.
struct Bar {
    is_terminal: bool,
    all: usize,
    done: usize,
}

impl Bar {
    fn show(&self, err: &mut dyn Write) -> io::Result<()> {
        if !self.is_terminal {
            return Ok(());
        }
        let full = (BAR * self.done).checked_div(self.all).unwrap_or(BAR);
        let (full, rest) = ("#".repeat(full), "-".repeat(BAR - full));
        write!(err, "\r[{full}{rest}] {} of {}", self.done, self.all)?;
        err.flush()
    }

    fn print_line(&self, line: &str, err: &mut dyn Write) -> io::Result<()> {
        self.clear(err)?;
        writeln!(err, "{}", visible::line(line))?;
        self.show(err)
    }

    fn clear(&self, err: &mut dyn Write) -> io::Result<()> {
        if self.is_terminal { write!(err, "\r\u{1b}[K") } else { Ok(()) }
    }
}
