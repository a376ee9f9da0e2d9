//! One pass over a message: whether it is JSON, how deep it goes, and where its members stand.
//!
//! Invariant: what it accepts, `serde_json` accepts too (RFC 8259, UTF-8, one object and white space
//! around it); it is nested at most [`MAX_DEPTH`] deep; and no key stands twice in the message, in
//! `params` or `result`, or in `_meta`. It declines everything else and gives no reason, and also what
//! is merely unusual: keys with escapes, very long ones, or more than [`MOST`] of them, on these three levels. So
//! whoever is declined is judged thoroughly elsewhere, and pays twice for being broken or odd.
//!
//! Time is linear in the text, and memory is constant: what is open while a value is passed is one bit
//! of a word for each level.

use std::ops::Range;

use crate::member_index::{MOST, Place, Places};
use crate::string_scan::plain;

/// The deepest nesting that a message may have.
pub const MAX_DEPTH: usize = 64;

/// The message.
const MESSAGE: usize = 0;
/// `params` or `result`.
const PAYLOAD: usize = 1;
/// Its `_meta`.
const META: usize = 2;

/// What one pass over a message found.
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
    /// Of nothing yet.
    pub const fn new() -> Self {
        Self { lists: [const { List::EMPTY }; 3], starts: [None; 3] }
    }

    /// Passes over `text`, once; `None` when it is no message for this quick way.
    pub fn read(&mut self, text: &[u8]) -> Option<()> {
        is_text(text).then_some(())?;
        let end = self.object(text, space(text, 0), MESSAGE)?;
        (space(text, end) == text.len()).then_some(())
    }

    /// The same for one JSON value of any kind, whose own members count as those of a payload; returns
    /// where it stands.
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

    /// Where `params` or `result` begins, whichever the message has, and where its members stand.
    pub fn payload(&self) -> Option<(usize, Places)> {
        let start = self.starts[PAYLOAD].filter(|_| self.lists[PAYLOAD].count > 0)?;
        let meta = self.starts[META].map(|at| (at, self.lists[META].own()));
        Some((start, Places::of(start, self.lists[PAYLOAD].own(), meta)))
    }

    /// Passes over the object that begins at `at` and notes its members; returns what follows it.
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

/// Whether it is UTF-8. Most messages are ASCII, which takes a fifth of the work to see.
fn is_text(text: &[u8]) -> bool {
    text.is_ascii() || std::str::from_utf8(text).is_ok()
}

/// The members of one object as they are found.
struct List {
    places: [Place; MOST],
    count: usize,
    /// One bit for each kind of name seen: a name whose bit is not set is new.
    kinds: u64,
}

impl List {
    const EMPTY: Self = Self { places: [Place::NOWHERE; MOST], count: 0, kinds: 0 };

    fn own(&self) -> &[Place] {
        self.places.get(..self.count).unwrap_or_default()
    }

    /// Notes a member; `None` when there is no room, or its name was there before.
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

/// The key without escapes whose quote stands at `at`, and where its value begins.
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

/// Where the value behind the colon begins.
fn colon(text: &[u8], at: usize) -> Option<usize> {
    let at = space(text, at);
    (*text.get(at)? == b':').then(|| space(text, at + 1))
}

/// Passes over the value that begins at `at`, inside of `depth` objects; returns what follows it.
fn pass(text: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    // The lowest bit says whether the innermost of what is open is an object.
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

/// Passes over a key and its colon.
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

/// What follows the number that begins at `at`.
fn number(text: &[u8], at: usize) -> Option<usize> {
    let at = if *text.get(at)? == b'-' { at + 1 } else { at };
    // Behind a leading zero no digit is expected, and whoever reads on will not find one legal.
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

/// What follows one digit or more.
fn digits(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    (at > start).then_some(at)
}

/// What follows the string whose text begins at `at`, behind the quote.
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

/// What follows the escape whose letter stands at `at`. Half of a surrogate pair is legal text.
fn escape(text: &[u8], at: usize) -> Option<usize> {
    match *text.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => text.get(at + 1..at + 5)?.iter().all(u8::is_ascii_hexdigit).then_some(at + 5),
        _ => None,
    }
}
