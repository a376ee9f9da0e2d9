//! `switchyard check --connect`: connects to every enabled server as the gateway would, and says what
//! each one has or why it can not be used.
//!
//! Invariants: no tool is called, and no built-in server goes on with what a gateway left under way;
//! what was started for it has ended when this returns; what a server says of itself is told on one line
//! and without the secrets that it knows.

use std::io::{self, Write};
use std::time::Duration;

use super::check::table;
use crate::app::CLOSE_TIME;
use crate::manager::{self, Manager, Scope, ServerStatus};
use crate::shutdown::Shutdown;
use crate::telemetry::{untrusted, untrusted_reason};
use crate::upstream::State;
use crate::{upstream, worker};

/// Beyond the longest first attempt.
const MARGIN: Duration = Duration::from_secs(1);

/// Whether every enabled server can be used. What they have goes to `out`, what is wrong to `err`.
pub(super) fn run(config: manager::Config, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<bool> {
    let runtime = worker::runtime()?;
    let servers = runtime.block_on(reached(config));
    // Blocking reads of a built-in are not waited for.
    runtime.shutdown_background();
    match servers {
        Ok(servers) => print(&servers, out, err),
        Err(error) => writeln!(err, "{error}").map(|()| false),
    }
}

/// Every server after its first attempt, or after as long as that may take.
async fn reached(config: manager::Config) -> Result<Vec<ServerStatus>, upstream::Error> {
    let enabled = config.servers.iter().filter(|server| server.enabled);
    let patience = enabled.map(upstream::first_attempt_limit).max().unwrap_or_default() + MARGIN;
    let manager = Manager::initialize_to_look(config, &Shutdown::new())?;
    manager.settled(&Scope::All, patience).await;
    let servers = manager.list_servers();
    manager.shutdown(CLOSE_TIME).await;
    Ok(servers)
}

fn print(servers: &[ServerStatus], out: &mut dyn Write, err: &mut dyn Write) -> io::Result<bool> {
    let enabled: Vec<_> = servers.iter().filter(|server| server.config.enabled).collect();
    if enabled.is_empty() {
        return Ok(true);
    }
    let header = ["SERVER", "STATE", "REVISION", "TOOLS", "RESOURCES", "PROMPTS"].map(str::to_owned);
    let rows: Vec<_> = [header].into_iter().chain(enabled.iter().map(|server| row(server))).collect();
    writeln!(out)?;
    table(&rows, out)?;
    for ServerStatus { status, .. } in &enabled {
        for problem in &status.problems {
            writeln!(err, "warning: {}: {}", status.server, untrusted(problem))?;
        }
    }
    let away = || enabled.iter().filter(|server| server.status.state != State::Ready);
    for ServerStatus { status, .. } in away() {
        let reason = status.last_error.as_deref().unwrap_or("it has not answered yet");
        writeln!(err, "{}: {}", status.server, untrusted_reason(reason))?;
    }
    Ok(away().next().is_none())
}

fn row(server: &ServerStatus) -> [String; 6] {
    let ServerStatus { status, tools, resources, templates, prompts, .. } = server;
    let is_known = status.version.is_some();
    let count = |number: usize| if is_known { number.to_string() } else { "-".to_owned() };
    [
        status.server.to_string(),
        status.state.as_str().to_owned(),
        status.version.map_or("-", |version| version.as_str()).to_owned(),
        count(*tools),
        count(resources + templates),
        count(*prompts),
    ]
}
