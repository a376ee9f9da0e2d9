//! The dimension of a model's vectors: what was configured or seen first, and all else is an error.

use std::sync::OnceLock;

use super::Error;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Dimension(OnceLock<usize>);

impl Dimension {
    /// One that the operator says.
    pub(super) fn configured(dimension: Option<usize>) -> Self {
        Self(dimension.map_or_else(OnceLock::new, OnceLock::from))
    }

    pub(super) fn known(&self) -> Option<usize> {
        self.0.get().copied()
    }

    /// Checks that the vectors of `model` are all of it, and learns it from them.
    pub(super) fn check(&self, model: &str, vectors: &[Vec<f32>]) -> Result<(), Error> {
        let Some(first) = vectors.first().map(Vec::len) else { return Ok(()) };
        let expected = self.known().unwrap_or(first);
        if let Some(other) = vectors.iter().map(Vec::len).find(|len| *len != expected) {
            return Err(Error::Dimension { model: model.to_owned(), expected, found: other });
        }
        // Whoever was quicker may have seen another one.
        let expected = *self.0.get_or_init(|| first);
        let model = || model.to_owned();
        if first == expected {
            Ok(())
        } else {
            Err(Error::Dimension { model: model(), expected, found: first })
        }
    }
}
