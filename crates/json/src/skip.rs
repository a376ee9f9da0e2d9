//! Finds the end of a JSON string or of a nested value in text that arrives in pieces.
//!
//! Switchyard does this for each byte of a large response, so it works on 64 bytes at a time. It takes the positions of
//! quotes, backslashes and brackets of each block as bits, of which the lowest one is that of the first byte. A block costs some twenty cycles, however many of them it
//! contains. Invariants: the position where a piece ends does not matter, and each byte is read once.
//!
//! Not here: validation. Nothing here checks that brackets match in kind, or that the value is JSON. Only `NaN` and
//! `Infinity` are noticed, because common printers write them.

use memchr::memchr;
use wide::u8x16;

/// The state of a search for the end of a string. It begins behind the opening quote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Quoted {
    /// Whether the next byte is escaped.
    escaped: bool,
}

impl Quoted {
    /// The position in `text` behind the closing quote; `None` until it arrives.
    pub(super) fn end(&mut self, text: &[u8]) -> Option<usize> {
        let mut from = 0;
        if self.escaped {
            if text.is_empty() {
                return None;
            }
            from = 1;
        }
        while let Some(quote) = memchr(b'"', &text[from..]).map(|at| from + at) {
            if !escapes_next(&text[from..quote]) {
                return Some(quote + 1);
            }
            from = quote + 1;
        }
        self.escaped = escapes_next(&text[from..]);
        None
    }
}

/// Whether the byte behind `text` is escaped: an odd number of backslashes precedes it. `text` is part of a string, and
/// its first byte is not escaped.
fn escapes_next(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The state of a search for the end of an object or array. It begins behind the opening bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nested {
    /// The number of open brackets.
    depth: usize,
    /// The state inside of a string, if the position is in one.
    quoted: Option<Quoted>,
    /// Whether a letter stood outside of strings with which no JSON value begins.
    is_broken: bool,
}

impl Nested {
    /// The state behind the bracket that opens the value.
    pub(super) const fn opened() -> Self {
        Self { depth: 1, quoted: None, is_broken: false }
    }

    /// Whether the value contains `NaN` or `Infinity`, so that it is not JSON.
    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The position in `text` behind the bracket that closes the value; `None` until it arrives.
    pub(super) fn end(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(block) = text[at..].first_chunk::<WIDTH>() {
            let block = Block::of(block);
            if let Some(quoted) = self.quoted.as_mut().filter(|_| block.quotes == 0) {
                // The end of a long string is found faster by a search than block by block.
                at += quoted.end(&text[at..])?;
                self.quoted = None;
                continue;
            }
            if let Some(end) = self.block(&block) {
                return Some(at + end);
            }
            at += WIDTH;
        }
        self.bytes(&text[at..]).map(|end| at + end)
    }

    /// Searches one block for the end of the value.
    fn block(&mut self, block: &Block) -> Option<usize> {
        let begins_escaped = self.quoted.is_some_and(|quoted| quoted.escaped);
        let (no_ends, escaped) = block.escaped(begins_escaped);
        let inside = inside(block.quotes & !no_ends, self.quoted.is_some());
        self.quoted = (inside >> (WIDTH - 1) == 1).then_some(Quoted { escaped });
        let (opens, closes) = (block.opens & !inside, block.closes & !inside);
        self.is_broken |= block.letters & !inside != 0;
        let closing = closes.count_ones() as usize;
        if self.depth > closing {
            self.depth = self.depth + opens.count_ones() as usize - closing;
            return None;
        }
        self.brackets(opens, closes)
    }

    /// Searches a block in which the value may end, bracket by bracket.
    fn brackets(&mut self, opens: u64, closes: u64) -> Option<usize> {
        let mut left = opens | closes;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            if opens >> at & 1 == 1 {
                self.depth += 1;
            } else {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(at + 1);
                }
            }
            left &= left - 1;
        }
        None
    }

    /// Searches text that is shorter than a block.
    fn bytes(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < text.len() {
            if let Some(quoted) = &mut self.quoted {
                at += quoted.end(&text[at..])?;
                self.quoted = None;
                continue;
            }
            match text[at] {
                b'"' => self.quoted = Some(Quoted::default()),
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                b'H'..=b'O' => self.is_broken = true,
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// Bytes in a block: as many as a `u64` has bits.
const WIDTH: usize = 64;
/// The bits at even positions.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// The positions of the bytes that matter in one block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Block {
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
    fn of(text: &[u8; WIDTH]) -> Self {
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
    const fn escaped(&self, first: bool) -> (u64, bool) {
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
const fn inside(quotes: u64, starts_inside: bool) -> u64 {
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
#[path = "skip_tests.rs"]
mod tests;
