//! Checks the dimension of a model's vectors: the configured one, or that of the first vector.

use std::sync::OnceLock;

use super::Error;

/// The dimension, if it is known.
#[derive(Debug, Default)]
pub(super) struct Dimension(OnceLock<usize>);

impl Dimension {
    /// Starts with the operator's value.
    pub(super) fn configured(dimension: Option<usize>) -> Self {
        Self(dimension.map_or_else(OnceLock::new, OnceLock::from))
    }

    pub(super) fn known(&self) -> Option<usize> {
        self.0.get().copied()
    }

    /// Checks that all vectors of `model` have the known dimension. Stores that of the first vector if there
    /// is none.
    pub(super) fn check(&self, model: &str, vectors: &[Vec<f32>]) -> Result<(), Error> {
        let Some(first) = vectors.first().map(Vec::len) else { return Ok(()) };
        let expected = self.known().unwrap_or(first);
        if let Some(other) = vectors.iter().map(Vec::len).find(|len| *len != expected) {
            return Err(Error::Dimension { model: model.to_owned(), expected, found: other });
        }
        // Another call may have stored its dimension first.
        let expected = *self.0.get_or_init(|| first);
        let model = || model.to_owned();
        if first == expected {
            Ok(())
        } else {
            Err(Error::Dimension { model: model(), expected, found: first })
        }
    }
}
