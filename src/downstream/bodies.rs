//! The bodies that a connection carries: a request's, which has to arrive in time, and an answer's,
//! which keeps its request running until the last byte was handed over.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::activity::Running;

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
}

impl Arriving {
    pub(super) const fn new(body: Incoming, limit: Duration) -> Self {
        Self { body, limit, alarm: None }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
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

/// The body of an answer; as long as it exists, its request is running.
pub(super) struct Answer {
    body: Body,
    _running: Running,
}

impl Answer {
    pub(super) const fn new(body: Body, running: Running) -> Self {
        Self { body, _running: running }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
