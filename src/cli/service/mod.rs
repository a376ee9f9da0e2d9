//! `switchyard service`: the gateway as a service of one person, which starts at login.
//!
//! Invariants: the file of the service has no secret: it gets `PATH`, and those variables that `pass_env` names and whose
//! names and values are known to be harmless. A file that another program wrote is replaced with `--yes` only, and never
//! removed. Nothing is written if the service manager does not answer.
//!
//! Not here: the format of the file and the commands of each service manager (`systemd`, `launchd`).

mod launchd;
mod systemd;

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use clap::{Args, Subcommand};
use settings::expand::Lookup;
use settings::one_line;

use super::ConfigFile;
use super::confirm::{CommandStreams, WriteOptions, with_streams};
use super::connect::this_host;
use super::error::CommandError;
use super::remote::DEFAULT_FILE;
use crate::config::Config;
use crate::connect::clients::{Host, System};
use crate::connect::own_file;
use crate::connect::{FileChange, inherited};
use downstream::config::Transport;

pub(super) const HELP: &str = "\
Examples:
  switchyard service install --dry-run      print the file of the service
  switchyard service install                show it, ask, write it, and start the service
  switchyard service status
  switchyard service uninstall

The service is a systemd user unit on Linux, and a launchd agent on macOS. It starts at login.";

/// The line by which a file is known to be written here.
const MARK: &str = "Written by `switchyard service install`; `switchyard service uninstall` removes it.";
/// Variables whose values are of one session.
const OF_SESSION: [&str; 6] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];
/// Beginnings of such variables.
const OF_SESSION_BEGINNINGS: [&str; 3] = ["XDG_RUNTIME", "XDG_SESSION", "XDG_VTNR"];

/// The commands for the service of one person.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Service {
    /// Write the file of the service, and start it now and at each login.
    #[command(after_help = HELP)]
    Install(Install),
    /// Show whether the service runs, and where its log is.
    Status,
    /// Stop the service and remove its file.
    Uninstall(WriteOptions),
}

/// Arguments of `service install`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Install {
    /// Whether to write.
    #[command(flatten)]
    pub writing: WriteOptions,
    /// The configuration of the gateway.
    #[command(flatten)]
    pub file: ConfigFile,
}

/// The contents of the file of the service.
struct ServiceSpec {
    /// This program.
    program: PathBuf,
    /// The configuration file.
    config: PathBuf,
    /// Variables of the service.
    variables: Vec<(String, String)>,
}

impl ServiceSpec {
    /// The folder of the configuration file.
    fn folder(&self) -> &Path {
        self.config.parent().unwrap_or(Path::new("/"))
    }

    /// The file with further variables, which need not exist.
    fn environment_file(&self) -> PathBuf {
        self.folder().join("switchyard.env")
    }
}

/// The program that starts and ends services.
struct ServiceManager {
    /// The file of the service.
    path: fn(&Host<'_>) -> PathBuf,
    /// Its text; `None` if it cannot have a path or a variable.
    text: fn(&ServiceSpec, &Host<'_>) -> Option<String>,
    /// The place of the log, for people.
    log: fn(&Host<'_>) -> String,
    /// A command that fails without it, and the advice then.
    probe: (&'static [&'static str], &'static str),
    start: fn(&Path, &ServiceContext<'_, '_>) -> Result<(), CommandError>,
    stop: fn(&ServiceContext<'_, '_>) -> Result<(), CommandError>,
    /// Forgets a service whose file was removed.
    forget: fn(&ServiceContext<'_, '_>) -> Result<(), CommandError>,
    /// Whether the service runs, and its state in words.
    state: fn(&ServiceContext<'_, '_>) -> (bool, String),
    /// A note after the installation.
    note: &'static str,
}

impl ServiceManager {
    fn of(system: System) -> Result<&'static Self, CommandError> {
        match system {
            System::Linux => Ok(&systemd::MANAGER),
            System::MacOs => Ok(&launchd::MANAGER),
            System::Windows => {
                Err(CommandError::Refused("there is no service manager for one person here".into()))
            }
        }
    }
}

/// Runs the command words, and returns their output.
type Run<'r> = &'r dyn Fn(&[&str]) -> io::Result<Output>;

/// The parts of the process that the commands use.
struct ServiceContext<'p, 's> {
    host: Host<'p>,
    program: PathBuf,
    environment: &'p Lookup<'p>,
    run: Run<'p>,
    streams: &'p mut CommandStreams<'s>,
}

impl ServiceContext<'_, '_> {
    /// Runs a command of the service manager, whose failure is that of this command.
    fn command(&self, words: &[&str]) -> Result<(), CommandError> {
        let failed =
            |reason: String| CommandError::Refused(format!("`{}` failed: {reason}", words.join(" ")));
        match (self.run)(words) {
            Err(error) => Err(failed(error.to_string())),
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(failed(reason_of(&output))),
        }
    }

    /// Fails with what to do if the service manager does not answer.
    fn require(&self, manager: &ServiceManager) -> Result<(), CommandError> {
        let (words, advice) = manager.probe;
        let reason = match (self.run)(words) {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => reason_of(&output),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                format!("there is no program `{}`", words[0])
            }
            Err(error) => error.to_string(),
        };
        Err(CommandError::Refused(format!("`{}` does not work: {reason}\n{advice}", words.join(" "))))
    }
}

/// The reason of a failed command.
fn reason_of(output: &Output) -> String {
    let text =
        String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => one_line(line.trim()),
        None => output.status.to_string(),
    }
}

fn run(command: &Service, process: &mut ServiceContext<'_, '_>) -> Result<(), CommandError> {
    let manager = ServiceManager::of(process.host.system)?;
    match command {
        Service::Install(arguments) => install(manager, arguments, process),
        Service::Status => status(manager, process),
        Service::Uninstall(writing) => uninstall(manager, writing, process),
    }
}

fn install(
    manager: &ServiceManager,
    arguments: &Install,
    process: &mut ServiceContext<'_, '_>,
) -> Result<(), CommandError> {
    let (spec, notes) = spec(&arguments.file, process)?;
    let path = (manager.path)(&process.host);
    let unwritable = "a path or a variable has characters that the file cannot have";
    let text = (manager.text)(&spec, &process.host);
    let text = text.ok_or_else(|| CommandError::Usage(unwritable.into()))?;
    for note in notes {
        writeln!(process.streams.err, "note: {note}")?;
    }
    let is_dry = arguments.writing.dry_run;
    let change = own_file::beside(&path, &text)?;
    let is_foreign = !change.before.is_empty() && !change.before.contains(MARK);
    if is_dry && change.before.is_empty() {
        write!(process.streams.out, "{text}")?;
        return Ok(writeln!(process.streams.err, "{}: not written", path.display())?);
    }
    if !is_dry {
        process.require(manager)?;
    }
    write(&change, is_foreign, &arguments.writing, process)?;
    if is_dry {
        return Ok(());
    }
    (manager.start)(&path, process)?;
    let log = (manager.log)(&process.host);
    Ok(writeln!(
        process.streams.err,
        "The gateway runs, and starts at each login. Its log: {log}. `switchyard service status` shows its state, \
         `switchyard status` its servers.{}",
        manager.note
    )?)
}

/// Shows the change of the file, asks and writes it.
fn write(
    change: &FileChange,
    is_foreign: bool,
    writing: &WriteOptions,
    process: &mut ServiceContext<'_, '_>,
) -> Result<(), CommandError> {
    if change.is_empty() {
        return Ok(());
    }
    if is_foreign && !writing.yes {
        let shown = WriteOptions { dry_run: true, ..writing.clone() };
        process.streams.agree_to(&[change], &shown)?;
        if writing.dry_run {
            return Ok(());
        }
        return Err(CommandError::Refused(format!(
            "{}: another program wrote this file, so it stays: `--yes` replaces it, and keeps it beside the new one",
            change.path.display()
        )));
    }
    if process.streams.agree_to(&[change], writing)? {
        let backup = change.write_own()?;
        process.streams.written(change, backup.as_deref().filter(|_| is_foreign))?;
        if let Some(backup) = backup.filter(|_| !is_foreign) {
            // It can be written again at any time.
            let _ = std::fs::remove_file(backup);
        }
    }
    Ok(())
}

/// Describes the service, and says what its gateway will lack.
fn spec(
    file: &ConfigFile,
    process: &ServiceContext<'_, '_>,
) -> Result<(ServiceSpec, Vec<String>), CommandError> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let config = absolute(&file.config);
    if !config.exists() && file.config == Path::new(DEFAULT_FILE) {
        let config = config.display();
        return Err(CommandError::Usage(format!(
            "{config} does not exist: write it with `switchyard init`, or name it with --config"
        )));
    }
    let (loaded, _) = Config::load_each(&config, process.environment)?;
    if loaded.server.transport == Transport::Stdio {
        let reason = "`server.transport: stdio` serves no clients over HTTP: write `both` or `http`";
        return Err(CommandError::Usage(format!("{}: {reason}", config.display())));
    }
    let mut spec = ServiceSpec { program: absolute(&process.program), config, variables: Vec::new() };
    spec.variables = variables(&loaded, process.environment);
    let notes = missing(&spec, process.environment);
    Ok((spec, notes))
}

/// The variables that the service gets: the search path, and those that the file passes on and that are harmless.
fn variables(config: &Config, environment: &Lookup<'_>) -> Vec<(String, String)> {
    let is_of_session = |name: &str| {
        OF_SESSION.contains(&name)
            || OF_SESSION_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    };
    let passed = |name: &String| {
        config.manager.servers.iter().any(|server| match &server.transport {
            upstream::config::Transport::Stdio(stdio) => stdio.pass_env.contains(name),
            _ => false,
        })
    };
    let inherited =
        inherited::here(environment).into_iter().filter(|name| passed(name) && !is_of_session(name));
    let names = std::iter::once("PATH".to_owned()).chain(inherited);
    let with_value = |name: String| environment(&name).ok().map(|value| (name, value));
    // The URL of a proxy or a registry may have a password.
    names.filter_map(with_value).filter(|(_, value)| !value.contains('@')).collect()
}

/// Says which variables of the configuration the service does not have.
fn missing(spec: &ServiceSpec, environment: &Lookup<'_>) -> Vec<String> {
    let further = std::fs::read_to_string(spec.environment_file()).unwrap_or_default();
    let further: Vec<_> = further.lines().filter_map(|line| line.trim().split_once('=')).collect();
    let of_service = |name: &str| {
        let own = spec.variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        let own = own.or_else(|| Some(further.iter().find(|(own, _)| *own == name)?.1.to_owned()));
        match name {
            "HOME" | "USER" | "LOGNAME" | "SHELL" => environment(name),
            _ => own.ok_or(std::env::VarError::NotPresent),
        }
    };
    let advice = || {
        format!(
            "`switchyard secret set NAME` and `${{secret:NAME}}` give it a value, or a line `NAME=value` in {}",
            spec.environment_file().display()
        )
    };
    match Config::load_each(&spec.config, &of_service) {
        Err(error) => vec![format!(
            "the service does not start without variables of this terminal: {}: {error}",
            advice()
        )],
        Ok((config, _)) => {
            let lacks = config.manager.not_configured.iter().filter(|server| server.is_mistake());
            lacks.map(|server| format!("{}: {}; {}", server.name, server.reason(), advice())).collect()
        }
    }
}

fn status(manager: &ServiceManager, process: &mut ServiceContext<'_, '_>) -> Result<(), CommandError> {
    let path = (manager.path)(&process.host);
    let written = std::fs::read_to_string(&path).ok();
    let state = match written.as_deref() {
        None => {
            return Err(CommandError::Refused(format!(
                "{} does not exist: `switchyard service install` writes it",
                path.display()
            )));
        }
        Some(text) if !text.contains(MARK) => " (another program wrote it)",
        Some(_) => "",
    };
    process.require(manager)?;
    let (is_running, how) = (manager.state)(process);
    writeln!(process.streams.out, "file   {}{state}", path.display())?;
    writeln!(process.streams.out, "state  {how}")?;
    writeln!(process.streams.out, "log    {}", (manager.log)(&process.host))?;
    if is_running { Ok(()) } else { Err(CommandError::Refused("the service does not run".into())) }
}

fn uninstall(
    manager: &ServiceManager,
    writing: &WriteOptions,
    process: &mut ServiceContext<'_, '_>,
) -> Result<(), CommandError> {
    let path = (manager.path)(&process.host);
    let shown = path.display();
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(writeln!(process.streams.err, "{shown} does not exist, so nothing is installed")?);
    };
    if !text.contains(MARK) {
        return Err(CommandError::Refused(format!(
            "{shown}: `switchyard service install` did not write it, so it stays"
        )));
    }
    if writing.dry_run {
        return Ok(writeln!(process.streams.out, "{shown}: would be removed, and the service stopped")?);
    }
    process.streams.agree(writing.yes, &format!("Stop the service and remove {shown}?"))?;
    // A service that cannot be stopped does not keep its file: it would start at the next login.
    let stopped = (manager.stop)(process);
    std::fs::remove_file(&path)
        .map_err(|error| CommandError::Refused(format!("{shown}: it cannot be removed: {error}")))?;
    writeln!(process.streams.err, "{shown}: removed")?;
    stopped?;
    (manager.forget)(process)
}

/// Runs the command with the streams and the machine of this process.
pub(super) fn start(command: &Service, environment: &Lookup<'_>) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let program = std::env::current_exe().unwrap_or_else(|_| "switchyard".into());
    let execute = |words: &[&str]| {
        let arguments = words.iter().skip(1).map(OsStr::new);
        Command::new(words[0]).args(arguments).stdin(Stdio::null()).output()
    };
    with_streams(|streams| {
        let host = this_host(&variable);
        run(command, &mut ServiceContext { host, program, environment, run: &execute, streams })
    })
}

/// A text without line breaks and other control characters.
fn plain(text: &str) -> Option<String> {
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
