//! One message per line, as stdio carries them.
//!
//! Invariants: a line that exceeds the limit takes at most the limit in memory. The text is searched for line ends
//! once, so reading is linear. Lines are slices of the read buffer. Lines without content are dropped. A `\r` before
//! the `\n` belongs to the line end.
//!
//! Not here: whether a line is JSON.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2};
use tokio_util::codec::Decoder;

use super::{Clip, Discard};

/// The room for the rest of a line that is discarded. With none, it would be read in pieces of a few bytes.
const READ_BYTES: usize = 8 * 1024;

/// The result of reading one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line within the limit, without its end.
    Whole(Bytes),
    /// A line that exceeded the limit and was discarded.
    TooLong(Clip),
}

impl Line {
    /// The length in bytes.
    pub fn length(&self) -> usize {
        match self {
            Self::Whole(line) => line.len(),
            Self::TooLong(clip) => usize::try_from(clip.length()).unwrap_or(usize::MAX),
        }
    }
}

/// Splits a byte stream into lines of at most `limit` bytes. Use with `FramedRead`.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    /// Bytes at the front of the buffer that are known to contain no line end.
    searched: usize,
    /// Set while the rest of a line that is too long is discarded.
    skipping: Option<Clip>,
    discard: Discard,
    /// Bytes without a meaning since the last [`Lines::take_ignored`].
    ignored: usize,
}

impl Lines {
    /// Returns a splitter with a limit in bytes, without the line end.
    pub const fn new(limit: usize) -> Self {
        Self { limit, searched: 0, skipping: None, discard: Discard::of_line(limit), ignored: 0 }
    }

    /// Returns the bytes that were read since the last call and have no meaning: lines without content, and the rest of a
    /// line that is far too long.
    pub const fn take_ignored(&mut self) -> usize {
        std::mem::replace(&mut self.ignored, 0)
    }

    /// Drops empty lines at the front of the buffer, all at once: each is only a byte or two, and a buffer may
    /// hold tens of thousands.
    fn skip_empty_lines(&mut self, buffer: &mut BytesMut) {
        if self.searched > 0 || self.skipping.is_some() {
            return;
        }
        let mut rest = &buffer[..];
        while let [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] = rest {
            rest = after;
        }
        let empty = buffer.len() - rest.len();
        buffer.advance(empty);
        self.ignored += empty;
    }

    /// Takes the line that ends at `end`, and its line end.
    fn take(&mut self, buffer: &mut BytesMut, end: usize) -> Option<Line> {
        let mut line = buffer.split_to(end);
        // An error is impossible: the caller found the line end at `end`.
        let _ = buffer.split_to(1.min(buffer.len()));
        self.searched = 0;
        if line.last() == Some(&b'\r') {
            line.truncate(end - 1);
        }
        if let Some(mut clip) = self.skipping.take() {
            clip.push(&line);
            self.discard = Discard::of_line(self.limit);
            return Some(Line::TooLong(clip));
        }
        if line.len() > self.limit {
            return Some(Line::TooLong(Clip::of(&line)));
        }
        if line.trim_ascii().is_empty() {
            self.ignored += end + 1;
            return None;
        }
        Some(Line::Whole(line.freeze()))
    }

    /// Discards the line that has begun in `buffer`, which contains no line end, and the rest of it as it arrives.
    pub fn give_up(&mut self, buffer: &mut BytesMut) {
        self.skipping.get_or_insert_default().push(buffer);
        *buffer = BytesMut::with_capacity(READ_BYTES);
        self.searched = 0;
    }

    /// Records that the buffer contains no line end, and drops its content if it is too long.
    fn wait(&mut self, buffer: &mut BytesMut) {
        // A `\r` at the end may be half of a line end, so it is neither counted nor dropped yet.
        let length = buffer.len() - usize::from(buffer.last() == Some(&b'\r'));
        if let Some(clip) = &mut self.skipping {
            clip.push(&buffer[..length]);
            buffer.advance(length);
            self.ignored += self.discard.count(length);
        } else if length > self.limit {
            self.skipping = Some(Clip::of(&buffer[..length]));
            // Replaced, not cleared, so that the memory of a huge line is freed.
            let mut rest = BytesMut::with_capacity(READ_BYTES);
            rest.extend_from_slice(&buffer[length..]);
            *buffer = rest;
        }
        self.searched = buffer.len();
    }
}

impl Decoder for Lines {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        self.skip_empty_lines(buffer);
        while let Some(at) = memchr(b'\n', &buffer[self.searched..]) {
            let end = self.searched + at;
            if let Some(line) = self.take(buffer, end) {
                return Ok(Some(line));
            }
        }
        self.wait(buffer);
        Ok(None)
    }

    /// Returns the last line even if no line end follows.
    fn decode_eof(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        if let Some(line) = self.decode(buffer)? {
            return Ok(Some(line));
        }
        let rest = buffer.len();
        let unfinished = rest > 0 || self.skipping.is_some();
        Ok(if unfinished { self.take(buffer, rest) } else { None })
    }
}

/// `message`, a JSON text, as one line with its end.
///
/// A line end inside the message can only be white space between tokens, because JSON escapes it in strings. It is
/// replaced with a space, which does not change the meaning.
pub fn encode(message: Bytes) -> Bytes {
    // A message that was just printed has room for the line end, and no other reference.
    let mut line = message.try_into_mut().unwrap_or_else(|shared| {
        let mut line = BytesMut::with_capacity(shared.len() + 1);
        line.put_slice(&shared);
        line
    });
    replace_line_breaks(&mut line);
    line.put_u8(b'\n');
    line.freeze()
}

/// Returns a message that was just printed as one line. It has room for one more byte.
pub fn of(mut message: Vec<u8>) -> Bytes {
    replace_line_breaks(&mut message);
    message.push(b'\n');
    message.into()
}

fn replace_line_breaks(line: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr2(b'\n', b'\r', &line[from..]) {
        line[from + at] = b' ';
        from += at + 1;
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
