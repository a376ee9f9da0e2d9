//! Arithmetic on vectors.

/// Largest dimension. No model has a larger one.
pub const MOST_DIMENSIONS: usize = 65_536;
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
pub fn product(one: &[f32], other: &[f32]) -> f32 {
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
pub fn is_same_direction(one: &[f32], other: &[f32]) -> bool {
    let lengths = (product(one, one) * product(other, other)).sqrt();
    one.len() == other.len() && lengths > 0.0 && product(one, other) >= SAME * lengths
}
