//! The door: every request passes it, in one fixed order, before any route is looked at.
//!
//! ```text
//! Host, Origin ──▶ (preflight?) ──▶ declared size ──▶ credential ──▶ body, within size and time ──▶ route
//! ```
//!
//! What comes out behind it: the [`RequestId`] and the [`Principal`] as extensions, and a body that is
//! complete and small enough, so no route limits or waits for one again. Nothing of a body is
//! buffered for somebody who was not let in. A panic behind the door is an answer, not a dead
//! connection.
//!
//! Not here: time and connection limits (`listener`), what a principal may do ([`crate::auth`]).

use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Version, request};
use http_body_util::BodyExt;

use super::authority::{Authority, Hosts, Origin, Origins};
use super::listener::BodyTimedOut;
use super::refusal::{Face, Refusal};
use super::{Config, cors};
use crate::auth::{self, Authenticator, Principal};
use crate::telemetry::{RequestId, untrusted};

/// The only paths that need no credential, for GET and HEAD: somebody who watches over the process.
const PUBLIC: [&str; 3] = ["/health", "/health/live", "/health/ready"];
/// How long the rest of a refused body is read and thrown away, so that a client that is still
/// sending gets to see the answer instead of a reset connection.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// What the door knows.
#[derive(Debug)]
pub struct Guard {
    hosts: Hosts,
    origins: Origins,
    authenticator: Authenticator,
    max_body_bytes: usize,
}

impl Guard {
    /// Reads the key files that `config` names; blocks on them.
    pub fn new(config: &Config) -> Result<Self, auth::Error> {
        Ok(Self {
            hosts: config.hosts.clone(),
            origins: config.origins.clone(),
            authenticator: Authenticator::new(&config.auth)?,
            max_body_bytes: config.max_body_bytes,
        })
    }

    /// `router` behind this door. To be called last: routes added afterwards stand outside.
    pub fn protect(self, router: Router) -> Router {
        router.layer(DefaultBodyLimit::disable()).layer(from_fn_with_state(Arc::new(self), pass))
    }

    /// Whether the request means us and comes from nowhere or from a listed origin, which is
    /// returned as it was written.
    fn check_source(&self, parts: &request::Parts) -> Result<Option<HeaderValue>, Refusal> {
        let host = host_of(parts)?;
        if !self.hosts.allow(&host) {
            return Err(Refusal::Host);
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let Some(written) = origins.next() else { return Ok(None) };
        let origin = written.to_str().ok().and_then(Origin::parse).ok_or(Refusal::Origin)?;
        let allowed = origins.next().is_none() && self.origins.allow(&origin, &host);
        if allowed { Ok(Some(written.clone())) } else { Err(Refusal::Origin) }
    }

    /// Who asks, judged by the head alone; for what is public `None`, unless there is a good credential,
    /// which may show more.
    fn check_head(&self, parts: &request::Parts) -> Result<Option<Principal>, Refusal> {
        if declared_length(&parts.headers).is_some_and(|length| length > self.max_body_bytes as u64) {
            return Err(Refusal::TooLarge { limit: self.max_body_bytes });
        }
        if matches!(parts.method, Method::GET | Method::HEAD) && PUBLIC.contains(&parts.uri.path()) {
            return Ok(self.authenticator.authenticate(&parts.headers).ok());
        }
        self.authenticator.authenticate(&parts.headers).map(Some).map_err(Refusal::Denied)
    }

    /// The answer, and the listed origin it is for.
    async fn answer(&self, request: Request, next: Next) -> (Result<Response, Refusal>, Option<HeaderValue>) {
        let (parts, body) = request.into_parts();
        let origin = match self.check_source(&parts) {
            Ok(origin) => origin,
            Err(refusal) => {
                self.discard(&parts.headers, body).await;
                return (Err(refusal), None);
            }
        };
        if cors::is_preflight(&parts.method, &parts.headers) {
            return (Ok(cors::preflight(&parts.headers)), origin);
        }
        let answer = match self.admit(parts, body).await {
            Ok(request) => run(next, request).await,
            Err(refusal) => Err(refusal),
        };
        (answer, origin)
    }

    /// The request as the routes get it.
    async fn admit(&self, mut parts: request::Parts, mut body: Body) -> Result<Request, Refusal> {
        let read = match self.check_head(&parts) {
            Ok(principal) => {
                if let Some(principal) = principal {
                    parts.extensions.insert(principal);
                }
                read(&mut body, self.max_body_bytes).await
            }
            Err(refusal) => Err(refusal),
        };
        match read {
            Ok(bytes) => Ok(Request::from_parts(parts, Body::from(bytes))),
            Err(refusal) => {
                self.discard(&parts.headers, body).await;
                Err(refusal)
            }
        }
    }

    /// Reads and drops what is left of a refused body, within limits. A client that waits for our
    /// word before it sends (`Expect`) is not told to go on.
    async fn discard(&self, headers: &HeaderMap, mut body: Body) {
        if !headers.contains_key(EXPECT) {
            let rest = drop_rest(&mut body, self.max_body_bytes);
            // Whatever comes of it, the answer is decided.
            let _ = tokio::time::timeout(DISCARD_TIME, rest).await;
        }
    }
}

/// One request through the door and back.
async fn pass(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let id = RequestId::new();
    request.extensions_mut().insert(id);
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let (answer, origin) = guard.answer(request, next).await;
    let mut response = answer.unwrap_or_else(|refusal| {
        log(refusal, &method, uri.path(), id);
        refusal.response(Face::of(uri.path()), id)
    });
    if let Some(origin) = origin {
        cors::allow(response.headers_mut(), origin);
    }
    response.headers_mut().insert(RequestId::HEADER, id.header_value());
    response
}

/// The routes; a panic there ends this request and nothing else. The panic itself is logged by the
/// panic hook.
async fn run(next: Next, request: Request) -> Result<Response, Refusal> {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.map_err(|_| Refusal::Panicked)
}

fn log(refusal: Refusal, method: &Method, path: &str, id: RequestId) {
    let (method, path) = (untrusted(method.as_str()), untrusted(path));
    let reason: &dyn std::fmt::Display = match &refusal {
        Refusal::Denied(denied) => denied,
        refusal => refusal,
    };
    tracing::info!(request_id = %id, %method, %path, code = refusal.code(), %reason, "refused");
}

/// The host the request is for: `Host`, or the authority of an absolute target or of HTTP/2; where
/// both are there they agree.
fn host_of(parts: &request::Parts) -> Result<Authority, Refusal> {
    let mut headers = parts.headers.get_all(HOST).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return Err(Refusal::HostCount);
    }
    let read = |text: &str| Authority::parse(text).ok_or(Refusal::Host);
    let header = header.map(|value| value.to_str().map_err(|_| Refusal::Host).and_then(read)).transpose()?;
    let target = parts.uri.authority().map(|authority| read(authority.as_str())).transpose()?;
    match (header, target) {
        (Some(header), Some(target)) if header != target => Err(Refusal::Host),
        (Some(host), _) => Ok(host),
        (None, Some(host)) if parts.version >= Version::HTTP_2 => Ok(host),
        (None, _) => Err(Refusal::HostCount),
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The whole body. One that came in one piece is not copied.
async fn read(body: &mut Body, limit: usize) -> Result<Bytes, Refusal> {
    let mut whole = Bytes::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| if timed_out(&error) { Refusal::BodyTimedOut } else { Refusal::BodyCut })?;
        let Ok(data) = frame.into_data() else { continue }; // trailers, which nobody here reads
        if whole.len() + data.len() > limit {
            return Err(Refusal::TooLarge { limit });
        }
        whole = if whole.is_empty() { data } else { joined(whole, &data) };
    }
    Ok(whole)
}

fn joined(whole: Bytes, data: &[u8]) -> Bytes {
    let mut grown = whole.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    grown.extend_from_slice(data);
    grown.freeze()
}

async fn drop_rest(body: &mut Body, limit: usize) {
    let mut left = limit;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

fn timed_out(error: &axum::Error) -> bool {
    let mut source = StdError::source(error);
    while let Some(error) = source {
        if error.is::<BodyTimedOut>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
