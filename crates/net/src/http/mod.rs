//! The HTTP client for all services that Switchyard calls: one origin, and a pool of connections for each worker.
//!
//! Invariants: a request is never written to a connection whose end has arrived, and nothing is sent twice. It carries
//! what its sender wrote and nothing else. No proxy comes from the environment, and no redirect is followed.
//! The memory for a response is limited while it is read. Dropping a request, or a body before its end, closes its
//! connection.
//!
//! ```text
//! Client ── takes a Link ──> Idle (per worker), or opens one (Dialer)
//!    └──── exchange on the Link ──> Response whose Body owns the Link ── read to its end ──> Idle
//! ```
//!
//! Not here: retries, deadlines of a whole call, and what a status means.

mod body;
mod connect;
mod connection;
mod dial_policy;
mod error;
mod event_stream;
mod fetch;
mod form;
mod headers;
mod idle;
mod metered;
mod read;
mod request;
mod request_body;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use tokio::time::Instant;
use url::Url;

pub use self::body::Body;
use self::body::PooledLink;
use self::connect::Dialer;
use self::connection::{Failure, Link};
pub use self::dial_policy::DialPolicy;
pub use self::error::Error;
pub use self::event_stream::{Decoded, EventStream};
pub use self::fetch::{ResponseLimits, WholeResponse};
pub use self::form::Form;
pub use self::headers::{
    CDN_LOOP, CDN_TOKEN, OUR_USER_AGENT, basic_credentials, host, is_media_type, is_own_loop, path,
    retry_after,
};
use self::idle::{Idle, IdleSet};
pub use self::read::{chunk, collect, read_json, whole};
pub use self::request::RequestBuilder;
pub use self::request_body::RequestBody;
use crate::transfer_coding;
use runtime::shutdown::Shutdown;

/// After an idle connection turned out to be dead, requests that must not run twice avoid idle ones
/// for this long.
const WARY: Duration = Duration::from_secs(30);

/// A response: status, headers, and the body as it arrives.
pub type Response = http::Response<Body>;

/// Sends requests to one origin.
pub struct Client {
    dialer: Dialer,
    idle: Idle,
    /// When idle connections are trusted again, in milliseconds after `made`.
    wary_until: AtomicU64,
    made: Instant,
    /// The origin in ASCII, which pays for responses that belong to no principal.
    origin: Arc<str>,
}

/// Sockets to one server at a moment. Over HTTP/1.1 each request has its own socket while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sockets {
    /// All sockets that are open.
    pub open: usize,
    /// Sockets that wait for their next request.
    pub idle: usize,
}

impl Client {
    /// A client for the origin of `url`, within `dial_policy`. It keeps at most `kept` connections that have been idle for a
    /// second.
    pub fn new(url: &Url, dial_policy: DialPolicy, kept: usize, shutdown: &Shutdown) -> Result<Self, Error> {
        Ok(Self {
            dialer: Dialer::new(url, dial_policy)?,
            idle: Idle::new(kept, shutdown),
            wary_until: AtomicU64::new(0),
            made: Instant::now(),
            origin: url.origin().ascii_serialization().into(),
        })
    }

    /// Returns the origin, such as `https://example.com`.
    pub const fn origin(&self) -> &Arc<str> {
        &self.origin
    }

    /// Returns how many connections there are now.
    pub fn sockets(&self) -> Sockets {
        Sockets { open: self.dialer.count(), idle: self.idle.len() }
    }

    /// Sends `request`, whose URI is a path and which has its `Host`. Returns when the head of the response is there.
    /// `once` says that the request must not run twice.
    pub async fn send(&self, mut request: Request<RequestBody>, once: bool) -> Result<Response, Error> {
        let idle = (!(once && self.is_wary())).then(|| self.idle.here());
        while let Some(mut link) = idle.and_then(|idle| idle.take()) {
            match link.exchange(request).await {
                Ok(answer) => return received(answer, link, idle),
                Err(Failure::Hyper(mut failure)) => match failure.take_message() {
                    // The connection had been closed, so nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(self.failed(failure.error())),
                },
                Err(Failure::Flooded) => return Err(Error::flooded()),
            }
        }
        // Boxed: it is rare, and would make the future of each call a large one.
        let mut link = Box::pin(self.dialer.open()).await?;
        match link.exchange(request).await {
            Ok(answer) => received(answer, link, idle),
            Err(Failure::Hyper(failure)) => Err(self.failed(failure.error())),
            Err(Failure::Flooded) => Err(Error::flooded()),
        }
    }

    /// Sends the request of `builder`. It runs at most once, unless its method may be repeated (RFC 9110, 9.2.2).
    pub async fn request(&self, builder: RequestBuilder) -> Result<Response, Error> {
        let request = builder.build()?;
        let once = !request.method().is_idempotent();
        self.send(request, once).await
    }

    fn failed(&self, error: &hyper::Error) -> Error {
        let error = Error::unanswered(error);
        if let Error::Lost { .. } = error {
            let until = self.made.elapsed() + WARY;
            self.wary_until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        error
    }

    fn is_wary(&self) -> bool {
        let until = self.wary_until.load(Ordering::Relaxed);
        until != 0 && self.made.elapsed() < Duration::from_millis(until)
    }
}

/// The response with its connection, if it has no other transfer coding than `chunked`.
fn received(
    answer: http::Response<Incoming>,
    link: Box<Link>,
    idle: Option<&Arc<IdleSet>>,
) -> Result<Response, Error> {
    if transfer_coding::is_supported(answer.headers(), answer.body()) {
        return Ok(answer.map(|body| Body::new(body, PooledLink { link, idle_set: idle.cloned() })));
    }
    let reason = "the answer has a transfer coding other than `chunked`, which was not asked for";
    Err(Error::Malformed { reason: reason.into() })
}

#[cfg(test)]
mod tests;
