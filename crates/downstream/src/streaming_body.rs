//! The body of an answer whose result is passed on while it arrives from its server.
//!
//! The envelope is ours, so a client sees what it would see of a result that was collected. Invariant:
//! a result that breaks off makes the body break off, which hyper answers by closing the connection
//! without an end of the body: nobody takes half an answer for a whole one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame};

use json::Raw;
use protocol::{RequestId, Response};
use upstream::ResponseStream;

/// A response as it is passed on.
pub(super) struct Passing {
    /// The envelope before the result.
    head: Option<Bytes>,
    /// None when it has ended.
    flow: Option<Box<ResponseStream>>,
    /// The envelope behind it.
    tail: Bytes,
}

impl Passing {
    /// The response to the request `id`.
    pub(super) fn new(id: &RequestId, flow: Box<ResponseStream>) -> Self {
        let [head, _, tail] = around(id, Bytes::new(), &[]);
        Self { head: Some(head), flow: Some(flow), tail }
    }
}

/// The response to the request `id`: what is before `result`, that, and what is behind it, `ending` first.
pub(super) fn around(id: &RequestId, result: Bytes, ending: &[u8]) -> [Bytes; 3] {
    // Only what stands around it is used of this one.
    let response = Response { id: Some(id.clone()), reply: Ok(Raw::empty_object()) };
    let [head, _, tail] = response.parts();
    let tail = if ending.is_empty() { tail } else { [ending, &tail].concat().into() };
    [head, result, tail]
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        let Some(flow) = &mut self.flow else { return Poll::Ready(None) };
        let part = match ready!(flow.poll_part(cx)) {
            Some(Ok(part)) => return Poll::Ready(Some(Ok(Frame::data(part)))),
            Some(Err(error)) => Err(error.into()),
            None => Ok(Frame::data(std::mem::take(&mut self.tail))),
        };
        self.flow = None;
        Poll::Ready(Some(part))
    }

    fn is_end_stream(&self) -> bool {
        self.flow.is_none()
    }
}
