//! Documents that could not be brought in, and why: for whoever was promised one and asks.
//!
//! Invariants: of one document there is the last word only, and none once it was brought in; at most
//! [`MOST`], the newest. R2R itself knows nothing of a document that it refused.
//!
//! Not here: where they are kept over a restart (`journal`).

use std::num::NonZeroUsize;

use lru::LruCache;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::serde::rfc3339;

use super::form;
use crate::answer::Failure;
use crate::r2r::id::Id;
use crate::r2r::model::{Document, Stage};

/// Documents that are remembered.
pub(super) const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);
/// Bytes of a reason that are remembered.
const LONGEST_REASON: usize = 500;

/// A document that could not be brought in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Failed {
    pub(in super::super) document: Id,
    pub(in super::super) collection: Id,
    /// The name of its file.
    pub(in super::super) file_name: String,
    /// Bytes of the file; 0 where it could not be read.
    pub(in super::super) size: u64,
    /// When it was asked for.
    #[serde(with = "rfc3339")]
    pub(super) since: OffsetDateTime,
    /// When it was given up.
    #[serde(with = "rfc3339")]
    pub(in super::super) at: OffsetDateTime,
    /// Why.
    pub(in super::super) reason: String,
}

impl Failed {
    /// Whether what R2R shows under its id came of the same wish after all, or of a later one. What was
    /// there before is what could not be replaced.
    pub(in super::super) fn is_outlived_by(&self, there: &Document) -> bool {
        let from = if there.stage() == Stage::Success { self.since } else { self.at };
        form::is_sent_since(&there.metadata, from)
    }
}

/// Why it failed, for people.
pub(super) fn reason(failure: &Failure) -> String {
    let text = match failure {
        Failure::Refused(refusal) => refusal.message().to_owned(),
        Failure::Failed(error) => error.to_string(),
    };
    text[..text.floor_char_boundary(LONGEST_REASON)].to_owned()
}

/// Those that are remembered.
#[derive(Debug)]
pub(super) struct AllFailed(LruCache<Id, Failed>);

impl Default for AllFailed {
    fn default() -> Self {
        Self(LruCache::new(MOST))
    }
}

impl AllFailed {
    /// Takes the place of what was said of the same document.
    pub(super) fn put(&mut self, failed: Failed) {
        self.0.put(failed.document, failed);
    }

    /// Forgets `document`.
    pub(super) fn remove(&mut self, document: Id) {
        self.0.pop(&document);
    }

    /// What is known of `document`.
    pub(super) fn get(&self, document: Id) -> Option<&Failed> {
        self.0.peek(&document)
    }

    /// All, the newest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Failed> {
        self.0.iter().map(|(_, failed)| failed)
    }
}

#[cfg(test)]
#[path = "failed_tests.rs"]
mod tests;
