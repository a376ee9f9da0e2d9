//! The HTTP client for one server: how requests are sent, and what a failure to send them means.
//!
//! Invariants: a request carries what its transport puts there and the headers configured for this
//! server, and nothing else; no proxy comes from the environment, and redirects are followed within the
//! origin only (`place`), so credentials go where they were meant for; nothing is sent twice. Reasons of failures name neither
//! the URL nor a header, because both may hold secrets. Dropping a request, or the body of its answer
//! before its end, closes the connection.
//!
//! ```text
//! Client ── takes a Link ──> Idle (per worker), or opens one (Dialer)
//!    └──── exchange on the Link ──> Response whose Body owns the Link ── read to its end ──> Idle
//! ```
//!
//! What is the same for each request is in its [`Head`], made once. Not here: what is sent, and
//! reading answers (`body`, `streamable_http::answer`).

mod advice;
mod body;
mod connect;
mod connection;
mod error;
mod idle;
mod metered;
mod place;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use secrecy::ExposeSecret;
use tokio::time::Instant;
use url::{Position, Url};

use self::advice::Challenge;
pub(crate) use self::advice::proxy_variable;
pub(crate) use self::body::Body;
use self::body::Line;
use self::connect::Dialer;
pub use self::connect::certified;
pub use self::error::{decoded, reason, retry_after};
pub(super) use self::error::{is_media_type, status_error};
use self::idle::Idle;
use self::place::{At, Place};
use crate::config::{Http, Limits};
use crate::connection::Sockets;
use crate::error::Error;
use crate::token_file::TokenFile;
use crate::transport::http::connection::Failure;
use runtime::shutdown::Shutdown;

/// Both kinds of answer to a POST.
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// The only answer to a GET.
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OURSELVES: HeaderValue = HeaderValue::from_static(concat!("switchyard/", env!("CARGO_PKG_VERSION")));

/// After an idle connection turned out to be dead, calls that must not run twice avoid idle ones
/// for this long.
const WARY: Duration = Duration::from_secs(30);

/// Room in a [`Head`] for the headers that are put there.
const SPARE: usize = 8;

/// The body of a request.
type Sent = Full<Bytes>;
/// An answer: status, headers, and the body as it arrives.
pub(super) type Response = http::Response<Body>;

/// Sends requests to one server.
pub(super) struct Client {
    dialer: Dialer,
    idle: Idle,
    /// When idle connections are trusted again, in milliseconds after `made`.
    wary_until: AtomicU64,
    made: Instant,
    place: Place,
    /// What every request to it carries.
    headers: HeaderMap,
    /// Holds what it carries beside that.
    token: Option<TokenFile>,
    challenge: Challenge,
    /// Bytes of one message.
    pub(super) limit: usize,
    /// The payer for what the server sends outside of any call: the server itself, named by its URL.
    pub(super) server: Arc<str>,
}

/// What requests of one kind have in common, made once: the method, where in the server they go, and
/// all headers that are the same each time.
#[derive(Clone)]
pub(super) struct Head {
    method: Method,
    path: Uri,
    headers: HeaderMap,
}

impl Head {
    /// Puts a header of the protocol, which wins over any other of that name.
    pub(super) fn put(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    fn with(self, body: Bytes) -> Request<Sent> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path;
        *request.headers_mut() = self.headers;
        request
    }
}

impl Client {
    pub(super) fn new(http: &Http, limits: &Limits, shutdown: &Shutdown) -> Result<Self, Error> {
        Ok(Self {
            dialer: Dialer::new(&http.url)?,
            idle: Idle::new(limits.connections, shutdown),
            wary_until: AtomicU64::new(0),
            made: Instant::now(),
            place: Place::new(&http.url)?,
            headers: headers(http)?,
            token: http.token.clone(),
            challenge: Challenge::default(),
            limit: limits.message_bytes,
            server: http.url.as_str().into(),
        })
    }

    /// Its connections now.
    pub(super) fn sockets(&self) -> Sockets {
        Sockets { open: self.dialer.count(), idle: self.idle.len() }
    }

    /// The head of requests that send JSON to `path`; `protocol` are the headers of the protocol.
    pub(super) fn post(&self, path: &Uri, protocol: &HeaderMap) -> Head {
        let mut head = self.head(Method::POST, path, protocol);
        head.put(CONTENT_TYPE, JSON);
        head.put(ACCEPT, JSON_OR_EVENTS);
        head
    }

    /// The head of requests that open an event stream.
    pub(super) fn get(&self, protocol: &HeaderMap) -> Head {
        let mut head = self.head(Method::GET, &self.endpoint().path, protocol);
        head.put(ACCEPT, EVENTS);
        head
    }

    /// The head of requests that end a session.
    pub(super) fn delete(&self, protocol: &HeaderMap) -> Head {
        let mut head = self.head(Method::DELETE, &self.endpoint().path, protocol);
        head.put(ACCEPT, ANYTHING);
        head
    }

    fn head(&self, method: Method, path: &Uri, protocol: &HeaderMap) -> Head {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + protocol.len() + SPARE);
        headers.extend(self.headers.clone());
        // What the protocol says wins over what is configured under the same name.
        for name in protocol.keys() {
            headers.remove(name);
        }
        headers.extend(protocol.clone());
        Head { method, path: path.clone(), headers }
    }

    /// Sends `body`; gives the answer when its head is there. `once` says that it must not run twice.
    pub(super) async fn send(&self, head: Head, body: Bytes, once: bool) -> Result<Response, Error> {
        if let Some(token) = &self.token
            && !head.headers.contains_key(AUTHORIZATION)
        {
            return self.send_with(token, head, body, once).await;
        }
        let mut request = head.with(body);
        let idle = (!(once && self.is_wary())).then(|| self.idle.here());
        let received = |answer: http::Response<Incoming>, link| {
            if !answer.status().is_success() {
                self.challenge.note(answer.status(), answer.headers());
                self.place.note(answer.status(), answer.headers());
            }
            decoded(answer)
                .map(|answer| answer.map(|body| Body::new(body, Line { link, shelf: idle.cloned() })))
        };
        while let Some(mut link) = idle.and_then(|idle| idle.take()) {
            match link.exchange(request).await {
                Ok(answer) => return received(answer, link),
                Err(Failure::Hyper(mut failure)) => match failure.take_message() {
                    // It had been closed, so nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(self.failed(failure.error())),
                },
                Err(Failure::Flooded) => return Err(error::flooded()),
            }
        }
        // Boxed: it is rare, and would make the future of each call a large one.
        let mut link = Box::pin(self.dialer.open()).await?;
        match link.exchange(request).await {
            Ok(answer) => received(answer, link),
            Err(Failure::Hyper(failure)) => Err(self.failed(failure.error())),
            Err(Failure::Flooded) => Err(error::flooded()),
        }
    }

    /// The same with the token that its file holds. A request that is refused for a token that was
    /// replaced meanwhile was not carried out (RFC 9110, 15.5.2), and is made once more.
    fn send_with<'a>(
        &'a self,
        token: &'a TokenFile,
        head: Head,
        body: Bytes,
        once: bool,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        let with = move |header: &HeaderValue| {
            let mut head = head.clone();
            head.put(AUTHORIZATION, header.clone());
            head
        };
        Box::pin(async move {
            let header = token.header().await?;
            let answer = self.send(with(&header), body.clone(), once).await?;
            let status = answer.status();
            let is_replaced = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
                && token.has_another_than(&header).await;
            if !is_replaced || status == StatusCode::FORBIDDEN {
                return Ok(answer);
            }
            self.send(with(&token.header().await?), body, once).await
        })
    }

    /// Resolves when it has a credential that was not refused yet; never where none comes by itself.
    pub(super) fn renewed(&self) -> BoxFuture<'_, ()> {
        match &self.token {
            Some(token) => Box::pin(token.renewed()),
            None => Box::pin(pending()),
        }
    }

    /// Adds what to do about it to `error`, for which there is no connection.
    pub(super) fn advise(&self, error: Error) -> Error {
        match error {
            Error::Status { status: status @ 300..=399, .. } => self.place.redirected(status),
            error => advice::advise(error, &self.endpoint().url, &self.challenge),
        }
    }

    /// Where requests of new connections go.
    pub(super) fn endpoint(&self) -> Arc<At> {
        self.place.now()
    }

    /// Forgets where the endpoint turned out to be, as far as that was not for good.
    pub(super) fn forget(&self) {
        self.place.forget();
    }

    /// A remark for operators if the endpoint is not the configured one.
    pub(super) fn remark(&self) -> Option<String> {
        self.place.remark()
    }

    fn failed(&self, error: &hyper::Error) -> Error {
        let error = error::unanswered(error);
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

/// The path and the query of `url`, as they stand in a request.
pub(super) fn path(url: &Url) -> Result<Uri, Error> {
    // Nothing of it may be quoted.
    let cannot = |_| Error::Connect { reason: "the URL cannot be used".into() };
    url[Position::BeforePath..Position::AfterQuery].parse().map_err(cannot)
}

/// What every request to this server carries: what is configured wins over what is ours.
fn headers(http: &Http) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in &http.headers {
        let cannot = |_| Error::Connect { reason: format!("the value of header {name:?} cannot be sent") };
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(cannot)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    headers.entry(USER_AGENT).or_insert(OURSELVES);
    // The host, and the port where it is not the usual one.
    let host = &http.url[Position::BeforeHost..Position::AfterPort];
    let host = HeaderValue::from_str(host);
    headers
        .entry(HOST)
        .or_insert(host.map_err(|_| Error::Connect { reason: "the URL cannot be used".into() })?);
    if let Some(credentials) = credentials(&http.url).filter(|_| http.token.is_none()) {
        headers.entry(AUTHORIZATION).or_insert(credentials);
    }
    Ok(headers)
}

/// RFC 7617: user and password of a URL.
fn credentials(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
