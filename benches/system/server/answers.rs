//! Requests and prepared results of the benchmark servers.
//!
//! A result has three parts, written together: the part before the text, the filler text (one piece
//! of static memory for all results), and the part after it.

use std::fmt::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest text of a result.
const LONGEST: usize = 1024 * 1024;

/// A message of a client, as far as the servers read it.
#[derive(Debug, Deserialize)]
pub struct Message<'a> {
    /// None in a notification.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// The method.
    pub method: &'a str,
    /// The parameters.
    #[serde(borrow, default)]
    pub params: Params<'a>,
}

/// The parameters of a call.
#[derive(Debug, Default, Deserialize)]
pub struct Params<'a> {
    /// The name of the tool.
    #[serde(borrow, default)]
    name: &'a str,
    #[serde(borrow, default)]
    arguments: Option<Arguments<'a>>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Meta<'a>,
}

#[derive(Debug, Deserialize)]
struct Arguments<'a> {
    #[serde(default)]
    message: &'a str,
}

#[derive(Debug, Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

/// The parts of an answer.
#[derive(Debug)]
pub struct Answer {
    /// Everything before the filler.
    pub head: Bytes,
    /// A part of the filler.
    pub middle: Bytes,
    /// Everything after the filler.
    pub tail: Bytes,
    /// Whether it is sent as an event stream over HTTP.
    pub is_stream: bool,
}

/// The reaction to a message.
#[derive(Debug)]
pub enum Reaction {
    /// Send an answer.
    Answer(Answer),
    /// Send no answer.
    Accept,
    /// Open a session and answer.
    Open(Answer),
    /// Open a stream of notifications, of which there are none; this is its first event.
    Listen(Bytes),
}

/// The properties of a server.
#[derive(Debug, Clone, Copy)]
pub struct Character {
    /// The number of the server among several on one port: its tools are called
    /// `t<number>_<index>`.
    pub number: Option<usize>,
    /// The number of tools, beside those that every server has.
    pub tools: usize,
    /// Whether it speaks only 2025-11-25, with sessions; else it speaks only 2026-07-28.
    pub is_legacy: bool,
    /// Whether the id comes after the result.
    pub is_id_last: bool,
}

/// Text that looks like a JSON-encoded document: lines and occasional quotes, both escaped.
pub fn filler() -> &'static [u8] {
    static FILLER: LazyLock<Bytes> = LazyLock::new(make_filler);
    &FILLER
}

fn shared_filler(length: usize) -> Bytes {
    Bytes::from_static(filler()).slice(..length)
}

fn make_filler() -> Bytes {
    let mut text = Vec::with_capacity(LONGEST + 128);
    let mut state = 7_u32;
    while text.len() < LONGEST {
        for _ in 0..9 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let _ = write!(Text(&mut text), "word{:05} ", state >> 15);
        }
        text.extend_from_slice(if state >> 30 == 0 { br#"\"so\" \n"# } else { br"\n" });
    }
    Bytes::from(text)
}

/// A writer of ASCII text.
struct Text<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Character {
    /// Returns the reaction to a message; `None` if the bytes are not a message.
    pub fn react(self, body: &[u8]) -> Option<Reaction> {
        let message: Message<'_> = serde_json::from_slice(body).ok()?;
        let Some(id) = message.id else { return Some(Reaction::Accept) };
        let id = id.get();
        Some(match (message.method, self.is_legacy) {
            ("tools/call", _) => Reaction::Answer(self.call(id, &message.params)),
            ("tools/list", _) => Reaction::Answer(answer(id, &self.list())),
            ("ping", _) => Reaction::Answer(answer(id, "{}")),
            ("server/discover", false) => Reaction::Answer(answer(id, DISCOVERED)),
            ("subscriptions/listen", false) => Reaction::Listen(Bytes::from(acknowledged(id))),
            ("initialize", true) => Reaction::Open(answer(id, INITIALIZED)),
            _ => Reaction::Answer(Answer::whole(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
            ))),
        })
    }

    /// Answers a call. The name of the tool decides the result: `echo`, `echo_stream`, `kib64`,
    /// `mib1`, `noticed`.
    fn call(self, id: &str, params: &Params<'_>) -> Answer {
        let message = params.arguments.as_ref().map_or("", |arguments| arguments.message);
        let size = match params.name {
            "kib64" => 64 * 1024,
            "mib1" => LONGEST,
            _ => message.len(),
        };
        let complete = if self.is_legacy { "" } else { r#","resultType":"complete""# };
        let text = format!(r#""result":{{"content":[{{"type":"text","text":"{message}"#);
        let rest = format!(r#""}}]{complete}}}"#);
        let (head, tail) = if self.is_id_last {
            (format!("{{{text}"), format!(r#"{rest},"jsonrpc":"2.0","id":{id}}}"#))
        } else {
            (format!(r#"{{"jsonrpc":"2.0","id":{id},{text}"#), format!("{rest}}}"))
        };
        let middle = shared_filler(size.saturating_sub(message.len()));
        let answer = Answer { head: head.into(), middle, tail: tail.into(), is_stream: false };
        match params.name {
            "echo_stream" => answer.into_event(""),
            "noticed" => answer.into_event(&notice(params.meta.progress_token)),
            _ => answer,
        }
    }

    fn list(self) -> String {
        let mut tools = String::new();
        for index in 0..self.tools {
            let number = self.number.unwrap_or(0);
            let _ = write!(tools, "{},", tool(&format!("t{number}_{index}")));
        }
        if self.number.is_none() {
            for name in ["echo", "echo_stream", "kib64", "mib1", "noticed"] {
                let _ = write!(tools, "{},", tool(name));
            }
        }
        tools.pop();
        let cached = if self.is_legacy {
            ""
        } else {
            r#","resultType":"complete","ttlMs":60000,"cacheScope":"public""#
        };
        format!(r#"{{"tools":[{tools}]{cached}}}"#)
    }
}

fn answer(id: &str, result: &str) -> Answer {
    Answer::whole(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

impl Answer {
    fn whole(text: String) -> Self {
        Self { head: text.into(), middle: Bytes::new(), tail: Bytes::new(), is_stream: false }
    }

    /// Returns the answer as an event, with `before` in front of it.
    pub fn into_event(self, before: &str) -> Self {
        let head = [before.as_bytes(), b"event: message\ndata: ", &self.head].concat();
        let tail = [&self.tail[..], b"\n\n"].concat();
        Self { head: head.into(), tail: tail.into(), is_stream: true, ..self }
    }

    /// The total length in bytes.
    pub fn length(&self) -> usize {
        self.head.len() + self.middle.len() + self.tail.len()
    }
}

fn notice(token: Option<&RawValue>) -> String {
    let Some(token) = token else { return String::new() };
    format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":1}}}}\n\n"
    )
}

fn tool(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"Gives the message back, as one block of text and without looking at it; what a tool of {name} would do for real stands here in two or three lines, as long as those of servers in use.","inputSchema":{{"type":"object","properties":{{"message":{{"type":"string","description":"What to give back"}},"count":{{"type":"integer","minimum":1}}}},"required":["message"]}}}}"#
    )
}

const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#;

/// The first event of a stream of notifications.
fn acknowledged(id: &str) -> String {
    format!(
        "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}},\"notifications\":{{}}}}}}\n\n"
    )
}
