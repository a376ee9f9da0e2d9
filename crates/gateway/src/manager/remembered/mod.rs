//! The last offers of servers, kept in files so that their tools are known when Switchyard starts.
//!
//! There is one file for each server of a configuration file. It has its last offer, its signs of state, the digests of the definitions
//! that are trusted, and the names and URIs that belong to it. Invariants: an offer is used only for a server that is
//! reached in the same way, with the same credential. Trust and names stay with the name of the server, as they do while
//! Switchyard runs, until the server leaves the configuration file or an operator forgets it. A file is replaced as a
//! whole. A file or folder that cannot be used costs one log line and nothing else. Files are bounded, each and in sum.
//!
//! Not here: the content of a file (`file`), when files are written (`offer_writer`), and what a remembered offer means for the
//! start of its server (`upstream`).

mod file;
mod folder;

use std::collections::HashSet;
use std::sync::Arc;

pub(super) use file::Content;
pub use folder::Folder;
pub(super) use folder::folder_of;

use super::known::KnownServers;
use runtime::private_file;
use settings::Fingerprint;

/// Reads what is remembered of servers, each by its name and the settings that it is reached with, and removes the files of
/// other servers.
pub(super) fn of_all(folder: Option<&Folder>, servers: &[(&Arc<str>, Fingerprint)]) -> KnownServers {
    let Some(folder) = folder else { return KnownServers::default() };
    let names: HashSet<String> = servers.iter().map(|(name, _)| private_file::of(name).to_string()).collect();
    folder.retain(|name| names.contains(name));
    servers.iter().map(|(name, identity)| (Arc::clone(name), folder.read(name, identity))).collect()
}
