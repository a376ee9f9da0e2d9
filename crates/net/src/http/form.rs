//! Forms with files: `multipart/form-data`.
//!
//! Source: RFC 7578. Quotes in the name of a file are escaped as in a quoted string, and line ends as in HTML forms, so
//! that a name cannot add a header.

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use http::HeaderValue;
use tower::BoxError;
use uuid::Uuid;

use super::request_body::RequestBody;

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
