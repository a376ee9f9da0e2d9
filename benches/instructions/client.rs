//! One client on one connection, written by hand: it sends a call in one write, reads the answer, checks it,
//! and sends the next one.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::http::{Incoming, header, read_message};
use crate::sequence::{Dialect, Sequence};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// Ids have as many digits from the first call to the last.
const FIRST_ID: u64 = 1_000_000;

/// A client that makes the calls of one sequence.
#[derive(Debug)]
pub struct Client {
    socket: TcpStream,
    sequence: Sequence,
    session: Option<String>,
    next: u64,
    input: Vec<u8>,
}

impl Client {
    /// Connects, and opens a session where the sequence has one.
    pub async fn connect(address: SocketAddr, sequence: Sequence) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let input = Vec::with_capacity(256 * 1024);
        let mut client = Self { socket, sequence, session: None, next: FIRST_ID, input };
        if sequence.dialect == Dialect::Legacy {
            let hello = client.exchange(HELLO).await?;
            let session = header(&hello.head, "mcp-session-id").context("initialize opened no session")?;
            client.session = Some(session.to_owned());
            client.exchange(READY).await?;
        }
        Ok(client)
    }

    /// Makes `count` calls, one after another.
    pub async fn calls(&mut self, count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            let id = self.next;
            self.next += 1;
            let answer = self.exchange(&self.sequence.request(id)).await?;
            let body = String::from_utf8_lossy(&answer.body);
            ensure!(
                (self.sequence.is_refused() || answer.head.starts_with("http/1.1 200"))
                    && self.sequence.is_answer(id, &body),
                "not the answer to {id}: {}{body}",
                answer.head
            );
        }
        Ok(())
    }

    async fn exchange(&mut self, body: &str) -> anyhow::Result<Incoming> {
        let session = self.session.as_ref().map_or_else(String::new, |session| {
            format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n")
        });
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{}{session}content-length: {}\r\n\r\n{body}",
            self.sequence.path(),
            self.sequence.headers(),
            body.len(),
        );
        self.socket.write_all(request.as_bytes()).await?;
        read_message(&mut self.socket, &mut self.input)
            .await?
            .context("the connection ended without an answer")
    }
}
