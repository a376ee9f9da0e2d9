//! A modern HTTP server that answers every call with events, or interim responses, that never end.
//!
//! It runs on plain threads that write one prepared block again and again, so that it can send far more than the
//! program under test can read. It does not check what it is asked.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one block of events; each is one chunk of the body.
const BLOCK: usize = 64 * 1024;

/// The head of an answer with events.
const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A server with one tool, whose calls are answered by events without end.
#[derive(Debug)]
pub struct Flooding {
    address: String,
    sent: Arc<AtomicU64>,
}

impl Flooding {
    /// Starts a server whose only tool is `tool` and answers with `event` again and again.
    pub fn start(tool: &str, event: &str) -> Self {
        Self::with(tool, EVENTS, chunk(event))
    }

    /// Starts a server whose only tool is `tool` and answers with interim responses again and again.
    pub fn interim(tool: &str) -> Self {
        Self::with(tool, "", "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(2_000).into_bytes())
    }

    fn with(tool: &str, head: &'static str, block: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let sent = Arc::new(AtomicU64::new(0));
        let (tool, count) = (tool.to_owned(), Arc::clone(&sent));
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let (tool, block, count) = (tool.clone(), block.clone(), Arc::clone(&count));
                // An error means that the other side closed the connection.
                std::thread::spawn(move || serve(&socket, &tool, (head, &block), &count));
            }
        });
        Self { address, sent }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Bytes of events that it has sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// About [`BLOCK`] bytes of `event` as one chunk of a body.
fn chunk(event: &str) -> Vec<u8> {
    let events = event.repeat(BLOCK.div_ceil(event.len()));
    format!("{:x}\r\n{events}\r\n", events.len()).into_bytes()
}

fn serve(socket: &TcpStream, tool: &str, flood: (&str, &[u8]), sent: &AtomicU64) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(socket), socket);
    while let Some(body) = request(&mut reader)? {
        let has = |method: &str| body.contains(&format!("\"{method}\""));
        if has("tools/call") {
            return send_for_ever(writer, flood, sent);
        }
        let id =
            body.split("\"id\":").nth(1).and_then(|rest| rest.split([',', '}']).next()).unwrap_or("null");
        let result = if has("server/discover") {
            r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"flood","version":"1"}}}"#.to_owned()
        } else {
            format!(
                r#"{{"tools":[{{"name":"{tool}","inputSchema":{{"type":"object"}}}}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}}"#
            )
        };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        write!(writer, "{head}: {}\r\n\r\n{answer}", answer.len())?;
    }
    Ok(())
}

/// The body of the next request; none when the connection was closed.
fn request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<String>> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(String::from_utf8_lossy(&body).into_owned()))
}

fn send_for_ever(mut writer: &TcpStream, (head, block): (&str, &[u8]), sent: &AtomicU64) -> io::Result<()> {
    writer.write_all(head.as_bytes())?;
    loop {
        writer.write_all(block)?;
        sent.fetch_add(block.len() as u64, Ordering::Relaxed);
    }
}
