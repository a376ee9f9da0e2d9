//! 64 bytes of JSON text as bits: the positions of its quotes, backslashes and brackets, and of some letters.
//!
//! The bit of the first byte is the lowest one. Sixteen bytes are compared at a time.

use wide::u8x16;

/// Bytes in a block: as many as a `u64` has bits.
pub(super) const WIDTH: usize = 64;
/// The bits at even positions.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// The positions of the bytes that matter in one block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub quotes: u64,
    pub backslashes: u64,
    /// `{` and `[`.
    pub opens: u64,
    /// `}` and `]`.
    pub closes: u64,
    /// The letters `H` to `O`. Outside of strings JSON has none of them, and `NaN` and `Infinity` begin with them.
    pub letters: u64,
}

impl Block {
    pub(super) fn of(text: &[u8; WIDTH]) -> Self {
        let mut block = Self::default();
        let (parts, _) = text.as_chunks::<16>();
        for (number, part) in parts.iter().enumerate() {
            let text = u8x16::new(*part);
            // The two kinds of brackets differ in one bit.
            let brackets = text | u8x16::splat(0x20);
            let places =
                |of: u8x16, byte| u64::from(of.simd_eq(u8x16::splat(byte)).to_bitmask()) << (number * 16);
            block.quotes |= places(text, b'"');
            block.backslashes |= places(text, b'\\');
            block.opens |= places(brackets, b'{');
            block.closes |= places(brackets, b'}');
            block.letters |= places(text & u8x16::splat(0xf8), b'H');
        }
        block
    }

    /// Returns the quotes that are escaped, and whether the first byte of the next block is escaped. `first` says
    /// whether the first byte here is.
    pub(super) const fn escaped(&self, first: bool) -> (u64, bool) {
        if self.backslashes == 0 {
            return (self.quotes & first as u64, false);
        }
        // An escaped backslash escapes nothing.
        let runs = self.backslashes & !(first as u64);
        let starts = runs & !(runs << 1);
        // Adding a start to its run sets the bit behind the run. After an odd number of backslashes, that bit is odd if
        // the start is even, and even if the start is odd.
        let (behind_even, _) = runs.overflowing_add(starts & EVEN);
        let (behind_odd, next) = runs.overflowing_add(starts & !EVEN);
        let escaped = (behind_even & !EVEN) | (behind_odd & EVEN);
        (self.quotes & (escaped | first as u64), next)
    }
}

/// Returns the bytes that are inside of strings, opening quotes included. `quotes` are those that are not escaped;
/// `opened` says whether the first byte is in a string.
pub(super) const fn inside(quotes: u64, starts_inside: bool) -> u64 {
    // Each bit becomes the parity of all quotes up to it.
    let mut inside = quotes;
    let mut distance = 1;
    while distance < WIDTH {
        inside ^= inside << distance;
        distance *= 2;
    }
    inside ^ (starts_inside as u64).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_bit_is_one_byte(text in prop::collection::vec(prop_oneof![
            prop::sample::select(b"\"\\{}[]".to_vec()), any::<u8>()], WIDTH)) {
            let text: &[u8; WIDTH] = text.as_slice().try_into().expect("a block");
            let block = Block::of(text);
            for (at, byte) in text.iter().enumerate() {
                let bits = [block.quotes, block.backslashes, block.opens, block.closes, block.letters];
                let found = bits.map(|bits| bits >> at & 1 == 1);
                let brackets = [b"{[".contains(byte), b"}]".contains(byte)];
                let expected = [*byte == b'"', *byte == b'\\', brackets[0], brackets[1], (b'H'..=b'O').contains(byte)];
                prop_assert_eq!(found, expected, "{} at {}", byte, at);
            }
        }
    }
}
