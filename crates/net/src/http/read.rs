//! Reading the body of a response into memory: with a limit, charged to the memory budget while it arrives.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use serde::de::DeserializeOwned;

use super::body::Body;
use super::error::Error;
use runtime::memory::{self, Charge, ChargeKind, Payer, SMALL};
use runtime::worker::WorkBudget;

/// Bytes of a body from which its buffer grows to the limit in one step. Pages that are not written cost nothing, and a
/// buffer that grows by doubling leaves as many freed pages as it has bytes.
const LARGE: usize = 512 * 1024;

/// Reads a body of at most `limit` bytes. It is charged to the server `origin` as long as it lives.
pub async fn whole(body: Body, limit: usize, origin: &Arc<str>) -> Result<Bytes, Error> {
    let payer = Payer { principal: None, server: origin };
    let all = collect(body, Bytes::new(), limit, payer).await?;
    Ok(memory::hold(all, || payer.account(), ChargeKind::Answer)?)
}

/// Reads `body` as JSON of a known form. The error does not quote it.
pub(super) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Malformed {
        reason: format!("not the JSON that was expected, at line {} column {}", error.line(), error.column()),
    })
}

/// Reads the rest of a body that began with `start`. A body that arrives in one piece is not copied.
///
/// It is charged while it arrives; the caller charges what it keeps.
pub async fn collect(mut body: Body, start: Bytes, limit: usize, payer: Payer<'_>) -> Result<Bytes, Error> {
    let announced =
        body.size_hint().exact().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced > limit || start.len() > limit {
        return Err(Error::TooLarge { limit });
    }
    let (mut first, mut whole, mut work) = (start, BytesMut::new(), WorkBudget::new());
    let open = || Charge::open(payer.account(), ChargeKind::Answer);
    let mut charge = None;
    // A body of known length is charged before it is read.
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
            if whole.len() >= LARGE && whole.capacity() - whole.len() < chunk.len() {
                whole.reserve(limit.saturating_sub(whole.len()).max(chunk.len()));
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

/// Returns the next piece of a body, or `None` at its end.
pub async fn chunk(body: &mut Body) -> Result<Option<Bytes>, Error> {
    loop {
        let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await else {
            return Ok(None);
        };
        // Trailers are skipped.
        if let Ok(piece) = frame?.into_data() {
            return Ok(Some(piece));
        }
    }
}
