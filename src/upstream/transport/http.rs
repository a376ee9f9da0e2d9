//! The HTTP client for one server: how requests are sent, and what a failure to send them means.
//!
//! Invariants: a request carries what its transport puts there and the headers configured for this
//! server, and nothing else; redirects are not followed and no proxy comes from the environment, so
//! credentials go where they were meant for; nothing is sent twice. Reasons of failures name neither
//! the URL nor a header, because both may hold secrets.
//!
//! Not here: what is sent, and reading answers (`events`, `streamable_http::answer`).

use std::error::Error as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::{Client as Agent, Response, redirect, retry};
use secrecy::ExposeSecret;
use tokio::time::Instant;
use url::Url;

use crate::upstream::config::Http;
use crate::upstream::error::Error;

/// Both kinds of answer to a POST.
pub(super) const JSON_OR_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
/// The only answer to a GET.
pub(super) const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OURSELVES: &str = concat!("switchyard/", env!("CARGO_PKG_VERSION"));

/// How long a connection may take to open, TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Idle connections are closed before the server does: common MCP runtimes close after 5 s.
const IDLE_LIMIT: Duration = Duration::from_secs(4);
/// After an idle connection turned out to be dead, calls that must not run twice avoid idle ones
/// for this long.
const WARY: Duration = Duration::from_secs(30);

/// Sends requests to one server.
pub(super) struct Client {
    /// Keeps connections.
    pooled: Agent,
    /// Opens a connection for each request. Made when it is first needed, which is rarely.
    fresh: OnceLock<Agent>,
    /// When a request last died on its connection before any answer.
    last_reset: Mutex<Option<Instant>>,
    /// Where the server is.
    pub(super) url: Url,
    /// What is configured for it.
    headers: HeaderMap,
    /// Bytes of one message.
    pub(super) limit: usize,
}

impl Client {
    pub(super) fn new(http: &Http, limit: usize) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in &http.headers {
            let cannot =
                |_| Error::Connect { reason: format!("the value of header {name:?} cannot be sent") };
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(cannot)?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        let url = http.url.clone();
        let pooled = agent(&url, usize::MAX)?;
        Ok(Self { pooled, fresh: OnceLock::new(), last_reset: Mutex::new(None), url, headers, limit })
    }

    /// Sends `body`; `headers` are those of the protocol. `once` says that it must not run twice.
    pub(super) async fn post(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
        once: bool,
    ) -> Result<Response, Error> {
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        let agent = if once && self.is_wary() { self.fresh() } else { &self.pooled };
        self.send(agent.request(Method::POST, url.clone()).body(body), headers).await
    }

    /// Opens an event stream.
    pub(super) async fn get(&self, url: &Url, mut headers: HeaderMap) -> Result<Response, Error> {
        headers.insert(ACCEPT, EVENTS);
        self.send(self.pooled.request(Method::GET, url.clone()), headers).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, url: &Url, headers: HeaderMap) -> Result<Response, Error> {
        self.send(self.pooled.request(Method::DELETE, url.clone()), headers).await
    }

    async fn send(&self, request: reqwest::RequestBuilder, headers: HeaderMap) -> Result<Response, Error> {
        let mut all = self.headers.clone();
        // What the protocol says wins over what is configured under the same name.
        for name in headers.keys() {
            all.remove(name);
        }
        all.extend(headers);
        request.headers(all).send().await.map_err(|error| {
            let error = classify(&error);
            if let Error::Lost { .. } = error {
                *self.last_reset.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            }
            error
        })
    }

    fn fresh(&self) -> &Agent {
        // What could be made once can be made again; if not, the other one still serves.
        self.fresh.get_or_init(|| agent(&self.url, 0).unwrap_or_else(|_| self.pooled.clone()))
    }

    fn is_wary(&self) -> bool {
        let last = *self.last_reset.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < WARY)
    }
}

/// An HTTP client for the origin of `url` that keeps at most `idle` idle connections.
fn agent(url: &Url, idle: usize) -> Result<Agent, Error> {
    let mut builder = Agent::builder();
    if url.scheme() == "http" {
        // No request leaves the origin, so the certificates of the system need not be read.
        builder = builder.tls_certs_only([]);
    }
    builder
        .user_agent(OURSELVES)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .retry(retry::never())
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_LIMIT)
        .pool_idle_timeout(IDLE_LIMIT)
        .pool_max_idle_per_host(idle)
        .build()
        .map_err(|error| Error::Connect { reason: reason(&error) })
}

/// What is known of a request that got no answer.
fn classify(error: &reqwest::Error) -> Error {
    let reason = reason(error);
    if error.is_connect() || error.is_builder() {
        Error::Connect { reason }
    } else if never_started(error) {
        Error::NotSent { reason }
    } else {
        Error::Lost { reason }
    }
}

/// Whether the connection closed before it took the request.
fn never_started(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_canceled))
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source())
}

/// Why, in words: the causes from the outside in, without what only names a layer.
pub(super) fn reason(error: &reqwest::Error) -> String {
    let mut reason = String::new();
    for cause in causes(error).map(ToString::to_string) {
        if cause.starts_with("client error (") || reason.contains(&cause) {
            continue;
        }
        if !reason.is_empty() {
            reason.push_str(": ");
        }
        reason.push_str(&cause);
    }
    match (reason.is_empty(), error.is_timeout()) {
        (false, _) => reason,
        (true, true) => "it took too long".into(),
        (true, false) => "the connection failed".into(),
    }
}

/// The error for an answer that is nothing but its status.
pub(super) fn status_error(status: StatusCode, headers: &HeaderMap) -> Error {
    Error::Status { status: status.as_u16(), retry_after: retry_after(headers) }
}

/// RFC 9110, 10.2.3: seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // A date that has passed means now.
    Some(date.duration_since(std::time::SystemTime::now()).unwrap_or_default())
}

/// Whether `headers` announce the media type `wanted`; parameters and case do not matter.
pub(super) fn is_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let after = |value| retry_after(&headers(RETRY_AFTER, value));
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        assert!(after("Fri, 31 Dec 2100 23:59:59 GMT").is_some_and(|pause| pause > Duration::from_hours(1)));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        let is = |value| is_media_type(&headers(CONTENT_TYPE, value), "text/event-stream");
        assert!(
            is("text/event-stream") && is("Text/Event-Stream; charset=utf-8") && is(" text/event-stream ;x")
        );
        assert!(!is("application/json") && !is("text/event-streams") && !is(""));
    }
}
