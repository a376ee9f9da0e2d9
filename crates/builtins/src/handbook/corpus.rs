//! The documents in their last known state, and how they follow the folder.
//!
//! Each change makes a new [`Snapshot`]. All functions may block.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::document::{Document, Origin};
use super::folder::{FileText, Folder, Stamp, View};
use super::git::{Dates, Repository};
use super::index::Index;
use super::resources::DocumentUris;
use super::snapshot::{Snapshot, shared};
use runtime::telemetry::untrusted;

/// Most sections of all documents.
const MAX_SECTIONS: usize = 400_000;
/// Number of walks after which unreadable files are tried again although they look unchanged: a minute or
/// more.
const WALKS_PER_RETRY: u32 = 30;

/// Why the documents could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The folder cannot be read.
    #[error("{0}")]
    Folder(String),
    /// The gateway is shutting down.
    #[error("the gateway is shutting down")]
    Stopped,
}

/// Called with the numbers of changed files read so far and in all. Returning false stops the work.
pub(super) type ShouldContinue<'a> = &'a dyn Fn(usize, usize) -> bool;

/// The documents and their index, owned by the task that keeps them up to date.
pub(super) struct Corpus {
    folder: Folder,
    naming: DocumentUris,
    index: Arc<Index>,
    /// Files as they were when they were read, including unreadable files and those that are not text.
    seen: BTreeMap<String, Stamp>,
    /// Unreadable files among them. There are no more of these than listed files.
    unread: BTreeSet<String>,
    walks: u32,
    documents: BTreeMap<String, Arc<Document>>,
    repository: Option<Repository>,
    dates: Option<Arc<Dates>>,
    /// Whether the dates are still up to date.
    is_dated: bool,
    sections: usize,
    /// Number of files that the walk skipped.
    unlisted: usize,
    next_serial: u64,
    generation: u64,
    is_published: bool,
}

impl Corpus {
    /// Makes a corpus without documents. `generation` is that of the last published state.
    pub(super) fn new(folder: Folder, naming: DocumentUris, generation: u64) -> Self {
        Self {
            folder,
            naming,
            index: Arc::default(),
            next_serial: 1,
            seen: BTreeMap::new(),
            unread: BTreeSet::new(),
            walks: 0,
            documents: BTreeMap::new(),
            repository: None,
            dates: None,
            is_dated: false,
            sections: 0,
            unlisted: 0,
            generation,
            is_published: false,
        }
    }

    /// Looks for changes. Returns `None` if there are none.
    pub(super) fn refresh(&mut self, should_continue: ShouldContinue<'_>) -> Result<Option<Snapshot>, Error> {
        let view = self.folder.look().map_err(Error::Folder)?;
        let is_redated = self.check_repository();
        self.walks = self.walks.wrapping_add(1);
        if self.walks.is_multiple_of(WALKS_PER_RETRY) {
            self.try_again(&view);
        }
        let files = &view.listing.files;
        let gone: Vec<String> = self.seen.keys().filter(|path| !files.contains_key(*path)).cloned().collect();
        let changed: Vec<(&String, &Stamp)> =
            files.iter().filter(|(path, stamp)| self.seen.get(*path) != Some(*stamp)).collect();
        let same = gone.is_empty() && changed.is_empty() && self.unlisted == view.listing.left_out;
        if same && self.is_published {
            return Ok(is_redated.then(|| self.publish()));
        }
        self.forget(gone.iter().chain(changed.iter().map(|(path, _)| *path)));
        for (done, (path, stamp)) in changed.iter().enumerate() {
            if !should_continue(done, changed.len()) {
                return Err(Error::Stopped);
            }
            self.take(&view, path, stamp);
        }
        self.is_dated = false;
        self.unlisted = view.listing.left_out;
        Ok(Some(self.publish()))
    }

    /// Treats unreadable files that have become readable as changed.
    fn try_again(&mut self, view: &View) {
        let is_readable = |path: &String| {
            let stamp = self.seen.get(path);
            stamp.is_some_and(|stamp| view.read(path, stamp).is_ok())
        };
        for path in self.unread.iter().filter(|path| is_readable(path)).cloned().collect::<Vec<_>>() {
            self.seen.remove(&path);
            self.unread.remove(&path);
        }
    }

    /// Looks for a new state of the repository. Returns whether the dates change at once.
    fn check_repository(&mut self) -> bool {
        let repository = self.folder.root().and_then(Repository::around);
        if repository != self.repository {
            self.repository = repository;
            self.is_dated = false;
        }
        let is_none = self.dates.as_ref().is_some_and(|dates| **dates == Dates::default());
        let without = self.repository.is_none() && !is_none;
        if without {
            self.dates = Some(Arc::default());
        }
        without
    }

    /// Returns the documents whose dates should be requested from git, if it is time for that.
    pub(super) fn undated(&self) -> Option<HashSet<String>> {
        (self.repository.is_some() && !self.is_dated).then(|| self.documents.keys().cloned().collect())
    }

    /// Stores new dates. Returns `None` if nothing has changed.
    pub(super) fn date(&mut self, dates: Dates) -> Option<Snapshot> {
        self.is_dated = true;
        if self.dates.as_deref() == Some(&dates) {
            return None;
        }
        self.dates = Some(Arc::new(dates));
        Some(self.publish())
    }

    fn forget<'a>(&mut self, paths: impl Iterator<Item = &'a String>) {
        let mut serials = HashSet::new();
        for path in paths {
            self.seen.remove(path);
            self.unread.remove(path);
            if let Some(document) = self.documents.remove(path) {
                self.sections -= document.sections.len();
                serials.insert(document.serial);
            }
        }
        if !serials.is_empty() {
            Arc::make_mut(&mut self.index).remove(&serials);
        }
    }

    fn take(&mut self, view: &View, path: &str, stamp: &Stamp) {
        let text = view.read(path, stamp);
        self.seen.insert(path.to_owned(), *stamp);
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                tracing::debug!(path = %untrusted(path), %error, "a document of the handbook cannot be read");
                self.unread.insert(path.to_owned());
                return;
            }
        };
        let Some((document, bodies)) = text.and_then(|text| self.parse(path, stamp, text)) else {
            return;
        };
        if self.sections + bodies.len() <= MAX_SECTIONS {
            self.sections += bodies.len();
            Arc::make_mut(&mut self.index).add(&document, &bodies);
            self.documents.insert(path.to_owned(), Arc::new(document));
        }
    }

    /// Parses a document. If the Markdown parser panics, only this document is skipped.
    fn parse(&mut self, path: &str, stamp: &Stamp, text: FileText) -> Option<(Document, Vec<String>)> {
        let serial = self.next_serial;
        self.next_serial += 1;
        let (file_path, modified) = (path.to_owned(), stamp.modified);
        let origin = Origin { serial, file_path, modified, blob: text.blob };
        let parsed = catch_unwind(AssertUnwindSafe(|| Document::parse(origin, text.source)));
        if parsed.is_err() {
            tracing::error!(path = %untrusted(path), "a document of the handbook cannot be parsed");
        }
        parsed.ok()
    }

    fn publish(&mut self) -> Snapshot {
        self.is_published = true;
        self.generation += 1;
        let by_serial = self.documents.values().map(|document| (document.serial, Arc::clone(document)));
        let mut snapshot = Snapshot {
            generation: self.generation,
            by_serial: by_serial.collect(),
            documents: self.documents.clone(),
            index: Arc::clone(&self.index),
            dates: self.dates.clone(),
            shared: shared(&self.documents),
            resources: Vec::new(),
            sections: self.sections,
            left_out: self.unlisted + self.seen.len() - self.documents.len(),
        };
        snapshot.resources = self.naming.list(&snapshot);
        snapshot
    }
}

#[cfg(test)]
#[path = "corpus_tests.rs"]
mod tests;
