//! The body of a request: bytes that are already there, pieces that are made while it is sent, or a form with files.
//!
//! Source: RFC 7578 (`multipart/form-data`). Quotes in the name of a file are escaped as in a quoted string, and line ends as in
//! HTML forms, so that a name cannot add a header.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use http::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tower::BoxError;
use uuid::Uuid;

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
    pub(crate) fn streamed<E: Into<BoxError>>(
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

type Pieces = BoxStream<'static, Result<Bytes, BoxError>>;

/// A form that is being filled in.
pub struct Form {
    boundary: String,
    length: u64,
    parts: Vec<Pieces>,
}

impl Default for Form {
    fn default() -> Self {
        // Random, so that no file contains it.
        Self { boundary: Uuid::new_v4().simple().to_string(), length: 0, parts: Vec::new() }
    }
}

impl Form {
    /// An empty form.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    pub fn text(mut self, name: &'static str, value: &str) -> Self {
        self.bytes(format!("--{}\r\n{}\r\n\r\n{value}\r\n", self.boundary, disposition(name)));
        self
    }

    /// Adds a file of `length` bytes that come in `pieces`.
    pub fn file<E: Into<BoxError>>(
        mut self,
        name: &'static str,
        file_name: &str,
        length: u64,
        pieces: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    ) -> Self {
        let (boundary, disposition) = (&self.boundary, disposition(name));
        let head = format!(
            "--{boundary}\r\n{disposition}; filename=\"{}\"\r\nContent-Type: application/octet-stream\r\n\r\n",
            escaped(file_name)
        );
        self.bytes(head);
        self.length += length;
        self.parts.push(pieces.map(|piece| piece.map_err(Into::into)).boxed());
        self.bytes("\r\n".into());
        self
    }

    fn bytes(&mut self, text: String) {
        self.length += text.len() as u64;
        self.parts.push(stream::iter([Ok(Bytes::from(text))]).boxed());
    }

    /// Returns the content type and the body.
    pub fn into_body(mut self) -> (Option<HeaderValue>, RequestBody) {
        self.bytes(format!("--{}--\r\n", self.boundary));
        let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={}", self.boundary)).ok();
        (kind, RequestBody::streamed(self.length, stream::iter(self.parts).flatten()))
    }
}

fn disposition(name: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{name}\"")
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use http_body::Body;
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

    #[tokio::test]
    async fn a_form_is_as_long_as_it_says() {
        let pieces = stream::iter([Ok::<_, BoxError>(Bytes::from("a")), Ok("b".into())]);
        let form = Form::new().text("id", "7").file("file", "a\r\n \"b\".md", 2, pieces);
        let boundary = form.boundary.clone();
        let (kind, body) = form.into_body();
        assert_eq!(kind.expect("a header"), format!("multipart/form-data; boundary={boundary}"));
        let length = body.size_hint().exact().expect("a length");
        let sent = body.collect().await.expect("a body").to_bytes();
        assert_eq!(sent.len() as u64, length);
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\n7\r\n--{boundary}\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"a%0D%0A \\\"b\\\".md\"\r\n\
             Content-Type: application/octet-stream\r\n\r\nab\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8_lossy(&sent), expected);
    }
}
