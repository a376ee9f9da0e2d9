//! The body of an answer as an event stream, under the cap of one message.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;

use super::flood_guard::{FloodGuard, Worth};
use crate::error::Error;
use net::http::{Body, chunk, collect};
use net::sse::{Decoder, Item};
use runtime::memory::{Account, Charge, Kind, Payer, SMALL};
use runtime::worker::WorkBudget;

/// Bytes after the answer that are read for the sake of the connection; more is not worth it.
const DRAIN_BYTES: usize = 16 * 1024;

/// Reads the events of one answer.
pub(super) struct EventStream {
    body: Body,
    decoder: Decoder,
    /// Received and not decoded yet.
    input: Bytes,
    work: WorkBudget,
    /// For the event that is being read.
    charge: Charge,
}

impl EventStream {
    /// `account` pays for an event while it is read.
    pub(super) fn of(body: Body, limit: usize, account: Account) -> Self {
        let (decoder, charge) = (Decoder::new(limit), Charge::open(account, Kind::Answer));
        Self { body, decoder, input: Bytes::new(), work: WorkBudget::new(), charge }
    }

    /// The next event; `None` at the end of the stream, an error when it was cut or ended by `floods`, which
    /// counts what is between the events.
    pub(super) async fn next(&mut self, floods: &FloodGuard) -> Result<Option<Item>, Error> {
        loop {
            self.work.yield_if_spent().await;
            let before = self.input.len();
            let item = self.decoder.decode(&mut self.input);
            self.work.charge(before - self.input.len());
            let ignored = self.decoder.take_ignored();
            if ignored > 0 {
                floods.admit(Worth::Junk, ignored).await?;
            }
            if item.is_some() {
                return Ok(item);
            }
            if !self.input.is_empty() {
                continue;
            }
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

    /// Reads what is left, which means nothing any more, so that the connection can be used again.
    pub(super) async fn drain(mut self) {
        let mut left = DRAIN_BYTES;
        while let Ok(Some(chunk)) = chunk(&mut self.body).await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                return;
            }
        }
    }

    /// Whether the end has come already; what stands before it means nothing any more.
    pub(super) fn is_over(&mut self) -> bool {
        matches!(chunk(&mut self.body).now_or_never(), Some(Ok(None)))
    }

    /// Where to go on after a cut.
    pub(super) fn last_id(&self) -> Option<Bytes> {
        self.decoder.last_id().cloned()
    }

    /// The pause the server asked for.
    pub(super) const fn retry(&self) -> Option<Duration> {
        self.decoder.retry()
    }

    /// Whether what arrives is bare JSON, whatever the label says: no line of an event stream that
    /// means anything begins with a brace. Waits for the first bytes.
    pub(super) async fn is_bare_json(&mut self) -> Result<bool, Error> {
        while self.input.trim_ascii().is_empty() {
            self.work.charge(self.input.len());
            self.work.yield_if_spent().await;
            match chunk(&mut self.body).await? {
                // White space alone decodes to nothing, so it need not be kept.
                Some(chunk) => self.input = chunk,
                None => return Ok(false),
            }
        }
        Ok(self.input.trim_ascii_start().starts_with(b"{"))
    }

    /// The whole body, when it is no event stream after all.
    pub(super) async fn into_body(mut self, limit: usize, payer: Payer<'_>) -> Result<Bytes, Error> {
        let begun = std::mem::take(&mut self.input);
        Ok(collect(self.body, begun, limit, payer).await?)
    }
}
