//! Where the vectors of the handbook are: in memory, or in a Chroma server (`store: chroma`).
//!
//! In memory they are part of each document of [`Vectors`], and this has nothing to do. In Chroma a record is a
//! vector under the digest of the text that it was made of, and nothing else; which section has that text is
//! known here alone. So a record that is of no present text is never a hit, whoever left it there, and a text
//! that comes back, moves or stands in two documents is embedded once.
//!
//! ```text
//!  link (client, name, outage) ◀── upkeep: what is there, put, delete      one task, the indexer
//!            ▲                          │ publishes a Reach per collection and mean
//!            └──────────────────── reach: what is near to a question       every search
//! ```
//!
//! Invariants: nothing is written into a collection that is not of this model, dimension and space, or that no
//! handbook made; a record is deleted when the state without it is published, and only if it was found at the
//! start or written by us, so that gateways with different folders do not delete from each other for ever; every
//! request has a limit of time, of records and of bytes.
//!
//! **The mean.** `fusion` measures a cosine against the mean of all, which nobody but memory can look at. But all
//! vectors have length 1, so the mean of their cosines is the product of the question with the mean vector, and
//! that one is kept: of a sample of at most a thousand stored vectors, evenly chosen, read back when all documents
//! have vectors and when a tenth of them has changed.

#[cfg(test)]
mod fixture;
mod link;
#[cfg(test)]
mod outage_tests;
mod places;
mod reach;
#[cfg(test)]
mod tests;
mod upkeep;

use std::sync::Arc;

use super::passages::{Digested, Passage};
use super::vectors::Vectors;
use crate::embedding::{self, Embedding};
use upstream::api::Error;

pub(in super::super) use self::link::Link;
pub(in super::super) use self::reach::Wish;
pub(super) use self::reach::{Known, Reach};
use self::upkeep::Upkeep;

/// Where they are, for the one who puts them there.
pub(in super::super) enum Shelf {
    /// In each document.
    Memory,
    /// In a collection at Chroma.
    Chroma(Box<Upkeep>),
}

/// Why vectors can not be made or kept.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum Trouble {
    /// They are not made.
    #[error("{0}")]
    Embedding(#[from] embedding::Error),
    /// They are not kept.
    #[error("Chroma failed: {0}")]
    Chroma(#[from] Error),
    /// They do not belong there. Nothing was written.
    #[error("nothing is written into the collection `{name}` at Chroma: {why}")]
    Foreign {
        /// The collection.
        name: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
}

impl Shelf {
    /// In the collection that `link` leads to.
    pub(in super::super) fn at(link: Arc<Link>) -> Self {
        Self::Chroma(Box::new(Upkeep::new(link)))
    }

    /// Makes sure that what is on it is known. Documents of which something is missing are taken out of `vectors`.
    pub(super) async fn open(&mut self, model: &dyn Embedding, vectors: &mut Vectors) -> Result<(), Trouble> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(upkeep) => upkeep.open(model, vectors).await,
        }
    }

    /// Shows by one of `passages` that `model` makes what is on it.
    pub(super) async fn prove<'a>(
        &mut self,
        model: &dyn Embedding,
        passages: impl Iterator<Item = &'a Passage>,
    ) -> Result<(), Trouble> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(upkeep) => upkeep.prove(model, passages).await,
        }
    }

    /// Whether the vector of the text with this digest is on it; one that is in memory is with its document.
    pub(super) fn has(&self, digest: &Digested) -> bool {
        match self {
            Self::Memory => false,
            Self::Chroma(upkeep) => upkeep.has(digest),
        }
    }

    /// Puts new vectors on it. What comes back belongs into the documents.
    pub(super) async fn put(
        &mut self,
        model: &dyn Embedding,
        digests: &[Digested],
        vectors: Vec<Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>, Trouble> {
        match self {
            Self::Memory => Ok(vectors),
            Self::Chroma(upkeep) => {
                upkeep.put(model, digests, vectors).await?;
                Ok(vec![Vec::new(); digests.len()])
            }
        }
    }

    /// All documents of `vectors` are on it: makes it ready to be searched.
    pub(super) async fn settle(&mut self, vectors: &Vectors) -> Result<(), Trouble> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(upkeep) => upkeep.settle(vectors).await,
        }
    }

    /// Drops what is of no document of `vectors`.
    pub(super) async fn forget(&mut self, vectors: &Vectors) -> Result<(), Trouble> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(upkeep) => upkeep.forget(vectors).await,
        }
    }

    /// The way to what is on it, for searches. None where that is in memory, or not ready.
    pub(super) fn reach(&self) -> Option<Arc<Reach>> {
        match self {
            Self::Memory => None,
            Self::Chroma(upkeep) => upkeep.reach(),
        }
    }

    /// Whether `reach` is the present way.
    pub(super) fn is_reached_by(&self, reach: Option<&Arc<Reach>>) -> bool {
        match (self.reach(), reach) {
            (Some(own), Some(other)) => Arc::ptr_eq(&own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    /// Whether searches may go by what is on it.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Memory) || self.reach().is_some()
    }

    /// Whether `trouble` was told already, by those who search.
    pub(super) fn is_told(&self, trouble: &Trouble) -> bool {
        matches!((self, trouble), (Self::Chroma(upkeep), Trouble::Chroma(_)) if upkeep.is_outage())
    }

    /// Resolves when it is to be looked at again, though no document has changed. Dropping it loses nothing.
    pub(super) async fn is_due(&mut self) {
        match self {
            Self::Memory => std::future::pending().await,
            Self::Chroma(upkeep) => upkeep.is_due().await,
        }
    }

    /// Resolves when there is a reason to believe that what failed may succeed now.
    pub(super) async fn is_back(&mut self) {
        match self {
            Self::Memory => std::future::pending().await,
            Self::Chroma(upkeep) => upkeep.is_back().await,
        }
    }
}
