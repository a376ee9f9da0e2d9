//! Charges answers to the memory budget as long as their clients leave them unread.
//!
//! Invariant: an answer of `SMALL` bytes or more is charged once, to the principal that asked for it. If there is no room
//! for it, the request is refused, unless it has changed something.
//!
//! Not here: the budget (`runtime::memory`), results of calls, which are charged while they are printed (`answer`),
//! lists that several clients read (`printed_lists`).

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::problem::Problem;
use protocol::ErrorCode;
use runtime::memory::{self, Account, ChargeKind, Exhausted, SMALL, budget};

/// When to send a refused request again.
const RETRY_IN: Duration = Duration::from_secs(1);

/// Charges `body` to `principal` as long as it is unread, if it is large.
pub(super) fn held(body: Bytes, principal: &Arc<str>) -> Result<Bytes, Exhausted> {
    memory::hold(body, || Account::Principal(Arc::clone(principal)), ChargeKind::Answer)
}

/// A text of another media type, charged to `account`.
pub(super) fn text_for(account: Account, media_type: &'static str, text: Bytes) -> Result<Response, Problem> {
    let text = memory::hold(text, || account, ChargeKind::Answer)?;
    Ok(([(CONTENT_TYPE, media_type)], text).into_response())
}

/// Charges the body of `response`, which is in memory, to `principal`. The answer of a request that `is_done` is not
/// refused.
pub(super) async fn charged(response: Response, principal: &Arc<str>, is_done: bool) -> Response {
    let size = response.body().size_hint().lower();
    if size < SMALL as u64 {
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    if is_done {
        let bytes = budget().hold_beyond(bytes, Account::Principal(Arc::clone(principal)));
        return Response::from_parts(parts, Body::from(bytes));
    }
    match held(bytes, principal) {
        Ok(bytes) => Response::from_parts(parts, Body::from(bytes)),
        Err(exhausted) => Problem::from(exhausted).into_response(),
    }
}

/// Refuses a request that only reads, which can be sent again.
impl From<Exhausted> for Problem {
    fn from(exhausted: Exhausted) -> Self {
        Self::new(ErrorCode::MemoryExhausted, exhausted.to_string())
            .hinting("read the answers to other requests, and send this one again")
            .with(|document| (document.retryable, document.retry_after) = (true, Some(RETRY_IN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_refused_answer_can_be_asked_for_again() {
        let problem = Problem::from(Exhausted { requested: 9 }).into_response();
        let problem = problem.extensions().get::<Problem>().expect("a problem");
        assert_eq!(
            (problem.code(), problem.retry_after()),
            (ErrorCode::MemoryExhausted, Some("1".try_into().expect("text")))
        );
    }
}
