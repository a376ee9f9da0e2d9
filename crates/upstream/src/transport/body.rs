//! The body of an answer, as an event stream or as one JSON text, under the cap of one message.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body::Body as _;

use super::flood_guard::{FloodGuard, Worth};
use super::http::Body;
use crate::error::Error;
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
        collect(self.body, begun, limit, payer).await
    }
}

/// The whole body of an answer.
pub(super) async fn body(body: Body, limit: usize, payer: Payer<'_>) -> Result<Bytes, Error> {
    collect(body, Bytes::new(), limit, payer).await
}

/// A body of which `begun` has come; one that arrives in one piece is not copied. It is charged while it arrives;
/// the caller charges what it keeps.
pub(super) async fn collect(
    mut body: Body,
    begun: Bytes,
    limit: usize,
    payer: Payer<'_>,
) -> Result<Bytes, Error> {
    let announced =
        body.size_hint().exact().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced > limit || begun.len() > limit {
        return Err(Error::TooLarge { limit });
    }
    let (mut first, mut whole, mut work) = (begun, BytesMut::new(), WorkBudget::new());
    let open = || Charge::open(payer.account(), Kind::Answer);
    let mut charge = None;
    // A body of known length finds its room before it is read.
    if announced >= SMALL {
        charge.insert(open()).resize(announced)?;
    }
    while let Some(chunk) = chunk(&mut body).await? {
        work.charge(chunk.len());
        work.yield_if_spent().await;
        if first.is_empty() && whole.is_empty() {
            first = chunk;
        } else {
            if whole.is_empty() {
                whole.reserve(announced.max(first.len() + chunk.len()));
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&chunk);
        }
        let size = first.len().max(whole.len());
        if size > limit {
            return Err(Error::TooLarge { limit });
        }
        if size >= SMALL && !body.is_end_stream() {
            charge.get_or_insert_with(open).cover(size)?;
        }
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// The next piece; an error when the answer was cut.
pub(super) async fn chunk(body: &mut Body) -> Result<Option<Bytes>, Error> {
    loop {
        let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await else {
            return Ok(None);
        };
        // Trailers say nothing to us.
        if let Ok(piece) = frame?.into_data() {
            return Ok(Some(piece));
        }
    }
}
