//! `switchyard add` and `switchyard remove`: servers of the configuration file.
//!
//! The diff goes to standard output; notes, questions and errors go to standard error. `add` has the options of
//! `claude mcp add`, so that such a line can be pasted.
//!
//! Not here: what is written (`crate::connect::own_file`).

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use settings::expand::Lookup;
use settings::one_line;

use super::confirm::{CommandStreams, Failure, WriteOptions, with_streams};
use super::connect::configured_url;
use super::{ConfigFile, warm};
use crate::config::import::MAX_JSON;
use crate::connect::own_file;
use crate::connect::{FileChange, Offer};

pub(super) const ADD_HELP: &str = "\
Examples:
  switchyard add notion https://mcp.notion.com/mcp --oauth
  switchyard add memory -- npx -y @modelcontextprotocol/server-memory
  switchyard add github https://api.githubcopilot.com/mcp/ --header 'Authorization: Bearer ${GITHUB_TOKEN}'
  switchyard add brave --env 'BRAVE_API_KEY=${BRAVE_API_KEY}' -- npx -y @brave/brave-search-mcp-server
  switchyard add                              paste a snippet from the documentation of a server
  switchyard add --from snippet.json --yes    a snippet in the format of any client, or a `claude mcp add` line";

/// How long a gateway has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);

/// Arguments of `add`.
#[derive(Debug, Clone, Args)]
pub struct Add {
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
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable, requires = "command")]
    pub env: Vec<(String, String)>,
    /// A header of each request to the URL. `${NAME}` and `${secret:NAME}` are replaced.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header, requires = "url")]
    pub header: Vec<(String, String)>,
    /// The server needs a login: write `auth: oauth`. `switchyard login NAME` logs in.
    #[arg(long, requires = "url")]
    pub oauth: bool,
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
pub struct Remove {
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

/// A line of another program with the arguments of `add`.
#[derive(Parser)]
#[command(name = "mcp add", disable_help_flag = true)]
struct AddLine {
    #[command(flatten)]
    add: Add,
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
) -> Result<(), Failure> {
    let offer = match of_arguments(arguments)? {
        Some(offer) => offer,
        None => of_text(arguments, input, streams)?,
    };
    let path = &arguments.file.config;
    let addition = own_file::add(path, &[offer], environment)?;
    streams.report_notes(&addition, "not added")?;
    if addition.change.is_empty() {
        if !addition.refused.is_empty() {
            return Err(Failure::Other("nothing was added".into()));
        }
        writeln!(streams.err, "{}: it has all of this already", path.display())?;
        return Ok(());
    }
    write(&addition.change, &arguments.writing, environment, streams)?;
    if !arguments.writing.dry_run {
        writeln!(streams.err, "{}", warm::OFFER)?;
    }
    Ok(())
}

/// Returns the server that the arguments describe, if they do.
fn of_arguments(arguments: &Add) -> Result<Option<Offer>, Failure> {
    let Some(name) = &arguments.name else { return Ok(None) };
    let Add { url, rest, command, env, header, oauth, .. } = arguments;
    match (url, rest.first()) {
        (Some(url), None) if is_url(url) => Ok(Some(Offer::url(name, url, header, *oauth))),
        (Some(url), Some(word)) if is_url(url) => {
            Err(Failure::Usage(format!("`{}` is not expected after the URL", one_line(word))))
        }
        (Some(word), _) => Err(Failure::Usage(format!(
            "`{0}` is not a URL; write a program after `--`: `switchyard add {1} -- {0} …`",
            one_line(word),
            one_line(name)
        ))),
        (None, _) if command.is_empty() => Ok(None),
        (None, _) => Ok(Some(Offer::program(name, command, env))),
    }
}

fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://") || word.contains("${")
}

/// Reads a snippet, or a line of another program.
fn of_text(
    arguments: &Add,
    input: Option<&mut dyn Read>,
    streams: &mut CommandStreams<'_>,
) -> Result<Offer, Failure> {
    let file = arguments.from.as_ref().filter(|file| file.as_os_str() != "-");
    let source = file.map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
    let failed = |reason: io::Error| Failure::Usage(format!("{source}: it cannot be read: {reason}"));
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
        String::from_utf8(content).map_err(|_| Failure::Usage(format!("{source}: it is not UTF-8")))?;
    match of_command_line(&text).or_else(|| of_target(&text, arguments.name.as_deref())) {
        Some(offer) => {
            let offer = offer.map_err(|reason| Failure::Usage(format!("{source}: {reason}")))?;
            Ok(offer.pasted())
        }
        None => Ok(Offer::snippet(&source, &text, arguments.name.as_deref())?),
    }
}

/// Reads a line such as `claude mcp add NAME -- COMMAND`.
fn of_command_line(text: &str) -> Option<Result<Offer, String>> {
    let line = text.trim().trim_start_matches("$ ").replace("\\\r\n", " ").replace("\\\n", " ");
    let words = shlex::split(&line)?;
    let [program, mcp, verb, rest @ ..] = words.as_slice() else { return None };
    if !["claude", "codex"].contains(&program.as_str()) || mcp != "mcp" {
        return None;
    }
    Some(match (verb.as_str(), rest) {
        ("add-json", [name, json, ..]) => {
            Offer::snippet("the line", json, Some(name)).map_err(|error| error.to_string())
        }
        ("add", rest) => {
            let line = with_separator(rest);
            let parsed = AddLine::try_parse_from(line).map_err(|error| error.to_string());
            parsed.and_then(|AddLine { add }| match of_arguments(&add) {
                Ok(Some(offer)) => Ok(offer),
                Err(Failure::Usage(reason)) => Err(reason),
                _ => Err("expected a name with a URL, or with a command after `--`".to_owned()),
            })
        }
        _ => Err(format!("expected `{program} mcp add`")),
    })
}

/// Returns the arguments of an `add` line with `--` before its program, which other clients do not need.
fn with_separator(words: &[String]) -> impl Iterator<Item = &str> {
    let takes_value = |word: &str| {
        matches!(word, "-e" | "--env" | "-t" | "--transport" | "-s" | "--scope" | "-H" | "--header")
    };
    let (mut at, mut names, mut separator) = (0, 0, None);
    // A line with `--` is complete.
    let is_open = !words.iter().any(|word| word == "--");
    while let Some(word) = words.get(at).filter(|_| is_open && names < 2) {
        let is_name = !word.starts_with('-');
        names += usize::from(is_name);
        separator = (names == 2 && !is_url(word)).then_some(at);
        at += if takes_value(word) { 2 } else { 1 };
    }
    let (before, program) = words.split_at(separator.unwrap_or(words.len()));
    let between = separator.map(|_| "--");
    std::iter::once("add")
        .chain(before.iter().map(String::as_str))
        .chain(between)
        .chain(program.iter().map(String::as_str))
}

/// Reads a line that is a URL, or a program with its arguments, without a name.
fn of_target(text: &str, name: Option<&str>) -> Option<Result<Offer, String>> {
    let line = text.trim().trim_start_matches("$ ");
    let words = shlex::split(line).filter(|_| !line.contains(['\n', '{']))?;
    let first =
        words.first().filter(|word| word.starts_with(|c: char| c.is_alphanumeric() || "/.~".contains(c)))?;
    if is_url(first) && words.len() == 1 {
        let to_type = || format!("a URL needs a name: `switchyard add NAME {}`", one_line(first));
        return Some(name.map(|name| Offer::url(name, first, &[], false)).ok_or_else(to_type));
    }
    let env: Vec<_> = words.iter().map_while(|word| variable(word).ok()).collect();
    let program =
        words.get(env.len()..).filter(|program| program.first().is_some_and(|word| !word.contains(':')))?;
    let to_type = || format!("a program needs a name: `switchyard add NAME -- {}`", one_line(line));
    Some(name.map(|name| Offer::program(name, program, &env)).ok_or_else(to_type))
}

/// Shows the change, asks, writes it, and says what is next.
fn write(
    change: &FileChange,
    writing: &WriteOptions,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), Failure> {
    if !streams.agree_to(&[change], writing)? {
        return Ok(());
    }
    let backup = change.write_own()?;
    streams.written(change, backup.as_deref())?;
    Ok(writeln!(streams.err, "{}", next(&change.path, environment))?)
}

/// Says how the change takes effect.
pub(super) fn next(path: &Path, environment: &Lookup<'_>) -> String {
    let url = configured_url(path, environment);
    let listens = url.socket_addrs(|| None).ok().and_then(|addresses| addresses.into_iter().next());
    match listens.filter(|address| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok()) {
        Some(address) => {
            format!(
                "A gateway listens on {address}. If it reads this file, `switchyard reload` applies the change."
            )
        }
        None => {
            "`switchyard check --connect` shows what the servers have, and `switchyard` starts the gateway."
                .to_owned()
        }
    }
}

fn remove(
    arguments: &Remove,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), Failure> {
    let change = own_file::remove(&arguments.file.config, &arguments.names, environment)?;
    write(&change, &arguments.writing, environment, streams)
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
