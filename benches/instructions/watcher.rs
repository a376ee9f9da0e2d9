//! A reader of the live events on a connection of its own, which reads all of them at once.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::outside::Outside;

const REQUEST: &[u8] = b"GET /api/v1/mcp/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
const ENDED: &[u8] = b"\nevent: call_ended\n";

/// A client of the live events.
#[derive(Debug)]
pub struct Watcher {
    /// How many calls it has seen end.
    ended: watch::Receiver<u64>,
    /// How many of them it was asked about.
    known: u64,
}

impl Watcher {
    /// Connects, and reads in a task from then on.
    #[allow(clippy::disallowed_methods)] // it ends with the runtime
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let mut socket = TcpStream::connect(address).await?;
        socket.write_all(REQUEST).await?;
        let mut input = Vec::with_capacity(256 * 1024);
        // The first piece is a comment, which follows the head at once.
        while memchr::memmem::find(&input, b"\r\n\r\n").is_none() {
            ensure!(socket.read_buf(&mut input).await? > 0, "the stream of events ended at once");
        }
        ensure!(input.starts_with(b"HTTP/1.1 200"), "no events: {}", String::from_utf8_lossy(&input));
        let (seen, ended) = watch::channel(0);
        tokio::spawn(Outside::of(read(socket, seen)));
        Ok(Self { ended, known: 0 })
    }

    /// Waits until it has seen `count` more calls end.
    pub async fn sees(&mut self, count: u64) -> anyhow::Result<()> {
        self.known += count;
        self.ended.wait_for(|ended| *ended >= self.known).await.context("the stream of events ended")?;
        Ok(())
    }
}

/// Counts the calls that ended, until the stream ends.
async fn read(mut socket: TcpStream, seen: watch::Sender<u64>) {
    let mut input = Vec::with_capacity(256 * 1024);
    while socket.read_buf(&mut input).await.is_ok_and(|length| length > 0) {
        let found = memchr::memmem::find_iter(&input, ENDED).count() as u64;
        // The end of what arrived may be the beginning of the next mark.
        let last = memchr::memmem::rfind(&input, ENDED).map_or(0, |at| at + ENDED.len());
        input.drain(..last.max(input.len().saturating_sub(ENDED.len() - 1)));
        seen.send_modify(|ended| *ended += found);
    }
}
