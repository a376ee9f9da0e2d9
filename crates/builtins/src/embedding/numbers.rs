//! Arithmetic on vectors, and the check of their dimension.

use std::sync::OnceLock;

use super::Error;

/// Largest dimension. No model has a larger one.
pub(crate) const MOST_DIMENSIONS: usize = 65_536;
/// Products that are computed in parallel.
const LANES: usize = 16;
/// Least cosine of a vector and its repetition. Rounding on another machine changes far less, and another
/// model far more.
const SAME: f32 = 0.995;

/// Whether a vector may be stored and compared.
pub(super) fn is_vector(vector: &[f32]) -> bool {
    !vector.is_empty() && vector.iter().all(|number| number.is_finite())
}

/// Returns the sum of the products, computed in lanes for vector instructions.
pub(crate) fn product(one: &[f32], other: &[f32]) -> f32 {
    let (ones, rest) = one.as_chunks::<LANES>();
    let (others, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (one, other) in ones.iter().zip(others) {
        for lane in 0..LANES {
            sums[lane] += one[lane] * other[lane];
        }
    }
    let tail: f32 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + tail
}

/// Whether one model may have made both vectors from one text. Only the direction and the dimension matter,
/// not the length.
pub(crate) fn is_same_direction(one: &[f32], other: &[f32]) -> bool {
    let lengths = (product(one, one) * product(other, other)).sqrt();
    one.len() == other.len() && lengths > 0.0 && product(one, other) >= SAME * lengths
}

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
