//! The body of a response as an event stream.
//!
//! Invariants: one event has at most the bytes of the limit, and the memory budget is charged for it while it is read.
//! Reading gives way to other tasks of the worker.
//!
//! Not here: the syntax (`sse`), and how much a server may send between its events.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;

use super::body::Body;
use super::error::Error;
use super::read::{chunk, collect};
use crate::sse::{BYTE_ORDER_MARK, Decoder, Item};
use runtime::memory::{Account, Charge, ChargeKind, Payer, SMALL};
use runtime::worker::WorkBudget;

/// Bytes after the last event of interest that are read so that the connection can be used again.
const DRAIN_BYTES: usize = 16 * 1024;
/// The most bytes of white space before a JSON text. More of it is read as the blank lines of an event stream.
const LEADING_BYTES: usize = 16 * 1024;

/// The result of one step of reading.
#[derive(Debug)]
pub struct Decoded {
    /// The next event, if it is complete.
    pub item: Option<Item>,
    /// Bytes before it that have no meaning.
    pub ignored: usize,
}

/// Reads the events of one response.
pub struct EventStream {
    body: Body,
    decoder: Decoder,
    /// Received and not decoded yet.
    input: Bytes,
    work: WorkBudget,
    /// For the event that is being read.
    charge: Charge,
}

impl EventStream {
    /// Events of at most `limit` bytes. `account` pays for an event while it is read.
    pub fn of(body: Body, limit: usize, account: Account) -> Self {
        let (decoder, charge) = (Decoder::new(limit), Charge::open(account, ChargeKind::Answer));
        Self { body, decoder, input: Bytes::new(), work: WorkBudget::new(), charge }
    }

    /// Reads on until an event is complete, or bytes were ignored. `None` at the end of the stream.
    pub async fn step(&mut self) -> Result<Option<Decoded>, Error> {
        loop {
            self.work.yield_if_spent().await;
            let before = self.input.len();
            let item = self.decoder.decode(&mut self.input);
            self.work.charge(before - self.input.len());
            let ignored = self.decoder.take_ignored();
            if item.is_some() || ignored > 0 {
                return Ok(Some(Decoded { item, ignored }));
            }
            if !self.input.is_empty() {
                continue;
            }
            self.decoder.detach();
            match self.decoder.held() {
                held if held < SMALL => self.charge.clear(),
                held => self.charge.cover(held)?,
            }
            match chunk(&mut self.body).await? {
                Some(chunk) => self.input = chunk,
                None => return Ok(None),
            }
        }
    }

    /// Reads the rest, which nobody needs, so that the connection can be used again.
    pub async fn drain(mut self) {
        let mut left = DRAIN_BYTES;
        while let Ok(Some(chunk)) = chunk(&mut self.body).await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    }

    /// Whether the end has arrived already. Skips what is before it.
    pub fn is_over(&mut self) -> bool {
        matches!(chunk(&mut self.body).now_or_never(), Some(Ok(None)))
    }

    /// The id of the last event, to resume after it.
    pub fn last_id(&self) -> Option<Bytes> {
        self.decoder.last_id().cloned()
    }

    /// The pause before a reconnection that the server asked for.
    pub const fn retry(&self) -> Option<Duration> {
        self.decoder.retry()
    }

    /// Whether the body is JSON, whatever its media type says: no line of an event stream with a meaning begins with a
    /// brace. An array counts if its first element begins so, because a line of a log may begin with a bracket. Waits for
    /// the first bytes.
    pub async fn is_bare_json(&mut self) -> Result<bool, Error> {
        let mut skipped = 0;
        while self.input.trim_ascii().is_empty() {
            skipped += self.input.len();
            if skipped > LEADING_BYTES {
                return Ok(false);
            }
            self.work.charge(self.input.len());
            self.work.yield_if_spent().await;
            match chunk(&mut self.body).await? {
                // White space alone decodes to nothing, so it need not be kept.
                Some(chunk) => self.input = chunk,
                None => return Ok(false),
            }
        }
        let text = self.input.trim_ascii_start();
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        Ok(text.strip_prefix(b"[").map_or(text, <[u8]>::trim_ascii_start).starts_with(b"{"))
    }

    /// The whole body, if it is no event stream.
    pub async fn into_body(mut self, limit: usize, payer: Payer<'_>) -> Result<Bytes, Error> {
        let start = std::mem::take(&mut self.input);
        collect(self.body, start, limit, payer).await
    }
}
