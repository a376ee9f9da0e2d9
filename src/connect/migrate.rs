//! Moves the servers of a client to the configuration file, so that the client keeps one entry.
//!
//! Invariant: a server leaves the client only if the configuration file has it, the same server and not one of the same
//! name.
//!
//! Not here: the edit of the configuration file (`registry`), and the spelling of clients (`spelling`).

use std::path::{Path, PathBuf};

use url::Url;

use super::clients::Client;
use super::registry::{self, Offer};
use super::spelling::Dialect;
use super::switches;
use super::{Error, FileChange, MovedSecrets};
use crate::config::import::json::{Json, member};
use crate::config::import::ownership::{self, is_ours};
use settings::one_line;

/// The configuration file to which servers move.
pub(crate) struct Registry {
    /// Its path.
    pub path: PathBuf,
    /// Variables of this machine that programs get ([`super::inherited`]).
    pub inherited: Vec<String>,
    /// The secrets that move to the vault, if they do.
    pub secrets: Option<MovedSecrets>,
}

/// The servers that move.
pub(super) struct Moved {
    /// The names of the servers in the client's file.
    pub(super) names: Vec<String>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// The change of the configuration file.
    pub(super) change: Option<FileChange>,
}

impl Registry {
    /// Plans to move the servers in `root`, which was read from `file`, without those that lead to `gateway`.
    pub(super) fn take(
        &mut self,
        client: &Client,
        file: &Path,
        root: &Json,
        gateway: &Url,
    ) -> Result<Moved, Error> {
        let invalid = |reason| Error::Invalid { path: self.path.clone(), reason };
        let now = super::unchanged(&self.path)?;
        let offer = offer(client, file, root, gateway);
        let offer = match &mut self.secrets {
            Some(secrets) => secrets.take(offer),
            None => offer,
        };
        let added = registry::add(&now.before, &offer, &self.inherited).map_err(invalid)?;
        let mut notes: Vec<String> = added
            .refused
            .iter()
            .map(|(name, reason)| format!("{}: it stays where it is: {reason}", one_line(name)))
            .collect();
        notes.extend(added.notes);
        if let Some(secrets) = &mut self.secrets {
            secrets.settle(&added.after, &mut notes);
        }
        let change = if added.after == now.before { None } else { Some(now.to(added.after)?) };
        Ok(Moved { names: added.names, notes, change })
    }
}

/// Returns the servers in `root`, which was read from `file` of `client`. The entry of Switchyard is left out, and so is any
/// other that leads to `gateway`.
pub(super) fn offer(client: &Client, file: &Path, root: &Json, gateway: &Url) -> Offer {
    let all = client.place().entries(root).into_iter().filter(|(name, _)| !is_ours(name));
    let (own, others): (Vec<_>, Vec<_>) = all.partition(|(_, server)| ownership::leads_to(gateway, server));
    let refused = |(name, _)| (name, ownership::REASON.to_owned());
    let inputs = match (root, client.id) {
        (Json::Object(members), "vscode") => member(members, "inputs").cloned(),
        _ => None,
    };
    let dialect = Dialect::of(client);
    let mut servers = others.into_iter().map(|(name, server)| (name, dialect.common(server))).collect();
    if let Json::Object(members) = root {
        switches::apply(members, &mut servers);
    }
    let refused = own.into_iter().map(refused).collect();
    Offer { inputs, refused, is_of_client: true, ..Offer::of(&file.display().to_string(), servers) }
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
