//! Requests of the load: made once for each connection and patched for each call, with the expected
//! answers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use memchr::memmem;

use crate::server::answers;

/// Placeholder for the number of the call in a template; as wide as every number.
const PLACE: &str = "@@@@@@@@@@";
/// The first number: ten digits.
const FIRST: u64 = 1_000_000_000;
/// How many numbers each connection has.
const PER_CONNECTION: u64 = 1_000_000;
/// The length of the message of a call, in bytes.
pub const MESSAGE: usize = 100;

/// The form of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `/mcp`, 2026-07-28.
    Modern,
    /// `/mcp`, 2025-11-25, each connection with its own session.
    Legacy,
    /// `/api/v1/mcp/call`.
    Rest,
}

/// One page of a list: its request and the expected answer.
#[derive(Debug)]
pub struct Page {
    /// The cursor of its request.
    pub cursor: Option<String>,
    /// The answer to the request with number `FIRST`.
    pub body: Vec<u8>,
    /// Whether the server repeats the number of the request; otherwise the answer always has
    /// `FIRST`.
    pub reads_id: bool,
}

/// The target of the calls.
#[derive(Debug, Clone)]
pub enum What {
    /// Tools that return the message; each connection uses one of them. The text has this many
    /// bytes.
    Tools(Arc<[String]>, usize),
    /// Pages of `tools/list`, one after another.
    Pages(Arc<[Page]>),
}

/// A kind of call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The form of the calls.
    pub form: Form,
    /// The target of the calls.
    pub what: What,
    /// The bearer token.
    pub token: Option<String>,
    /// Whether notifications of progress are requested.
    pub wants_progress: bool,
    /// Bytes that each request carries beside the message.
    pub padding: usize,
}

impl Call {
    /// A call of the tool `name`, whose text has `size` bytes.
    pub fn tool(form: Form, name: &str, size: usize) -> Self {
        Self {
            form,
            what: What::Tools([name.to_owned()].into(), size),
            token: None,
            wants_progress: false,
            padding: 0,
        }
    }

    /// Several tools; each connection uses one of them.
    pub fn tools(form: Form, names: impl Iterator<Item = String>, size: usize) -> Self {
        Self { what: What::Tools(names.collect(), size), ..Self::echo(form) }
    }

    /// The echo of 100 bytes.
    pub fn echo(form: Form) -> Self {
        Self::tool(form, "echo", MESSAGE)
    }

    /// Reading `pages`.
    pub fn pages(pages: Arc<[Page]>) -> Self {
        Self { form: Form::Modern, what: What::Pages(pages), token: None, wants_progress: false, padding: 0 }
    }
}

/// The bytes of one request, with the positions of the call's number.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Template {
    fn new(head: &str, body: &str) -> Self {
        let bytes = format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes();
        Self::of(bytes)
    }

    fn of(bytes: Vec<u8>) -> Self {
        let places = memmem::find_iter(&bytes, PLACE).collect();
        Self { bytes, places }
    }

    fn put(&mut self, digits: &[u8]) {
        for place in &self.places {
            self.bytes[*place..place + digits.len()].copy_from_slice(digits);
        }
    }
}

/// The calls of one connection.
#[derive(Debug)]
pub struct Requests {
    what: What,
    form: Form,
    templates: Vec<Template>,
    number: u64,
    turn: usize,
    /// The expected `"id":…` and `"text":"…`.
    id: Template,
    message: Template,
}

impl Requests {
    /// The requests of connection `number`, in `session` if it has one.
    pub fn new(call: &Call, address: SocketAddr, number: usize, session: Option<&str>) -> Self {
        let templates = match &call.what {
            What::Tools(names, _) => vec![tool_call(call, address, &names[number % names.len()], session)],
            What::Pages(pages) => {
                pages.iter().map(|page| list(call, address, page.cursor.as_deref())).collect()
            }
        };
        Self {
            what: call.what.clone(),
            form: call.form,
            templates,
            number: FIRST + PER_CONNECTION * number as u64,
            turn: number,
            id: Template::of(format!("\"id\":{PLACE}").into_bytes()),
            message: Template::of(format!("\"text\":\"{}", message()).into_bytes()),
        }
    }

    /// The bytes of the next request.
    pub fn next(&mut self) -> &[u8] {
        self.number += 1;
        self.turn = (self.turn + 1) % self.templates.len();
        let digits = self.number.to_string();
        self.id.put(digits.as_bytes());
        self.message.put(digits.as_bytes());
        let template = &mut self.templates[self.turn];
        template.put(digits.as_bytes());
        &template.bytes
    }

    /// Checks that `body` is the complete answer to the last request.
    pub fn check(&self, status: u16, body: &[u8]) -> anyhow::Result<()> {
        let result = match &self.what {
            What::Tools(_, size) => self.check_text(body, *size),
            What::Pages(pages) => self.check_page(&pages[self.turn], body),
        };
        let shown = || String::from_utf8_lossy(&body[..body.len().min(600)]).into_owned();
        result.with_context(|| format!("not the answer to {}: {status} {}", self.number, shown()))
    }

    fn check_text(&self, body: &[u8], size: usize) -> anyhow::Result<()> {
        let at = memmem::find(body, &self.message.bytes).context("the message did not come back")?;
        let rest = at + self.message.bytes.len();
        let ends = rest + size - MESSAGE;
        ensure!(body.get(ends) == Some(&b'"'), "the text is not {size} bytes long");
        ensure!(body[rest..ends] == answers::filler()[..size - MESSAGE], "the text is another one");
        if self.form == Form::Rest {
            ensure!(memmem::find(&body[..at], b"\"success\":true").is_some(), "no success");
            return Ok(());
        }
        let has_id = |part: &[u8]| memmem::find(part, &self.id.bytes).is_some();
        ensure!(has_id(&body[..at]) || has_id(&body[ends..]), "another id");
        Ok(())
    }

    fn check_page(&self, page: &Page, body: &[u8]) -> anyhow::Result<()> {
        ensure!(body.len() == page.body.len(), "{} bytes instead of {}", body.len(), page.body.len());
        let first = format!("\"id\":{FIRST}");
        let at = memmem::find(&page.body, first.as_bytes()).context("a page has an id")?;
        let ends = at + first.len();
        let id = if page.reads_id { &self.id.bytes[..] } else { first.as_bytes() };
        ensure!(&body[at..ends] == id, "another id");
        ensure!(body[..at] == page.body[..at] && body[ends..] == page.body[ends..], "another page");
        Ok(())
    }
}

/// A message of 100 bytes that begins with the number of the call.
fn message() -> String {
    format!("{PLACE:-<MESSAGE$}")
}

fn tool_call(call: &Call, address: SocketAddr, name: &str, session: Option<&str>) -> Template {
    let message = message();
    let head = head(call, address, "tools/call", Some(name), session);
    let body = match call.form {
        Form::Rest => format!(r#"{{"tool":"{name}","arguments":{{"message":"{message}"}}}}"#),
        Form::Modern | Form::Legacy => {
            let (meta, padding) = (meta(call), padding(call.padding));
            format!(
                r#"{{"jsonrpc":"2.0","id":{PLACE},"method":"tools/call","params":{{"name":"{name}","arguments":{{"message":"{message}"{padding}}}{meta}}}}}"#
            )
        }
    };
    Template::new(&head, &body)
}

/// An argument of `bytes` bytes, which servers ignore.
fn padding(bytes: usize) -> String {
    if bytes == 0 { String::new() } else { format!(r#","padding":"{}""#, "p".repeat(bytes)) }
}

/// The request for a list, as a template.
fn list(call: &Call, address: SocketAddr, cursor: Option<&str>) -> Template {
    let head = head(call, address, "tools/list", None, None);
    let cursor = cursor.map(|cursor| format!(r#""cursor":"{cursor}","#)).unwrap_or_default();
    let meta = meta(call);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{PLACE},"method":"tools/list","params":{{{cursor}{}}}}}"#,
        &meta[1..]
    );
    Template::new(&head, &body)
}

/// The request for one page with the first number, ready to send.
pub fn first_list(call: &Call, address: SocketAddr, cursor: Option<&str>) -> Vec<u8> {
    let mut template = list(call, address, cursor);
    template.put(FIRST.to_string().as_bytes());
    template.bytes
}

/// `,"_meta":{…}`, or nothing.
fn meta(call: &Call) -> String {
    let token = if call.wants_progress { format!(r#""progressToken":"{PLACE}""#) } else { String::new() };
    if call.form == Form::Legacy {
        return if token.is_empty() { token } else { format!(r#","_meta":{{{token}}}"#) };
    }
    let comma = if token.is_empty() { "" } else { "," };
    format!(
        r#","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}}{comma}{token}}}"#
    )
}

/// The head of a request without its length and its end.
fn head(call: &Call, address: SocketAddr, method: &str, name: Option<&str>, session: Option<&str>) -> String {
    let path = if call.form == Form::Rest { "/api/v1/mcp/call" } else { "/mcp" };
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
    );
    if call.form == Form::Modern {
        let _ = write!(head, "mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n");
        if let Some(name) = name {
            let _ = write!(head, "mcp-name: {name}\r\n");
        }
    }
    if let Some(session) = session {
        let _ = write!(head, "mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
    }
    if let Some(token) = &call.token {
        let _ = write!(head, "authorization: Bearer {token}\r\n");
    }
    head
}

/// A request of a legacy handshake, outside of any measurement.
pub fn plain(call: &Call, address: SocketAddr, session: Option<&str>, body: &str) -> Vec<u8> {
    Template::new(&head(call, address, "", None, session), body).bytes
}
