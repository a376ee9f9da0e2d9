//! The HTTP client for all services that Switchyard calls: one origin, and a pool of connections for each worker.
//!
//! Invariants: a request is never written to a connection whose end has arrived, and nothing is sent twice. It carries
//! what its sender wrote and nothing else, and asks for a body without a content coding. A proxy is used only where the
//! configuration says so. A redirect is followed once, within its origin, and only by [`Client::request`].
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
mod content_coding;
mod dial_policy;
mod error;
mod event_stream;
mod headers;
mod metered;
mod proxy;
mod read;
mod request;
mod request_body;
mod tls;

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
use self::connection::{Failure, Idle, IdleSet, Link};
use self::content_coding::ContentDecoder;
pub use self::content_coding::has_content_coding;
pub use self::dial_policy::{DialPolicy, is_public};
pub use self::error::Error;
pub use self::event_stream::{Decoded, EventStream};
pub use self::headers::{
    CDN_LOOP, CDN_TOKEN, IDENTITY, OUR_USER_AGENT, basic_credentials, has_supported_transfer_coding, host,
    is_media_type, is_own_loop, path, retry_after,
};
pub use self::proxy::{Network, NoProxy, Proxies, Proxy};
pub use self::read::{ResponseLimits, WholeResponse, chunk, collect, whole};
pub use self::request::{RequestBuilder, joined, same_origin_target};
pub use self::request_body::{Form, RequestBody};
pub use self::tls::TlsFiles;

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
    /// A client for the origin of `url`, within `dial_policy` and over `network`. It keeps at most `max_idle` connections that
    /// have been idle for a second.
    pub fn new(
        url: &Url,
        (dial_policy, network): (DialPolicy, &Network),
        max_idle: usize,
        shutdown: &Shutdown,
    ) -> Result<Self, Error> {
        Ok(Self {
            dialer: Dialer::new(url, dial_policy, network)?,
            idle: Idle::new(max_idle, shutdown),
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
        self.dialer.direct(&mut request);
        let idle = (!(once && self.is_wary())).then(|| self.idle.here());
        while let Some(mut link) = idle.and_then(|idle| idle.take()) {
            match link.exchange(request).await {
                Ok(answer) => return self.received(answer, link, idle),
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
            Ok(answer) => self.received(answer, link, idle),
            Err(Failure::Hyper(failure)) => Err(self.failed(failure.error())),
            Err(Failure::Flooded) => Err(Error::flooded()),
        }
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

    /// The response with its connection, if it has no other transfer coding than `chunked`. Its content coding is undone.
    fn received(
        &self,
        mut answer: http::Response<Incoming>,
        link: Box<Link>,
        idle: Option<&Arc<IdleSet>>,
    ) -> Result<Response, Error> {
        if !headers::has_supported_transfer_coding(answer.headers(), answer.body()) {
            let reason = "the answer has a transfer coding other than `chunked`, which was not asked for";
            return Err(Error::Malformed { reason: reason.into() });
        }
        if let Some(refusal) = self.dialer.refusal(answer.status(), answer.headers()) {
            return Err(refusal);
        }
        let decoder = ContentDecoder::of(answer.headers_mut(), &self.origin);
        Ok(answer.map(|body| Body::new(body, decoder, PooledLink { link, idle_set: idle.cloned() })))
    }
}

#[cfg(test)]
mod proxy_tests;
#[cfg(test)]
mod tests;
