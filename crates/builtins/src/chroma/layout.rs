//! How a document lies in Chroma: one record for each chunk.
//!
//! The first chunk is the document's *head*, with the id `DOCUMENT#00000` in every revision; the others have
//! ids that say their revision, `DOCUMENT#00001@REVISION`, so that none is ever another than it was. All
//! carry the document's id, its revision, their place in it and what the caller says of it. What that
//! means for readers and writers: [`super::writing`].

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::metadata::{DIGEST, FORMER_DIGEST, Subject};
use super::model::{Hit, Metadata, Record};
use runtime::hex::hex;

/// What a document id is made in.
const SPACE: Uuid = Uuid::from_u128(0x6d1e_5c2a_90b7_4f43_8a51_7e0c_21d9_b6f4);

/// One chunk with its vector.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub content: String,
    /// Its first character in the document.
    pub start: usize,
    /// The one behind its last.
    pub end: usize,
    /// The headings it stands under.
    pub headings: Vec<String>,
    pub vector: Vec<f32>,
}

/// A document as it is to be.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// Not none: the first one is the head.
    pub pieces: Vec<Piece>,
    /// What the caller says of it.
    pub metadata: Metadata,
    /// What tells its content and metadata from others, see [`source`].
    pub source: String,
    /// The size of a chunk, where the caller asked for one.
    pub chunk_size: Option<usize>,
}

/// The head of a document that is there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    pub revision: i64,
    /// All that its record says.
    pub record: Metadata,
}

impl Head {
    pub(super) fn of(hit: &Hit) -> Option<Self> {
        let mark = Mark::of(hit).filter(|mark| hit.id == head_id(&mark.document))?;
        Some(Self { revision: mark.revision, record: hit.metadata.clone() })
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.record.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.record.get(key).and_then(Value::as_u64)
    }

    /// What tells its content and metadata from others.
    pub(super) fn source(&self) -> Option<String> {
        self.text(DIGEST).or_else(|| self.text(FORMER_DIGEST))
    }

    /// What the caller said of the document.
    pub(super) fn said(&self) -> Metadata {
        Subject::Document.said(&self.record)
    }
}

/// What tells that a record is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub document: String,
    pub revision: i64,
}

impl Mark {
    /// None: others put it there, and it stands for itself.
    pub(super) fn of(hit: &Hit) -> Option<Self> {
        let document = hit.metadata.get("document_id")?.as_str()?.to_owned();
        Some(Self { document, revision: hit.metadata.get("revision")?.as_i64()? })
    }
}

/// The id of a document's head.
pub(super) fn head_id(document: &str) -> String {
    format!("{document}#00000")
}

fn chunk_id(document: &str, index: usize, revision: i64) -> String {
    if index == 0 { head_id(document) } else { format!("{document}#{index:05}@{revision}") }
}

/// What content and metadata are, in a few characters.
pub(super) fn source(content: &str, said: &Metadata) -> String {
    // Whatever order they came in.
    let said = said.iter().collect::<BTreeMap<_, _>>();
    let all = serde_json::to_vec(&(content, said)).unwrap_or_default();
    hex(&Sha256::digest(&all)[..16])
}

/// The id of a document that is added: the same for the same content and metadata, so that what is added
/// again after its answer was lost is the same document. `turn` counts those that are another by now.
pub(super) fn document_id(source: &str, turn: usize) -> String {
    Uuid::new_v5(&SPACE, format!("{source}/{turn}").as_bytes()).to_string()
}

/// Microseconds since 1970: below 2⁵³ until 2255, so that every reader of JSON has it exactly.
pub(super) fn now() -> i64 {
    let now = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000;
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// A revision as a time for people.
pub(super) fn time_of(revision: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(revision) * 1_000).ok();
    let time = time.map(|time| time.replace_nanosecond(0).unwrap_or(time));
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// One revision of a document, whose records are made when they are sent.
pub(super) struct Edition<'a> {
    document: &'a str,
    revision: i64,
    draft: &'a Draft,
    /// The head that is there.
    old: Option<&'a Head>,
    created_at: String,
}

impl<'a> Edition<'a> {
    pub(super) fn new(document: &'a str, revision: i64, draft: &'a Draft, old: Option<&'a Head>) -> Self {
        let created_at = old.and_then(|old| old.text("created_at")).unwrap_or_else(|| time_of(revision));
        Self { document, revision, draft, old, created_at }
    }

    /// All chunks but the first.
    pub(super) fn rest(&self) -> impl Iterator<Item = Record> {
        let rest = self.draft.pieces.iter().enumerate().skip(1);
        rest.map(|(index, piece)| self.record(index, piece))
    }

    /// Chroma merges metadata, so what the old head says and the new one does not is sent as `null`.
    pub(super) fn head(&self) -> Option<Record> {
        let mut head = self.record(0, self.draft.pieces.first()?);
        for key in self.old.into_iter().flat_map(|old| old.record.keys()) {
            head.metadata.entry(key.clone()).or_insert(Value::Null);
        }
        Some(head)
    }

    fn record(&self, index: usize, piece: &Piece) -> Record {
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
