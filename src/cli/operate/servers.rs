//! Servers of the running gateway: their health, their breakers, and what an operator does with them.
//!
//! Invariants: what a server says of itself is a cell of a table or a note, and both make it visible.
//!
//! Not here: their tools (`tools`), and their rates (`watch`).

use std::time::Duration;

use http::Method;

use super::super::error::CommandError;
use super::super::remote::{Remote, not_a_gateway};
use super::members::{any_elements, elements, is, number, or_dash, text};
use super::screen::{Screen, View};
use super::table::{Cell, Column, Table};
use json::Raw;

const HEALTH: &[Column] = &[
    ("SERVER", |server| Cell::of(server, "name")),
    ("STATE", |server| Cell::state(&text(server, "state"))),
    ("HEALTHY", |server| Cell::new(if is_healthy(server) { "yes" } else { "no" })),
    ("LATENCY", latency),
    ("LAST SEEN", |server| Cell::new(&or_dash(text(server, "last_seen")))),
    ("LAST ERROR", |server| Cell::new(&last_error(server))),
];

const SERVERS: &[Column] = &[
    ("SERVER", |server| Cell::of(server, "name")),
    ("STATE", |server| Cell::state(&text(server, "state"))),
    ("BREAKER", breaker),
    ("TOOLS", |server| Cell::new(&number(server, "tool_count"))),
    ("CALLS", |server| Cell::new(&number(&counters(server), "calls"))),
    ("ERRORS", |server| Cell::new(&share_of_errors(&counters(server)))),
    ("TRANSPORT", |server| Cell::of(server, "transport")),
    ("TARGET", target),
];

const BREAKERS: &[Column] = &[
    ("SERVER", |breaker| Cell::of(breaker, "server")),
    ("STATE", |breaker| Cell::state(&text(breaker, "state"))),
    ("FAILURES", |breaker| Cell::new(&number(breaker, "failure_count"))),
    ("NEXT PROBE", probe),
];

fn latency(server: &Raw) -> Cell {
    let latency = server.get_as::<f64>("latency_ms");
    Cell::new(&latency.map_or("-".into(), |time| format!("{time:.0} ms")))
}

/// A server that is not configured has no breaker.
fn breaker(server: &Raw) -> Cell {
    let has_one = server.text("transport").is_some();
    if has_one { Cell::state(&text(server, "breaker")) } else { Cell::new("-") }
}

fn target(server: &Raw) -> Cell {
    let target = ["url", "command", "builtin"].iter().find_map(|member| server.text(member));
    Cell::new(&target.unwrap_or_default())
}

fn probe(breaker: &Raw) -> Cell {
    let probe = breaker.get_as::<f64>("seconds_until_probe");
    Cell::new(&probe.map_or("-".into(), |seconds| format!("in {seconds:.1} s")))
}

/// The counters of a server.
pub(super) fn counters(server: &Raw) -> Raw {
    server.get("counters").unwrap_or_else(Raw::empty_object)
}

/// Shows the health of all servers. Fails if none is healthy.
pub(super) async fn status(
    remote: &Remote,
    check: bool,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let query: &[_] = if check { &[("check", "true")] } else { &[] };
    let health = remote.rest(Method::GET, &["health"], query).await?;
    let (overall, servers) = (text(&health, "status"), elements(&health, "servers")?);
    screen.note(&format!("{}: {overall}, {}", remote.origin(), how_many_are_healthy(&servers)))?;
    screen.show(&View::list(health, &servers, "name", HEALTH))?;
    show_logins(&servers, screen)?;
    note_problems(&servers, screen)?;
    match overall.as_str() {
        "unhealthy" => Err(CommandError::Refused("no server is healthy".into())),
        _ => Ok(()),
    }
}

/// Whether calls reach the server, or would start it.
pub(super) fn is_healthy(server: &Raw) -> bool {
    is(server, "healthy")
}

/// How many of `servers` are healthy, in words. Disabled ones do not count.
pub(super) fn how_many_are_healthy(servers: &[Raw]) -> String {
    let healthy = servers.iter().filter(|server| is_healthy(server)).count();
    let enabled = servers.iter().filter(|server| server.get_as("enabled").unwrap_or(true)).count();
    format!("{healthy} of {enabled} servers are healthy")
}

/// Shows the login page of each server that waits for one.
fn show_logins(servers: &[Raw], screen: &mut Screen<'_>) -> Result<(), CommandError> {
    for server in servers {
        if let Some(url) = server.text("login_url") {
            screen.note(&format!("{} waits for a login: open {url}", text(server, "name")))?;
        }
    }
    Ok(())
}

/// Lists the servers.
pub(super) async fn list(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let document = remote.rest(Method::GET, &["servers"], &[]).await?;
    let servers = elements(&document, "servers")?;
    screen.show(&View::list(document, &servers, "name", SERVERS))?;
    show_logins(&servers, screen)?;
    note_problems(&servers, screen)?;
    note_starts(&servers, screen)?;
    for server in &servers {
        let name = text(server, "name");
        match server.get_as::<usize>("changed_tool_count").unwrap_or(0) {
            0 => {}
            count => screen.note(&format!(
                "{name}: {count} tools are not what they were; `switchyard approve {name}` shows them, and asks"
            ))?,
        }
    }
    Ok(())
}

/// Notes the mistakes in the entries of the servers.
fn note_problems(servers: &[Raw], screen: &mut Screen<'_>) -> Result<(), CommandError> {
    for server in servers {
        let name = text(server, "name");
        for problem in any_elements(server, "problems") {
            screen.note(&format!("{name}: {}", mistake(&problem)))?;
        }
    }
    Ok(())
}

/// One mistake in the configuration file, with its place and what corrects it.
fn mistake(problem: &Raw) -> String {
    let [line, column] = ["line", "column"].map(|member| number(problem, member));
    let [setting, message] = ["setting", "message"].map(|member| text(problem, member));
    let hint = problem.text("hint").map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    format!("line {line}, column {column}: {setting}: {message}{hint}")
}

/// Notes which offers are remembered from an earlier run, and which programs are starting.
fn note_starts(servers: &[Raw], screen: &mut Screen<'_>) -> Result<(), CommandError> {
    for server in servers {
        let name = text(server, "name");
        if let Some(age_ms) = server.get_as::<f64>("remembered_age_ms") {
            let seconds = Duration::from_secs_f64(age_ms / 1_000.0).as_secs();
            screen
                .note(&format!("{name}: its tools are remembered, as they were read {} ago", age(seconds)))?;
        }
        if let Some(start) = server.get("starting") {
            let seconds = start.get_as::<f64>("elapsed_ms").unwrap_or_default() / 1_000.0;
            let line = start.text("last_line").map_or(String::new(), |line| format!(": {line}"));
            screen.note(&format!("{name}: starting since {seconds:.0} s{line}"))?;
        }
    }
    Ok(())
}

/// An age in its largest unit.
fn age(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(length, _)| seconds >= *length);
    unit.map_or(format!("{seconds} s"), |(length, unit)| format!("{} {unit}", seconds / length))
}

/// Does `action` to a server: `reconnect`, `enable` or `disable`.
pub(super) async fn change(
    remote: &Remote,
    name: &str,
    action: &str,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let server = remote.rest(Method::POST, &["servers", name, action], &[]).await?;
    one(server, screen)?;
    if action != "reconnect" {
        screen.note(
            "until the next reload or restart; then `enabled` in the configuration file decides again",
        )?;
    }
    Ok(())
}

/// Makes the gateway read its configuration file again.
pub(super) async fn reload(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let document = remote.rest(Method::POST, &["reload"], &[]).await?;
    document.get("added").ok_or_else(not_a_gateway)?;
    let mut table = Table::new(&["SERVER", "CHANGE"]);
    let mut names = Vec::new();
    for (change, shown) in CHANGES {
        for server in document.get_as::<Vec<String>>(change).unwrap_or_default() {
            table.rows.push(vec![Cell::new(&server), Cell::new(shown)]);
            names.push(server);
        }
    }
    let problems = any_elements(&document, "problems");
    let at_restart = document.get_as::<Vec<String>>("at_restart").unwrap_or_default();
    screen.show(&View { document, names, table })?;
    if !at_restart.is_empty() {
        screen.note(&format!("takes effect at a restart: {}", at_restart.join(", ")))?;
    }
    for problem in &problems {
        screen.note(&format!("{}: {}", text(problem, "server"), mistake(problem)))?;
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(CommandError::Refused(
        "the rest of the file was applied; correct the entries above and reload again".into(),
    ))
}

/// The lists of the answer to a reload, and how a table shows each.
const CHANGES: [(&str, &str); 6] = [
    ("added", "added"),
    ("changed", "changed"),
    ("removed", "removed"),
    ("unchanged", "unchanged"),
    ("retained", "kept as it was: its new entry has a mistake"),
    ("not_configured", "not configured"),
];

/// Lists the circuit breakers.
pub(super) async fn breakers(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let document = remote.rest(Method::GET, &["circuit-breakers"], &[]).await?;
    let breakers = elements(&document, "circuit_breakers")?;
    Ok(screen.show(&View::list(document, &breakers, "server", BREAKERS))?)
}

/// Closes the circuit breaker of a server.
pub(super) async fn reset_breaker(
    remote: &Remote,
    name: &str,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let breaker = remote.rest(Method::POST, &["circuit-breakers", name, "reset"], &[]).await?;
    breaker.get("server").ok_or_else(not_a_gateway)?;
    Ok(screen.show(&View::list(breaker.clone(), &[breaker], "server", BREAKERS))?)
}

/// Shows the server that an action was done to.
pub(super) fn one(server: Raw, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    server.get("name").ok_or_else(not_a_gateway)?;
    Ok(screen.show(&View::list(server.clone(), &[server], "name", SERVERS))?)
}

/// How many calls failed on the way, were answered with a JSON-RPC error, or ended with the error of a tool.
pub(super) fn errors(counters: &Raw) -> u64 {
    let kinds = ["failures", "rpc_errors", "tool_errors"];
    kinds.iter().map(|kind| counters.get_as(kind).unwrap_or(0_u64)).sum()
}

/// Those calls, and their share of all.
fn share_of_errors(counters: &Raw) -> String {
    let (errors, calls) = (errors(counters), counters.get_as("calls").unwrap_or(0_u64));
    match (errors * 1_000).checked_div(calls) {
        Some(share) if errors > 0 => format!("{errors} ({}.{} %)", share / 10, share % 10),
        _ => errors.to_string(),
    }
}

/// The last error of a server, and when it was.
pub(super) fn last_error(server: &Raw) -> String {
    let at = server.text("last_error_at").map_or(String::new(), |at| format!("{at}  "));
    or_dash(format!("{at}{}", text(server, "last_error")))
}
