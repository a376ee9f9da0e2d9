//! `switchyard connect`: writes Switchyard into the file of an MCP client.
//!
//! The diff goes to standard output; notes, questions and errors go to standard error. Without `--yes` and without a
//! terminal, nothing is written and the exit code is 1.
//!
//! Not here: what is written (`crate::connect`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use settings::expand::Lookup;
use settings::{nearest, one_line};
use url::Url;

use super::ConfigFile;
use super::confirm::{CommandStreams, WriteOptions, with_streams};
use super::error::CommandError;
use super::warm::OFFER;
use crate::config::Config;
use crate::connect::clients::{CLIENTS, Client, Host, Scope, System};
use crate::connect::{self, ClientFile, FileChange, Gateway, MovedSecrets, Registry, State, inherited};
use upstream::config::server_name;

pub(super) const HELP: &str = "\
Examples:
  switchyard connect                          list the clients on this machine
  switchyard connect claude-code              connect Claude Code, after showing the change
  switchyard connect cursor --import --yes    move its servers to the configuration file too
  switchyard connect codex --view files       let it see one server only
  switchyard connect cursor --undo            restore its file
  switchyard connect zed --stdio              let it start `switchyard stdio` instead of using the URL
  switchyard connect json                     print an entry for any other client";

/// The word for a client that is not in the table.
const JSON: &str = "json";

/// Arguments of `connect`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Connect {
    /// The client, such as `claude-code`; `json` prints an entry. Without it, the clients on this machine are listed.
    pub client: Option<String>,
    /// Which file: for all that the user does, or of the project in the current folder.
    #[arg(long, value_enum, default_value = "user")]
    pub scope: ScopeName,
    /// Let the client see this server only.
    #[arg(long, value_name = "SERVER", value_parser = view)]
    pub view: Option<String>,
    /// The MCP endpoint [default: `SWITCHYARD_URL`, else `SWITCHYARD_LISTEN`, else that of the configuration file].
    #[arg(long, value_parser = endpoint)]
    pub url: Option<Url>,
    /// Let the client start this program (`switchyard stdio`), for one that cannot use a URL.
    #[arg(long, conflicts_with_all = ["view", "url", "key_env"])]
    pub stdio: bool,
    /// The variable of the environment with the API key. The file refers to it and does not hold the key.
    #[arg(long, value_name = "NAME", value_parser = variable)]
    pub key_env: Option<String>,
    /// Whether to write.
    #[command(flatten)]
    pub writing: WriteOptions,
    /// Restore the file as it was before the last `connect`.
    #[arg(long, conflicts_with_all = ["dry_run", "import", "view", "url", "key_env", "stdio"])]
    pub undo: bool,
    /// Which servers move.
    #[command(flatten)]
    pub moving: MoveOptions,
    /// The configuration of the gateway.
    #[command(flatten)]
    pub file: ConfigFile,
}

/// Whether the servers of the client move.
#[derive(Debug, Clone, Args)]
pub(crate) struct MoveOptions {
    /// Move the other servers of the client to the configuration file.
    #[arg(long)]
    pub import: bool,
    /// Move their secrets into the vault. The configuration file refers to them.
    #[arg(long, requires = "import")]
    pub to_vault: bool,
}

/// The value of `--scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeName {
    /// The file for everything that the user does.
    User,
    /// The file of the project in the current folder.
    Project,
}

/// The parts of the process that the command uses.
struct Process<'p, 's> {
    /// The machine.
    host: Host<'p>,
    /// This program.
    program: PathBuf,
    /// Expands the configuration file.
    environment: &'p Lookup<'p>,
    streams: &'p mut CommandStreams<'s>,
}

/// Runs the command.
fn run(arguments: &Connect, process: &mut Process<'_, '_>) -> Result<(), CommandError> {
    match arguments.client.as_deref() {
        None => list(process),
        Some(JSON) => print_json(arguments, process),
        Some(id) => one(arguments, id, process),
    }
}

/// Prints the clients on this machine.
fn list(process: &mut Process<'_, '_>) -> Result<(), CommandError> {
    let found = connect::installed(&process.host);
    if found.is_empty() {
        let names: Vec<_> = CLIENTS.iter().map(|client| client.id).collect();
        writeln!(process.streams.err, "no client was found here; known clients: {}", names.join(", "))?;
        return Ok(());
    }
    Ok(process.streams.table(&["CLIENT", "SCOPE", "STATE", "FILE"], found.iter().map(row))?)
}

fn row(found: &ClientFile) -> [String; 4] {
    let state = match &found.state {
        State::NotConnected => "not connected".to_owned(),
        State::Connected(target) => format!("connected to {target}"),
        State::Unreadable(reason) => format!("not usable: {}", one_line(reason)),
    };
    let scope = match found.scope {
        Scope::User => "user",
        Scope::Project => "project",
    };
    [found.client.id.to_owned(), scope.to_owned(), state, found.file.display().to_string()]
}

fn print_json(arguments: &Connect, process: &mut Process<'_, '_>) -> Result<(), CommandError> {
    let gateway = gateway(arguments, process)?;
    writeln!(process.streams.out, "{}", gateway.json())?;
    Ok(())
}

/// Connects one client, or restores its file.
fn one(arguments: &Connect, id: &str, process: &mut Process<'_, '_>) -> Result<(), CommandError> {
    let client = Client::find(id).ok_or_else(|| unknown(id))?;
    let scope = match arguments.scope {
        ScopeName::User => Scope::User,
        ScopeName::Project => Scope::Project,
    };
    let file = client.file(scope, &process.host).ok_or(connect::Error::NoFile(client.name))?;
    if arguments.undo {
        undo(arguments, &file, process)
    } else {
        connect_file(arguments, client, &file, process)
    }
}

pub(super) fn unknown(id: &str) -> CommandError {
    let names = || CLIENTS.iter().map(|client| client.id);
    let part = id.to_ascii_lowercase();
    let mut near: Vec<_> = nearest(id, names()).into_iter().collect();
    if near.is_empty() && part.len() > 2 {
        near.extend(names().filter(|name| name.contains(&part)));
    }
    let hint = if near.is_empty() {
        let names: Vec<_> = names().collect();
        format!("known clients: {}; `json` prints an entry for any other", names.join(", "))
    } else {
        format!("did you mean `{}`?", near.join("` or `"))
    };
    CommandError::Usage(format!("there is no client `{}`: {hint}", one_line(id)))
}

fn undo(arguments: &Connect, file: &Path, process: &mut Process<'_, '_>) -> Result<(), CommandError> {
    let question = format!("Restore {} as it was before the last `connect`?", file.display());
    process.streams.agree(arguments.writing.yes, &question)?;
    if connect::undo(file)? {
        writeln!(process.streams.err, "{}: restored", file.display())?;
    } else {
        writeln!(process.streams.err, "{}: removed, because it did not exist before", file.display())?;
    }
    Ok(())
}

fn connect_file(
    arguments: &Connect,
    client: &Client,
    file: &Path,
    process: &mut Process<'_, '_>,
) -> Result<(), CommandError> {
    let gateway = gateway(arguments, process)?;
    let mut registry =
        arguments.moving.import.then(|| registry(arguments, process.environment)).transpose()?;
    let plan = connect::plan(client, file, &gateway, registry.as_mut())?;
    for note in &plan.notes {
        writeln!(process.streams.err, "note: {note}")?;
    }
    if (client.http.is_none() || arguments.stdio) && plan.registry.is_none() && !gateway.config.exists() {
        let config = gateway.config.display();
        writeln!(
            process.streams.err,
            "note: {} starts Switchyard with {config}, which does not exist: write it with `switchyard init`",
            client.name
        )?;
    }
    if let Some(view) = unknown_view(arguments, process.environment) {
        let config = gateway.config.display();
        writeln!(
            process.streams.err,
            "note: {config} has no server `{view}`; the client sees it once it is there"
        )?;
    }
    // The configuration file first, so that every server is in one file at least.
    let changes: Vec<&FileChange> =
        plan.registry.iter().chain([&plan.client]).filter(|change| !change.is_empty()).collect();
    if changes.is_empty() {
        writeln!(process.streams.err, "{} is already connected: {}", client.name, file.display())?;
        return Ok(());
    }
    if !process.streams.agree_to(&changes, &arguments.writing)? {
        return Ok(());
    }
    process.streams.write_secrets(registry.as_ref().and_then(|registry| registry.secrets.as_ref()))?;
    for change in &changes {
        let backup = change.write()?;
        process.streams.written(change, backup.as_deref())?;
    }
    writeln!(process.streams.err, "Restart {} to connect; `--undo` restores its file.", client.name)?;
    if plan.registry.iter().any(|change| !change.is_empty()) {
        writeln!(process.streams.err, "{OFFER}")?;
    }
    Ok(())
}

/// Returns the configuration file to which the servers of the client move.
fn registry(arguments: &Connect, environment: &Lookup<'_>) -> Result<Registry, CommandError> {
    let path = arguments.file.config.clone();
    let secrets = arguments.moving.to_vault.then(|| MovedSecrets::of_file(&path, environment)).transpose()?;
    Ok(Registry { path, inherited: inherited::here(environment), secrets })
}

/// Returns the server of `--view` if the configuration file does not have it, unless another gateway is named.
fn unknown_view<'a>(arguments: &'a Connect, environment: &Lookup<'_>) -> Option<&'a str> {
    let view = arguments.view.as_deref()?;
    let is_elsewhere =
        arguments.url.is_some() || environment("SWITCHYARD_URL").is_ok_and(|url| !url.is_empty());
    let (config, _) =
        Config::load_each(&arguments.file.config, environment).ok().filter(|_| !is_elsewhere)?;
    let has_it = config.manager.names().iter().any(|name| **name == *view);
    (!has_it).then_some(view)
}

/// The gateway of the arguments, else of the environment, else of the configuration file.
fn gateway(arguments: &Connect, process: &Process<'_, '_>) -> Result<Gateway, CommandError> {
    let config = &arguments.file.config;
    let url = match &arguments.url {
        Some(url) => Some(url.clone()),
        None => named_url(process.environment)?,
    };
    Ok(Gateway {
        url: url.unwrap_or_else(|| configured_url(config, process.environment)),
        is_url_named: arguments.url.is_some(),
        is_started: arguments.stdio,
        view: arguments.view.clone(),
        key_variable: arguments.key_env.clone(),
        program: process.program.clone(),
        config: std::path::absolute(config).unwrap_or_else(|_| config.clone()),
    })
}

/// The MCP endpoint of the gateway in `SWITCHYARD_URL`, which other commands use without its path.
fn named_url(environment: &Lookup<'_>) -> Result<Option<Url>, CommandError> {
    let Some(text) = environment("SWITCHYARD_URL").ok().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let base = text.trim_end_matches('/');
    let url = if base.ends_with("/mcp") { base.to_owned() } else { format!("{base}/mcp") };
    endpoint(&url).map(Some).map_err(|reason| CommandError::Usage(format!("SWITCHYARD_URL: {reason}")))
}

/// The MCP endpoint of the gateway of a configuration file. If the file cannot be read, it has the default address.
pub(super) fn configured_url(config: &Path, environment: &Lookup<'_>) -> Url {
    let listener = Config::load_listener(config, environment).unwrap_or_default();
    mcp_of(listener.or_named(environment).url())
}

/// The MCP endpoint of the gateway at `url`.
pub(super) fn mcp_of(mut url: Url) -> Url {
    url.set_path(&format!("{}/mcp", url.path().trim_end_matches('/')));
    url
}

fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("expected a URL such as http://127.0.0.1:8080/mcp".into());
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err("expected a URL without credentials, query and fragment; see `--key-env`".into());
    }
    if url.path() == "/" {
        return Err("expected the MCP endpoint, which ends in `/mcp`".into());
    }
    Ok(url)
}

fn view(text: &str) -> Result<String, &'static str> {
    if server_name(text) == text { Ok(text.to_owned()) } else { Err("expected the name of a server") }
}

fn variable(text: &str) -> Result<String, &'static str> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name { Ok(text.to_owned()) } else { Err("expected the name of a variable, such as SWITCHYARD_KEY") }
}

/// Returns the machine of this process.
pub(super) fn this_host(variable: &dyn Fn(&str) -> Option<String>) -> Host<'_> {
    Host {
        system: System::current(),
        home: std::env::home_dir().unwrap_or_default(),
        project: std::env::current_dir().unwrap_or_default(),
        variable,
    }
}

/// Runs the command with the streams and the machine of this process.
pub(super) fn start(arguments: &Connect, environment: &Lookup<'_>) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let (host, program) = (this_host(&variable), std::env::current_exe());
    let program = program.unwrap_or_else(|_| "switchyard".into());
    with_streams(|streams| run(arguments, &mut Process { host, program, environment, streams }))
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
