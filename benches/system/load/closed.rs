//! Closed-loop load: each connection sends its next call after the last answer was verified.
//!
//! One thread for all connections, no client library, requests patched in place: the load uses CPU
//! time of the processors that the hop runs on too.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::call::{Call, Form, Requests, plain};
use super::inbox::Inbox;
use super::{Load, Sample};
use crate::child;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Calls for `warm_up` without counting, then for `slice`. The CPU time of the processes in `watched`
/// is read at both ends of the slice. If the machine is busy with other work, the sample may be empty.
pub async fn run(load: &Load, warm_up: Duration, slice: Duration, watched: &[u32]) -> anyhow::Result<Sample> {
    let mut callers = Vec::new();
    for number in 0..load.connections {
        callers.push(Caller::connect(load, number).await?);
    }
    let from = Instant::now() + warm_up;
    let until = from + slice;
    let mut running = JoinSet::new();
    for caller in callers {
        running.spawn(caller.call_until(from, until));
    }
    tokio::time::sleep_until(from.into()).await;
    let before = child::processor_times(watched);
    let began = Instant::now();
    tokio::time::sleep_until(until.into()).await;
    let share = slice.as_secs_f64() / began.elapsed().as_secs_f64();
    let after = child::processor_times(watched);
    let mut latencies = Vec::new();
    while let Some(done) = running.join_next().await {
        latencies.extend(done??);
    }
    latencies.sort_unstable();
    let used = before.iter().zip(&after).map(|(before, after)| (after - before) * share).collect();
    Ok(Sample { latencies, took: slice, processor_seconds: used })
}

/// One connection, which may have a session.
#[derive(Debug)]
pub struct Caller {
    wire: Wire,
    address: SocketAddr,
    call: Call,
    session: Option<String>,
    requests: Requests,
}

impl Caller {
    /// Connects, and opens a session if the calls need one.
    pub async fn connect(load: &Load, number: usize) -> anyhow::Result<Self> {
        let mut wire = Wire::connect(load.address).await?;
        let session = match load.call.form {
            Form::Legacy => Some(wire.open_session(&load.call, load.address).await?),
            Form::Modern | Form::Rest => None,
        };
        let requests = Requests::new(&load.call, load.address, number, session.as_deref());
        Ok(Self { wire, address: load.address, call: load.call.clone(), session, requests })
    }

    /// Makes one call and verifies its answer.
    pub async fn call(&mut self) -> anyhow::Result<()> {
        self.wire.exchange(self.requests.next()).await?;
        let answer = self.wire.inbox.answer()?;
        self.requests.check(answer.status, answer.body)
    }

    async fn call_until(mut self, from: Instant, until: Instant) -> anyhow::Result<Vec<u32>> {
        let mut latencies = Vec::with_capacity(4096);
        let mut began = Instant::now();
        while began < until {
            self.call().await?;
            let ended = Instant::now();
            if began >= from {
                latencies.push(nanoseconds(ended - began));
            }
            began = ended;
        }
        self.close().await?;
        Ok(latencies)
    }

    async fn close(mut self) -> anyhow::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        let request = plain(&self.call, self.address, Some(session), "");
        let request = String::from_utf8(request)?.replacen("POST", "DELETE", 1);
        self.wire.exchange(request.as_bytes()).await
    }
}

/// A connection with one request at a time.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    /// The last answer.
    pub inbox: Inbox,
}

impl Wire {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, inbox: Inbox::default() })
    }

    /// Opens a session of the legacy era and returns its id.
    pub async fn open_session(&mut self, call: &Call, address: SocketAddr) -> anyhow::Result<String> {
        self.exchange(&plain(call, address, None, HELLO)).await?;
        let answer = self.inbox.answer()?;
        let shown = || format!("initialize opened no session: {}", String::from_utf8_lossy(answer.body));
        let session = answer.session.with_context(shown)?.to_owned();
        self.exchange(&plain(call, address, Some(&session), READY)).await?;
        Ok(session)
    }

    /// Sends a request and waits for the complete answer.
    pub async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.socket.write_all(request).await?;
        self.inbox.clear();
        loop {
            if self.inbox.bytes.capacity() == self.inbox.bytes.len() {
                self.inbox.bytes.reserve(4096);
            }
            let read = self.socket.read_buf(&mut self.inbox.bytes).await?;
            ensure!(read > 0, "the connection ended within an answer");
            if self.inbox.is_complete()? {
                return Ok(());
            }
        }
    }
}

/// Nanoseconds as 32 bits; anything above four seconds becomes the maximum.
pub fn nanoseconds(took: Duration) -> u32 {
    u32::try_from(took.as_nanos()).unwrap_or(u32::MAX)
}
