//! As much HTTP/1.1 as client and server here need: heads are looked through for two headers, bodies are
//! counted off.

use std::io;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// A message that has arrived whole.
#[derive(Debug)]
pub struct Incoming {
    /// Its first line and headers.
    pub head: String,
    /// Its body; a chunked one with its chunks' sizes.
    pub body: Vec<u8>,
}

/// The next message; `None` when the connection has ended. `input` keeps what was read too much.
pub async fn read_message(socket: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<Option<Incoming>> {
    loop {
        if let Some(message) = take_message(input) {
            return Ok(Some(message));
        }
        if socket.read_buf(input).await? == 0 {
            return Ok(None);
        }
    }
}

fn take_message(input: &mut Vec<u8>) -> Option<Incoming> {
    let start = memchr::memmem::find(input, b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&input[..start]).to_ascii_lowercase();
    let end = if head.contains("transfer-encoding: chunked") {
        start + memchr::memmem::find(&input[start..], b"\r\n0\r\n\r\n")? + 7
    } else {
        start + header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0)
    };
    if input.len() < end {
        return None;
    }
    let body = input[start..end].to_vec();
    input.drain(..end);
    Some(Incoming { head, body })
}

/// The value of a header in a head of lower-case letters.
pub fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
