//! Sessions that are there and silent: what a gateway holds for clients that are not calling.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::call::{Call, Form, plain};
use super::closed::Wire;

/// Sessions, some with an open stream.
#[derive(Debug)]
pub struct Crowd {
    address: SocketAddr,
    call: Call,
    sessions: Vec<String>,
    streams: Vec<TcpStream>,
    wire: Wire,
}

impl Crowd {
    /// Nobody yet; all sessions are opened over one connection.
    pub async fn at(address: SocketAddr) -> anyhow::Result<Self> {
        let wire = Wire::connect(address).await?;
        let call = Call::echo(Form::Legacy);
        Ok(Self { address, call, sessions: Vec::new(), streams: Vec::new(), wire })
    }

    /// Opens sessions until there are `count`.
    pub async fn grow(&mut self, count: usize) -> anyhow::Result<()> {
        while self.sessions.len() < count {
            let session = self.wire.open_session(&self.call, self.address).await;
            let number = self.sessions.len();
            self.sessions.push(session.with_context(|| format!("session {number}"))?);
        }
        Ok(())
    }

    /// Opens the streams of sessions until there are `count`, each on a connection of its own.
    pub async fn listen(&mut self, count: usize) -> anyhow::Result<()> {
        self.grow(count).await?;
        while self.streams.len() < count {
            let session = &self.sessions[self.streams.len()];
            let stream = open_stream(&self.call, self.address, session).await;
            let number = self.streams.len();
            self.streams.push(stream.with_context(|| format!("stream {number}"))?);
        }
        Ok(())
    }
}

async fn open_stream(call: &Call, address: SocketAddr, session: &str) -> anyhow::Result<TcpStream> {
    let request = String::from_utf8(plain(call, address, Some(session), ""))?;
    let request = request
        .replacen("POST", "GET", 1)
        .replacen("application/json, text/event-stream", "text/event-stream", 1)
        .replacen("content-length: 0\r\n", "", 1)
        .replacen("content-type: application/json\r\n", "", 1);
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while memchr::memmem::find(&head, b"\r\n\r\n").is_none() {
        ensure!(socket.read_buf(&mut head).await? > 0, "the connection ended");
    }
    let text = String::from_utf8_lossy(&head);
    ensure!(text.starts_with("HTTP/1.1 200"), "no stream: {text}");
    Ok(socket)
}
