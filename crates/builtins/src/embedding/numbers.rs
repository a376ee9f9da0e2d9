//! What can be said of a vector by its numbers alone.

/// Most numbers in a vector: no model makes longer ones.
pub const MOST_DIMENSIONS: usize = 65_536;
/// Numbers that are multiplied side by side.
const LANES: usize = 16;
/// The least cosine of a vector and the same one made again. What a model rounds otherwise on another machine
/// is far nearer, another model far away.
const SAME: f32 = 0.995;

/// Whether it may be stored and compared.
pub(super) fn is_vector(vector: &[f32]) -> bool {
    !vector.is_empty() && vector.iter().all(|number| number.is_finite())
}

/// The sum of the products, in lanes that the compiler turns into vector instructions.
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

/// Whether one model may have made both of one text. Their lengths do not matter, how many numbers they have does.
pub fn is_same_direction(one: &[f32], other: &[f32]) -> bool {
    let lengths = (product(one, one) * product(other, other)).sqrt();
    one.len() == other.len() && lengths > 0.0 && product(one, other) >= SAME * lengths
}
