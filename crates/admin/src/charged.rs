//! Charges answers to the memory budget as long as their clients leave them unread.
//!
//! Invariants: an answer of `SMALL` bytes or more is charged once, to the principal that asked for it. Equal lists of
//! tools that are unread at the same time are one text in memory.
//!
//! Not here: the budget (`runtime::memory`), results of calls, which are charged while they are printed (`call`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::entity_tag::Tagged;
use super::json_bytes;
use super::problem::Problem;
use gateway::manager::{Scope, Snapshot};
use protocol::ErrorCode;
use runtime::memory::{self, Account, Exhausted, Kind, SMALL};

/// When to send a refused request again.
const RETRY_IN: Duration = Duration::from_secs(1);

/// Marks a response whose body is charged already.
#[derive(Debug, Clone, Copy)]
struct Charged;

/// A JSON text that is charged already, as an answer.
pub(super) fn json_charged(body: Bytes) -> Response {
    let mut response = json_bytes(body);
    response.extensions_mut().insert(Charged);
    response
}

/// Charges `body` to `principal` as long as it is unread, if it is large.
pub(super) fn held(body: Bytes, principal: &Arc<str>) -> Result<Bytes, Exhausted> {
    memory::hold(body, || Account::Principal(Arc::clone(principal)), Kind::Answer)
}

/// A text of another media type, charged to `account`.
pub(super) fn text_for(
    account: Account,
    media_type: &'static str,
    text: String,
) -> Result<Response, Problem> {
    let text = memory::hold(text.into(), || account, Kind::Answer)?;
    let mut response = ([(CONTENT_TYPE, media_type)], text).into_response();
    response.extensions_mut().insert(Charged);
    Ok(response)
}

/// Charges the body of `response`, which is in memory, to `principal`, unless that was done when it was made.
pub(super) async fn charged(mut response: Response, principal: &Arc<str>) -> Response {
    let size = response.body().size_hint().lower();
    if response.extensions_mut().remove::<Charged>().is_some() || size < SMALL as u64 {
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
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

/// The list of one scope, of the snapshot that it was printed from. Neither is kept for later requests.
type Listed = (Weak<Snapshot>, Weak<Tagged>);

/// Printed lists that clients are reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists(Arc<Mutex<HashMap<Scope, Listed>>>);

impl Lists {
    /// Returns the list of `scope` in `snapshot`: the one that is being read, or else a new one of `print`, charged to
    /// `principal`.
    pub(super) fn of(
        &self,
        (snapshot, scope): (&Arc<Snapshot>, Scope),
        principal: &Arc<str>,
        print: impl FnOnce() -> Bytes,
    ) -> Result<Tagged, Exhausted> {
        if let Some(printed) = self.read_now(snapshot, &scope) {
            return Ok(shared(printed));
        }
        let printed = Arc::new(Tagged::of(held(print(), principal)?));
        let mut lists = self.lock();
        lists.retain(|_, (_, printed)| printed.strong_count() > 0);
        lists.insert(scope, (Arc::downgrade(snapshot), Arc::downgrade(&printed)));
        drop(lists);
        Ok(shared(printed))
    }

    fn read_now(&self, snapshot: &Arc<Snapshot>, scope: &Scope) -> Option<Arc<Tagged>> {
        let lists = self.lock();
        let (of, printed) = lists.get(scope)?;
        std::ptr::eq(of.as_ptr(), Arc::as_ptr(snapshot)).then(|| printed.upgrade())?
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, Listed>> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the owners of a printed list.
struct Shared(Arc<Tagged>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.body
    }
}

/// The list with `printed` as its body, which lives as long as the last body.
fn shared(printed: Arc<Tagged>) -> Tagged {
    let tag = printed.tag.clone();
    Tagged { body: Bytes::from_owner(Shared(printed)), tag }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Gateway;
    use super::*;

    #[tokio::test]
    async fn a_refused_answer_can_be_asked_for_again() {
        let problem = Problem::from(Exhausted { wanted: 9 }).into_response();
        let problem = problem.extensions().get::<Problem>().expect("a problem");
        assert_eq!(
            (problem.code(), problem.retry_after()),
            (ErrorCode::MemoryExhausted, Some("1".try_into().expect("text")))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_being_read_is_not_printed_again() {
        let gateway = Gateway::of(vec![]).await;
        let (lists, principal) = (Lists::default(), Arc::from("p"));
        let snapshot = gateway.manager.snapshot();
        let text = |text: &'static str| move || Bytes::from_static(text.as_bytes());
        let of = |scope, print: &'static str| {
            lists.of((&snapshot, scope), &principal, text(print)).expect("there is room").body
        };
        let first = of(Scope::All, "first");
        assert_eq!(of(Scope::All, "second"), "first");
        assert_eq!(of(Scope::Server("s".into()), "third"), "third");
        drop(first);
        assert_eq!(of(Scope::All, "fourth"), "fourth", "nobody read the first one any more");
        assert_eq!(lists.lock().len(), 1, "lists that nobody reads are forgotten");
    }
}
