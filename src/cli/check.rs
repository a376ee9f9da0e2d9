//! `switchyard check`: validates the file and shows what would run. It also tells whether the log file can be written, as
//! `doctor` does.
//!
//! Invariants: nothing that may be secret is printed. Only the part of a server that operators may see is
//! shown ([`upstream::Config::target`]). Nothing is opened or created to see whether it can be written.
//!
//! Not here: connecting to the servers (`connect_check`).

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::config_file::LoadedFile;
use super::confirm::CommandStreams;
use super::{ConfigFile, EXIT_USAGE, connect_check};
use crate::app;
use crate::config::Config;
use auth::Authenticator;
use downstream::tls::Certificates;
use gateway::manager::NotConfigured;
use runtime::memory;
use runtime::regular_file::explained;
use settings::expand::Lookup;
use upstream::config::Transport;

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// The configuration file; the same as `--config FILE`.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Connect to every enabled server too, and print what it has. No tool is called.
    #[arg(long)]
    pub connect: bool,
}

impl Check {
    /// The configuration file.
    pub fn path(&self) -> &Path {
        self.file.as_ref().unwrap_or(&self.config.config)
    }

    /// Fails if two files stand on the command line.
    pub(super) fn refuse_two_files(&self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let own = matches.subcommand_matches("check");
        let source = own.and_then(|matches| matches.value_source("config"));
        if self.file.is_some() && source == Some(ValueSource::CommandLine) {
            let text = "name one configuration file: FILE or --config FILE\n";
            return Err(clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, text));
        }
        Ok(())
    }
}

/// Checks the file and the key files it names, and on request the servers in it. Writes what would run to
/// `out`, and problems to `err`.
pub fn run(check: &Check, environment: &Lookup<'_>, out: &mut dyn Write, err: &mut dyn Write) -> ExitCode {
    run_with(check, environment, &mut CommandStreams { input: None, out, width: None, err })
}

/// Does it with tables as wide as the terminal.
pub(super) fn run_with(
    check: &Check,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> ExitCode {
    let file = check.path();
    let loaded = match &check.file {
        Some(file) => LoadedFile::of(file, environment),
        None => check.config.load_or_documentation(environment),
    };
    let written = match loaded {
        Ok(loaded) => match read_files(&loaded.config.server) {
            Ok(()) => usable(check, loaded, streams),
            Err(error) => {
                let written = writeln!(streams.err, "{}: server: {error}", file.display());
                written.map(|()| ExitCode::from(EXIT_USAGE))
            }
        },
        Err(error) => writeln!(streams.err, "{error}").map(|()| ExitCode::from(EXIT_USAGE)),
    };
    written.unwrap_or(ExitCode::FAILURE) // standard output is closed
}

/// Reads the key files of clients and of the listener, and the vault if the authorization server needs it.
pub(super) fn read_files(server: &downstream::Config) -> Result<(), app::Error> {
    Authenticator::new(&server.auth)?;
    server.tls.as_ref().map(Certificates::read).transpose()?;
    app::check_authorization_server(server)?;
    Ok(())
}

/// Prints the mistakes in the entries of servers, if there are any, or else what would run.
fn usable(check: &Check, loaded: LoadedFile, streams: &mut CommandStreams<'_>) -> io::Result<ExitCode> {
    let LoadedFile { config, report, note } = loaded;
    if let Some(report) = report {
        writeln!(streams.err, "{report}")?;
        if check.connect {
            // The gateway would run the others.
            print(&config, streams)?;
            connect_check::run(config.manager, streams)?;
        }
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let servers = config.manager.entries().len();
    let plural = if servers == 1 { "" } else { "s" };
    let valid = || format!("{}: valid, {servers} server{plural}", check.path().display());
    writeln!(streams.out, "{}", note.unwrap_or_else(valid))?;
    print(&config, streams)?;
    let all = !check.connect || connect_check::run(config.manager, streams)?;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(config: &Config, streams: &mut CommandStreams<'_>) -> io::Result<()> {
    let servers = config.manager.entries();
    // The default depends on this machine, which may differ from the machine of the gateway.
    let budget = config.server.memory_budget;
    if budget != memory::system::default_limit() {
        writeln!(streams.out, "memory budget: {} MiB", budget >> 20)?;
    }
    for exception in config.server.exceptions() {
        writeln!(streams.out, "warning: server: {exception}")?;
    }
    for warning in config.server.auth.warning().into_iter().chain(config.server.unknown_clients()) {
        writeln!(streams.out, "warning: server: {warning}")?;
    }
    for warning in config.server.without_view(&config.views()) {
        writeln!(streams.out, "warning: server: {warning}")?;
    }
    for warning in config.limits_without_effect().into_iter().chain(config.manager.warning()) {
        writeln!(streams.out, "warning: {warning}")?;
    }
    if let Some(remark) = config.server.remark_on_hosts() {
        writeln!(streams.out, "note: server: {remark}")?;
    }
    // The folder belongs to the machine that the gateway runs on, which may be another one.
    if let Some(Unwritable { found, fix }) = unwritable_log(config) {
        writeln!(streams.out, "warning: server: {found}: {fix}")?;
    }
    if servers.is_empty() {
        return Ok(());
    }
    let header = ["SERVER", "TRANSPORT", "TARGET", "TIMEOUT", "RETRIES", "STATE"];
    streams.table(&header, servers.iter().map(|server| server.map_or_else(row_without_settings, row)))?;
    for server in servers {
        match server {
            Ok(server) => {
                if let Some(warning) = server.warning() {
                    writeln!(streams.out, "warning: {}: {warning}", server.name)?;
                }
            }
            Err(wrong) if !wrong.is_mistake() => {
                writeln!(
                    streams.out,
                    "note: {}: it is disabled, and has to be corrected to be enabled: {}",
                    wrong.name,
                    wrong.reason()
                )?;
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// The row of an entry that cannot be used.
fn row_without_settings(wrong: &NotConfigured) -> [String; 6] {
    let state = if wrong.is_mistake() { "not configured" } else { "disabled" };
    let unknown = || "-".to_owned();
    [wrong.name.to_string(), unknown(), unknown(), unknown(), unknown(), state.to_owned()]
}

fn row(server: &upstream::Config) -> [String; 6] {
    let transport = match server.transport {
        Transport::Http(_) => "http",
        Transport::Sse(_) => "sse",
        Transport::Stdio(_) => "stdio",
        Transport::Builtin(_) => "builtin",
    };
    [
        server.name.to_string(),
        transport.to_owned(),
        server.target.clone(),
        format!("{} s", server.timeout.as_secs_f64()),
        server.retry.attempts.to_string(),
        if server.enabled { "enabled" } else { "disabled" }.to_owned(),
    ]
}

/// Why the log file cannot be written, and what to type.
pub(super) struct Unwritable {
    pub(super) found: String,
    pub(super) fix: String,
}

/// Returns the problem of the log file that `config` names, if there is one.
pub(super) fn unwritable_log(config: &Config) -> Option<Unwritable> {
    let path = config.server.log.file.as_ref()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (reason, fix) = if path.is_file() {
        (refusal(path)?, format!("`chmod u+w {}` as its owner", path.display()))
    } else if path.exists() {
        ("it is not a file".to_owned(), "another path for `log_file` under `server:`".to_owned())
    } else if folder.is_dir() {
        (refusal(folder)?, format!("`ls -ld {}`: Switchyard must be able to write there", folder.display()))
    } else {
        (format!("there is no folder {}", folder.display()), format!("`mkdir -p {}`", folder.display()))
    };
    Some(Unwritable { found: format!("the log file {} cannot be written: {reason}", path.display()), fix })
}

/// Why the system does not let this user write `path`.
pub(super) fn refusal(path: &Path) -> Option<String> {
    let reason = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).err()?;
    let reason = explained(std::io::Error::from(reason), "write there");
    Some(format!("{}: {reason}", path.display()))
}
