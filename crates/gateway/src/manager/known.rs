//! Facts about servers from an earlier run, for the first snapshot.
//!
//! Not here: the files (`remembered`).

use std::collections::HashMap;
use std::sync::Arc;

use super::owners::OwnerHash;
use super::trust::Trust;
use upstream::Remembered;

/// The facts about one server.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// The offer and signs that it starts with; `None` if its settings changed.
    pub remembered: Option<Remembered>,
    /// The definitions that are trusted.
    pub trust: Arc<Trust>,
    /// Its names and URIs.
    pub names: OwnedNames,
}

/// The facts about servers, by name.
pub(super) type KnownServers = HashMap<Arc<str>, Known>;

/// The hashes of the names and URIs of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnedNames {
    /// Those of tools.
    pub tools: Vec<OwnerHash>,
    /// Those of prompts.
    pub prompts: Vec<OwnerHash>,
    /// URIs of resources and templates.
    pub uris: Vec<OwnerHash>,
}
