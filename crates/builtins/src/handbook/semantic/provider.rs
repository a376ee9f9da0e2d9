//! The requirements of the handbook on its embedding provider: an answer in time, and equal vectors for equal texts.
//!
//! Not here: the pause after a failure (`outage`, `indexer`).

use std::time::Duration;

use tokio::time::Instant;

use super::passages::Passage;
use crate::embedding::{Embedding, Error, is_same_direction};
use upstream::api::Error as Failure;

/// Time limit of a request. The built-in model reads a full window in some tenths of a second.
pub(super) const LIMIT: Duration = Duration::from_mins(5);

/// Whether the provider refused the texts, and did not fail itself.
pub(super) fn is_refusal(error: &Error) -> bool {
    let Error::Failed { failure: Failure::Backend { status, .. }, .. } = error else { return false };
    matches!(status, 400 | 413 | 422)
}

/// Whether `model` makes the vector `vector` of this passage. If it refuses the passage, it does not. An error
/// is the provider's, and leaves the question open. The cached vectors of a model that has changed are dropped.
pub(super) async fn is_made_by(
    model: &dyn Embedding,
    passage: &Passage,
    vector: &[f32],
) -> Result<bool, Error> {
    let text = [passage.text.clone()];
    match model.embed_uncached(&text, Instant::now() + LIMIT).await {
        Err(error) if !is_refusal(&error) => Err(error),
        made => {
            let is_same =
                |made: Vec<Vec<f32>>| made.first().is_some_and(|made| is_same_direction(made, vector));
            let is_same = made.is_ok_and(is_same);
            if !is_same {
                model.forget_cached().await;
            }
            Ok(is_same)
        }
    }
}
