//! `switchyard add` and `switchyard remove`: servers of the configuration file.
//!
//! The diff goes to standard output; notes, questions and errors go to standard error. `add` has the options of
//! `claude mcp add`, so that such a line can be pasted.
//!
//! Not here: what is written (`crate::connect::own_file`).

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use settings::expand::Lookup;
use settings::one_line;

use super::confirm::{CommandStreams, WriteOptions, with_streams};
use super::connect::configured_url;
use super::error::CommandError;
use super::remote::{Remote, block_on};
use super::{ConfigFile, warm};
use crate::config::import::MAX_JSON;
use crate::connect::own_file;
use crate::connect::{FileChange, MovedSecrets, Offer, is_url};
use net::http::ResponseLimits;

pub(super) const ADD_HELP: &str = "\
Examples:
  switchyard add notion https://mcp.notion.com/mcp --oauth
  switchyard add memory -- npx -y @modelcontextprotocol/server-memory
  switchyard add github https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'
  switchyard add brave --env 'BRAVE_API_KEY=${BRAVE_API_KEY}' -- npx -y @brave/brave-search-mcp-server
  switchyard add                              paste a snippet from the documentation of a server
  switchyard add --from snippet.json --yes    a snippet or a link for any client, or a `claude mcp add` line";

/// How long a gateway has to say that it is there.
const IDENTIFY: ResponseLimits = ResponseLimits { bytes: 1 << 20, time: Duration::from_millis(500) };

/// Arguments of `add`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Add {
    /// The name of the server. It selects one server of a snippet that has several.
    pub name: Option<String>,
    /// Its URL.
    #[arg(conflicts_with = "command", requires = "name")]
    pub url: Option<String>,
    /// Words of a program without `--` before it, which are refused with a hint.
    #[arg(hide = true)]
    rest: Vec<String>,
    /// The program that is the server, and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND", requires = "name")]
    pub command: Vec<String>,
    /// A variable for the program. `${NAME}` and `${secret:NAME}` are replaced when it starts.
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable, requires = "command", conflicts_with_all = ["url", "from"])]
    pub env: Vec<(String, String)>,
    /// A header of each request to the URL. `${NAME}` and `${secret:NAME}` are replaced.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header, requires = "url", conflicts_with_all = ["command", "from"])]
    pub header: Vec<(String, String)>,
    /// The server needs a login: write `auth: oauth`. `switchyard login NAME` logs in.
    #[arg(long, requires = "url", conflicts_with_all = ["command", "from"])]
    pub oauth: bool,
    /// Move secrets of the server into the vault. The file refers to them.
    #[arg(long)]
    pub to_vault: bool,
    /// The file with a snippet; `-` is standard input [default: standard input, without a URL and a command].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "command"])]
    pub from: Option<PathBuf>,
    /// An option of `claude mcp add`; the transport is detected.
    #[arg(long, short, hide = true, value_parser = ["http", "sse", "stdio"])]
    transport: Option<String>,
    /// An option of `claude mcp add`.
    #[arg(long, short, hide = true)]
    scope: Option<String>,
    /// Whether to write.
    #[command(flatten)]
    pub writing: WriteOptions,
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
}

/// Arguments of `remove`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Remove {
    /// The names of the servers.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Whether to write.
    #[command(flatten)]
    pub writing: WriteOptions,
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() { Err("expected NAME=VALUE") } else { Ok((name.to_owned(), value.to_owned())) }
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once(':').ok_or("expected `NAME: VALUE`")?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() { Err("expected `NAME: VALUE`") } else { Ok((name.to_owned(), value.to_owned())) }
}

/// Adds the servers of the arguments, or of a snippet in `input`, which is standard input.
fn add(
    arguments: &Add,
    input: Option<&mut dyn Read>,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    let offer = match of_arguments(arguments)? {
        Some(offer) => offer,
        None => of_text(arguments, input, streams)?,
    };
    let path = &arguments.file.config;
    let mut secrets = arguments.to_vault.then(|| MovedSecrets::of_file(path, environment)).transpose()?;
    let offer = match &mut secrets {
        Some(secrets) => secrets.take(offer),
        None => offer,
    };
    let mut addition = own_file::add(path, &[offer], environment)?;
    if let Some(secrets) = &mut secrets {
        secrets.settle(&addition.change.after, &mut addition.notes);
    }
    streams.report_notes(&addition, "not added")?;
    if addition.change.is_empty() {
        if !addition.refused.is_empty() {
            return Err(CommandError::Refused("nothing was added".into()));
        }
        writeln!(streams.err, "{}: it has all of this already", path.display())?;
        return Ok(());
    }
    write(&addition.change, secrets.as_ref(), &arguments.writing, environment, streams)?;
    if !arguments.writing.dry_run {
        writeln!(streams.err, "{}", warm::OFFER)?;
    }
    Ok(())
}

/// Returns the server that the arguments describe, if they do.
fn of_arguments(arguments: &Add) -> Result<Option<Offer>, CommandError> {
    let Some(name) = &arguments.name else { return Ok(None) };
    let Add { url, rest, command, env, header, oauth, .. } = arguments;
    match (url, rest.first()) {
        (Some(url), None) if is_url(url) => Ok(Some(Offer::url(name, url, header, *oauth))),
        (Some(url), Some(word)) if is_url(url) => {
            Err(CommandError::Usage(format!("`{}` is not expected after the URL", one_line(word))))
        }
        (Some(word), _) => Err(CommandError::Usage(format!(
            "`{0}` is not a URL; write a program after `--`: `switchyard add {1} -- {0} …`",
            one_line(word),
            one_line(name)
        ))),
        (None, _) if command.is_empty() => Ok(None),
        (None, _) => Ok(Some(Offer::program(name, command, env))),
    }
}

/// Reads a snippet, or a line of another program.
fn of_text(
    arguments: &Add,
    input: Option<&mut dyn Read>,
    streams: &mut CommandStreams<'_>,
) -> Result<Offer, CommandError> {
    let file = arguments.from.as_ref().filter(|file| file.as_os_str() != "-");
    let source = file.map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
    let failed = |reason: io::Error| CommandError::Usage(format!("{source}: it cannot be read: {reason}"));
    let mut content = Vec::new();
    let mut read = |from: &mut dyn Read| from.take(MAX_JSON as u64).read_to_end(&mut content).map(drop);
    match (file, input, &mut streams.input) {
        (Some(file), ..) => File::open(file).and_then(|mut file| read(&mut file)).map_err(failed)?,
        (None, Some(input), _) => read(input).map_err(failed)?,
        (None, None, Some(terminal)) => {
            writeln!(streams.err, "Paste the snippet, then press Enter and Ctrl-D:")?;
            read(terminal).map_err(failed)?;
        }
        (None, None, None) => {}
    }
    let text =
        String::from_utf8(content).map_err(|_| CommandError::Usage(format!("{source}: it is not UTF-8")))?;
    Ok(Offer::snippet(&source, &text, arguments.name.as_deref())?)
}

/// Shows the change, asks, writes it, and says what is next.
fn write(
    change: &FileChange,
    secrets: Option<&MovedSecrets>,
    writing: &WriteOptions,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    if !streams.agree_to(&[change], writing)? {
        return Ok(());
    }
    streams.write_secrets(secrets)?;
    let backup = change.write_own()?;
    streams.written(change, backup.as_deref())?;
    Ok(writeln!(streams.err, "{}", next(&change.path, environment))?)
}

/// Says how the change takes effect.
pub(super) fn next(path: &Path, environment: &Lookup<'_>) -> String {
    let mut url = configured_url(path, environment);
    url.set_path("/");
    let identified = async { Remote::at(url.clone())?.identify(IDENTIFY).await };
    if matches!(block_on(identified), Ok(Some(_))) {
        let address = url.authority();
        return format!(
            "A gateway listens on {address}. If it reads this file, `switchyard reload` applies the change."
        );
    }
    "`switchyard check --connect` shows what the servers have, and `switchyard` starts the gateway."
        .to_owned()
}

fn remove(
    arguments: &Remove,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    let removal = own_file::remove(&arguments.file.config, &arguments.names, environment)?;
    streams.report_notes(&removal, "not removed")?;
    write(&removal.change, None, &arguments.writing, environment, streams)
}

/// Runs `add` with the streams of this process.
pub(super) fn start_add(arguments: &Add, environment: &Lookup<'_>) -> ExitCode {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        with_streams(|streams| add(arguments, None, environment, streams))
    } else {
        with_streams(|streams| add(arguments, Some(&mut stdin.lock()), environment, streams))
    }
}

/// Runs `remove` with the streams of this process.
pub(super) fn start_remove(arguments: &Remove, environment: &Lookup<'_>) -> ExitCode {
    with_streams(|streams| remove(arguments, environment, streams))
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
