//! `switchyard check --connect`: connects to every enabled server as the gateway would, and prints what
//! each one has or why it cannot be used.
//!
//! Invariants: no tool is called, and no built-in server resumes work that a gateway left unfinished. Processes and
//! connections that this started have ended when it returns. The text of a server is printed on one line and without
//! the secrets that the server knows.

use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::confirm::CommandStreams;
use crate::app::CLOSE_TIME;
use gateway::manager::{self, Manager, Scope, ServerStatus};
use json::Raw;
use protocol::meta::Sender;
use protocol::{Era, method};
use runtime::shutdown::Shutdown;
use runtime::telemetry::{untrusted, untrusted_reason};
use runtime::worker;
use upstream::config::Sharing;
use upstream::{Affinity, Call, Owner, State, Status, WaitFor};

/// Beyond the longest first attempt.
const MARGIN: Duration = Duration::from_secs(1);

/// All servers after their first attempt to connect.
pub(super) struct Inspected {
    pub(super) servers: Vec<ServerStatus>,
    /// Warnings about views, instructions and descriptions.
    pub(super) warnings: Vec<String>,
}

/// Whether every enabled server can be used. Prints their offers, and their problems on standard error.
pub(super) fn run(config: manager::Config, streams: &mut CommandStreams<'_>) -> io::Result<bool> {
    match inspected(config)? {
        Ok(Inspected { servers, warnings }) => {
            let all = print(&servers, streams)?;
            for warning in warnings {
                writeln!(streams.err, "warning: {}", untrusted(&warning))?;
            }
            Ok(all)
        }
        Err(error) => writeln!(streams.err, "{error}").map(|()| false),
    }
}

/// Connects to every enabled server, and returns all servers as they are then.
pub(super) fn inspected(config: manager::Config) -> io::Result<Result<Inspected, upstream::Error>> {
    let runtime = worker::runtime()?;
    let inspected = runtime.block_on(reached(config));
    // Blocking reads of a built-in are not waited for.
    runtime.shutdown_background();
    Ok(inspected)
}

/// Every server after its first attempt, or after as long as that may take.
async fn reached(mut config: manager::Config) -> Result<Inspected, upstream::Error> {
    let sharing: Vec<Sharing> = config.servers.iter().map(|server| server.sharing).collect();
    // So that each can be seen on the connection of one client too.
    config.servers.iter_mut().for_each(|server| server.sharing = Sharing::PerSession);
    let enabled = config.servers.iter().filter(|server| server.enabled);
    let patience = enabled.map(upstream::first_attempt_limit).max().unwrap_or_default() + MARGIN;
    let manager = Manager::inspect(config, &Shutdown::new())?;
    manager.listed(patience).await;
    look_for_state(&manager).await;
    let mut servers = manager.list_servers();
    let snapshot = manager.snapshot();
    let of_views = snapshot.view_warnings().into_iter();
    let of_views = of_views.map(|warning| format!("views.{}: {}", warning.view, warning.text));
    let warnings = of_views.chain(snapshot.long_texts()).collect();
    servers.iter_mut().zip(sharing).for_each(|(server, sharing)| server.config.sharing = sharing);
    manager.shutdown(CLOSE_TIME).await;
    Ok(Inspected { servers, warnings })
}

/// Has every server of the older revisions meet a client with roots, which shows whether it keeps state for each
/// client.
async fn look_for_state(manager: &Manager) {
    let capabilities = Raw::of(&json!({"roots": {"listChanged": true}}));
    let sender = Sender { capabilities, ..Sender::gateway() };
    let call = Call::of_gateway(method::TOOLS_LIST, None);
    let call =
        Call { sender, era: Era::Legacy, owner: Owner::new(), affinity: Some(Affinity::session()), ..call };
    let ready = manager.list_servers().into_iter().filter(|server| server.status.state == State::Ready);
    let legacy = ready.filter(|server| server.status.version.is_some_and(|version| !version.is_modern()));
    let names: Vec<_> = legacy.map(|server| server.config.name).collect();
    let met =
        names.iter().map(|name| manager.open_session(&Scope::ALL, &call, Some(name), WaitFor::Connection));
    join_all(met).await;
}

fn print(servers: &[ServerStatus], streams: &mut CommandStreams<'_>) -> io::Result<bool> {
    let enabled: Vec<_> = servers.iter().filter(|server| server.config.enabled).collect();
    if enabled.is_empty() {
        return Ok(true);
    }
    let header = ["SERVER", "STATE", "REVISION", "TOOLS", "RESOURCES", "PROMPTS"];
    writeln!(streams.out)?;
    streams.table(&header, enabled.iter().map(|server| row(server)))?;
    for ServerStatus { status, .. } in &enabled {
        for problem in &status.problems {
            writeln!(streams.err, "warning: {}: {}", status.server, untrusted(problem))?;
        }
    }
    for server in &enabled {
        if let Some(note) = shared_state(server) {
            writeln!(streams.err, "warning: {}: {note}", server.status.server)?;
        }
    }
    let away = || enabled.iter().copied().filter(|server| server.status.state != State::Ready);
    for ServerStatus { status, .. } in away() {
        writeln!(streams.err, "{}: {}", status.server, reason(status))?;
    }
    Ok(away().all(waits_for_callers))
}

/// Whether the server needs a secret of each caller, so that Switchyard itself cannot contact it.
pub(super) fn waits_for_callers(server: &ServerStatus) -> bool {
    server.status.state == State::LoginRequired && !server.config.principal_secrets().is_empty()
}

/// Says that a server keeps state for each client, if it showed signs of that.
pub(super) fn shared_state(server: &ServerStatus) -> Option<String> {
    let hint = server.config.hint(&server.status.signs)?;
    let signs: Vec<_> = server.status.signs.iter().map(|sign| sign.as_str()).collect();
    Some(format!("it keeps state for each client ({}): {hint}", signs.join(", ")))
}

/// Says why a server that is not ready cannot be used.
pub(super) fn reason(status: &Status) -> String {
    untrusted_reason(status.last_error.as_deref().unwrap_or("it has not answered yet")).to_string()
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
