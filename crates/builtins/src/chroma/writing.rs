//! Writes, replaces and deletes documents in such a way that a concurrent search finds the old or the new
//! document as a whole. A writer that is killed leaves nothing that a search finds.
//!
//! Chroma has no transactions, but each request is applied completely or not at all. So:
//!
//! - **A record counts if its revision is that of its document's head** (`layout`). Readers apply this rule
//!   (`consistent_search`).
//! - A writer chooses a revision greater than all stored ones. It writes all chunks but the first, which
//!   nobody sees yet, and then the head in one request. That request makes the revision visible. Then the
//!   writer deletes the chunks of older revisions. It replaces a head and never deletes it, so a document
//!   always has one.
//! - A deletion removes the head first, so the document disappears at once. The other chunks follow.
//! - A writer that is killed before it writes the head leaves chunks that never count. If it is killed later,
//!   it leaves chunks that no longer count. The next writer of the document deletes both. Every step can be
//!   repeated: ids and records stay equal, with a later revision.
//!
//! In this process, writers of one document run one after another (`context`). Several gateways may write a
//! document at the same time. Each deletes only chunks that are older than its own, and gives up before
//! writing its head if there is a newer one. At the end it checks whether its own revision is complete. If
//! not, the other gateway deleted parts of it:
//!
//! - If the other gateway's head is stored by then, that was the later writer, and this revision is deleted.
//! - Otherwise the document is written once more.
//!
//! Records of another program have the id of a document and no revision. They count as they are, until a writer of
//! Switchyard replaces the document and deletes them. For that moment a search may find both.
//!
//! So each writer answers only after the visible revision is complete. If two gateways write their heads at
//! the same moment, chunks of that document may be missing until one of them has checked. If both are killed
//! just then, the chunks are missing until the document is written again.

use serde_json::{Value, json};
use uuid::Uuid;

use super::layout::{Draft, Edition, Head, head_id, now};
use super::model::{Hit, Record, Records, Select};
use super::{BadRecords, ChromaClient};
use crate::answer::Failure;
use crate::refusal::Refusal;
use crate::rest::unsendable;
use upstream::api::Error;

/// How often a document is written while another gateway writes it too.
const ROUNDS: usize = 5;
/// Most records of another program that make one document.
const MAX_CHUNKS: usize = 10_000;
/// Approximate size of one request in bytes: far below the limit of Chroma, and quickly sent.
const BATCH_BYTES: usize = 8 << 20;

/// One document in one collection.
#[derive(Clone, Copy)]
pub(super) struct DocumentPlace<'a> {
    pub chroma: &'a ChromaClient,
    pub collection: Uuid,
    pub document: &'a str,
}

/// The state of a document in Chroma.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredDocument {
    pub head: Option<Head>,
    /// A revision greater than all stored ones.
    next: i64,
    /// Ids of the records that another program wrote, if there is no head of Switchyard.
    foreign: Vec<String>,
}

impl DocumentPlace<'_> {
    /// Returns the head of the document. If another program wrote it, one of its records takes that place.
    pub(super) async fn any_head(self) -> Result<Option<Head>, Error> {
        match self.head().await? {
            Some(head) => Ok(Some(head)),
            None => Ok(foreign_head(&self.foreign().await?)),
        }
    }

    /// Returns the records that another program wrote for the document: those that name it, and the one that has its
    /// id.
    async fn foreign(self) -> Result<Vec<Hit>, Error> {
        let named = json!({"document_id": {"$eq": self.document}});
        let named = Select { filter: Some(named), limit: Some(MAX_CHUNKS), ..Select::default() };
        let own = Select { ids: Some(vec![self.document.to_owned()]), ..Select::default() };
        let mut found = self.chroma.marks(self.collection, &named).await?;
        found.extend(self.chroma.marks(self.collection, &own).await?);
        let is_other = |hit: &Hit| hit.metadata.get("document_id").is_some_and(|id| id != self.document);
        found.retain(|hit| !hit.metadata.contains_key("revision") && !is_other(hit));
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.dedup_by(|a, b| a.id == b.id);
        Ok(found)
    }

    /// Returns the head of the document, if there is one.
    pub(super) async fn head(self) -> Result<Option<Head>, Error> {
        let select = Select { ids: Some(vec![head_id(self.document)]), ..Select::default() };
        let found = self.chroma.marks(self.collection, &select).await?;
        Ok(found.first().and_then(Head::of))
    }

    /// Returns what Chroma has of the document. Revisions come from clocks, which differ and can run
    /// backwards.
    pub(super) async fn look(self) -> Result<StoredDocument, Error> {
        let (mut head, mut foreign) = (self.head().await?, Vec::new());
        if head.is_none() {
            let found = self.foreign().await?;
            head = foreign_head(&found);
            foreign = found.into_iter().map(|hit| hit.id).collect();
        }
        let mut next = now().max(head.as_ref().map_or(0, |head| head.revision + 1));
        loop {
            let newer = self.revision("$gte", next);
            let select = Select { filter: Some(newer), limit: Some(1), ..Select::default() };
            let found = self.chroma.marks(self.collection, &select).await?;
            let revision = found.first().and_then(|hit| hit.metadata.get("revision")?.as_i64());
            match revision.filter(|revision| *revision >= next) {
                Some(revision) => next = revision + 1,
                None => return Ok(StoredDocument { head, next, foreign }),
            }
        }
    }

    /// Replaces the document by `draft`. `found` is what is stored.
    pub(super) async fn put(self, mut found: StoredDocument, draft: &Draft) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let revision = found.next;
            // Only a record that is replaced has metadata to remove.
            let is_replaced = found.foreign.is_empty() || found.foreign.contains(&head_id(self.document));
            let old = found.head.as_ref().filter(|_| is_replaced);
            let edition = Edition::new(self.document, revision, draft, old);
            self.upsert_all(edition.rest()).await?;
            if draft.pieces.len() > 1 && self.head().await?.is_some_and(|head| head.revision > revision) {
                return self.sweep(revision).await;
            }
            self.upsert_all(edition.head().into_iter()).await?;
            let older = self.revision("$lt", revision);
            let behind_the_head = json!({"chunk_index": {"$gt": 0}});
            self.chroma.delete_where(self.collection, &and(&older, &behind_the_head)).await?;
            found.foreign.retain(|id| *id != head_id(self.document));
            self.chroma.delete(self.collection, &found.foreign).await?;
            if self.count(revision).await? == draft.pieces.len() {
                return Ok(());
            }
            found = self.look().await?;
            let is_later = |head: &Head| head.revision > revision;
            if found.head.as_ref().is_none_or(is_later) {
                return self.sweep(revision).await;
            }
        }
        Err(contested(self.document).into())
    }

    /// Deletes the records of `revision`, because a later writer has already replaced them.
    async fn sweep(self, revision: i64) -> Result<(), Failure> {
        self.chroma.delete_where(self.collection, &self.revision("$eq", revision)).await?;
        Ok(())
    }

    /// Deletes the document. Returns the number of records.
    pub(super) async fn remove(self, found: &StoredDocument) -> Result<u64, Error> {
        if !found.foreign.is_empty() {
            self.chroma.delete(self.collection, &found.foreign).await?;
            return Ok(found.foreign.len() as u64);
        }
        let head = u64::from(found.head.is_some());
        if found.head.is_some() {
            self.chroma.delete(self.collection, &[head_id(self.document)]).await?;
        }
        let rest = self.chroma.delete_where(self.collection, &self.revision("$lt", found.next)).await?;
        Ok(head + rest)
    }

    async fn count(self, revision: i64) -> Result<usize, Error> {
        let select = Select { filter: Some(self.revision("$eq", revision)), ..Select::default() };
        self.chroma.ids(self.collection, &select).await.map(|ids| ids.len())
    }

    /// Returns a filter for the document's records whose revision compares with `revision` by `operator`.
    fn revision(self, operator: &str, revision: i64) -> Value {
        let own = json!({"document_id": {"$eq": self.document}});
        and(&own, &json!({"revision": {operator: revision}}))
    }

    /// Writes records in as many requests as needed, one after another.
    async fn upsert_all(self, records: impl Iterator<Item = Record>) -> Result<(), Error> {
        let most = self.chroma.most_records().await?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for record in records {
            let more = record.bytes();
            if !batch.is_empty() && (batch.len() >= most || bytes + more > BATCH_BYTES) {
                self.upsert(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
            bytes += more;
            batch.push(record);
        }
        if batch.is_empty() { Ok(()) } else { self.upsert(batch).await }
    }

    async fn upsert(self, batch: Vec<Record>) -> Result<(), Error> {
        let records = Records::new(batch, None).map_err(|bad: BadRecords| unsendable(&bad.to_string()))?;
        self.chroma.upsert(self.collection, &records).await
    }
}

/// Returns the first record of another program as a head, which any revision replaces.
fn foreign_head(records: &[Hit]) -> Option<Head> {
    let mut record = records.first()?.metadata.clone();
    record.insert("chunk_count".to_owned(), records.len().into());
    Some(Head { revision: 0, record })
}

fn and(one: &Value, other: &Value) -> Value {
    json!({"$and": [one, other]})
}

fn contested(document: &str) -> Refusal {
    Refusal::new("contested", "doc_id", document)
        .because("Other gateways write this document at the same time, again and again.")
        .valid("a document that one gateway writes at a time")
        .suggest("Try again in a moment.")
}
