//! Whether an answer is passed on while it arrives: a look at what has come of it.
//!
//! It is when it is large, and what has come of it is a result of our request as far as it can be seen.
//! Anything else is collected, and judged as a whole: small answers, errors, what is no answer.

use std::collections::VecDeque;

use bytes::Bytes;
use http_body::Body as _;

use crate::error::Error;
use crate::response_stream::ResponseStream;
use crate::transport::body::{chunk, collect};
use crate::transport::http::Body;
use json::envelope_stream::Splice;
use runtime::memory::Payer;

/// Answers of fewer bytes are collected: they come in one or two pieces, and passing those on would
/// save less than it costs.
const LARGE: usize = 16 * 1024;

/// An answer after the look.
pub(super) enum Peeked {
    /// It is a large result that has begun.
    Flows(Box<ResponseStream>),
    /// All of it.
    Whole(Bytes),
}

/// Looks at the answer that comes out of `body`, of at most `limit` bytes.
pub(super) async fn peek(
    mut body: Body,
    mut splice: Splice,
    limit: usize,
    payer: Payer<'_>,
) -> Result<Peeked, Error> {
    let announced = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced.is_some_and(|length| length < LARGE || length > limit) {
        return collect(body, Bytes::new(), limit, payer).await.map(Peeked::Whole);
    }
    let wanted = if announced.is_some() { 1 } else { LARGE };
    let (mut pieces, mut size) = (Vec::new(), 0);
    while size < wanted {
        let Some(piece) = chunk(&mut body).await? else { return Ok(Peeked::Whole(joined(pieces))) };
        size += piece.len();
        pieces.push(piece);
    }
    let parts: Result<VecDeque<Bytes>, _> = pieces.iter().map(|piece| splice.take(piece)).collect();
    match (parts, limit.checked_sub(size)) {
        (Ok(parts), Some(left)) if splice.has_begun() => {
            let flow = ResponseStream::new(Box::new(body), splice, parts, (left, limit));
            Ok(Peeked::Flows(Box::new(flow.paid_by(payer.account()))))
        }
        _ => collect(body, joined(pieces), limit, payer).await.map(Peeked::Whole),
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        1 => pieces.remove(0),
        _ => pieces.concat().into(),
    }
}
