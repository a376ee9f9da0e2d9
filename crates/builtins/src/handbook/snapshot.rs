//! The documents and their index, as of one moment.
//!
//! Invariant: a [`Snapshot`] is complete and never changes. Its index and its documents are of one moment.
//!
//! Not here: making the snapshots (`corpus`), and when a new one is published (`follow`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::document::Document;
use super::git::Dates;
use super::index::Index;
use json::Raw;

/// Everything that a call needs, as of one moment.
pub(super) struct Snapshot {
    /// Number of the state, so that cached results of older states can be recognized.
    pub generation: u64,
    /// Documents by the path of their file.
    pub documents: BTreeMap<String, Arc<Document>>,
    /// Documents by their number in the index.
    pub by_serial: HashMap<u64, Arc<Document>>,
    /// The index.
    pub index: Arc<Index>,
    /// Dates from git. `None` until git was asked.
    pub dates: Option<Arc<Dates>>,
    /// Paths that several documents have.
    pub shared: BTreeSet<String>,
    /// The documents as elements of `resources/list`.
    pub resources: Vec<Raw>,
    /// Number of all sections.
    pub sections: usize,
    /// Number of skipped files with the name of a document.
    pub left_out: usize,
}

/// The time of a document's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Modified {
    /// The time.
    pub at: SystemTime,
    /// Whether the time is that of a commit, and not that of the file.
    pub is_committed: bool,
}

impl Snapshot {
    /// Returns the path by which clients get `document`: its path, or its file if the path is ambiguous.
    pub(super) fn path_of<'a>(&self, document: &'a Document) -> &'a str {
        let is_clear = !document.path.contains('#') && !self.shared.contains(&document.path);
        if is_clear { &document.path } else { &document.file_path }
    }

    /// Returns when `document` was changed.
    pub(super) fn modified(&self, document: &Document) -> Modified {
        let commit = self.dates.as_ref().and_then(|dates| dates.of(&document.file_path, &document.blob));
        Modified { at: commit.unwrap_or(document.modified), is_committed: commit.is_some() }
    }
}

/// Formats a time as RFC 3339, in UTC and whole seconds.
pub(super) fn shown(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = i64::try_from(seconds).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// Returns the ambiguous paths: those of two documents, such as `a.md` and `a.markdown`, or of a document and
/// another's file.
pub(super) fn shared(documents: &BTreeMap<String, Arc<Document>>) -> BTreeSet<String> {
    let mut seen = HashSet::with_capacity(documents.len());
    let paths = documents.values().map(|document| document.path.as_str());
    paths.filter(|path| !seen.insert(*path) || documents.contains_key(*path)).map(str::to_owned).collect()
}
