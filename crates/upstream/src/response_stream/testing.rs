//! A large result that a test writes piece by piece.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use tokio::sync::mpsc;

use super::{Clock, EnvelopeEdit, ResponseStream};
use crate::error::Error;
use json::envelope_stream::Terms;

pub(super) const TERMS: Terms = Terms { refused: &["task"], refused_objects: &[], added: &[] };
pub(super) const LEFT: Duration = Duration::from_secs(10);
pub(super) const CAP: usize = 64;

/// A body that a test writes.
pub(super) struct Pipe(pub(super) mpsc::UnboundedReceiver<Result<&'static str, Error>>);

impl Body for Pipe {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Error>>> {
        self.0.poll_recv(cx).map_ok(|text| http_body::Frame::data(Bytes::from_static(text.as_bytes())))
    }
}

/// Writes pieces of the result, or breaks it.
pub type BodyWriter = mpsc::UnboundedSender<Result<&'static str, Error>>;

/// Returns a flow of which nothing has come, and the way to write it.
pub fn flow() -> (ResponseStream, BodyWriter) {
    let (writer, receiver) = mpsc::unbounded_channel();
    let edit = EnvelopeEdit::new(7, TERMS);
    let mut flow = ResponseStream::new(Box::new(Pipe(receiver)), edit, VecDeque::new(), (CAP, CAP));
    flow.clock = Clock::of(LEFT);
    (flow, writer)
}
