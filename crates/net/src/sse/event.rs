//! One server-sent event, and its wire format.
//!
//! Invariant: what is encoded decodes to the same event, apart from line ends.
//!
//! Not here: reading events (`sse`).

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::{memchr2, memchr2_iter};

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
