//! The index as it is kept on disk between two runs, so that only documents that changed are indexed again.
//!
//! It says which content of which file has which number in the index, and holds the index's own files.
//! Documents are read at each start all the same: their text is what hits are shown from. Invariant: a
//! document counts as indexed only if its file has the content that was indexed, to the last byte.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tantivy::HasLen;

use super::document::Document;
use super::git_log::Blob;
use super::index::SearchIndex;
use crate::handbook::disk_cache::{Body, Kept};

/// Goes up whenever the same documents would be indexed in another way; a test knows what it stands for.
const FORMAT: u32 = 2;
/// Longest table of contents, in bytes.
const MOST_TABLE: u64 = 64 << 20;

/// A document in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Indexed {
    /// Its number.
    pub serial: u64,
    /// How many sections it has.
    pub sections: usize,
    /// Of which content.
    content: [u8; 32],
}

impl Indexed {
    fn of(document: &Document) -> Self {
        let (serial, sections) = (document.serial, document.sections.len());
        Self { serial, sections, content: document.blob.strong() }
    }

    /// Whether it was indexed with this content.
    pub(super) fn is_of(&self, blob: &Blob) -> bool {
        self.content == blob.strong()
    }
}

/// An index, and which documents are in it, by file.
pub(super) struct Archived {
    /// The index.
    pub index: SearchIndex,
    /// What is in it.
    pub documents: HashMap<String, Indexed>,
}

/// What stands before the files.
#[derive(Serialize, Deserialize)]
struct Table {
    documents: HashMap<String, Indexed>,
    files: Vec<(PathBuf, u64)>,
}

/// The file for the index of one handbook.
pub(super) struct Archive {
    file: Kept,
    was_read: bool,
}

impl Archive {
    /// The file at `path`.
    pub(super) fn new(path: PathBuf) -> Self {
        // Also what this program makes of Markdown and words may change from one version to the next.
        let what = format!("handbook index {FORMAT} {}", env!("CARGO_PKG_VERSION"));
        Self { file: Kept::new(path, &what), was_read: false }
    }

    /// What is in it, if it can be used; nothing the second time, because what failed with it once would fail
    /// again.
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

    /// Has it hold `index`, in which these documents are. False when that was not possible.
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
