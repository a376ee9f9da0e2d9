//! The body of an answer, as it comes off its connection.
//!
//! It owns the connection. At its end the connection joins the idle ones. If the body is dropped before that, the
//! connection closes, which tells a modern MCP server that nobody waits any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};

use super::connection::{Link, quietly};
use super::error::Error;
use super::idle::IdleSet;

/// How long the rest of a request may take when its answer was complete before.
const REST_LIMIT: Duration = Duration::from_secs(10);

/// The body of an answer. `size_hint` has the length that was announced, less what was read.
pub struct Body {
    /// `None` when it was read to its end.
    incoming: Option<Incoming>,
    /// `None` when it was read to its end.
    line: Option<Line>,
}

/// A connection, and where it goes when it is free.
pub(super) struct Line {
    pub(super) link: Box<Link>,
    /// None: it is closed.
    pub(super) shelf: Option<Arc<IdleSet>>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, line: Line) -> Self {
        let mut body = Self { incoming: Some(incoming), line: Some(line) };
        body.note_end();
        body
    }

    /// Gives the connection back if nothing more comes over it.
    fn note_end(&mut self) {
        if self.incoming.as_ref().is_some_and(http_body::Body::is_end_stream) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.incoming = None;
        if let Some(line) = self.line.take() {
            line.free();
        }
    }
}

impl Line {
    /// The answer is complete.
    fn free(mut self) {
        let Some(idle) = self.shelf.take() else { return };
        if !self.link.is_ready() {
            self.link.work(&quietly());
        }
        if self.link.is_ready() {
            idle.put(self.link);
        } else if self.link.is_open() {
            // It came before the request was off, which the server may still want to have.
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
        let (Some(incoming), Some(line)) = (&mut this.incoming, &mut this.line) else {
            return Poll::Ready(None);
        };
        // Frames come out of `work`, so that alone has to wake the task.
        let mut look = |link: &Link| link.look(|| Pin::new(&mut *incoming).poll_frame(&mut quietly()));
        let mut frame = look(&line.link);
        if frame.is_pending() {
            line.link.work(context);
            frame = look(&line.link);
        }
        match frame {
            Poll::Ready(Some(Ok(frame))) => {
                this.note_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                (this.incoming, this.line) = (None, None);
                Poll::Ready(Some(Err(Error::cut(&error))))
            }
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or(SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

impl Drop for Body {
    /// If the end has arrived already, the connection can be used again.
    fn drop(&mut self) {
        self.incoming = None;
        if let Some(Line { mut link, shelf: Some(shelf) }) = self.line.take() {
            link.work(&quietly());
            if link.is_ready() {
                shelf.put(link);
            }
        }
    }
}
