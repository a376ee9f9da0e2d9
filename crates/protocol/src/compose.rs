//! Printing of requests with ids of Switchyard, for the next hop.
//!
//! Invariant: a request is one text, and at most one part of it stays in the memory where it was received, because it
//! is large. Not here: the parameters of a request (`meta`).

use bytes::Bytes;

use json::decimal::Decimal;
use json::raw::edit::write_string;

/// A request that is being printed. One part of its parameters can stay in the memory where it is.
#[derive(Debug)]
pub struct Composed {
    pub(crate) text: Vec<u8>,
    /// The part that is not copied, and its position in `text`.
    pub(crate) passed: Option<(usize, Bytes)>,
    least_passed: usize,
}

impl Composed {
    /// Adds `part` of `whole`. The first part of `least_passed` bytes or more is not copied.
    pub(crate) fn add(&mut self, whole: &Bytes, part: &[u8]) {
        if part.len() < self.least_passed || self.passed.is_some() {
            self.text.extend_from_slice(part);
        } else {
            self.passed = Some((self.text.len(), whole.slice_ref(part)));
        }
    }

    /// Returns the printed text, and the part that was not copied with its position in the text.
    pub fn into_parts(self) -> (Vec<u8>, Option<(usize, Bytes)>) {
        (self.text, self.passed)
    }
}

/// Makes a request with an id of Switchyard. `params` writes a comma and the member `params`, or nothing. Its
/// value is expected to need `room` bytes. A part of it is not copied if it has at least `least_passed` bytes.
pub fn compose(
    id: u64,
    method: &str,
    (room, least_passed): (usize, usize),
    params: impl FnOnce(&mut Composed),
) -> Composed {
    const MEMBERS: usize = r#"{"jsonrpc":"2.0","id":,"method":"","params":}"#.len();
    let mut digits = Decimal::default();
    let id = digits.write(id);
    let mut text = Vec::with_capacity(MEMBERS + id.len() + method.len() + room);
    text.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    text.extend_from_slice(id);
    text.extend_from_slice(b",\"method\":");
    write_string(&mut text, method);
    let mut out = Composed { text, passed: None, least_passed };
    params(&mut out);
    out.text.push(b'}');
    out
}
