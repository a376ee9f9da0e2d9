//! One pass over a message: whether it is JSON, how deep it is nested, and the positions of its members.
//!
//! Invariant: `serde_json` accepts whatever the scanner accepts: RFC 8259, UTF-8, one object and white space around it.
//! The nesting is at most [`MAX_DEPTH`], and no key occurs twice in the message, in `params` or `result`, or in
//! `_meta`. On these three levels the scanner also declines keys with escapes, very long keys, and more than [`MOST`]
//! keys. It gives no reason. Slower code then judges the declined message, so an invalid or unusual message is read
//! twice.
//!
//! Time is linear in the text. Memory is constant: each open array or object takes one bit of a word.

use std::ops::Range;

use crate::part::{MOST, MemberIndex, Place};
use crate::tokens::plain;

/// The deepest nesting that a message may have.
pub const MAX_DEPTH: usize = 64;

/// The message.
const MESSAGE: usize = 0;
/// `params` or `result`.
const PAYLOAD: usize = 1;
/// Its `_meta`.
const META: usize = 2;

/// The findings of one pass over a message.
pub struct Survey {
    /// The members of the message, of the payload, and of its `_meta`, in order.
    lists: [List; 3],
    /// Where the payload and its `_meta` begin, if they are objects.
    starts: [Option<usize>; 3],
}

impl Default for Survey {
    fn default() -> Self {
        Self::new()
    }
}

impl Survey {
    /// A survey before the pass.
    pub const fn new() -> Self {
        Self { lists: [const { List::EMPTY }; 3], starts: [None; 3] }
    }

    /// Scans `text` once; `None` if slower code must judge the message.
    pub fn read(&mut self, text: &[u8]) -> Option<()> {
        is_text(text).then_some(())?;
        let end = self.object(text, space(text, 0), MESSAGE)?;
        (space(text, end) == text.len()).then_some(())
    }

    /// Scans one JSON value of any kind and returns its position. Its members count as those of a payload.
    pub(super) fn read_value(&mut self, text: &[u8]) -> Option<Range<usize>> {
        is_text(text).then_some(())?;
        let start = space(text, 0);
        let end = match text.get(start) {
            Some(b'{') => self.object(text, start, PAYLOAD)?,
            _ => pass(text, start, 0)?,
        };
        (space(text, end) == text.len()).then_some(start..end)
    }

    /// The members of the message: name and value.
    pub fn members<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (&'a [u8], Range<usize>)> + 'a {
        self.lists[MESSAGE].own().iter().map(|place| (place.name(text).unwrap_or_default(), place.value()))
    }

    /// The position of `params` or `result`, whichever the message has, and the positions of its members.
    pub fn payload(&self) -> Option<(usize, MemberIndex)> {
        let start = self.starts[PAYLOAD].filter(|_| self.lists[PAYLOAD].count > 0)?;
        let meta = self.starts[META].map(|at| (at, self.lists[META].own()));
        Some((start, MemberIndex::of(start, self.lists[PAYLOAD].own(), meta)))
    }

    /// Scans the object that begins at `at` and records its members; returns the position after it.
    fn object(&mut self, text: &[u8], at: usize, level: usize) -> Option<usize> {
        if *text.get(at)? != b'{' || self.starts[level].replace(at).is_some() {
            return None;
        }
        let mut at = space(text, at + 1);
        if *text.get(at)? == b'}' {
            return Some(at + 1);
        }
        loop {
            let (key, value) = key(text, at)?;
            let name = text.get(key.clone())?;
            let end = match (level, name) {
                (MESSAGE, b"params" | b"result") if text.get(value) == Some(&b'{') => {
                    self.object(text, value, PAYLOAD)?
                }
                (PAYLOAD, b"_meta") if text.get(value) == Some(&b'{') => self.object(text, value, META)?,
                _ => pass(text, value, level + 1)?,
            };
            self.lists[level].push(text, name, Place::new(&key, &(value..end))?)?;
            at = space(text, end);
            match *text.get(at)? {
                b',' => at = space(text, at + 1),
                b'}' => return Some(at + 1),
                _ => return None,
            }
        }
    }
}

/// Whether `text` is UTF-8. Most messages are ASCII, and that check takes a fifth of the time.
fn is_text(text: &[u8]) -> bool {
    text.is_ascii() || std::str::from_utf8(text).is_ok()
}

/// The members of one object, in the order in which they are found.
struct List {
    places: [Place; MOST],
    count: usize,
    /// One bit for each kind of name seen. A name whose bit is not set is new.
    kinds: u64,
}

impl List {
    const EMPTY: Self = Self { places: [Place::NOWHERE; MOST], count: 0, kinds: 0 };

    fn own(&self) -> &[Place] {
        self.places.get(..self.count).unwrap_or_default()
    }

    /// Records a member; `None` if the list is full or the name occurred before.
    fn push(&mut self, text: &[u8], name: &[u8], place: Place) -> Option<()> {
        let kind = 1 << ((name.len() ^ usize::from(name.last().copied().unwrap_or_default())) & 63);
        if self.kinds & kind != 0 && self.own().iter().any(|other| other.is(text, name)) {
            return None;
        }
        self.kinds |= kind;
        *self.places.get_mut(self.count)? = place;
        self.count += 1;
        Some(())
    }
}

/// The key without escapes whose quote is at `at`, and the position of its value.
fn key(text: &[u8], at: usize) -> Option<(Range<usize>, usize)> {
    if *text.get(at)? != b'"' {
        return None;
    }
    let end = plain(text, at + 1);
    if *text.get(end)? != b'"' {
        return None;
    }
    Some((at + 1..end, colon(text, end + 1)?))
}

/// The position of the value behind the colon.
fn colon(text: &[u8], at: usize) -> Option<usize> {
    let at = space(text, at);
    (*text.get(at)? == b':').then(|| space(text, at + 1))
}

/// Scans the value that begins at `at`, inside of `depth` objects; returns the position after it.
fn pass(text: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    // The lowest bit says whether the innermost open value is an object.
    let (mut kinds, mut open) = (0_u64, 0);
    loop {
        let first = *text.get(at)?;
        match first {
            b'"' => at = string(text, at + 1)?,
            b'{' | b'[' => {
                open += 1;
                if depth + open > MAX_DEPTH {
                    return None;
                }
                kinds = kinds << 1 | u64::from(first == b'{');
                at = space(text, at + 1);
                match (first, *text.get(at)?) {
                    (b'{', b'}') | (b'[', b']') => {}
                    (b'{', _) => {
                        at = any_key(text, at)?;
                        continue;
                    }
                    _ => continue,
                }
            }
            b'-' | b'0'..=b'9' => at = number(text, at)?,
            b't' => at = word(text, at, b"true")?,
            b'f' => at = word(text, at, b"false")?,
            b'n' => at = word(text, at, b"null")?,
            _ => return None,
        }
        loop {
            if open == 0 {
                return Some(at);
            }
            at = space(text, at);
            match (*text.get(at)?, kinds & 1) {
                (b',', is_object) => {
                    at = space(text, at + 1);
                    if is_object == 1 {
                        at = any_key(text, at)?;
                    }
                    break;
                }
                (b'}', 1) | (b']', 0) => {
                    at += 1;
                    kinds >>= 1;
                    open -= 1;
                }
                _ => return None,
            }
        }
    }
}

/// Scans a key and its colon.
fn any_key(text: &[u8], at: usize) -> Option<usize> {
    if *text.get(at)? != b'"' {
        return None;
    }
    colon(text, string(text, at + 1)?)
}

fn space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    (text.get(at..end)? == word).then_some(end)
}

/// Returns the position behind the number that begins at `at`.
fn number(text: &[u8], at: usize) -> Option<usize> {
    let at = if *text.get(at)? == b'-' { at + 1 } else { at };
    // No digit may follow a leading zero. If one does, the caller declines it as the next token.
    let mut at = if *text.get(at)? == b'0' { at + 1 } else { digits(text, at)? };
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let signed = matches!(text.get(at + 1), Some(b'+' | b'-'));
        at = digits(text, at + 1 + usize::from(signed))?;
    }
    Some(at)
}

/// Returns the position behind one or more digits.
fn digits(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    (at > start).then_some(at)
}

/// Returns the position behind the string whose text begins at `at`, after the quote.
fn string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = plain(text, at);
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape(text, at + 1)?,
            _ => return None,
        }
    }
}

/// Returns the position behind the escape whose letter is at `at`. A lone surrogate is legal text.
fn escape(text: &[u8], at: usize) -> Option<usize> {
    match *text.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => text.get(at + 1..at + 5)?.iter().all(u8::is_ascii_hexdigit).then_some(at + 5),
        _ => None,
    }
}
