//! The documents as they were found last, and how they follow the folder.
//!
//! Work for a thread that may block. Invariant: a [`Snapshot`] is whole: its index and its
//! documents are of the same moment, and it stays as it is while the next one is made.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::archive::{Archive, Archived, Indexed};
use super::document::{Document, Origin};
use super::folder::{Folder, Stamp, Text, View};
use super::git_log::Blob;
use super::history::{Dates, Modified, Repository};
use super::index::{Changes, SearchIndex, State};
use super::resources::Naming;
use json::Raw;
use runtime::telemetry::untrusted;

/// Sections at most, over all documents.
const MAX_SECTIONS: usize = 400_000;
/// Walks after which what could not be read, and looks the same since, is tried again: a minute or more.
const WALKS_PER_RETRY: u32 = 30;

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
    /// What the history says of them; `None` until it was asked.
    pub dates: Option<Arc<Dates>>,
    /// Paths that mean more than one document.
    shared: BTreeSet<String>,
    /// The documents as elements of `resources/list`.
    pub resources: Vec<Raw>,
    /// Sections in it.
    pub sections: usize,
    /// Files that are not among the documents, though their names say they should.
    pub left_out: usize,
}

impl Snapshot {
    /// What to ask for to get `document`: its path, or its file where that could mean another one, or a section.
    pub(super) fn path_of<'a>(&self, document: &'a Document) -> &'a str {
        let is_clear = !document.path.contains('#') && !self.shared.contains(&document.path);
        if is_clear { &document.path } else { &document.file_path }
    }

    /// When `document` was changed.
    pub(super) fn modified(&self, document: &Document) -> Modified {
        let by_file = Modified { at: document.modified, is_committed: false };
        self.dates.as_ref().map_or(by_file, |dates| dates.of(document))
    }
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
    /// Documents that are in the index from an earlier run, and were not looked for yet.
    archived: HashMap<String, Indexed>,
    /// Whether what is kept of the index on disk is this index.
    is_kept: bool,
    /// Files as they were when they were looked at, those that were no text or could not be read included.
    seen: BTreeMap<String, Stamp>,
    /// Those of them that could not be read. Each is a file that is listed, so there are no more than of these.
    unread: BTreeSet<String>,
    walks: u32,
    documents: BTreeMap<String, Arc<Document>>,
    repository: Option<Repository>,
    dates: Option<Arc<Dates>>,
    /// Whether the history may say something else by now.
    is_dated: bool,
    sections: usize,
    /// Files the walk left out.
    unlisted: usize,
    next_serial: u64,
    generation: u64,
    is_published: bool,
}

impl Corpus {
    /// No documents yet, and what an earlier run left of the index; `generation` is the last one that was
    /// given out.
    pub(super) fn new(
        folder: Folder,
        naming: Naming,
        generation: u64,
        archived: Option<Archived>,
    ) -> Result<Self, Error> {
        let is_kept = archived.is_some();
        let Archived { index, documents } = match archived {
            Some(archived) => archived,
            None => Archived { index: SearchIndex::new()?, documents: HashMap::new() },
        };
        Ok(Self {
            folder,
            naming,
            index,
            next_serial: 1 + documents.values().map(|indexed| indexed.serial).max().unwrap_or_default(),
            archived: documents,
            is_kept,
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
        })
    }

    /// Looks for changes; `None` when there are none. After an error of the index this corpus is
    /// of no more use.
    pub(super) fn refresh(&mut self, watcher: &dyn Watcher) -> Result<Option<Snapshot>, Error> {
        let view = self.folder.look().map_err(Error::Folder)?;
        let is_redated = self.look_around();
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
        for (_, gone) in std::mem::take(&mut self.archived) {
            self.remove(&edit, gone.serial);
        }
        edit.commit()?;
        self.is_dated = false;
        self.unlisted = view.listing.left_out;
        Ok(Some(self.publish()))
    }

    /// What could not be read and can be by now counts as changed; what still can not be is no change.
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

    /// Looks for another state of the history. True when the dates are others at once.
    fn look_around(&mut self) -> bool {
        let repository = Repository::around(self.folder.root());
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

    /// The documents of which the history is to be asked, if it is time to.
    pub(super) fn undated(&self) -> Option<HashMap<String, Blob>> {
        let all = || self.documents.iter().map(|(path, document)| (path.clone(), document.blob)).collect();
        (self.repository.is_some() && !self.is_dated).then(all)
    }

    /// Takes what the history said; `None` when that is nothing new.
    pub(super) fn date(&mut self, dates: Dates) -> Option<Snapshot> {
        self.is_dated = true;
        if self.dates.as_deref() == Some(&dates) {
            return None;
        }
        self.dates = Some(Arc::new(dates));
        Some(self.publish())
    }

    fn forget(&mut self, changes: &Changes, path: &str) {
        self.seen.remove(path);
        self.unread.remove(path);
        if let Some(document) = self.documents.remove(path) {
            self.sections -= document.sections.len();
            self.remove(changes, document.serial);
        }
    }

    fn remove(&mut self, changes: &Changes, serial: u64) {
        self.is_kept = false;
        changes.remove(serial);
    }

    fn take(&mut self, changes: &Changes, view: &View, path: &str, stamp: &Stamp) -> Result<(), Error> {
        let text = view.read(path, stamp);
        self.seen.insert(path.to_owned(), *stamp);
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                tracing::debug!(path = %untrusted(path), %error, "a document of the handbook can not be read");
                self.unread.insert(path.to_owned());
                return Ok(());
            }
        };
        let Some((document, bodies)) = text.and_then(|text| self.parse(path, stamp, text)) else {
            return Ok(());
        };
        if self.sections + bodies.len() <= MAX_SECTIONS {
            self.sections += bodies.len();
            self.add(changes, &document, &bodies)?;
            self.documents.insert(path.to_owned(), Arc::new(document));
        }
        Ok(())
    }

    /// Adds the document to the index, unless an earlier run did.
    fn add(&mut self, changes: &Changes, document: &Document, bodies: &[String]) -> Result<(), Error> {
        let former = self.archived.remove(&document.file_path);
        let is_there =
            former.is_some_and(|former| former.serial == document.serial && former.sections == bodies.len());
        if is_there {
            return Ok(());
        }
        if let Some(former) = former {
            self.remove(changes, former.serial);
        }
        self.is_kept = false;
        Ok(changes.add(document, bodies)?)
    }

    /// A text the Markdown parser fails on costs one document, not the handbook.
    fn parse(&mut self, path: &str, stamp: &Stamp, text: Text) -> Option<(Document, Vec<String>)> {
        let former = self.archived.get(path).filter(|former| former.is_of(&text.blob));
        let serial = former.map_or(self.next_serial, |former| former.serial);
        self.next_serial = self.next_serial.max(serial + 1);
        let (file_path, modified) = (path.to_owned(), stamp.modified);
        let origin = Origin { serial, file_path, modified, blob: text.blob };
        let parsed = catch_unwind(AssertUnwindSafe(|| Document::parse(origin, text.source)));
        if parsed.is_err() {
            tracing::error!(path = %untrusted(path), "a document of the handbook can not be parsed");
        }
        parsed.ok()
    }

    /// Whether the index is on disk as it is.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Has `archive` keep the index.
    pub(super) fn keep(&mut self, archive: &mut Archive) {
        self.is_kept = archive.write(&self.index, self.documents.values().map(AsRef::as_ref));
    }

    /// The index.
    #[cfg(test)]
    pub(super) fn index(&self) -> &SearchIndex {
        &self.index
    }

    fn publish(&mut self) -> Snapshot {
        self.is_published = true;
        self.generation += 1;
        let by_serial = self.documents.values().map(|document| (document.serial, Arc::clone(document)));
        let mut snapshot = Snapshot {
            generation: self.generation,
            by_serial: by_serial.collect(),
            documents: self.documents.clone(),
            state: self.index.state(),
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

/// Paths that are those of two documents, such as `a.md` and `a.markdown`, or the file of another one.
fn shared(documents: &BTreeMap<String, Arc<Document>>) -> BTreeSet<String> {
    let mut seen = HashSet::with_capacity(documents.len());
    let paths = documents.values().map(|document| document.path.as_str());
    paths.filter(|path| !seen.insert(*path) || documents.contains_key(*path)).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "corpus_tests.rs"]
mod tests;
