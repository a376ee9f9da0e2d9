//! Answers connections over the limit with 503 and `Retry-After`, and closes them.
//!
//! Invariants: at most [`AT_ONCE`] connections are answered at a time, and others are closed without an
//! answer, so the cost of a flood is limited. Each answer takes at most [`LIMIT`] and reads at most
//! [`MOST_BYTES`], of which only the first line is used. The answer is sent after the first bytes of the
//! request, and the rest is then read and dropped. A socket that is closed with unread bytes would be reset,
//! and the client would lose the answer.
//!
//! Not here: the limit of connections (`listener`), the text of the answer (`refusal`).

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::refusal::{AnswerFormat, Refusal};
use runtime::shutdown::Shutdown;
use runtime::telemetry::RequestId;

/// Limit of connections that are answered at a time.
pub(super) const AT_ONCE: usize = 32;
/// Time limit of one answer.
const LIMIT: Duration = Duration::from_secs(2);
/// Limit of the bytes that are read from one connection.
const MOST_BYTES: usize = 64 * 1024;
/// Size of the first read, in which the path is searched.
const FIRST_BYTES: usize = 1_024;
/// The first bytes of an HTTP/2 client, which would not understand an HTTP/1.1 answer.
const HTTP2: &[u8] = b"PRI ";

/// Answers connections over the limit.
pub(super) struct LoadShed {
    places: Arc<Semaphore>,
    /// The limit of connections.
    most: usize,
}

impl LoadShed {
    pub(super) fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), most }
    }

    /// Answers `socket` in a task of `live`, or closes it if too many are being answered.
    pub(super) fn reject(&self, socket: std::net::TcpStream, live: &Shutdown) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        let Ok(socket) = TcpStream::from_std(socket) else { return };
        let refusal = Refusal::Full { most: self.most };
        live.spawn(async move {
            // A client that is too slow is closed without the answer.
            let _ = timeout(LIMIT, send_refusal(socket, refusal)).await;
            drop(place);
        });
    }
}

/// Answers a client whose request began with `first_bytes`, then reads for a moment what it still sends.
pub(super) async fn refuse(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    first_bytes: &[u8],
    refusal: Refusal,
) {
    let format = format(first_bytes);
    // A client that is too slow is closed without the answer.
    let _ = timeout(LIMIT, answer_and_close(socket, format, refusal)).await;
}

async fn send_refusal(mut socket: TcpStream, refusal: Refusal) -> std::io::Result<()> {
    let mut first = [0; FIRST_BYTES];
    let count = socket.read(&mut first).await?;
    let first_bytes = &first[..count];
    if count == 0 || first_bytes.starts_with(HTTP2) {
        return Ok(());
    }
    answer_and_close(socket, format(first_bytes), refusal).await
}

async fn answer_and_close(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    format: AnswerFormat,
    refusal: Refusal,
) -> std::io::Result<()> {
    socket.write_all(&answer(refusal, format).await).await?;
    socket.shutdown().await?;
    let mut rest = [0; FIRST_BYTES];
    let mut read = 0;
    while read < MOST_BYTES {
        match socket.read(&mut rest).await? {
            0 => break,
            more => read += more,
        }
    }
    Ok(())
}

/// Chooses the form of the answer by the path in the first line.
fn format(first_bytes: &[u8]) -> AnswerFormat {
    let line = first_bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let target = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    AnswerFormat::of(std::str::from_utf8(path).unwrap_or_default())
}

/// Returns the complete answer as bytes.
async fn answer(refusal: Refusal, format: AnswerFormat) -> Vec<u8> {
    let id = RequestId::new();
    let response = refusal.response(format, id);
    let (head, body) = response.into_parts();
    // The body is in memory, so collecting it cannot fail.
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut wire = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    let own = [
        ("content-length", body.len().to_string()),
        ("connection", "close".to_owned()),
        ("x-request-id", id.to_string()),
    ];
    let own = own.iter().map(|(name, value)| (*name, value.as_bytes()));
    let headers = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    for (name, value) in headers.chain(own) {
        wire.extend_from_slice(name.as_bytes());
        wire.extend_from_slice(b": ");
        wire.extend_from_slice(value);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"\r\n");
    wire.extend_from_slice(&body);
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_who_reads_the_answer() {
        for (first_bytes, expected) in [
            ("POST /mcp HTTP/1.1\r\nhost: x\r\n", AnswerFormat::Mcp),
            ("POST /mcp?x HTTP/1.1\r\n", AnswerFormat::Mcp),
            ("GET /sse", AnswerFormat::Mcp),
            ("GET /api/v1/mcp/tools HTTP/1.1\r\n", AnswerFormat::Rest),
            ("GET\r\n", AnswerFormat::Rest),
            ("\u{0}\u{1}", AnswerFormat::Rest),
        ] {
            assert_eq!(format(first_bytes.as_bytes()), expected, "{first_bytes}");
        }
    }

    #[tokio::test]
    async fn the_answer_is_whole_and_names_the_limit() {
        let wire =
            String::from_utf8(answer(Refusal::Full { most: 7 }, AnswerFormat::Mcp).await).expect("text");
        let (head, body) = wire.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(head.contains("retry-after: 5\r\n") && head.contains("connection: close"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let error: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let data = &error["error"]["data"];
        assert_eq!(
            (&data["type"], &data["code"]),
            (&"connection_limit_exceeded".into(), &"too_many_connections".into())
        );
        assert_eq!((&data["max_connections"], &data["current_connections"]), (&7.into(), &7.into()));
        assert_eq!(data["retry_after_seconds"], 5);
    }
}
