//! Documents that could not be ingested, with the reasons, for clients that were promised one.
//!
//! Invariants: only the last failure of a document is kept, and none after it was ingested. At most [`MOST`]
//! are kept, the newest. R2R itself does not know a document that it refused.
//!
//! Not here: storing them for a restart (`journal`).

use std::num::NonZeroUsize;

use lru::LruCache;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::serde::rfc3339;

use super::form;
use crate::answer::Failure;
use crate::r2r::id::Id;
use crate::r2r::model::{R2rDocument, Stage};

/// Most failures that are kept.
pub(super) const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);
/// Longest reason that is kept, in bytes.
const LONGEST_REASON: usize = 500;

/// A document that could not be ingested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct FailedDocument {
    pub(in super::super) document: Id,
    pub(in super::super) collection: Id,
    /// Name of the file.
    pub(in super::super) file_name: String,
    /// Size of the file in bytes; 0 if it could not be read.
    pub(in super::super) size: u64,
    /// When it was requested.
    #[serde(with = "rfc3339")]
    pub(super) since: OffsetDateTime,
    /// When the ingestion failed.
    #[serde(with = "rfc3339")]
    pub(in super::super) at: OffsetDateTime,
    pub(in super::super) reason: String,
}

impl FailedDocument {
    /// Whether the document in R2R comes from this request after all, or from a later one. An earlier one is
    /// the version that should have been replaced.
    pub(in super::super) fn is_outlived_by(&self, there: &R2rDocument) -> bool {
        let from = if there.stage() == Stage::Success { self.since } else { self.at };
        form::is_sent_since(&there.metadata, from)
    }
}

/// Returns why it failed, for people.
pub(super) fn reason(failure: &Failure) -> String {
    let text = match failure {
        Failure::Refused(refusal) => refusal.message().to_owned(),
        Failure::Failed(error) => error.to_string(),
    };
    text[..text.floor_char_boundary(LONGEST_REASON)].to_owned()
}

/// The failures that are kept.
#[derive(Debug)]
pub(super) struct AllFailed(LruCache<Id, FailedDocument>);

impl Default for AllFailed {
    fn default() -> Self {
        Self(LruCache::new(MOST))
    }
}

impl AllFailed {
    /// Stores a failure in place of the document's former one.
    pub(super) fn put(&mut self, failed: FailedDocument) {
        self.0.put(failed.document, failed);
    }

    /// Removes the failure of `document`.
    pub(super) fn remove(&mut self, document: Id) {
        self.0.pop(&document);
    }

    /// Returns the failure of `document`.
    pub(super) fn get(&self, document: Id) -> Option<&FailedDocument> {
        self.0.peek(&document)
    }

    /// Returns all failures, the newest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &FailedDocument> {
        self.0.iter().map(|(_, failed)| failed)
    }
}

#[cfg(test)]
#[path = "failed_tests.rs"]
mod tests;
