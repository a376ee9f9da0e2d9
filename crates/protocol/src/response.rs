//! Responses as bytes: in one piece, or in parts so that a large payload is not copied.

use bytes::Bytes;

use super::message::{RequestId, Response};
use json::raw::Raw;

/// The text behind the payload of a response.
const TAIL: &[u8] = b"}";

impl Response {
    /// The response as JSON. An unknown id is `null` (JSON-RPC 2.0, section 5).
    pub fn encode(&self) -> Bytes {
        let payload = self.payload();
        let mut out = head(self.id.as_ref(), self.reply.is_ok(), payload.len() + TAIL.len());
        out.extend_from_slice(payload);
        out.extend_from_slice(TAIL);
        Bytes::from(out)
    }

    /// Returns the response in three parts, so that a large payload is written without a copy.
    pub fn parts(&self) -> [Bytes; 3] {
        let head = head(self.id.as_ref(), self.reply.is_ok(), 0);
        [Bytes::from(head), self.payload().clone(), Bytes::from_static(TAIL)]
    }

    const fn payload(&self) -> &Bytes {
        match &self.reply {
            Ok(result) => result.bytes(),
            Err(error) => error.raw().bytes(),
        }
    }
}

/// A result that many clients receive, stored with the end of a response. It is written behind the head of each
/// response without a copy, and the end needs no separate write.
#[derive(Debug, Clone)]
pub struct Closed(Bytes);

impl Closed {
    /// Copies `result` once.
    pub fn new(result: &Raw) -> Self {
        Self([result.bytes(), TAIL].concat().into())
    }

    /// The result alone.
    pub fn result(&self) -> Raw {
        Raw::unindexed(self.0.slice(..self.0.len() - TAIL.len()))
    }

    /// The length in bytes.
    pub const fn size(&self) -> usize {
        self.0.len()
    }

    /// Returns the response to the request `id` in two parts: the text before the result, and the rest.
    pub fn parts(self, id: &RequestId) -> [Bytes; 2] {
        [Bytes::from(head(Some(id), true, 0)), self.0]
    }

    /// Returns the response in one piece, copied.
    pub fn encode(&self, id: &RequestId) -> Bytes {
        let mut out = head(Some(id), true, self.0.len());
        out.extend_from_slice(&self.0);
        Bytes::from(out)
    }
}

/// The beginning of a response, with room for `more` bytes.
fn head(id: Option<&RequestId>, is_result: bool, more: usize) -> Vec<u8> {
    const MEMBERS: usize = r#"{"jsonrpc":"2.0","id":,"result":"#.len();
    let id = id.map_or(&b"null"[..], |id| id.raw().bytes());
    let mut out = Vec::with_capacity(MEMBERS + id.len() + more);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id);
    out.push(b',');
    out.extend_from_slice(if is_result { b"\"result\":" } else { b"\"error\":" });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorObject;

    #[test]
    fn every_way_to_write_a_response_writes_the_same() {
        let id = RequestId::from_u64(7);
        let result = Raw::of("text");
        let response = Response { id: Some(id.clone()), reply: Ok(result.clone()) };
        let text = r#"{"jsonrpc":"2.0","id":7,"result":"text"}"#;
        let closed = Closed::new(&result);
        assert_eq!((closed.result(), closed.size()), (result, 7));
        assert_eq!([response.encode(), response.parts().concat().into()], [text, text]);
        assert_eq!([closed.encode(&id), closed.parts(&id).concat().into()], [text, text]);
    }

    #[test]
    fn printed_response_fits_its_buffer_and_an_unknown_id_is_null() {
        for (id, reply) in
            [(Some(RequestId::from_u64(1)), Ok(Raw::of(&2))), (None, Err(ErrorObject::new(3, "no")))]
        {
            let response = Response { id, reply };
            let out = head(response.id.as_ref(), response.reply.is_ok(), 0);
            assert!(out.capacity() < out.len() + 5, "{}", out.capacity());
        }
        let refused = Response { id: None, reply: Err(ErrorObject::new(3, "no")) };
        assert!(refused.encode().starts_with(br#"{"jsonrpc":"2.0","id":null,"error":{"#));
    }
}
