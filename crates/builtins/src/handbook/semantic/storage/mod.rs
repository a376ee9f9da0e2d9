//! Storage of the handbook's vectors: in memory, or in a Chroma server (`store: chroma`).
//!
//! In memory, the vectors are part of each document of [`Vectors`], and this module has nothing to do. In
//! Chroma, a record is a vector whose id is the digest of its text, and nothing else. Only Switchyard knows
//! which section has that text. A record without a current text is therefore never a hit. A text that
//! returns, moves or occurs in two documents is embedded once.
//!
//! ```text
//!  link (client, name, outage) ◀── maintenance: what is there, put, delete      one task, the indexer
//!            ▲                          │ publishes StoredVectors per collection and mean
//!            └──────────────────── stored_vectors: what is near a question  every search
//! ```
//!
//! Invariants: a collection is written only if it was made for a handbook and fits the model, dimension and
//! space. A record is deleted after the state without it was published, and only if Switchyard wrote it or
//! found it at the start. So gateways with different folders do not keep deleting from each other. Every
//! request has a limit of time, records and bytes.
//!
//! **The mean.** `fusion` compares a cosine with the mean of all cosines, which cannot be read from Chroma.
//! But all vectors have length 1, so that mean is the product of the query and the mean vector. The mean
//! vector is kept here. It is computed from at most a thousand stored vectors, evenly chosen, when all
//! documents have vectors and again after a tenth has changed.

#[cfg(test)]
mod fixture;
mod link;
mod maintenance;
#[cfg(test)]
mod outage_tests;
mod places;
mod stored_vectors;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::passages::{Digested, Passage};
use super::vectors::Vectors;
use crate::embedding::{self, Embedding};
use upstream::api::Error;

pub(in super::super) use self::link::Link;
use self::maintenance::CollectionMaintenance;
pub(in super::super) use self::stored_vectors::ChromaSearch;
pub(super) use self::stored_vectors::{KnownVectors, StoredVectors};

/// Storage of vectors, as the indexer sees it.
pub(in super::super) enum VectorStorage {
    /// In memory, with each document.
    Memory,
    /// In a collection at Chroma.
    Chroma(Box<CollectionMaintenance>),
}

/// Why vectors cannot be made or stored.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum StorageError {
    /// The embedding provider failed.
    #[error("{0}")]
    Embedding(#[from] embedding::Error),
    /// Chroma failed.
    #[error("Chroma failed: {0}")]
    Chroma(#[from] Error),
    /// The collection does not fit. Nothing was written.
    #[error("nothing is written into the collection `{name}` at Chroma: {why}")]
    Foreign {
        /// Name of the collection.
        name: String,
        /// The mismatch, and advice.
        why: String,
    },
}

impl VectorStorage {
    /// The collection that `link` leads to.
    pub(in super::super) fn at(link: Arc<Link>) -> Self {
        Self::Chroma(Box::new(CollectionMaintenance::new(link)))
    }

    /// Lists the stored vectors if needed. Removes documents with missing vectors from `vectors`.
    pub(super) async fn open(
        &mut self,
        model: &dyn Embedding,
        vectors: &mut Vectors,
    ) -> Result<(), StorageError> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(maintenance) => maintenance.open(model, vectors).await,
        }
    }

    /// Checks with one of `passages` that `model` made the stored vectors.
    pub(super) async fn prove<'a>(
        &mut self,
        model: &dyn Embedding,
        passages: impl Iterator<Item = &'a Passage>,
    ) -> Result<(), StorageError> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(maintenance) => maintenance.prove(model, passages).await,
        }
    }

    /// Whether the vector of the text with this digest is stored at Chroma.
    pub(super) fn has(&self, digest: &Digested) -> bool {
        match self {
            Self::Memory => false,
            Self::Chroma(maintenance) => maintenance.has(digest),
        }
    }

    /// Stores new vectors. Returns those that belong into the documents.
    pub(super) async fn put(
        &mut self,
        model: &dyn Embedding,
        digests: &[Digested],
        vectors: Vec<Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>, StorageError> {
        match self {
            Self::Memory => Ok(vectors),
            Self::Chroma(maintenance) => {
                maintenance.put(model, digests, vectors).await?;
                Ok(vec![Vec::new(); digests.len()])
            }
        }
    }

    /// Prepares for searches after all documents of `vectors` are stored.
    pub(super) async fn settle(&mut self, vectors: &Vectors) -> Result<(), StorageError> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(maintenance) => maintenance.settle(vectors).await,
        }
    }

    /// Deletes stored vectors that belong to no document of `vectors`.
    pub(super) async fn forget(&mut self, vectors: &Vectors) -> Result<(), StorageError> {
        match self {
            Self::Memory => Ok(()),
            Self::Chroma(maintenance) => maintenance.forget(vectors).await,
        }
    }

    /// Returns the access for searches. `None` if the vectors are in memory or not ready.
    pub(super) fn stored_vectors(&self) -> Option<Arc<StoredVectors>> {
        match self {
            Self::Memory => None,
            Self::Chroma(maintenance) => maintenance.stored_vectors(),
        }
    }

    /// Whether `stored_vectors` is the current access.
    pub(super) fn is_reached_by(&self, stored_vectors: Option<&Arc<StoredVectors>>) -> bool {
        match (self.stored_vectors(), stored_vectors) {
            (Some(own), Some(other)) => Arc::ptr_eq(&own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    /// Whether searches may use the stored vectors.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Memory) || self.stored_vectors().is_some()
    }

    /// Whether searches have already logged `trouble`.
    pub(super) fn is_told(&self, trouble: &StorageError) -> bool {
        matches!((self, trouble), (Self::Chroma(maintenance), StorageError::Chroma(_)) if maintenance.is_outage())
    }

    /// Resolves when the storage should be checked although no document has changed. Cancel-safe.
    pub(super) async fn is_due(&mut self) {
        match self {
            Self::Memory => std::future::pending().await,
            Self::Chroma(maintenance) => maintenance.is_due().await,
        }
    }

    /// Resolves when a failed operation may succeed now.
    pub(super) async fn is_back(&mut self) {
        match self {
            Self::Memory => std::future::pending().await,
            Self::Chroma(maintenance) => maintenance.is_back().await,
        }
    }
}
