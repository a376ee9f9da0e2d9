//! How a document is written, replaced and deleted so that whoever searches meanwhile finds it whole: as it
//! was or as it is to be, and whoever is killed meanwhile leaves nothing that is found.
//!
//! Chroma has no transactions; one request is all or nothing. So:
//!
//! - **A record counts if its revision is that of its document's head** (`layout`). Readers hold to it
//!   (`seeking`).
//! - A writer takes a revision beyond all that are there, writes the chunks behind the first (nobody
//!   sees them), then the head, in one request: the flip. Then it deletes the chunks of older revisions.
//!   A head is replaced and never deleted by a writer, so a document is never without one.
//! - Who deletes a document deletes its head first: it is gone at once. Then the rest.
//! - Killed before the flip, a writer leaves chunks that never count; killed behind it, chunks that count
//!   no more. The next writer of the document deletes both. All can be done again: the same ids, the same
//!   records, one revision later.
//!
//! In this process writers of one document go one after another (`locks`). Several gateways may write it at
//! once: each deletes only what is older than its own, gives way before its flip to a newer head, and looks
//! at the end whether its own is whole. If not, the other one deleted it in passing: where the other's head
//! stands by then, that was the later writer and ours is swept up; else ours is written once more. So each
//! writer answers only when what is found is whole; where both flip at the same moment, chunks of that one
//! document may be missing until one of them has looked, or, if both are killed just then, until it is
//! written again.

use serde_json::{Value, json};
use uuid::Uuid;

use super::layout::{Draft, Edition, Head, head_id, now};
use super::model::{Record, Records, Select};
use super::{BadRecords, Chroma};
use crate::answer::Failure;
use crate::refusal::Refusal;
use crate::rest::unsendable;
use upstream::api::Error;

/// Times that a document is written while another gateway writes it too.
const ROUNDS: usize = 5;
/// Bytes of one request, roughly: far below what Chroma takes, and sent in a moment.
const BATCH_BYTES: usize = 8 << 20;

/// One document in one collection.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub chroma: &'a Chroma,
    pub collection: Uuid,
    pub document: &'a str,
}

/// What is there of a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub head: Option<Head>,
    /// A revision beyond all that are there.
    next: i64,
}

impl Place<'_> {
    /// The head of the document, if it is there.
    pub(super) async fn head(self) -> Result<Option<Head>, Error> {
        let select = Select { ids: Some(vec![head_id(self.document)]), ..Select::default() };
        let found = self.chroma.marks(self.collection, &select).await?;
        Ok(found.first().and_then(Head::of))
    }

    /// What is there of the document. Revisions come from clocks, which step back and differ.
    pub(super) async fn look(self) -> Result<Found, Error> {
        let head = self.head().await?;
        let mut next = now().max(head.as_ref().map_or(0, |head| head.revision + 1));
        loop {
            let newer = self.revision("$gte", next);
            let select = Select { filter: Some(newer), limit: Some(1), ..Select::default() };
            let found = self.chroma.marks(self.collection, &select).await?;
            let revision = found.first().and_then(|hit| hit.metadata.get("revision")?.as_i64());
            match revision.filter(|revision| *revision >= next) {
                Some(revision) => next = revision + 1,
                None => return Ok(Found { head, next }),
            }
        }
    }

    /// Makes the document what `draft` says, where `found` is what is there.
    pub(super) async fn put(self, mut found: Found, draft: &Draft) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let revision = found.next;
            let edition = Edition::new(self.document, revision, draft, found.head.as_ref());
            self.upsert_all(edition.rest()).await?;
            if draft.pieces.len() > 1 && self.head().await?.is_some_and(|head| head.revision > revision) {
                return self.sweep(revision).await;
            }
            self.upsert_all(edition.head().into_iter()).await?;
            let older = self.revision("$lt", revision);
            let behind_the_head = json!({"chunk_index": {"$gt": 0}});
            self.chroma.delete_where(self.collection, &and(&older, &behind_the_head)).await?;
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

    /// A later writer was done first, so ours is replaced already.
    async fn sweep(self, revision: i64) -> Result<(), Failure> {
        self.chroma.delete_where(self.collection, &self.revision("$eq", revision)).await?;
        Ok(())
    }

    /// Deletes the document; gives how many records that were.
    pub(super) async fn remove(self, found: &Found) -> Result<u64, Error> {
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

    /// The records of the document whose revision compares so with `revision`.
    fn revision(self, operator: &str, revision: i64) -> Value {
        let own = json!({"document_id": {"$eq": self.document}});
        and(&own, &json!({"revision": {operator: revision}}))
    }

    /// In as many requests as it takes, one after another.
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

fn and(one: &Value, other: &Value) -> Value {
    json!({"$and": [one, other]})
}

fn contested(document: &str) -> Refusal {
    Refusal::new("contested", "doc_id", document)
        .because("Other gateways write this document at the same time, again and again.")
        .valid("a document that one gateway writes at a time")
        .suggest("Try again in a moment.")
}
