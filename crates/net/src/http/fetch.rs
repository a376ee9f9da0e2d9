//! One request and its whole response, for callers that need neither a stream nor a retry.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Client;
use super::error::Error;
use super::read::{read_json, whole};
use super::request::RequestBuilder;

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
    use super::super::network::Network;
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
