//! The two ends of a message that was too long to be kept.
//!
//! JSON-RPC puts the id of a response at one end or the other of its envelope, depending on the server. With both ends
//! the reader can tell one caller that its response was too large, so that it does not wait for its deadline.
//! Invariant: never more than [`HEAD`] + [`TAIL`] bytes.

/// Bytes kept from the beginning.
const HEAD: usize = 256;
/// Bytes kept from the end.
const TAIL: usize = 128;

/// The beginning and the end of a message that exceeded its limit, and its length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clip {
    head: Vec<u8>,
    tail: Vec<u8>,
    length: u64,
}

impl Clip {
    /// The ends of `message`.
    pub fn of(message: &[u8]) -> Self {
        let mut clip = Self::default();
        clip.push(message);
        clip
    }

    /// Adds the next bytes of the message.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let room = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        let last = &bytes[bytes.len().saturating_sub(TAIL)..];
        let surplus = (self.tail.len() + last.len()).saturating_sub(TAIL);
        self.tail.drain(..surplus);
        self.tail.extend_from_slice(last);
    }

    /// The first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes. They overlap with the head only if the message was shorter than both.
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// The length of the whole message in bytes.
    pub const fn length(&self) -> u64 {
        self.length
    }
}

/// How many times its limit a message may exceed it before the rest of it has no meaning.
const EXCESS: usize = 3;
/// The length of a line that ends nothing (requirement R18), and some room.
const LONG_LINE: usize = (1 << 30) + (1 << 20);

/// Counts the bytes of one message that are discarded because it is too long.
///
/// A server that answers with too much still gets its message read to the end. One that never ends it does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Discard {
    left: usize,
}

impl Discard {
    /// For a message of at most `limit` bytes.
    pub(super) const fn of(limit: usize) -> Self {
        Self { left: limit.saturating_mul(EXCESS) }
    }

    /// For a line of at most `limit` bytes. A child process may write much into one line and continue with the next, so
    /// up to 1 GiB is discarded without a consequence.
    pub(super) const fn of_line(limit: usize) -> Self {
        let few = limit.saturating_mul(EXCESS);
        Self { left: if few > LONG_LINE { few } else { LONG_LINE } }
    }

    /// Returns how many of `bytes`, which were discarded, have no meaning.
    pub(super) const fn count(&mut self, bytes: usize) -> usize {
        let surplus = bytes.saturating_sub(self.left);
        self.left = self.left.saturating_sub(bytes);
        surplus
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_split_keeps_the_same_ends(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
        ) {
            let whole = parts.concat();
            let mut clip = Clip::default();
            for part in &parts {
                clip.push(part);
            }
            prop_assert_eq!(clip.head(), &whole[..whole.len().min(HEAD)]);
            prop_assert_eq!(clip.tail(), &whole[whole.len().saturating_sub(TAIL)..]);
            prop_assert_eq!(clip.length(), whole.len() as u64);
        }
    }
}
