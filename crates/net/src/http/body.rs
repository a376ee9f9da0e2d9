//! The body of a response, read from its connection.
//!
//! Invariant: it owns the connection. At its end the connection becomes idle. If the body is dropped before that, the
//! connection closes, so a modern MCP server notices that the request was cancelled. A content coding is undone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::{Frame, Incoming, SizeHint};

use super::connection::{IdleSet, Link, without_waker};
use super::content_coding::{ContentDecoder, DecodedStep};
use super::error::Error;

/// Time for the rest of a request whose response was complete first.
const REST_LIMIT: Duration = Duration::from_secs(10);
/// Frames that one poll decodes at most if they decode to nothing.
const STEPS_OF_POLL: usize = 4;

/// The body of a response. `size_hint` has the announced length, less the bytes that were read.
pub struct Body {
    /// `None` without a content coding, and after the end.
    decoder: Option<Box<ContentDecoder>>,
    /// `None` when it was read to its end.
    incoming: Option<Incoming>,
    /// `None` when it was read to its end.
    pooled: Option<PooledLink>,
}

/// A connection, and the set that it joins when it is idle.
pub(super) struct PooledLink {
    pub(super) link: Box<Link>,
    /// None if it is closed instead.
    pub(super) idle_set: Option<Arc<IdleSet>>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, decoder: Option<Box<ContentDecoder>>, pooled: PooledLink) -> Self {
        let mut body = Self { decoder, incoming: Some(incoming), pooled: Some(pooled) };
        body.note_end();
        body
    }

    /// Returns the connection if the body has ended.
    fn note_end(&mut self) {
        if self.incoming.as_ref().is_some_and(http_body::Body::is_end_stream) {
            self.end();
        }
    }

    /// Returns the next frame as it was sent.
    fn poll_received(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let (Some(incoming), Some(pooled)) = (&mut self.incoming, &mut self.pooled) else {
            return Poll::Ready(None);
        };
        // All frames come from `work`, so only `work` has to wake the task.
        let mut look = |link: &Link| link.look(|| Pin::new(&mut *incoming).poll_frame(&mut without_waker()));
        let mut frame = look(&pooled.link);
        if frame.is_pending() {
            pooled.link.work(context);
            frame = look(&pooled.link);
        }
        match frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.note_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                (self.incoming, self.pooled) = (None, None);
                Poll::Ready(Some(Err(Error::cut(&error))))
            }
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Returns the next decoded frame.
    fn poll_decoded(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        for _ in 0..STEPS_OF_POLL {
            let Some(decoder) = &mut self.decoder else { return Poll::Ready(None) };
            match decoder.step() {
                Ok(DecodedStep::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(DecodedStep::End) => {
                    self.decoder = None;
                    return Poll::Ready(None);
                }
                Ok(DecodedStep::NeedsInput) => {}
                Err(error) => return self.broken(error),
            }
            match ready!(self.poll_received(context)).transpose() {
                Ok(arrived) => self.feed(arrived),
                Err(error) => return self.broken(error),
            }
        }
        // Input may decode to nothing, so other tasks of the worker come first.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Hands the next frame of the response to the decoder, or its end.
    fn feed(&mut self, arrived: Option<Frame<Bytes>>) {
        let Some(decoder) = &mut self.decoder else { return };
        match arrived.map(Frame::into_data) {
            Some(Ok(data)) => decoder.push(data),
            // Trailers describe the response as it was sent.
            Some(Err(_trailers)) => {}
            None => decoder.end(),
        }
    }

    /// Closes the connection.
    fn broken(&mut self, error: Error) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        (self.decoder, self.incoming, self.pooled) = (None, None, None);
        Poll::Ready(Some(Err(error)))
    }

    fn end(&mut self) {
        self.incoming = None;
        if let Some(pooled) = self.pooled.take() {
            pooled.free();
        }
    }
}

impl PooledLink {
    /// Returns the connection after a complete response.
    fn free(mut self) {
        let Some(idle) = self.idle_set.take() else { return };
        if !self.link.is_ready() {
            self.link.work(&without_waker());
        }
        if self.link.is_ready() {
            idle.put(self.link);
        } else if self.link.is_open() {
            // The response was complete before the request was sent. The server may still read the rest of it.
            idle.settle(self.link, REST_LIMIT);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        if this.decoder.is_some() { this.poll_decoded(context) } else { this.poll_received(context) }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_none() && self.decoder.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.decoder.is_some() {
            return SizeHint::default();
        }
        self.incoming.as_ref().map_or(SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

impl Drop for Body {
    /// Keeps the connection if the end of the body has arrived already.
    fn drop(&mut self) {
        self.incoming = None;
        if let Some(PooledLink { mut link, idle_set: Some(idle_set) }) = self.pooled.take() {
            link.work(&without_waker());
            if link.is_ready() {
                idle_set.put(link);
            }
        }
    }
}
