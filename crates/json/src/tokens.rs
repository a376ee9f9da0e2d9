//! Finds the members of a JSON object by position, without building anything. The next byte of a string that needs handling is
//! found many bytes at a time.
//!
//! Invariant: every function here receives text that `serde_json` has already accepted as one value ([`super::Raw`]
//! guarantees it). The scanner only separates tokens and does not validate them. On any other input the result is
//! meaningless but never a panic and never out of bounds.
//!
//! Not here: validation, and the values of numbers.

use std::collections::BTreeSet;
use std::ops::Range;

use wide::u8x16;

/// One member of an object: the positions of its key token (quotes included) and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key token, quotes included.
    pub key: Range<usize>,
    /// The value, without white space around it.
    pub value: Range<usize>,
}

/// The members of the object in `text`, in order; none when `text` is not an object.
pub(super) fn members(text: &[u8]) -> Members<'_> {
    let start = skip_space(text, 0);
    let at = if text.get(start) == Some(&b'{') { start + 1 } else { text.len() };
    Members { text, at }
}

/// The elements of the array in `text`, in order; none when `text` is not an array.
pub(super) fn elements(text: &[u8]) -> Elements<'_> {
    let start = skip_space(text, 0);
    let at = if text.get(start) == Some(&b'[') { start + 1 } else { text.len() };
    Elements { text, at }
}

/// Iterator of [`members`].
pub(super) struct Members<'a> {
    text: &'a [u8],
    at: usize,
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let key_start = skip_separators(self.text, self.at);
        if self.text.get(key_start) != Some(&b'"') {
            self.at = self.text.len();
            return None;
        }
        let key_end = skip_string(self.text, key_start);
        let colon = skip_space(self.text, key_end);
        let value_start = skip_space(self.text, colon + 1);
        let value_end = skip_value(self.text, value_start);
        self.at = value_end;
        Some(Member { key: key_start..key_end, value: value_start..value_end })
    }
}

/// Iterator of [`elements`].
pub(super) struct Elements<'a> {
    text: &'a [u8],
    at: usize,
}

impl Iterator for Elements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = skip_separators(self.text, self.at);
        if matches!(self.text.get(start), None | Some(b']')) {
            self.at = self.text.len();
            return None;
        }
        let end = skip_value(self.text, start);
        self.at = end;
        Some(start..end)
    }
}

/// The number tokens in `text` at any depth, in order.
pub(super) fn numbers(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            match text.get(at)? {
                b'"' => at = skip_string(text, at),
                b'-' | b'0'..=b'9' => {
                    let start = at;
                    at = skip_value(text, at);
                    return Some(start..at);
                }
                _ => at += 1,
            }
        }
    })
}

/// The deepest nesting of arrays and objects in `text`: 0 for a scalar, 1 for `{}`.
pub(super) fn depth(text: &[u8]) -> usize {
    let (mut now, mut most, mut at) = (0_usize, 0_usize, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at = skip_string(text, at);
                continue;
            }
            b'{' | b'[' => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    most
}

/// The first key in `text` that stands twice in its object, at any depth. Keys are compared as `read` returns them.
pub(super) fn repeated_key<'a, K: Ord + Clone>(text: &'a [u8], read: impl Fn(&'a [u8]) -> K) -> Option<K> {
    let (mut open, mut at) = (Vec::<BTreeSet<K>>::new(), 0_usize);
    while let Some(&byte) = text.get(at) {
        let start = at;
        at = if byte == b'"' { skip_string(text, at) } else { at + 1 };
        match byte {
            b'{' => open.push(BTreeSet::new()),
            b'}' => drop(open.pop()),
            b'"' if text.get(skip_space(text, at)) == Some(&b':') => {
                let key = read(&text[start..at]);
                if open.last_mut().is_some_and(|seen| !seen.insert(key.clone())) {
                    return Some(key);
                }
            }
            _ => {}
        }
    }
    None
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).copied().is_some_and(is_space) {
        at += 1;
    }
    at.min(text.len())
}

fn skip_separators(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|&byte| is_space(byte) || byte == b',') {
        at += 1;
    }
    at.min(text.len())
}

/// The position behind the string token that opens at `at`.
fn skip_string(text: &[u8], at: usize) -> usize {
    let mut at = plain(text, at + 1);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at = plain(text, at + 2),
            _ => at = plain(text, at + 1),
        }
    }
    text.len()
}

/// The position behind the value that begins at `at`.
fn skip_value(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => skip_string(text, at),
        Some(b'{' | b'[') => skip_nested(text, at),
        _ => {
            let mut end = at;
            while text.get(end).is_some_and(|&b| !is_space(b) && !matches!(b, b',' | b'}' | b']')) {
                end += 1;
            }
            end.min(text.len())
        }
    }
}

fn skip_nested(text: &[u8], mut at: usize) -> usize {
    let mut open = 0_usize;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at = skip_string(text, at);
                continue;
            }
            b'{' | b'[' => open += 1,
            b'}' | b']' => {
                open -= 1;
                if open == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The position, from `at` on, of the first byte of `text` that ends a string, begins an escape or is not allowed in
/// one. The end of `text` if there is none.
pub(super) fn plain(text: &[u8], at: usize) -> usize {
    let mut here = at;
    while let Some(part) = text.get(here..).and_then(<[u8]>::first_chunk::<16>) {
        let found = special(*part);
        if found != 0 {
            return here + found.trailing_zeros() as usize;
        }
        here += 16;
        if here - at == LONG {
            here += blocks(&text[here..]);
        }
    }
    let rest = text.get(here..).unwrap_or_default();
    here + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

/// The length from which on whole blocks are checked.
const LONG: usize = 64;

/// The number of bytes in leading blocks without special bytes.
fn blocks(text: &[u8]) -> usize {
    let (blocks, _) = text.as_chunks::<64>();
    let is_plain = |block: &&[u8; 64]| !block.iter().fold(false, |any, &byte| any | is_special(byte));
    64 * blocks.iter().take_while(is_plain).count()
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// One bit for each special byte, the lowest for the first byte.
fn special(text: [u8; 16]) -> u32 {
    let text = u8x16::new(text);
    let is = |byte: u8| text.simd_eq(u8x16::splat(byte));
    (text.min(u8x16::splat(0x1f)).simd_eq(text) | is(b'"') | is(b'\\')).to_bitmask()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    proptest! {
        #[test]
        fn a_string_goes_as_far_as_it_goes(
            before in "[ -~]{0,9}",
            text in "[a-zé\u{7f}!#\\]]{0,200}",
            special in select(b"\"\\\n\x1f\x00".to_vec()),
            rest in "[ -~é]{0,80}",
        ) {
            let plain_text = text.replace('\\', "");
            let mut bytes = [before.as_bytes(), plain_text.as_bytes()].concat();
            prop_assert_eq!(plain(&bytes, before.len()), bytes.len());
            bytes.push(special);
            bytes.extend_from_slice(rest.as_bytes());
            prop_assert_eq!(plain(&bytes, before.len()), before.len() + plain_text.len());
        }
    }
}
