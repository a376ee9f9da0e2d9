//! Layout of a document in Chroma: one record for each chunk.
//!
//! The first chunk is the *head* of the document. Its id is `DOCUMENT#00000` in every revision. The ids of
//! the others contain the revision (`DOCUMENT#00001@REVISION`), so a record with such an id never changes.
//! Every record carries the document's id, its revision, the position of the chunk and the caller's metadata.
//!
//! Not here: how readers and writers use these records ([`super::writing`]).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::metadata::{DIGEST, Subject};
use super::model::{Hit, Metadata, Record};

/// Namespace of the UUIDs that are document ids.
const SPACE: Uuid = Uuid::from_u128(0x6d1e_5c2a_90b7_4f43_8a51_7e0c_21d9_b6f4);

/// One chunk with its vector.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChunkRecord {
    pub content: String,
    /// Index of its first character in the document.
    pub start: usize,
    /// Index after its last character.
    pub end: usize,
    /// Headings of its section.
    pub headings: Vec<String>,
    pub vector: Vec<f32>,
}

/// A document to be written.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The chunks. Never empty, because the first one is the head.
    pub pieces: Vec<ChunkRecord>,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// Digest of the content and the metadata, see [`source`].
    pub source: String,
    /// The size of a chunk, if the caller set one.
    pub chunk_size: Option<usize>,
}

impl Draft {
    /// The numbers in a vector.
    pub(super) fn dimension(&self) -> usize {
        self.pieces.first().map_or(0, |piece| piece.vector.len())
    }
}

/// The head of a stored document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    pub revision: i64,
    /// All metadata of its record.
    pub record: Metadata,
}

impl Head {
    pub(super) fn of(hit: &Hit) -> Option<Self> {
        let mark = RecordMark::of(hit).filter(|mark| hit.id == head_id(&mark.document))?;
        Some(Self { revision: mark.revision, record: hit.metadata.clone() })
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.record.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.record.get(key).and_then(Value::as_u64)
    }

    /// Returns the digest of the content and the metadata.
    pub(super) fn source(&self) -> Option<String> {
        self.text(DIGEST)
    }

    /// Returns the caller's metadata of the document.
    pub(super) fn caller_metadata(&self) -> Metadata {
        Subject::Document.without_reserved(&self.record)
    }
}

/// Identifies a record that Switchyard wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordMark {
    pub document: String,
    pub revision: i64,
}

impl RecordMark {
    /// Returns `None` for a record of another program. It belongs to no document.
    pub(super) fn of(hit: &Hit) -> Option<Self> {
        let document = hit.metadata.get("document_id")?.as_str()?.to_owned();
        Some(Self { document, revision: hit.metadata.get("revision")?.as_i64()? })
    }
}

/// Returns the id of a document's head.
pub(super) fn head_id(document: &str) -> String {
    format!("{document}#00000")
}

fn chunk_id(document: &str, index: usize, revision: i64) -> String {
    if index == 0 { head_id(document) } else { format!("{document}#{index:05}@{revision}") }
}

/// Returns a short digest of content and metadata.
pub(super) fn source(content: &str, said: &Metadata) -> String {
    // Sorted, because the order of keys must not matter.
    let said = said.iter().collect::<BTreeMap<_, _>>();
    let all = serde_json::to_vec(&(content, said)).unwrap_or_default();
    hex::encode(&Sha256::digest(&all)[..16])
}

/// Returns the id of a new document, which depends on content and metadata. So a document that is added again
/// after its answer was lost gets its id again. `turn` counts documents with that id whose content has
/// changed since.
pub(super) fn document_id(source: &str, turn: usize) -> String {
    Uuid::new_v5(&SPACE, format!("{source}/{turn}").as_bytes()).to_string()
}

/// Returns the microseconds since 1970: below 2⁵³ until 2255, so every JSON reader keeps them exact.
pub(super) fn now() -> i64 {
    let now = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000;
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// Returns a revision as a readable time.
pub(super) fn time_of(revision: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(revision) * 1_000).ok();
    let time = time.map(|time| time.replace_nanosecond(0).unwrap_or(time));
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// One revision of a document. Its records are made when they are sent.
pub(super) struct Edition<'a> {
    document: &'a str,
    revision: i64,
    draft: &'a Draft,
    /// The stored head.
    old: Option<&'a Head>,
    created_at: String,
}

impl<'a> Edition<'a> {
    pub(super) fn new(document: &'a str, revision: i64, draft: &'a Draft, old: Option<&'a Head>) -> Self {
        let created_at = old.and_then(|old| old.text("created_at")).unwrap_or_else(|| time_of(revision));
        Self { document, revision, draft, old, created_at }
    }

    /// Returns the records of all chunks after the first.
    pub(super) fn rest(&self) -> impl Iterator<Item = Record> {
        let rest = self.draft.pieces.iter().enumerate().skip(1);
        rest.map(|(index, piece)| self.record(index, piece))
    }

    /// Returns the record of the head. Chroma merges metadata, so keys that only the old head has are sent as
    /// `null`.
    pub(super) fn head(&self) -> Option<Record> {
        let mut head = self.record(0, self.draft.pieces.first()?);
        for key in self.old.into_iter().flat_map(|old| old.record.keys()) {
            head.metadata.entry(key.clone()).or_insert(Value::Null);
        }
        Some(head)
    }

    fn record(&self, index: usize, piece: &ChunkRecord) -> Record {
        let mut metadata = self.draft.metadata.clone();
        let mut set = |key: &str, value: Value| metadata.insert(key.to_owned(), value);
        set("document_id", self.document.into());
        set("revision", self.revision.into());
        set("chunk_index", index.into());
        set("chunk_count", self.draft.pieces.len().into());
        set("start_pos", piece.start.into());
        set("end_pos", piece.end.into());
        set(DIGEST, self.draft.source.as_str().into());
        set("created_at", self.created_at.as_str().into());
        set("updated_at", time_of(self.revision).into());
        if let Some(size) = self.draft.chunk_size {
            set("chunk_size", size.into());
        }
        if !piece.headings.is_empty() {
            set("headings", json!(piece.headings));
        }
        Record {
            id: chunk_id(self.document, index, self.revision),
            vector: piece.vector.clone(),
            document: piece.content.clone(),
            metadata,
        }
    }
}
