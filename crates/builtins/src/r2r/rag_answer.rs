//! A generated answer of R2R, streamed or not, and the check of its passages.
//!
//! Invariant: an answer with a passage from outside the collection is withheld.
//!
//! Not here: the request (`rag`), and reading the stream (`rag_stream`).

use super::id::Id;
use super::model::R2rChunk;
use super::search;
use upstream::api::Error;

/// Passages that an answer is made from.
pub(super) const PASSAGES: u32 = 5;

/// Answer of R2R, streamed or not.
pub(super) struct RagAnswer {
    pub answer: String,
    pub chunks: Vec<R2rChunk>,
    pub model: Option<String>,
    pub is_complete: bool,
}

/// Checks that all passages are of `collection`. R2R was asked for this collection only, and the client may
/// not read others.
pub(super) fn passages(chunks: Vec<R2rChunk>, collection: Id) -> Result<Vec<R2rChunk>, Error> {
    if chunks.iter().any(|chunk| !chunk.collection_ids.contains(&collection)) {
        tracing::error!(%collection, "R2R answered from outside the collection it was asked about");
        let reason = "R2R answered from outside the collection; the answer is withheld".to_owned();
        return Err(Error::Malformed { reason });
    }
    Ok(search::own(chunks, collection, PASSAGES as usize))
}
