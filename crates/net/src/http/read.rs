//! Reading the body of a response into memory: with a limit, charged to the memory budget while it arrives. Also one request
//! with its whole response, for callers that need neither a stream nor a retry.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Client;
use super::body::Body;
use super::error::Error;
use super::request::RequestBuilder;
use runtime::memory;
use runtime::memory::{Charge, ChargeKind, Payer, SMALL};
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
fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
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

/// Limits of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Bytes of the body.
    pub bytes: usize,
    /// Time from the request to the last byte of the response.
    pub time: Duration,
}

/// A response that was read to its end.
#[derive(Debug)]
pub struct WholeResponse {
    /// The status, which may be an error.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, charged to the memory budget as long as it lives.
    pub body: Bytes,
}

impl WholeResponse {
    /// Reads the body as JSON. The error does not quote it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        read_json(&self.body)
    }
}

impl Client {
    /// Sends `request` and reads the whole response within `limits`.
    ///
    /// ```
    /// # use switchyard_mcp_net::http::*;
    /// # async fn token(client: &Client, url: url::Url, limits: ResponseLimits) -> Result<serde_json::Value, Error> {
    /// let request = RequestBuilder::new(http::Method::POST, url).form(&[("grant_type", "client_credentials")]);
    /// let response = client.fetch(request, limits).await?;
    /// response.json()
    /// # }
    /// ```
    pub async fn fetch(
        &self,
        request: RequestBuilder,
        limits: ResponseLimits,
    ) -> Result<WholeResponse, Error> {
        let fetched = async {
            let (head, body) = self.request(request).await?.into_parts();
            let body = whole(body, limits.bytes, &self.origin).await?;
            Ok(WholeResponse { status: head.status, headers: head.headers, body })
        };
        timeout(limits.time, fetched).await.unwrap_or(Err(Error::TimedOut { after: limits.time }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use http::Method;
    use runtime::shutdown::Shutdown;
    use testkit::scripted::{Step, TestServer, full, json};

    use super::super::dial_policy::DialPolicy;
    use super::super::proxy::Network;
    use super::*;

    const LIMITS: ResponseLimits = ResponseLimits { bytes: 64, time: Duration::from_millis(500) };

    async fn fetched(steps: Vec<Step>) -> Result<WholeResponse, Error> {
        let server = TestServer::new(move |_| steps.clone()).await;
        let client =
            Client::new(&server.url, (DialPolicy::Anywhere, &Network::default()), 1, &Shutdown::new())
                .expect("a client");
        let request = RequestBuilder::new(Method::POST, server.url.clone()).json(&["a"]);
        client.fetch(request, LIMITS).await
    }

    #[tokio::test]
    async fn a_response_is_read_whatever_its_status() {
        let refused = fetched(vec![json(400, r#"{"error":"invalid_grant"}"#)]).await.expect("a response");
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert_eq!(refused.json::<serde_json::Value>().expect("JSON")["error"], "invalid_grant");
        let page = fetched(vec![full(200, "", "<html>secret")]).await.expect("a response");
        let error = page.json::<serde_json::Value>().expect_err("no JSON").to_string();
        assert!(error.contains("not the JSON") && !error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn a_response_ends_at_its_limits() {
        let long = fetched(vec![full(200, "", &"x".repeat(65))]).await.expect_err("too long");
        assert_eq!(long, Error::TooLarge { limit: 64 });
        let started = Instant::now();
        assert_eq!(
            fetched(vec![Step::Hang]).await.expect_err("no response"),
            Error::TimedOut { after: LIMITS.time }
        );
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
