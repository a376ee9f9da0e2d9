//! Redirects within one origin, which are followed once.
//!
//! Invariants: only 307 and 308 are followed, and only to the same scheme, host and port, so credentials go where they
//! were meant for. Both say that the request did not run, so it may be repeated whatever it does. A body that is made while
//! it is sent cannot be repeated.
//!
//! Source: RFC 9110, sections 15.4.8 and 15.4.9.

use http::header::LOCATION;
use http::{HeaderMap, Request, StatusCode};
use url::Url;

use super::error::Error;
use super::headers::path;
use super::request::RequestBuilder;
use super::{Client, Response};

/// Longest `Location` that is read, in bytes.
const MAX_LOCATION: usize = 2_048;

impl Client {
    /// Sends the request of `builder`, and once more where a redirect leads within its origin. It runs at most once, unless
    /// its method may be repeated (RFC 9110, 9.2.2).
    pub async fn request(&self, builder: RequestBuilder) -> Result<Response, Error> {
        let url = builder.url().clone();
        let request = builder.build()?;
        let once = !request.method().is_idempotent();
        let repeat = request.body().repeat().map(|body| {
            let mut repeat = Request::new(body);
            *repeat.method_mut() = request.method().clone();
            *repeat.headers_mut() = request.headers().clone();
            repeat
        });
        let response = self.send(request, once).await?;
        let Some(mut repeat) = repeat else { return Ok(response) };
        let Some(target) = same_origin_target(&url, response.status(), response.headers()) else {
            return Ok(response);
        };
        *repeat.uri_mut() = path(&target)?;
        self.send(repeat, once).await
    }
}

/// Returns where a response to a request for `url` redirects it to, if that may be followed.
pub fn same_origin_target(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let location = headers.get(LOCATION)?.to_str().ok().filter(|text| text.len() <= MAX_LOCATION)?;
    let target = url.join(location).ok()?;
    let is_same = target.origin() == url.origin() && target != *url;
    // User and password of a target would be other credentials.
    let is_bare = target.username().is_empty() && target.password().is_none()
        || (target.username(), target.password()) == (url.username(), url.password());
    (is_same && is_bare).then_some(target)
}
