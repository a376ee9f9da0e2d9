//! The index on disk between two runs, so that only changed documents are indexed again.
//!
//! The archive lists the documents with their content digest and number, and contains the files of the index.
//! Documents are read at each start anyway, because hits show their text. Invariant: a document counts as
//! indexed only if its file has exactly the content that was indexed.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tantivy::HasLen;

use super::document::Document;
use super::git_log::Blob;
use super::index::SearchIndex;
use crate::handbook::disk_cache::{Body, Kept};

/// Format number. It changes when equal documents are indexed differently; a test checks that.
const FORMAT: u32 = 2;
/// Longest table of contents, in bytes.
const MOST_TABLE: u64 = 64 << 20;

/// A document in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Indexed {
    /// Number of the document.
    pub serial: u64,
    /// Number of sections.
    pub sections: usize,
    /// Digest of the content.
    content: [u8; 32],
}

impl Indexed {
    fn of(document: &Document) -> Self {
        let (serial, sections) = (document.serial, document.sections.len());
        Self { serial, sections, content: document.blob.strong() }
    }

    /// Whether this content was indexed.
    pub(super) fn is_of(&self, blob: &Blob) -> bool {
        self.content == blob.strong()
    }
}

/// An index with its documents by file.
pub(super) struct Archived {
    /// The index.
    pub index: SearchIndex,
    /// The documents in the index.
    pub documents: HashMap<String, Indexed>,
}

/// Table of contents at the start of the archive.
#[derive(Serialize, Deserialize)]
struct Table {
    documents: HashMap<String, Indexed>,
    files: Vec<(PathBuf, u64)>,
}

/// The archive file of one handbook.
pub(super) struct Archive {
    file: Kept,
    was_read: bool,
}

impl Archive {
    /// The archive at `path`.
    pub(super) fn new(path: PathBuf) -> Self {
        // Another version of this program may parse Markdown and words differently.
        let what = format!("handbook index {FORMAT} {}", env!("CARGO_PKG_VERSION"));
        Self { file: Kept::new(path, &what), was_read: false }
    }

    /// Reads the archive, if it is usable. A second call returns `None`, because an archive that failed once
    /// would fail again.
    pub(super) fn read(&mut self) -> Option<Archived> {
        if std::mem::replace(&mut self.was_read, true) {
            return None;
        }
        self.file.read(|body| {
            let table: Table = read_table(body)?;
            let files = table.files.into_iter().map(|(path, length)| Ok((path, body.take(length)?)));
            let files = files.collect::<io::Result<Vec<_>>>()?;
            let index = SearchIndex::of(files).map_err(io::Error::other)?;
            Ok(Archived { index, documents: table.documents })
        })
    }

    /// Writes `index` with these documents. Returns false if that failed.
    pub(super) fn write<'a>(
        &mut self,
        index: &SearchIndex,
        documents: impl Iterator<Item = &'a Document>,
    ) -> bool {
        let documents = documents.map(|document| (document.file_path.clone(), Indexed::of(document)));
        let documents = documents.collect();
        self.file.write(|out| {
            let files = index.files().map_err(io::Error::other)?;
            let lengths = files.iter().map(|(path, file)| (path.clone(), file.len() as u64)).collect();
            let table = serde_json::to_vec(&Table { documents, files: lengths })?;
            out.write_all(&(table.len() as u64).to_le_bytes())?;
            out.write_all(&table)?;
            files.iter().try_for_each(|(_, file)| out.write_all(&file.read_bytes()?))
        })
    }
}

fn read_table<R: Read>(body: &mut Body<R>) -> io::Result<Table> {
    let length = body.number()?;
    if length > MOST_TABLE {
        return Err(io::Error::other("its table is too long"));
    }
    Ok(serde_json::from_slice(&body.take(length)?)?)
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
