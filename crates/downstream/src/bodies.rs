//! The bodies that a connection carries: one of a request, which has to arrive in time, and one of a response, which
//! keeps its request running until its last byte.
//!
//! Invariants: a result that breaks off makes the body of its response break off. Then hyper closes the connection
//! without an end of the body. So no client takes half a response for a whole one. Every part of a body is charged to
//! the memory budget until the system has it, whatever made it ([`AnswerBody`]). Answers that can be refused with an error are
//! charged before (`exchange`, `message_encoder`, and `charged` of the REST API), and not again here.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::activity::RunningRequest;
use super::client_address::ClientAddress;
use super::refusal::Refusal;
use super::socket_slots::ClientSlot;
use auth::Principal;
use json::Raw;
use protocol::{RequestId, Response};
use runtime::memory::{self, Account, ChargeKind, SMALL};
use runtime::worker::suppress_wakes;
use upstream::ResponseStream;

/// The body did not arrive within `body_timeout`.
#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
pub(super) struct BodyTimedOut;

/// The body of a request, with a time limit. The alarm is made only for bodies that are not there at
/// once.
pub struct Arriving {
    body: Incoming,
    limit: Duration,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Whether it was read to its end.
    is_read: bool,
    client: ClientSlot,
}

impl Arriving {
    pub(super) const fn new(body: Incoming, limit: Duration, client: ClientSlot) -> Self {
        Self { body, limit, alarm: None, is_read: false, client }
    }
}

/// A body whose connection records the principal of its request.
pub(super) trait FromClient {
    /// Records that the head of this request has a valid credential, and comes from `client`; without it, from the peer. Fails
    /// if its principal has too many connections.
    fn identified(&self, principal: &Principal, client: Option<ClientAddress>) -> Result<(), Refusal>;

    /// Records that the head of this request has no valid credential.
    fn unidentified(&self);

    /// Returns the address of the other end of its connection, if that is known.
    fn peer(&self) -> Option<IpAddr>;
}

impl FromClient for Arriving {
    fn identified(&self, principal: &Principal, client: Option<ClientAddress>) -> Result<(), Refusal> {
        self.client.identified(principal, client).map_err(|full| Refusal::ShareTaken { held: full.held })
    }

    fn unidentified(&self) {
        self.client.unidentified();
    }

    fn peer(&self) -> Option<IpAddr> {
        Some(self.client.peer())
    }
}

/// Nothing is recorded: the connection belongs to the program that embeds Switchyard.
impl FromClient for Body {
    fn identified(&self, _: &Principal, _: Option<ClientAddress>) -> Result<(), Refusal> {
        Ok(())
    }

    fn unidentified(&self) {}

    fn peer(&self) -> Option<IpAddr> {
        None
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.is_read && !self.body.is_end_stream() {
            self.client.activity().left_body();
        }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let (frame, was_woken) = suppress_wakes(cx.waker(), || Pin::new(&mut self.body).poll_frame(cx));
        // Wakes the connection, which has room for more, unless the body has ended.
        if was_woken && !self.body.is_end_stream() {
            cx.waker().wake_by_ref();
        }
        if let Poll::Ready(frame) = frame {
            if self.alarm.is_some() {
                self.client.activity().body_blocked(false);
            }
            self.is_read |= frame.is_none();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.client.activity().body_blocked(true);
        let limit = self.limit;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyTimedOut.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection takes no more of an answer while this much of it waits to be written, in bytes. It also reads at
/// most this much of a body at once.
pub(super) const WRITE_BUFFER: usize = 64 * 1024;
/// Bytes of a body that a connection takes before it writes them: hyper takes the next part while less
/// than [`WRITE_BUFFER`] waits. Some room is left for the head of the answer.
const TAKEN: usize = WRITE_BUFFER - 4 * 1024;
/// How much is copied at most to spare a second write.
const JOINED: usize = 64 * 1024;

/// A body that is there, in parts that are not copied into one, such as a head, a large payload, a short tail.
pub(super) struct SegmentedBody<const N: usize> {
    rest: std::array::IntoIter<Bytes, N>,
    /// Whether the last two parts are copied into one when the connection takes them.
    joins_last: bool,
}

impl<const N: usize> SegmentedBody<N> {
    /// These, as they are.
    pub(super) fn of(parts: [Bytes; N]) -> Self {
        Self { rest: parts.into_iter(), joins_last: false }
    }
}

impl SegmentedBody<4> {
    /// Joins the tail to the end of the payload if the payload fills what a connection takes at once. Otherwise
    /// the tail would need a write and a read of its own.
    pub(super) fn new([head, mut payload, tail]: [Bytes; 3]) -> Self {
        let room = TAKEN.saturating_sub(head.len());
        let joins_last = payload.len() > room && payload.len() - room <= JOINED;
        let end = if joins_last { payload.split_off(room) } else { Bytes::new() };
        Self { joins_last, ..Self::of([head, payload, end, tail]) }
    }
}

impl<const N: usize> HttpBody for SegmentedBody<N> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // An empty part would end a body in chunks.
        let Some(part) = self.rest.find(|part| !part.is_empty()) else { return Poll::Ready(None) };
        let part = match self.rest.as_slice() {
            [tail] if self.joins_last => [part, tail.clone()].concat().into(),
            _ => return Poll::Ready(Some(Ok(Frame::data(part)))),
        };
        self.rest.next();
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.as_slice().iter().map(|part| part.len() as u64).sum())
    }
}

/// A response whose result is passed on while it arrives from its server. The envelope is Switchyard's.
pub(super) struct StreamingBody {
    /// The envelope before the result.
    head: Option<Bytes>,
    /// None when the result has ended.
    stream: Option<Box<ResponseStream>>,
    /// The envelope after the result.
    tail: Bytes,
}

impl StreamingBody {
    /// The response to the request `id`.
    pub(super) fn new(id: &RequestId, stream: Box<ResponseStream>) -> Self {
        let [head, _, tail] = enveloped(id, Bytes::new(), &[]);
        Self { head: Some(head), stream: Some(stream), tail }
    }
}

/// The response to the request `id` in three parts: the envelope before `result`, `result`, and `ending` with the rest
/// of the envelope.
pub(super) fn enveloped(id: &RequestId, result: Bytes, ending: &[u8]) -> [Bytes; 3] {
    // Only the envelope of this one is used.
    let response = Response { id: Some(id.clone()), reply: Ok(Raw::empty_object()) };
    let [head, _, tail] = response.parts();
    let tail = if ending.is_empty() { tail } else { [ending, &tail].concat().into() };
    [head, result, tail]
}

impl HttpBody for StreamingBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        let part = match ready!(stream.poll_part(cx)) {
            Some(Ok(part)) => return Poll::Ready(Some(Ok(Frame::data(part)))),
            Some(Err(error)) => Err(error.into()),
            None => Ok(Frame::data(std::mem::take(&mut self.tail))),
        };
        self.stream = None;
        Poll::Ready(Some(part))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none()
    }
}

/// The body of an answer. Its request counts as running for as long as it exists. A connection that has no
/// room for more does not ask for the next part, which is how `Activity` sees a client that reads too slowly.
///
/// Each part is charged until it was written. If there is no room for it, the body breaks off.
pub(super) struct AnswerBody {
    body: Body,
    /// Whether the connection has a part and was not back for more.
    is_handed: bool,
    running: RunningRequest,
}

impl AnswerBody {
    pub(super) const fn new(body: Body, running: RunningRequest) -> Self {
        Self { body, is_handed: false, running }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if std::mem::take(&mut self.is_handed) {
            self.running.next_requested();
        }
        let part = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let part =
            Poll::Ready(part.map(|part| part.and_then(|part| charged(part, || self.running.account()))));
        if matches!(part, Poll::Ready(Some(Ok(_)))) && !self.body.is_end_stream() {
            self.is_handed = true;
            self.running.handed();
        }
        part
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of a body that is charged to `account`, if it is large.
fn charged(part: Frame<Bytes>, account: impl FnOnce() -> Account) -> Result<Frame<Bytes>, axum::Error> {
    if part.data_ref().is_none_or(|data| data.len() < SMALL) {
        return Ok(part);
    }
    let data = part.into_data().unwrap_or_default();
    memory::hold(data, account, ChargeKind::Answer).map(Frame::data).map_err(axum::Error::new)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn parts_are_one_body_of_known_length_and_none_is_copied() {
        let payload = Bytes::from(vec![b'x'; 200_000]);
        let mut body =
            SegmentedBody::new([Bytes::from_static(b"{"), payload.clone(), Bytes::from_static(b"}")]);
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(200_002), false));
        let _brace = body.frame().await;
        let frame = body.frame().await.expect("a frame").expect("it cannot fail");
        assert_eq!(frame.into_data().expect("data").as_ptr(), payload.as_ptr());
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(1), false));
        let _brace = body.frame().await;
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_tail_that_would_be_written_alone_is_joined_to_what_is_before_it() {
        let brace = || Bytes::from_static(b"}");
        for (length, joined) in [(1_000, 1), (TAKEN - 1, 1), (TAKEN, 2), (70_000, 70_001 - (TAKEN - 1))] {
            let payload = Bytes::from(vec![b'x'; length]);
            let mut body = SegmentedBody::new([Bytes::from_static(b"{"), payload.clone(), brace()]);
            assert_eq!(body.size_hint().exact(), Some(length as u64 + 2));
            let mut parts = Vec::new();
            while let Some(frame) = body.frame().await {
                parts.push(frame.expect("it cannot fail").into_data().expect("data"));
            }
            assert_eq!(parts[1].as_ptr(), payload.as_ptr(), "{length}: the first part is not copied");
            assert_eq!(parts[2..].concat().len(), joined, "{length}");
            assert_eq!(parts.len(), 3, "{length}");
            assert_eq!(parts.concat(), [b"{", &payload[..], b"}"].concat(), "{length}");
        }
    }
}
