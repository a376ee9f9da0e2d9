//! Finds the end of a JSON string or of a nested value in text that arrives in pieces.
//!
//! This is what a gateway does with each byte of a large answer, so it works on 64 of them at a time:
//! of each block it takes the places of quotes, backslashes and brackets as bits, and a block costs
//! some twenty cycles however much stands in it. Invariants: where a piece ends does not matter; each
//! byte is looked at once.
//!
//! Not here: judging. That a value is closed by brackets of its own kind, and is JSON at all, nobody
//! here looks at.

mod block;

use memchr::memchr;

use block::{Block, WIDTH};

/// Where a search for the end of a string stands. It begins behind the opening quote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Quoted {
    /// Whether the next byte is escaped.
    escaped: bool,
}

impl Quoted {
    /// The position in `text` behind the closing quote; none while it has not come.
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

/// Whether the byte behind `text`, which is part of a string and begins with no escaped byte, is
/// escaped: whether an odd number of backslashes stands before it.
fn escapes_next(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Where a search for the end of an object or array stands. It begins behind the opening bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nested {
    /// Brackets that are open.
    depth: usize,
    /// Whether it stands in a string, and where.
    quoted: Option<Quoted>,
}

impl Nested {
    /// Behind the bracket that opens the value.
    pub(super) const fn begun() -> Self {
        Self { depth: 1, quoted: None }
    }

    /// The position in `text` behind the bracket that closes the value; none while it has not come.
    pub(super) fn end(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(block) = text[at..].first_chunk::<WIDTH>() {
            let block = Block::of(block);
            if let Some(quoted) = self.quoted.as_mut().filter(|_| block.quotes == 0) {
                // A long text: its end is found faster than block by block.
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

    /// The same for one block.
    fn block(&mut self, block: &Block) -> Option<usize> {
        let begins_escaped = self.quoted.is_some_and(|quoted| quoted.escaped);
        let (no_ends, escaped) = block.escaped(begins_escaped);
        let inside = block::inside(block.quotes & !no_ends, self.quoted.is_some());
        self.quoted = (inside >> (WIDTH - 1) == 1).then_some(Quoted { escaped });
        let (opens, closes) = (block.opens & !inside, block.closes & !inside);
        let closing = closes.count_ones() as usize;
        if self.depth > closing {
            self.depth = self.depth + opens.count_ones() as usize - closing;
            return None;
        }
        self.brackets(opens, closes)
    }

    /// The same for a block in which the value may end: bracket by bracket.
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

    /// The same for less than a block.
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
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
#[path = "skip_tests.rs"]
mod tests;
