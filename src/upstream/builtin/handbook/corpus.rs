//! The documents as they were found last, and how they follow the folder.
//!
//! Work for a thread that may block. Invariant: a [`Snapshot`] is whole: its index and its
//! documents are of the same moment, and it stays as it is while the next one is made.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::document::{Document, Origin};
use super::folder::{Folder, Stamp, View};
use super::index::{Changes, SearchIndex, State};
use super::resources::Naming;
use crate::protocol::Raw;
use crate::telemetry::untrusted;

/// Sections at most, over all documents.
const MAX_SECTIONS: usize = 400_000;

/// Everything a call needs, as of one moment.
pub(super) struct Snapshot {
    /// Counts the states, so that what is remembered of an older one can be told.
    pub generation: u64,
    /// By path of the file.
    pub documents: BTreeMap<String, Arc<Document>>,
    /// By number in the index.
    pub by_serial: HashMap<u64, Arc<Document>>,
    /// The index.
    pub state: State,
    /// The documents as elements of `resources/list`.
    pub resources: Vec<Raw>,
    /// Sections in it.
    pub sections: usize,
    /// Files that are not among the documents, though their names say they should.
    pub left_out: usize,
}

/// Why the documents could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The folder can not be read.
    #[error("{0}")]
    Folder(String),
    /// The index failed.
    #[error("the search index failed: {0}")]
    Index(#[from] tantivy::TantivyError),
    /// The gateway ends.
    #[error("the gateway is shutting down")]
    Stopped,
}

/// Whom to tell how far it is, and whom to ask whether to go on.
pub(super) trait Watcher {
    /// So many of so many changed files are done. False stops the work.
    fn goes_on(&self, done: usize, total: usize) -> bool;
}

/// The documents and their index, owned by the task that keeps them up to date.
pub(super) struct Corpus {
    folder: Folder,
    naming: Naming,
    index: SearchIndex,
    /// Files as they were when they were read, those that were no text included.
    seen: BTreeMap<String, Stamp>,
    documents: BTreeMap<String, Arc<Document>>,
    sections: usize,
    /// Files the walk left out.
    unlisted: usize,
    next_serial: u64,
    generation: u64,
    is_published: bool,
}

impl Corpus {
    /// Nothing yet; `generation` is the last one that was given out.
    pub(super) fn new(folder: Folder, naming: Naming, generation: u64) -> Result<Self, Error> {
        Ok(Self {
            folder,
            naming,
            index: SearchIndex::new()?,
            seen: BTreeMap::new(),
            documents: BTreeMap::new(),
            sections: 0,
            unlisted: 0,
            next_serial: 1,
            generation,
            is_published: false,
        })
    }

    /// Looks for changes; `None` when there are none. After an error of the index this corpus is
    /// of no more use.
    pub(super) fn refresh(&mut self, watcher: &dyn Watcher) -> Result<Option<Snapshot>, Error> {
        let view = self.folder.look().map_err(Error::Folder)?;
        let files = &view.listing.files;
        let gone: Vec<String> = self.seen.keys().filter(|path| !files.contains_key(*path)).cloned().collect();
        let changed: Vec<(&String, &Stamp)> =
            files.iter().filter(|(path, stamp)| self.seen.get(*path) != Some(*stamp)).collect();
        let same = gone.is_empty() && changed.is_empty() && self.unlisted == view.listing.left_out;
        if same && self.is_published {
            return Ok(None);
        }
        let edit = self.index.change()?;
        for path in gone.iter().chain(changed.iter().map(|(path, _)| *path)) {
            self.forget(&edit, path);
        }
        for (done, (path, stamp)) in changed.iter().enumerate() {
            if !watcher.goes_on(done, changed.len()) {
                return Err(Error::Stopped);
            }
            self.take(&edit, &view, path, stamp)?;
        }
        edit.commit()?;
        self.unlisted = view.listing.left_out;
        Ok(Some(self.publish()))
    }

    fn forget(&mut self, changes: &Changes, path: &str) {
        self.seen.remove(path);
        if let Some(document) = self.documents.remove(path) {
            self.sections -= document.sections.len();
            changes.remove(document.serial);
        }
    }

    fn take(&mut self, changes: &Changes, view: &View, path: &str, stamp: &Stamp) -> Result<(), Error> {
        let source = match view.read(path, stamp) {
            Ok(source) => source,
            Err(error) => {
                // It is looked at again with the next walk.
                tracing::debug!(path = %untrusted(path), %error, "a document of the handbook can not be read");
                return Ok(());
            }
        };
        self.seen.insert(path.to_owned(), *stamp);
        let Some((document, bodies)) = source.and_then(|source| self.parse(path, stamp, source)) else {
            return Ok(());
        };
        if self.sections + bodies.len() <= MAX_SECTIONS {
            self.sections += bodies.len();
            changes.add(&document, &bodies)?;
            self.documents.insert(path.to_owned(), Arc::new(document));
        }
        Ok(())
    }

    /// A text the Markdown parser fails on costs one document, not the handbook.
    fn parse(&mut self, path: &str, stamp: &Stamp, source: String) -> Option<(Document, Vec<String>)> {
        let origin =
            Origin { serial: self.next_serial, file_path: path.to_owned(), modified: stamp.modified };
        self.next_serial += 1;
        let parsed = catch_unwind(AssertUnwindSafe(|| Document::parse(origin, source)));
        if parsed.is_err() {
            tracing::error!(path = %untrusted(path), "a document of the handbook can not be parsed");
        }
        parsed.ok()
    }

    fn publish(&mut self) -> Snapshot {
        self.is_published = true;
        self.generation += 1;
        let by_serial = self.documents.values().map(|document| (document.serial, Arc::clone(document)));
        Snapshot {
            generation: self.generation,
            by_serial: by_serial.collect(),
            documents: self.documents.clone(),
            state: self.index.state(),
            resources: self.naming.list(&self.documents),
            sections: self.sections,
            left_out: self.unlisted + self.seen.len() - self.documents.len(),
        }
    }
}

#[cfg(test)]
#[path = "corpus_tests.rs"]
mod tests;
