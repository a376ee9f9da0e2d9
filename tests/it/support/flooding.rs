//! A server over HTTP that floods with events, or interim responses, from its first call on.
//!
//! A modern one answers the call with them; one of the older revisions sends them on the stream of its connection.
//!
//! It runs on plain threads that write one prepared block again and again, so that it can send far more than the
//! program under test can read. It does not check what it is asked.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes of one block of events; each is one chunk of the body.
const BLOCK: usize = 64 * 1024;

/// The head of an answer with events.
const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Where the events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// In the answer to each call (2026-07-28).
    Answer,
    /// On the GET stream of a session (2025-11-25).
    Session,
    /// On the only stream of HTTP+SSE (2024-11-05), on which answers come too.
    Only,
}

/// The state that all connections of one server have in common.
struct Peer {
    tool: String,
    flow: Flow,
    head: &'static str,
    block: Vec<u8>,
    sent: Arc<AtomicU64>,
    /// Whether a call came.
    called: AtomicBool,
    /// Number of streams that were opened.
    streams: AtomicU64,
    /// Answers for each stream that has them all, by its endpoint.
    answers: Mutex<HashMap<String, Vec<String>>>,
}

const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
const NOTHING: &str = "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n";
const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";

/// A server with one tool, which floods when it is called.
#[derive(Debug)]
pub struct Flooding {
    address: String,
    sent: Arc<AtomicU64>,
}

impl Flooding {
    /// Starts a server whose only tool is `tool` and answers with `event` again and again.
    pub fn start(tool: &str, event: &str) -> Self {
        Self::with(tool, Flow::Answer, EVENTS, chunk(event))
    }

    /// Starts one that sends `event` again and again on the GET stream of a session.
    pub fn session(tool: &str, event: &str) -> Self {
        Self::with(tool, Flow::Session, EVENTS, chunk(event))
    }

    /// Starts one that sends `event` again and again on the stream of HTTP+SSE.
    pub fn sse(tool: &str, event: &str) -> Self {
        Self::with(tool, Flow::Only, EVENTS, chunk(event))
    }

    /// Starts a server whose only tool is `tool` and answers with interim responses again and again.
    pub fn interim(tool: &str) -> Self {
        Self::with(
            tool,
            Flow::Answer,
            "",
            "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(2_000).into_bytes(),
        )
    }

    fn with(tool: &str, flow: Flow, head: &'static str, block: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let sent = Arc::new(AtomicU64::new(0));
        let peer = Arc::new(Peer {
            tool: tool.to_owned(),
            flow,
            head,
            block,
            sent: Arc::clone(&sent),
            called: AtomicBool::new(false),
            streams: AtomicU64::new(0),
            answers: Mutex::default(),
        });
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let peer = Arc::clone(&peer);
                // An error means that the other side closed the connection.
                std::thread::spawn(move || peer.serve(&socket));
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

impl Peer {
    fn serve(&self, socket: &TcpStream) -> io::Result<()> {
        let (mut reader, mut writer) = (BufReader::new(socket), socket);
        while let Some((line, body)) = request(&mut reader)? {
            match (line.starts_with("GET "), self.flow) {
                (true, Flow::Answer) => write!(writer, "{NOTHING}")?,
                (true, Flow::Session | Flow::Only) => return self.listened(writer),
                (false, Flow::Answer) if has(&body, "tools/call") => return self.flood(writer),
                (false, Flow::Only) => {
                    let endpoint = line.split(' ').nth(1).unwrap_or_default().to_owned();
                    let mut answers = self.answers.lock().expect("no panic");
                    answers.entry(endpoint).or_default().extend(self.answer(&body));
                    drop(answers);
                    write!(writer, "{ACCEPTED}")?;
                }
                (false, _) => match self.answer(&body) {
                    Some(answer) => write!(writer, "{JSON}: {}\r\n\r\n{answer}", answer.len())?,
                    None => write!(writer, "{ACCEPTED}")?,
                },
            }
            if has(&body, "tools/call") {
                self.called.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The answer to a request; none to a notification.
    fn answer(&self, body: &str) -> Option<String> {
        let id = body.split("\"id\":").nth(1)?.split([',', '}']).next()?;
        let caching = r#""resultType":"complete","ttlMs":0,"cacheScope":"public""#;
        let info = r#"{"name":"flood","version":"1"}"#;
        let result = if has(body, "server/discover") && self.flow == Flow::Answer {
            format!(
                r#"{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},{caching},"_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}"#
            )
        } else if has(body, "server/discover") {
            let error = r#"{"code":-32601,"message":"unknown method"}"#;
            return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        } else if has(body, "initialize") {
            let version = if self.flow == Flow::Only { "2024-11-05" } else { "2025-11-25" };
            format!(
                r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{info}}}"#
            )
        } else if has(body, "tools/call") {
            r#"{"content":[]}"#.to_owned()
        } else {
            format!(r#"{{"tools":[{{"name":"{}","inputSchema":{{"type":"object"}}}}],{caching}}}"#, self.tool)
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }

    /// The stream of a connection: answers where they come on it, and the flood after the first call.
    fn listened(&self, mut writer: &TcpStream) -> io::Result<()> {
        writer.write_all(self.head.as_bytes())?;
        let mut say = |event: &str| write!(writer, "{:x}\r\n{event}\r\n", event.len());
        let endpoint = format!("/messages/{}", self.streams.fetch_add(1, Ordering::Relaxed));
        if self.flow == Flow::Only {
            say(&format!("event: endpoint\ndata: {endpoint}\n\n"))?;
        }
        loop {
            let answers = self.answers.lock().expect("no panic").remove(&endpoint).unwrap_or_default();
            answers.iter().try_for_each(|answer| say(&format!("event: message\ndata: {answer}\n\n")))?;
            if self.called.load(Ordering::Relaxed) {
                let ended = self.write_blocks(writer);
                // The next connection is an ordinary one.
                self.called.store(false, Ordering::Relaxed);
                return ended;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn flood(&self, mut writer: &TcpStream) -> io::Result<()> {
        writer.write_all(self.head.as_bytes())?;
        self.write_blocks(writer)
    }

    fn write_blocks(&self, mut writer: &TcpStream) -> io::Result<()> {
        loop {
            writer.write_all(&self.block)?;
            self.sent.fetch_add(self.block.len() as u64, Ordering::Relaxed);
        }
    }
}

fn has(body: &str, method: &str) -> bool {
    body.contains(&format!("\"{method}\""))
}

/// The first line of the next request, and its body; none when the connection was closed.
fn request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<(String, String)>> {
    let (mut line, mut length, mut first) = (String::new(), 0, None);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            break;
        }
        first.get_or_insert_with(|| line.clone());
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((first.unwrap_or_default(), String::from_utf8_lossy(&body).into_owned())))
}
