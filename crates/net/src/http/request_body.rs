//! The body of a request: bytes that are already there, or pieces that are made while it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tower::BoxError;

/// The body of a request.
pub struct RequestBody(Kind);

enum Kind {
    Full(Full<Bytes>),
    Parts(std::vec::IntoIter<Bytes>),
    Streamed(Streamed),
}

struct Streamed {
    pieces: BoxStream<'static, Result<Bytes, BoxError>>,
    /// Bytes that are still to come.
    left: u64,
}

impl RequestBody {
    /// A body in parts, which are sent one after another and not copied.
    pub fn of_parts(parts: [Bytes; 3]) -> Self {
        Self(Kind::Parts(Vec::from(parts).into_iter()))
    }

    /// A body of `length` bytes that come in `pieces`. If `pieces` fail or end early, the connection closes.
    pub fn streamed<E: Into<BoxError>>(
        length: u64,
        pieces: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Self {
        let pieces = pieces.map(|piece| piece.map_err(Into::into)).boxed();
        Self(Kind::Streamed(Streamed { pieces, left: length }))
    }
}

impl RequestBody {
    /// A copy of the body, if it is there already and not made while it is sent.
    pub(super) fn repeat(&self) -> Option<Self> {
        match &self.0 {
            Kind::Full(full) => Some(Self(Kind::Full(full.clone()))),
            Kind::Parts(_) | Kind::Streamed(_) => None,
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Full(Full::new(bytes)))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.get_mut().0 {
            Kind::Full(full) => Pin::new(full).poll_frame(context).map_err(|never| match never {}),
            Kind::Parts(parts) => Poll::Ready(parts.next().map(|part| Ok(Frame::data(part)))),
            Kind::Streamed(streamed) => streamed.pieces.poll_next_unpin(context).map_ok(|piece| {
                streamed.left = streamed.left.saturating_sub(piece.len() as u64);
                Frame::data(piece)
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(full) => full.is_end_stream(),
            Kind::Parts(parts) => parts.len() == 0,
            Kind::Streamed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(full) => full.size_hint(),
            Kind::Parts(parts) => {
                SizeHint::with_exact(parts.as_slice().iter().map(|part| part.len() as u64).sum())
            }
            Kind::Streamed(streamed) => SizeHint::with_exact(streamed.left),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn parts_are_one_body_of_known_length_and_none_is_copied() {
        let large = Bytes::from(vec![b'x'; 100_000]);
        let mut body =
            RequestBody::of_parts([Bytes::from_static(b"{"), large.clone(), Bytes::from_static(b"}")]);
        for (left, part) in [(100_002, &b"{"[..]), (100_001, &large), (1, b"}")] {
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(left), false));
            let frame = body.frame().await.expect("a part").expect("it cannot fail");
            let data = frame.into_data().expect("data");
            assert_eq!(data, part);
            assert!(data.len() == 1 || data.as_ptr() == large.as_ptr());
        }
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }
}
