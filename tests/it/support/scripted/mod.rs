//! Scripted servers. They record what they received, byte for byte, and how often each tool really
//! ran.
//!
//! They are as strict as the specification: a client that sends a wrong header or forgets the
//! session gets the specified error.
//!
//! Not here: the transports (`http`).

mod http;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpSocket;

use super::{Background, listen};
use state::Era;
pub use state::ReceivedRequest;
use state::State;

/// The reaction of a tool to a call.
#[derive(Debug, Clone)]
pub enum Act {
    /// Answers with one text block: the arguments exactly as they arrived.
    Echo,
    /// Answers with this `result`, byte for byte.
    Result(String),
    /// Answers with this `error` object, byte for byte.
    Error(String),
    /// First sends these messages on the call's stream, with `$TOKEN` as the call's progress token.
    After(Vec<String>, Box<Act>),
    /// Sends messages and then acts, as `After` does, with a pause before each of them.
    Paced(Duration, Vec<String>, Box<Act>),
    /// Answers with a bare HTTP status, and `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// Answers with HTTP 307 to this URL.
    Redirect(String),
    /// Echoes after a while.
    Slow(Duration),
    /// Never answers.
    Hang,
    /// Runs, and closes the connection before the first byte of an answer.
    Drop,
    /// Runs, and closes the connection in the middle of the answer.
    Cut,
}

/// A tool of a scripted server.
#[derive(Debug, Clone)]
pub struct Tool {
    name: String,
    definition: String,
    acts: Vec<Act>,
}

impl Tool {
    /// A tool that echoes.
    pub fn named(name: &str) -> Self {
        Self::defined(
            name,
            &format!(
                r#"{{"name":"{name}","description":"{name} of a scripted server","inputSchema":{{"type":"object"}}}}"#
            ),
        )
    }

    /// A tool with a definition that the test wrote, byte for byte.
    pub fn defined(name: &str, definition: &str) -> Self {
        Self { name: name.to_owned(), definition: definition.to_owned(), acts: Vec::new() }
    }

    /// Adds the reaction to the next call; the last one is repeated.
    pub fn does(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }
}

/// A server that was not started yet.
#[derive(Debug)]
pub struct Scripted {
    era: Era,
    tools: Vec<Tool>,
    page: usize,
    lists: BTreeMap<String, String>,
    answers: HashMap<String, Vec<String>>,
    refusals: HashMap<String, String>,
}

impl Scripted {
    /// Streamable HTTP without sessions; refuses `initialize`.
    pub fn modern() -> Self {
        Self {
            era: Era::Modern,
            tools: Vec::new(),
            page: usize::MAX,
            lists: BTreeMap::new(),
            answers: HashMap::new(),
            refusals: HashMap::new(),
        }
    }

    /// Streamable HTTP with sessions; refuses `server/discover`.
    pub fn legacy() -> Self {
        Self { era: Era::Legacy, ..Self::modern() }
    }

    /// HTTP+SSE of 2024-11-05, its stream at `/sse`.
    pub fn sse() -> Self {
        Self { era: Era::Sse, ..Self::modern() }
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets a complete list, byte for byte: `member` is `tools`, `prompts`, `resources`, `resourceTemplates` or `skills`.
    pub fn offers(mut self, member: &str, definitions: &str) -> Self {
        self.lists.insert(member.to_owned(), definitions.to_owned());
        self
    }

    /// Answers requests with `method` with these results, byte for byte, one after another.
    pub fn answers(mut self, method: &str, mut results: Vec<String>) -> Self {
        results.reverse();
        self.answers.insert(method.to_owned(), results);
        self
    }

    /// Answers requests with `method` with an error that has `message`.
    pub fn refuses(mut self, method: &str, message: &str) -> Self {
        self.refusals.insert(method.to_owned(), message.to_owned());
        self
    }

    /// Splits `tools/list` into pages of `size`.
    pub fn pages_of(mut self, size: usize) -> Self {
        self.page = size;
        self
    }

    /// Starts it on its own port.
    pub fn start(self) -> Server {
        self.listen((Ipv4Addr::LOCALHOST, 0).into())
    }

    /// Starts it at `url`, such as the address of a dropped [`Refusing`].
    pub fn start_at(self, url: &str) -> Server {
        let authority = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
        self.listen(authority.parse().expect("an address"))
    }

    fn listen(self, address: SocketAddr) -> Server {
        let listener = listen(address);
        let address = listener.local_addr().expect("an address");
        let state =
            Arc::new(State::new(self.era, self.tools, self.page, (self.lists, self.answers, self.refusals)));
        let its_state = state.clone();
        let task = Background::run(move || http::serve(listener, its_state));
        Server { address, state, _task: task }
    }
}

/// A running scripted server. Dropping it ends the server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    _task: Background,
}

impl Server {
    /// The URL of its endpoint.
    pub fn url(&self) -> String {
        let path = if self.state.era == Era::Sse { "sse" } else { "mcp" };
        format!("http://{}/{path}", self.address)
    }

    /// How often `tool` ran.
    pub fn runs(&self, tool: &str) -> usize {
        self.state.runs(tool)
    }

    /// Every HTTP request so far.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.state.seen()
    }

    /// The requests with this JSON-RPC method.
    pub fn seen_calling(&self, method: &str) -> Vec<ReceivedRequest> {
        self.seen().into_iter().filter(|seen| seen.rpc_method.as_deref() == Some(method)).collect()
    }

    /// Replaces its tools and notifies all listeners.
    pub fn change_tools(&self, tools: Vec<Tool>) {
        self.state.change_tools(tools);
    }

    /// Requires `token` from now on, and answers other requests with 401.
    pub fn wants_token(&self, token: &str) {
        self.wants_tokens(&[token]);
    }

    /// Requires one of `tokens` from now on.
    pub fn wants_tokens(&self, tokens: &[&str]) {
        self.state.wants_tokens(tokens);
    }

    /// Forgets every session, like a restart.
    pub fn forget_sessions(&self) {
        self.state.forget_sessions();
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.state.session_count()
    }
}

/// An address that refuses connections, reserved as long as this value lives.
#[derive(Debug)]
pub struct Refusing(TcpSocket);

impl Refusing {
    /// Reserves a port without listening on it.
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        Self(socket)
    }

    /// The URL of the address.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.0.local_addr().expect("an address"))
    }
}

/// An address that accepts connections but never reads or writes.
#[derive(Debug)]
pub struct Silent(std::net::TcpListener);

impl Silent {
    /// Listens without accepting: the kernel completes the connections.
    pub fn new() -> Self {
        Self(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"))
    }

    /// The URL of the address.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.0.local_addr().expect("an address"))
    }
}
