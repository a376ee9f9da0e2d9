//! `switchyard init`: writes a first configuration file, with the servers of the clients on this machine.
//!
//! Invariants: the files of the clients are only read. A configuration file that is there is replaced with `--force` only.
//!
//! Not here: what is written (`crate::connect::own_file`).

use std::process::ExitCode;

use clap::Args;
use settings::expand::Lookup;
use settings::one_line;
use url::Url;

use super::confirm::{CommandStreams, WriteOptions, with_streams};
use super::connect::{mcp_of, this_host, unknown};
use super::error::CommandError;
use super::warm::OFFER;
use super::{ConfigFile, schema};
use crate::config::Listener;
use crate::connect::clients::{Client, Host};
use crate::connect::own_file;
use crate::connect::{self, ClientFile, MovedSecrets, Offer};

pub(super) const HELP: &str = "\
Examples:
  switchyard init                                ask which servers of your clients to take
  switchyard init --yes                          take those of all clients
  switchyard init --import claude-code --yes     take those of one client
  switchyard init --to-vault --yes               write their secrets into the vault, and references into the file
  switchyard init --no-import --yes              begin with no server

The clients keep their servers. `switchyard connect CLIENT --import` connects one and removes what moved.";

/// Arguments of `init`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Init {
    /// Take the servers of this client; may be repeated [default with `--yes`: those of all clients].
    #[arg(long, value_name = "CLIENT")]
    pub import: Vec<String>,
    /// Take no servers of clients.
    #[arg(long, conflicts_with = "import")]
    pub no_import: bool,
    /// Move secrets of the clients into the vault. The file refers to them.
    #[arg(long, conflicts_with = "no_import")]
    pub to_vault: bool,
    /// Replace a file that is there. Its content is kept beside it.
    #[arg(long)]
    pub force: bool,
    /// Whether to write.
    #[command(flatten)]
    pub writing: WriteOptions,
    /// The file to write.
    #[command(flatten)]
    pub file: ConfigFile,
}

/// Runs the command on the machine `host`.
fn run(
    arguments: &Init,
    host: &Host<'_>,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    let path = &arguments.file.config;
    // Before any question.
    let head = format!("# yaml-language-server: $schema={}\n", schema::FILE);
    own_file::first(path, &head, &[], arguments.force, environment)?;
    let mut offers = offers(arguments, host, streams)?;
    // A first file has the default vault.
    let mut moved = arguments.to_vault.then(MovedSecrets::new).transpose()?;
    if let Some(moved) = &mut moved {
        offers = offers.into_iter().map(|offer| moved.take(offer)).collect();
    }
    let mut addition = own_file::first(path, &head, &offers, arguments.force, environment)?;
    if let Some(moved) = &mut moved {
        moved.settle(&addition.change.after, &mut addition.notes);
    }
    streams.report_notes(&addition, "left out")?;
    if !streams.agree_to(&[&addition.change], &arguments.writing)? {
        return Ok(());
    }
    streams.write_secrets(moved.as_ref())?;
    let backup = addition.change.write_own()?;
    streams.written(&addition.change, backup.as_deref())?;
    // Replaced, because it belongs to the version of the program.
    let schema = own_file::beside(&path.with_file_name(schema::FILE), schema::TEXT)?;
    schema.write_own()?;
    writeln!(streams.err, "{}: the schema of this file, for editors", schema.path.display())?;
    Ok(writeln!(
        streams.err,
        "Next: `switchyard add NAME URL` adds a server, `switchyard check --connect` shows what they have, \
         `switchyard` starts the gateway, and `switchyard connect` lists the clients to connect. {OFFER}"
    )?)
}

/// Returns the servers of the clients that the user chose.
fn offers(
    arguments: &Init,
    host: &Host<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<Vec<Offer>, CommandError> {
    if arguments.no_import {
        return Ok(Vec::new());
    }
    if let Some(id) = arguments.import.iter().find(|id| Client::find(id).is_none()) {
        return Err(unknown(id));
    }
    // A first file has the default listener.
    let gateway = mcp_of(Listener::default().url());
    let mut chosen = Vec::new();
    let mut absent: Vec<&String> = arguments.import.iter().collect();
    for found in connect::installed(host) {
        let is_wanted =
            arguments.import.is_empty() || arguments.import.iter().any(|id| id == found.client.id);
        if !is_wanted {
            continue;
        }
        let Some(offer) = offer(&found, host, &gateway, streams)? else { continue };
        absent.retain(|id| *id != found.client.id);
        let is_certain = arguments.writing.yes
            || arguments.writing.dry_run
            || !arguments.import.is_empty()
            || offer.names().next().is_none();
        if is_certain || streams.ask(&question(&found, &offer), true)? {
            chosen.push(offer);
        }
    }
    match absent.first() {
        Some(id) => Err(CommandError::Usage(format!(
            "{id} has no servers on this machine: `switchyard connect` lists all clients"
        ))),
        None => Ok(chosen),
    }
}

/// Returns the servers of a client, if it has any, or any that are left out.
fn offer(
    found: &ClientFile,
    host: &Host<'_>,
    gateway: &Url,
    streams: &mut CommandStreams<'_>,
) -> Result<Option<Offer>, CommandError> {
    match Offer::client(found, &host.project, gateway) {
        Ok(offer) => {
            Ok(Some(offer).filter(|offer| offer.names().next().is_some() || !offer.refused.is_empty()))
        }
        Err(error) => {
            writeln!(streams.err, "note: {}: left out: {error}", found.client.name)?;
            Ok(None)
        }
    }
}

fn question(found: &ClientFile, offer: &Offer) -> String {
    let names: Vec<_> = offer.names().map(one_line).collect();
    format!("Take the servers of {} ({}): {}?", found.client.name, found.file.display(), names.join(", "))
}

/// Runs the command with the streams and the machine of this process.
pub(super) fn start(arguments: &Init, environment: &Lookup<'_>) -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    with_streams(|streams| run(arguments, &this_host(&variable), environment, streams))
}

#[cfg(test)]
#[path = "init_tests.rs"]
mod tests;
