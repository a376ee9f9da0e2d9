//! The benchmark server, written by hand: it reads a request, finds the method, and answers with prepared
//! text. It sends no requests, never waits, and sends each answer in one write.
//!
//! Its own instructions are not counted (`outside`); they only have to be constant. As a child process
//! (`serve_lines`) it is this same program, which callgrind does not follow.

use std::borrow::Cow;
use std::io::{self, BufRead as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::http::{Incoming, header, read_message};
use crate::outside::Outside;

const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":3600000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;

/// The token that some servers demand, and the only one that they give.
pub const TOKEN: &str = "bench-token";

/// The credential that a server demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demands {
    Nothing,
    /// A token that the gateway is configured with.
    Bearer,
    /// That token, from the login service of the server.
    Login,
}

/// The properties of the server.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Whether it is a child process instead of a listener.
    pub is_child: bool,
    /// Whether it speaks 2026-07-28 instead of sessions of 2025-11-25.
    pub is_modern: bool,
    /// The number of tools. The first is `echo`, followed by `big` and `events`.
    pub tools: usize,
    /// The credential of each request.
    pub demands: Demands,
}

/// Texts that are prepared before the first request.
#[derive(Debug)]
struct Texts {
    is_modern: bool,
    demands: Demands,
    listed: String,
    big: String,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(default)]
    name: &'a str,
    #[serde(borrow, default)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

impl<'a> Call<'a> {
    fn tool(&self) -> &'a str {
        self.params.as_ref().map_or("", |params| params.name)
    }
}

/// Answers lines on standard input until that ends.
pub fn serve_lines(offer: Offer) -> io::Result<()> {
    let texts = Texts::of(offer);
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let Ok(call) = serde_json::from_str::<Call<'_>>(&line) else { continue };
        if let (Some(id), Some(result)) = (call.id, texts.result_of(&call)) {
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
            output.write_all(answer.as_bytes())?;
            output.flush()?;
        }
    }
    Ok(())
}

/// Starts it in the current runtime.
#[allow(clippy::disallowed_methods)] // it ends with the runtime
pub async fn start(offer: Offer) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let texts = Arc::new(Texts::of(offer));
    tokio::spawn(Outside::of(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(Outside::of(serve(socket, Arc::clone(&texts))));
        }
    }));
    Ok(address)
}

async fn serve(mut socket: TcpStream, texts: Arc<Texts>) {
    let _ = socket.set_nodelay(true);
    let (mut input, mut output) = (Vec::with_capacity(64 * 1024), Vec::with_capacity(128 * 1024));
    // The end of a connection is the client's decision.
    while let Ok(Some(message)) = read_message(&mut socket, &mut input).await {
        output.clear();
        let goes_on = texts.answer(&message, &mut output);
        if socket.write_all(&output).await.is_err() {
            return;
        }
        if !goes_on {
            return std::future::pending().await;
        }
    }
}

impl Texts {
    fn of(offer: Offer) -> Self {
        let names = ["echo", "big", "events"].map(str::to_owned);
        let more = (names.len()..offer.tools).map(|number| format!("tool_{number:04}"));
        let tools: Vec<String> = names
            .into_iter()
            .chain(more)
            .map(|name| {
                format!(
                    r#"{{"name":"{name}","description":"gives the message back","inputSchema":{{"type":"object","properties":{{"message":{{"type":"string"}}}}}}}}"#
                )
            })
            .collect();
        let caching = if offer.is_modern {
            r#","resultType":"complete","ttlMs":3600000,"cacheScope":"public""#
        } else {
            ""
        };
        Self {
            is_modern: offer.is_modern,
            demands: offer.demands,
            listed: format!(r#"{{"tools":[{}]{caching}}}"#, tools.join(",")),
            big: format!("\"{}\"", "x".repeat(64 * 1024)),
        }
    }

    /// Writes the answer; returns false if it is a stream without an end.
    fn answer(&self, message: &Incoming, output: &mut Vec<u8>) -> bool {
        if self.demands != Demands::Nothing && answered_login(message, output) {
            return true;
        }
        let Ok(call) = serde_json::from_slice::<Call<'_>>(&message.body) else {
            status(
                output,
                if message.body.is_empty() { "405 Method Not Allowed" } else { "400 Bad Request" },
            );
            return true;
        };
        let Some(id) = call.id else {
            status(output, "202 Accepted");
            return true;
        };
        match self.result_of(&call) {
            Some(result) if call.tool() == "events" => event(output, id, &result),
            Some(result) => json(output, id, &result),
            None if self.is_modern && call.method == "subscriptions/listen" => {
                listening(output, id);
                return false;
            }
            None => status(output, "404 Not Found"),
        }
        true
    }

    /// The result of a call, if it is a single one.
    fn result_of(&self, call: &Call<'_>) -> Option<Cow<'_, str>> {
        let echoed = call.params.as_ref().and_then(|params| params.arguments.as_ref());
        Some(match (call.method, self.is_modern) {
            ("server/discover", true) => DISCOVERED.into(),
            ("initialize", false) => INITIALIZED.into(),
            ("tools/list", _) => Cow::from(&self.listed),
            ("tools/call", _) if call.tool() == "big" => self.result(&self.big).into(),
            ("tools/call", _) => {
                self.result(echoed.map_or("\"\"", |arguments| arguments.message.get())).into()
            }
            _ => return None,
        })
    }

    fn result(&self, text: &str) -> String {
        let kind = if self.is_modern { r#","resultType":"complete""# } else { "" };
        format!(r#"{{"content":[{{"type":"text","text":{text}}}]{kind}}}"#)
    }
}

/// Writes the answer to a request for a token, or to one that lacks it, and returns whether it was one. A server without
/// metadata is its own login service.
fn answered_login(message: &Incoming, output: &mut Vec<u8>) -> bool {
    if message.head.starts_with("post /token ") {
        let body = format!(r#"{{"access_token":"{TOKEN}","token_type":"Bearer","expires_in":86400}}"#);
        whole(output, "content-type: application/json\r\n", &body);
    } else if message.head.starts_with("get /.well-known/") {
        status(output, "404 Not Found");
    } else if header(&message.head, "authorization") != Some(&format!("bearer {TOKEN}")) {
        status(output, "401 Unauthorized");
    } else {
        return false;
    }
    true
}

const COMMON: &str = "date: Sat, 21 Nov 2026 12:00:00 GMT\r\n";

fn json(output: &mut Vec<u8>, id: &RawValue, result: &str) {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let session = if result == INITIALIZED { "mcp-session-id: bench\r\n" } else { "" };
    whole(output, &format!("content-type: application/json\r\n{session}"), &body);
}

fn whole(output: &mut Vec<u8>, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\n{headers}{COMMON}content-length: {length}\r\n\r\n");
    output.extend_from_slice(head.as_bytes());
    output.extend_from_slice(body.as_bytes());
}

fn event(output: &mut Vec<u8>, id: &RawValue, result: &str) {
    let event = format!("event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n");
    stream_head(output);
    chunk(output, &event);
    chunk(output, "");
}

/// A stream of notifications that never sends one.
fn listening(output: &mut Vec<u8>, id: &RawValue) {
    stream_head(output);
    let event = format!(
        "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}},\"notifications\":{{}}}}}}\n\n"
    );
    chunk(output, &event);
}

fn stream_head(output: &mut Vec<u8>) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
    output.extend_from_slice(head.as_bytes());
    output.extend_from_slice(COMMON.as_bytes());
    output.extend_from_slice(b"\r\n");
}

fn chunk(output: &mut Vec<u8>, text: &str) {
    output.extend_from_slice(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
}

fn status(output: &mut Vec<u8>, line: &str) {
    output.extend_from_slice(format!("HTTP/1.1 {line}\r\n{COMMON}content-length: 0\r\n\r\n").as_bytes());
}
