//! Server-sent events, decoded as they arrive and encoded.
//!
//! Source: WHATWG HTML, 9.2 Server-sent events (lines end in CR, LF or CRLF; one leading byte order
//! mark; several `data` lines make one text; comments and unknown fields mean nothing).
//!
//! Invariants: an event whose data exceeds the limit takes at most the limit in memory and becomes [`Item::TooLong`].
//! Beside its data, an event takes at most [`LONGEST_ID`] and `LONGEST_NAME` bytes. Every byte is read once. A `data`
//! line that lies in one chunk with the end of its event is a slice of that chunk; any other is copied once. No other
//! part of an event keeps a chunk. The result does not depend on how the input is cut into chunks. An encoded event
//! decodes to the same event, apart from line ends.
//!
//! Not here: the meaning of an event, reconnection, the timing of keep-alive comments.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2, memchr2_iter};

use super::{Clip, Discard};

/// A comment, sent so that a quiet stream is not mistaken for a dead one.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// Lines that [`Decoder::decode`] reads at most before it returns.
const LINES_AT_ONCE: usize = 64;
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The length of the longest field with a meaning (`event`, `retry`).
const LONGEST_FIELD: usize = 5;
/// The longest id that is kept, in bytes. A longer one resets the current id, so a stream is not resumed after it.
pub(crate) const LONGEST_ID: usize = 4 * 1024;
/// Bytes of an event name that are kept. No longer name has a meaning to anybody.
const LONGEST_NAME: usize = 256;
/// Lines of one event beside its data: `event`, `id` and `retry`. Further ones replace those and have no meaning.
const FIELDS: usize = 3;
/// Digits of a `retry` that are read. A longer number is not a sensible number of milliseconds.
const MAX_DIGITS: usize = 20;

/// An item of the decoded stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An event within the limit.
    Event(Event),
    /// An event that exceeded the limit and was discarded.
    TooLong(Clip),
}

/// The position of the decoder within a line.
#[derive(Debug)]
enum At {
    /// The beginning of the line, as long as it may still be any field. Empty at the start of a line.
    Begin(BytesMut),
    /// Behind `data:`. The rest of the line is added to the event.
    Data,
    /// Within a line without a meaning.
    Ignored,
}

/// The `data` of the event that is being read: a slice while it comes from one chunk, then a copy.
#[derive(Debug, Default)]
struct Text {
    /// Whether there was a `data` field at all. An empty one counts.
    present: bool,
    slice: Bytes,
    joined: BytesMut,
}

impl Text {
    fn len(&self) -> usize {
        self.slice.len() + self.joined.len()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.present = true;
        self.joined.put_slice(&std::mem::take(&mut self.slice));
        self.joined.put_slice(bytes);
    }

    fn take(&mut self) -> Option<Bytes> {
        let Self { present, slice, joined } = std::mem::take(self);
        present.then(|| if joined.is_empty() { slice } else { joined.freeze() })
    }
}

/// Turns chunks of a stream into events.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    at: At,
    text: Text,
    event: Event,
    /// Lines of the event that are not data.
    fields: usize,
    /// Set when the event exceeds the limit, until it ends.
    too_long: Option<Clip>,
    discard: Discard,
    first_line: bool,
    after_cr: bool,
    last_id: Option<Bytes>,
    retry: Option<Duration>,
    /// Bytes without a meaning since the last [`Decoder::take_ignored`].
    ignored: usize,
}

impl Decoder {
    /// Returns a decoder for one stream, with a limit on the bytes of one event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            at: At::Begin(BytesMut::new()),
            text: Text::default(),
            event: Event::default(),
            fields: 0,
            too_long: None,
            discard: Discard::of(limit),
            first_line: true,
            after_cr: false,
            last_id: None,
            retry: None,
            ignored: 0,
        }
    }

    /// Returns the bytes that were read since the last call and have no meaning.
    ///
    /// These are comments, unknown fields, events without data, and fields that a later line of their event replaced. The
    /// rest of an event that is far too long has no meaning either.
    pub const fn take_ignored(&mut self) -> usize {
        std::mem::replace(&mut self.ignored, 0)
    }

    /// The current id: that of the last event with an id, even if the event had no data. `None` if there was none, or
    /// if the last one was empty, which resets it.
    pub fn last_id(&self) -> Option<&Bytes> {
        self.last_id.as_ref()
    }

    /// Memory of the event that is being read and of the current id, allocated room included.
    pub fn held(&self) -> usize {
        let line_start = if let At::Begin(line_start) = &self.at { line_start.capacity() } else { 0 };
        let ids = [&self.event.id, &self.last_id].into_iter().flatten().map(Bytes::len).sum::<usize>();
        self.text.slice.len() + self.text.joined.capacity() + self.event.name.len() + line_start + ids
    }

    /// Copies what is kept of the chunk that was read last, so that the chunk is freed while the next one is awaited.
    pub fn detach(&mut self) {
        if !self.text.slice.is_empty() {
            self.text.append(b"");
        }
    }

    /// The pause before a reconnection that the stream requested last.
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Removes bytes from the front of `input` until an event is complete.
    ///
    /// Returns `None` when `input` is used up, or after `LINES_AT_ONCE` lines that complete no event, so that the
    /// caller can yield between them. An event that is incomplete when the stream ends does not count.
    pub fn decode(&mut self, input: &mut Bytes) -> Option<Item> {
        let before = input.len();
        let item = self.decode_lines(input);
        if self.too_long.is_some() {
            self.ignored += self.discard.count(before - input.len());
        }
        item
    }

    fn decode_lines(&mut self, input: &mut Bytes) -> Option<Item> {
        for _ in 0..LINES_AT_ONCE {
            if input.is_empty() {
                break;
            }
            if std::mem::take(&mut self.after_cr) && input[0] == b'\n' {
                input.advance(1);
                continue;
            }
            let Some(end) = memchr2(b'\r', b'\n', input) else {
                let rest = std::mem::take(input);
                self.part_of_line(&rest);
                break;
            };
            self.after_cr = input[end] == b'\r';
            let piece = input.split_to(end);
            input.advance(1);
            if let Some(item) = self.end_of_line(piece) {
                return Some(item);
            }
        }
        None
    }

    /// Reads bytes that do not end their line.
    fn part_of_line(&mut self, piece: &Bytes) {
        match &mut self.at {
            At::Data => self.append(piece),
            At::Ignored => self.ignored += piece.len(),
            At::Begin(line_start) => {
                line_start.put_slice(piece);
                self.settle();
            }
        }
    }

    /// Decides the kind of the line as soon as its beginning shows it, so that an ignored line is not buffered.
    fn settle(&mut self) {
        let At::Begin(line_start) = &mut self.at else { return };
        if self.first_line && line_start.starts_with(BYTE_ORDER_MARK) {
            line_start.advance(BYTE_ORDER_MARK.len());
            self.first_line = false;
        }
        let Some(colon) = memchr(b':', line_start) else {
            if line_start.len() > BYTE_ORDER_MARK.len() + LONGEST_FIELD {
                self.at = At::Ignored;
            }
            return;
        };
        let value = line_start.len() - colon - 1;
        match &line_start[..colon] {
            b"data" if value > 0 => {
                let line = line_start.split().freeze();
                self.at = At::Data;
                self.begin_data_line();
                self.append(value_of(&line, colon));
            }
            b"event" if value > LONGEST_NAME + 1 => {
                self.event.name = name_of(value_of(line_start, colon));
                self.at = At::Ignored;
            }
            b"id" if value > LONGEST_ID + 1 => {
                self.event.id = Some(Bytes::new());
                self.at = At::Ignored;
            }
            b"retry" if value > MAX_DIGITS + 1 => self.at = At::Ignored,
            b"data" | b"event" | b"id" | b"retry" => {}
            _ => self.at = At::Ignored,
        }
    }

    /// Reads the bytes that end a line.
    fn end_of_line(&mut self, piece: Bytes) -> Option<Item> {
        match std::mem::replace(&mut self.at, At::Begin(BytesMut::new())) {
            At::Data => self.append(&piece),
            At::Ignored => self.ignored += piece.len() + 1,
            At::Begin(line_start) if line_start.is_empty() => return self.line(piece),
            At::Begin(mut line_start) => {
                line_start.put_slice(&piece);
                return self.line(line_start.freeze());
            }
        }
        self.first_line = false;
        None
    }

    /// Reads a whole line.
    fn line(&mut self, mut line: Bytes) -> Option<Item> {
        if std::mem::take(&mut self.first_line) && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let name_end = memchr(b':', &line).unwrap_or(line.len());
        let value = value_of(&line, name_end);
        match &line[..name_end] {
            b"data" => {
                let value = line.slice_ref(value);
                self.data_line(value);
                return None;
            }
            b"event" => self.event.name = name_of(value),
            b"id" if value.len() > LONGEST_ID => self.event.id = Some(Bytes::new()),
            // An id with a NUL counts as absent.
            b"id" if value.contains(&0) => {}
            b"id" => self.event.id = Some(Bytes::copy_from_slice(value)),
            b"retry" => {
                self.event.retry = milliseconds(value).or(self.event.retry);
                self.retry = self.event.retry.or(self.retry);
            }
            _ => {
                self.ignored += line.len() + 1;
                return None;
            }
        }
        self.fields += 1;
        if self.fields > FIELDS {
            self.ignored += line.len() + 1;
        }
        None
    }

    fn data_line(&mut self, value: Bytes) {
        if !self.text.present && self.too_long.is_none() && value.len() <= self.room() {
            self.text = Text { present: true, slice: value, joined: BytesMut::new() };
        } else {
            self.begin_data_line();
            self.append(&value);
        }
    }

    /// Adds the line feed between two data lines, and records that there is data, even if it is empty.
    fn begin_data_line(&mut self) {
        if self.text.present {
            self.append(b"\n");
        }
        self.text.present = true;
    }

    /// Bytes that the data of the event may still grow by.
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.text.len())
    }

    /// Adds to the data of the event, or only counts the bytes if the event is too long.
    fn append(&mut self, bytes: &[u8]) {
        if self.too_long.is_none() && bytes.len() <= self.room() {
            self.text.append(bytes);
        } else {
            self.give_up().push(bytes);
        }
    }

    /// Marks the event as too long. From here on its data is only counted.
    fn give_up(&mut self) -> &mut Clip {
        let text = self.text.take();
        self.text.present = true;
        let clip = self.too_long.get_or_insert_default();
        clip.push(&text.unwrap_or_default());
        clip
    }

    /// Handles the blank line, which completes the event.
    fn dispatch(&mut self) -> Option<Item> {
        let mut event = std::mem::take(&mut self.event);
        let text = self.text.take();
        self.fields = 0;
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        if let Some(clip) = self.too_long.take() {
            self.discard = Discard::of(self.limit);
            return Some(Item::TooLong(clip));
        }
        let Some(data) = text else {
            self.ignored += 1;
            return None;
        };
        event.data = data;
        Some(Item::Event(event))
    }
}

/// The value behind the colon at `name_end`, without one leading space.
fn value_of(line: &[u8], name_end: usize) -> &[u8] {
    let value = line.get(name_end + 1..).unwrap_or_default();
    value.strip_prefix(b" ").unwrap_or(value)
}

/// The name of an event, which keeps no other bytes of its chunk.
fn name_of(value: &[u8]) -> Bytes {
    match value {
        b"message" => Bytes::from_static(b"message"),
        _ => Bytes::copy_from_slice(&value[..value.len().min(LONGEST_NAME)]),
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    let is_number = value.len() <= MAX_DIGITS && value.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(value).ok().filter(|_| is_number)?;
    digits.parse().ok().map(Duration::from_millis)
}

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty if there was none, which means `message`.
    pub name: Bytes,
    /// The `data` lines, joined with line feeds.
    pub data: Bytes,
    /// The `id` field of this event; empty if it was too long. `Decoder::last_id` returns the current one.
    pub id: Option<Bytes>,
    /// The `retry` field of this event.
    pub retry: Option<Duration>,
}

impl Event {
    /// Returns an event with `data` and no other field.
    pub fn of(data: Bytes) -> Self {
        Self { data, ..Self::default() }
    }

    /// The event in wire format. Line ends of any kind in `data` become line feeds. Name and id are cut at their first
    /// line end.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.data.len() + self.name.len() + 64);
        if let Some(id) = &self.id {
            put_field(&mut out, b"id", id);
        }
        if let Some(retry) = self.retry {
            put_field(&mut out, b"retry", retry.as_millis().to_string().as_bytes());
        }
        if !self.name.is_empty() {
            put_field(&mut out, b"event", &self.name);
        }
        for line in lines_of(&self.data) {
            put_field(&mut out, b"data", line);
        }
        out.put_u8(b'\n');
        out.freeze()
    }
}

fn put_field(out: &mut BytesMut, name: &[u8], value: &[u8]) {
    // A line end in a value would begin another field.
    let value = &value[..memchr2(b'\r', b'\n', value).unwrap_or(value.len())];
    out.put_slice(name);
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_u8(b'\n');
}

/// The lines of `data`, at least one.
fn lines_of(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    let ends = memchr2_iter(b'\r', b'\n', data)
        .filter(|&at| !(data[at] == b'\n' && at > 0 && data[at - 1] == b'\r'))
        .map(Some);
    ends.chain([None]).map(move |end| {
        let line = &data[start..end.unwrap_or(data.len())];
        start = end.map_or(start, |at| at + 1 + usize::from(data[at..].starts_with(b"\r\n")));
        line
    })
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
