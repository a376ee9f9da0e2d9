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

use crate::embedding;
use upstream::api::Error;

pub(in super::super) use self::link::Link;
pub(in super::super) use self::maintenance::CollectionMaintenance;
pub(in super::super) use self::stored_vectors::ChromaSearch;
pub(super) use self::stored_vectors::{KnownVectors, StoredVectors};

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
