//! Fetches the documents that clients name: their metadata and their keys. They are cached for a limited time.
//!
//! A client chooses these URLs, so they could lead to a service that only this network can reach. Invariants: only
//! addresses of the public internet are contacted, unless the operator trusts the host. No redirect is followed. A
//! response has a limit of bytes and of time, and few fetches run at once. Callers fetch only for a person who is
//! signed in, or for the holder of a valid code or refresh token: a stranger cannot make this server send requests. A cache
//! has a limit, and the value that was not used for longest makes room.
//!
//! Source: draft-ietf-oauth-client-id-metadata-document-02, sections 5, 8.6 and 8.7.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use lru::LruCache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use url::Url;

use json::Raw;
use net::http::{CDN_LOOP, CDN_TOKEN, Client, DialPolicy, Network, RequestBuilder, whole};
use runtime::shutdown::Shutdown;

/// Limit of the bytes of a document.
const MAX_BYTES: usize = 5 << 10;
/// Limit of the time of a fetch, with the wait for other fetches.
const TIME: Duration = Duration::from_secs(5);
/// Limit of the fetches that run at once.
const MAX_RUNNING: usize = 16;
/// Limit of those for one owner, which run or wait.
const MAX_OF_ONE: usize = 2;

/// Why there is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// There is none at its URL, or not one that may be read.
    Refused(&'static str),
    /// The host cannot answer now.
    Unreachable,
}

/// Fetches documents.
pub(crate) struct Fetcher {
    network: Network,
    trusted_hosts: Vec<String>,
    shutdown: Shutdown,
    slots: Arc<Semaphore>,
    /// How many fetches run or wait for each owner.
    owners: Mutex<HashMap<String, usize>>,
}

/// Counts one fetch for its owner until it is dropped.
struct OwnerSlot<'a> {
    owners: &'a Mutex<HashMap<String, usize>>,
    owner: &'a str,
}

impl Drop for OwnerSlot<'_> {
    fn drop(&mut self) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = owners.get(self.owner).map_or(0, |count| count - 1);
        if rest == 0 {
            owners.remove(self.owner);
        } else {
            owners.insert(self.owner.to_owned(), rest);
        }
    }
}

impl Fetcher {
    pub(crate) fn new(network: &Network, trusted_hosts: &[String], shutdown: &Shutdown) -> Self {
        Self {
            network: network.to_others(),
            trusted_hosts: trusted_hosts.to_vec(),
            shutdown: shutdown.clone(),
            slots: Arc::new(Semaphore::new(MAX_RUNNING)),
            owners: Mutex::default(),
        }
    }

    /// Whether the operator trusts `host`, which has a port that is not 443, so that it may have any address.
    pub(crate) fn trusts(&self, host: &str) -> bool {
        self.trusted_hosts.iter().any(|trusted| trusted.eq_ignore_ascii_case(host))
    }

    /// Returns the JSON at `url`, and how it may be cached. The fetch counts for `owner`, so that nobody takes all slots. The
    /// host may have any address if the operator trusts both the host and the client that names it (`is_vouched`).
    pub(crate) async fn fetch(
        &self,
        url: &Url,
        owner: &str,
        is_vouched: bool,
    ) -> Result<(Raw, HeaderMap), FetchError> {
        let _own_slot = self.owner_slot(owner).ok_or(FetchError::Unreachable)?;
        let is_trusted = is_vouched && host_and_port(url).is_some_and(|host| self.trusts(&host));
        let dial_policy = if is_trusted { DialPolicy::Anywhere } else { DialPolicy::Public };
        let fetched = timeout(TIME, async {
            let _slot = self.slots.acquire().await.map_err(|_| FetchError::Unreachable)?;
            self.fetch_within(url, dial_policy).await
        });
        fetched.await.unwrap_or(Err(FetchError::Unreachable))
    }

    fn owner_slot<'a>(&'a self, owner: &'a str) -> Option<OwnerSlot<'a>> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let count = owners.get(owner).copied().unwrap_or_default();
        if count >= MAX_OF_ONE {
            return None;
        }
        owners.insert(owner.to_owned(), count + 1);
        Some(OwnerSlot { owners: &self.owners, owner })
    }

    async fn fetch_within(&self, url: &Url, dial_policy: DialPolicy) -> Result<(Raw, HeaderMap), FetchError> {
        let failed = |error: net::http::Error| match error {
            net::http::Error::TooLarge { .. } => FetchError::Refused("the document is larger than 5 KiB"),
            error => {
                tracing::info!(host = url.host_str(), %error, "a document of an OAuth client could not be fetched");
                FetchError::Unreachable
            }
        };
        let client = Client::new(url, (dial_policy, &self.network), 0, &self.shutdown);
        let client = client.map_err(|_| FetchError::Refused("its host has no public address"))?;
        // A gateway that is reached by mistake recognizes the request by this header.
        let request = RequestBuilder::new(Method::GET, url.clone()).header(&CDN_LOOP, &CDN_TOKEN.into());
        // `send` follows no redirect.
        let response = client.send(request.build().map_err(failed)?, false).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        if head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(FetchError::Unreachable);
        }
        if head.status != StatusCode::OK {
            return Err(FetchError::Refused("its URL does not answer with status 200"));
        }
        if !has_json(&head.headers) {
            return Err(FetchError::Refused("the document is not of the type application/json"));
        }
        let body = whole(body, MAX_BYTES, client.origin()).await.map_err(failed)?;
        let json = Raw::parse(&body).map_err(|_| FetchError::Refused("the document is not JSON"))?;
        Ok((json.detached(), head.headers))
    }
}

/// Whether the content type is JSON, or a type with its syntax.
fn has_json(headers: &HeaderMap) -> bool {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

/// Values by their URLs, each with the time until which it counts.
pub(crate) struct Cache<T>(Mutex<LruCache<String, (Arc<T>, Instant)>>);

impl<T> Cache<T> {
    /// An empty cache of at most `most` values.
    pub(crate) fn new(most: NonZeroUsize) -> Self {
        Self(Mutex::new(LruCache::new(most)))
    }

    /// Returns the value of `url`, unless its time is over.
    pub(crate) fn get(&self, url: &str) -> Option<Arc<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, until) = all.get(url)?;
        (*until > Instant::now()).then(|| Arc::clone(value))
    }

    /// Caches `value` for `lifetime`.
    pub(crate) fn put(&self, url: &str, value: &Arc<T>, lifetime: Duration) {
        let cached = (Arc::clone(value), Instant::now() + lifetime);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(url.to_owned(), cached);
    }
}

/// Returns the host of `url`, with its port unless that is the usual one of its scheme: another port can be another service.
pub(crate) fn host_and_port(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use testkit::scripted::{Step, TestServer, full};

    use super::*;

    async fn fetched(steps: Vec<Step>) -> (Result<(Raw, HeaderMap), FetchError>, usize) {
        let server = TestServer::new(move |_| steps.clone()).await;
        let host = host_and_port(&server.url).expect("a host");
        let fetcher = Fetcher::new(&Network::default(), &[host], &Shutdown::new());
        let document = fetcher.fetch(&server.url, "ann", true).await;
        (document, server.seen().len())
    }

    #[tokio::test]
    async fn document_of_a_public_type_and_size_is_fetched() {
        for kind in ["application/json", "application/JSON; charset=utf-8", "application/cimd+json"] {
            let headers = format!("content-type: {kind}\r\n");
            let (document, _) = fetched(vec![full(200, &headers, r#"{"a":1}"#)]).await;
            assert_eq!(document.expect("a document").0.as_str(), r#"{"a":1}"#, "{kind}");
        }
    }

    #[tokio::test]
    async fn answer_that_is_no_document_is_refused() {
        let json = "content-type: application/json\r\n";
        let large = format!(r#""{}""#, "x".repeat(MAX_BYTES));
        for (status, headers, body) in [
            (200, "", "{}"),
            (200, "content-type: text/html\r\n", "{}"),
            (200, "content-type: text/json\r\n", "{}"),
            (200, json, "{"),
            (200, json, "<html>"),
            (200, json, &*large),
            (201, json, "{}"),
            (404, json, "{}"),
        ] {
            let (document, _) = fetched(vec![full(status, headers, body)]).await;
            let refused = document.expect_err(body);
            assert!(matches!(refused, FetchError::Refused(_)), "{status} {headers} {refused:?}");
        }
        let (document, _) = fetched(vec![full(502, json, "{}")]).await;
        assert_eq!(document.expect_err("502"), FetchError::Unreachable);
    }

    #[tokio::test]
    async fn redirect_is_not_followed_within_the_origin_either() {
        for status in [301, 302, 303, 307, 308] {
            let (document, requests) = fetched(vec![full(status, "location: /other\r\n", "{}")]).await;
            assert!(matches!(document, Err(FetchError::Refused(_))), "{status}");
            assert_eq!(requests, 1, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn host_that_is_silent_ends_a_fetch_after_five_seconds() {
        let (document, _) = fetched(vec![Step::Hang]).await;
        assert_eq!(document.expect_err("silence"), FetchError::Unreachable);
    }

    #[tokio::test(start_paused = true)]
    async fn owner_with_slow_hosts_leaves_slots_for_others() {
        let server = TestServer::new(|_| vec![Step::Hang]).await;
        let host = host_and_port(&server.url).expect("a host");
        let fetcher = Fetcher::new(&Network::default(), &[host], &Shutdown::new());
        let started = tokio::time::Instant::now();
        let of_ann = (0..MAX_RUNNING).map(|_| async {
            assert!(fetcher.fetch(&server.url, "ann", true).await.is_err());
            started.elapsed() < TIME
        });
        let refused =
            futures_util::future::join_all(of_ann).await.into_iter().filter(|at_once| *at_once).count();
        assert_eq!(refused, MAX_RUNNING - MAX_OF_ONE);
        assert!(fetcher.owners.lock().expect("owners").is_empty());
    }

    #[tokio::test]
    async fn private_address_of_a_stranger_is_not_contacted() {
        let server = TestServer::new(|_| vec![full(200, "content-type: application/json\r\n", "{}")]).await;
        let port = server.url.port().expect("a port");
        let fetcher = Fetcher::new(&Network::default(), &[], &Shutdown::new());
        let hosts = [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1",
            "0.0.0.0",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "localhost",
            "localhost.",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "[fe80::1]",
            "[fd00::1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[2001:db8::1]",
            "[::]",
        ];
        for host in hosts {
            let url = Url::parse(&format!("http://{host}:{port}/c")).expect("a URL");
            assert!(fetcher.fetch(&url, "ann", true).await.is_err(), "{host}");
        }
        let host = host_and_port(&server.url).expect("a host");
        let fetcher = Fetcher::new(&Network::default(), &[host], &Shutdown::new());
        assert!(fetcher.fetch(&server.url, "ann", false).await.is_err(), "a stranger names a trusted host");
        // Another port of a trusted host can be another service.
        for trusted in ["127.0.0.1".to_owned(), format!("127.0.0.1:{}", port ^ 1)] {
            let fetcher = Fetcher::new(&Network::default(), &[trusted], &Shutdown::new());
            assert!(fetcher.fetch(&server.url, "ann", true).await.is_err());
        }
        assert_eq!(server.seen().len(), 0);
    }
}
