//! Closed-loop load: each connection sends its next call when the last answer was verified.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How a call is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `/mcp`, 2026-07-28.
    Modern,
    /// `/mcp`, 2025-11-25, each connection with a session of its own.
    Legacy,
    /// `/api/v1/mcp/call`.
    Rest,
}

/// What is sent, and where.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Where it is sent.
    pub address: SocketAddr,
    /// How it is put.
    pub protocol: Protocol,
    /// How many callers there are.
    pub connections: usize,
}

/// What was measured in one slice of time.
#[derive(Debug)]
pub struct Sample {
    /// The time of each call.
    pub latencies: Vec<Duration>,
    /// From the first call that counts to the last one.
    pub took: Duration,
}

impl Load {
    /// Calls for `warm_up` without counting, then for `slice`.
    pub async fn run(self, warm_up: Duration, slice: Duration) -> anyhow::Result<Sample> {
        let mut callers = Vec::new();
        for number in 0..self.connections {
            callers.push(Caller::connect(self, number).await?);
        }
        let from = Instant::now() + warm_up;
        let until = from + slice;
        let mut running = JoinSet::new();
        for caller in callers {
            running.spawn(caller.call_until(from, until));
        }
        let mut latencies = Vec::new();
        while let Some(done) = running.join_next().await {
            latencies.extend(done??);
        }
        ensure!(!latencies.is_empty(), "no call was answered within {slice:?}");
        latencies.sort_unstable();
        Ok(Sample { latencies, took: slice })
    }
}

struct Caller {
    sender: SendRequest<Full<Bytes>>,
    load: Load,
    session: Option<String>,
    next: u64,
}

impl Caller {
    async fn connect(load: Load, number: usize) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(load.address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        let next = 1_000_000 * (number as u64 + 1);
        let mut caller = Self { sender, load, session: None, next };
        if load.protocol == Protocol::Legacy {
            caller.open_session().await?;
        }
        Ok(caller)
    }

    async fn call_until(mut self, from: Instant, until: Instant) -> anyhow::Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        loop {
            let began = Instant::now();
            if began >= until {
                break;
            }
            self.call_once().await?;
            if began >= from {
                latencies.push(began.elapsed());
            }
        }
        if self.session.is_some() {
            self.send(Method::DELETE, String::new(), false).await?;
        }
        Ok(latencies)
    }

    async fn call_once(&mut self) -> anyhow::Result<()> {
        let id = self.next;
        self.next += 1;
        let message = format!("{id:-<100}");
        let answer = self.send(Method::POST, self.body(id, &message), true).await?;
        let expected = format!("\"{message}\"");
        let proof = match self.load.protocol {
            Protocol::Rest => "\"success\":true".to_owned(),
            Protocol::Modern | Protocol::Legacy => format!("\"id\":{id}"),
        };
        ensure!(answer.contains(&expected) && answer.contains(&proof), "not the answer to {id}: {answer}");
        Ok(())
    }

    fn body(&self, id: u64, message: &str) -> String {
        match self.load.protocol {
            Protocol::Modern => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{message}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}}}}}}}}"#
            ),
            Protocol::Legacy => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{message}"}}}}}}"#
            ),
            Protocol::Rest => {
                format!(r#"{{"server":"bench","tool":"echo","arguments":{{"message":"{message}"}}}}"#)
            }
        }
    }

    async fn open_session(&mut self) -> anyhow::Result<()> {
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        self.send(Method::POST, hello.to_owned(), true).await?;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        self.send(Method::POST, ready.to_owned(), true).await?;
        self.session.as_ref().map(drop).context("initialize opened no session")
    }

    async fn send(&mut self, method: Method, body: String, is_checked: bool) -> anyhow::Result<String> {
        let path = if self.load.protocol == Protocol::Rest { "/api/v1/mcp/call" } else { "/mcp" };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.load.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if self.load.protocol == Protocol::Modern {
            request = request
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", "echo");
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str()?.to_owned());
        }
        let status = response.status();
        let body = String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?;
        if is_checked && !status.is_success() {
            bail!("{status}: {body}");
        }
        Ok(body)
    }
}
