//! Opening connections to the origin of one server.
//!
//! Invariants: HTTP/1.1 only, no delay of small packets. A connection is open, TLS and the tunnel of a proxy included,
//! within [`CONNECT_LIMIT`].
//!
//! Not here: proxies (`tunnel`), trusted certificates (`tls`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::HeaderMap;
use http::{Request, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{BoxError, ServiceExt};
use url::{Position, Url};

use super::connection::{Counted, Io, Link, Wire};
use super::dial_policy::{DialPolicy, Resolver, out_of_reach};
use super::error::Error;
use super::metered::{Meter, Metered};
use super::network::Network;
use super::proxy::Proxy;
use super::request_body::RequestBody;
use super::tls::{self, Tls};
use super::tunnel::{Opener, refusal};

/// How long a connection may take to open, TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Bytes that one read returns at most. A server that sends faster than its response is read fills this buffer for each
/// connection. The default of hyper is 408 KiB.
const READ_BUFFER: usize = 128 * 1024;

/// Opens connections to one origin.
pub(super) struct Dialer {
    origin: Uri,
    opener: Opener,
    tls: Trust,
    /// Connections that are open.
    count: Arc<AtomicUsize>,
}

/// The settings of TLS of an origin.
enum Trust {
    /// It does not speak TLS.
    None,
    /// The authorities of the system.
    System(Arc<ClientConfig>),
    /// Files of its own.
    Own(Arc<Tls>),
}

impl Dialer {
    pub(super) fn new(url: &Url, dial_policy: DialPolicy, network: &Network) -> Result<Self, Error> {
        let is_tls = url.scheme() == "https";
        // Without user and password, which are before the host.
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let origin = format!("{}://{authority}", url.scheme()).parse().map_err(|_| Error::unusable_url())?;
        if !dial_policy.has_host(url) {
            return Err(Error::connect(&out_of_reach()));
        }
        let proxy = network.proxy(url).cloned();
        if proxy.is_some() && !is_tls && dial_policy != DialPolicy::Anywhere {
            // The proxy would choose the address.
            return Err(Error::connect(&out_of_reach()));
        }
        // The operator named the proxy, so it may have any address.
        let dialed = if proxy.is_some() { DialPolicy::Anywhere } else { dial_policy };
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(dialed));
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        tcp.enforce_http(false);
        let tls = match network.tls() {
            _ if !is_tls => Trust::None,
            Some(own) => Trust::Own(Arc::clone(own)),
            None => Trust::System(tls::shared()?),
        };
        let opener = Opener { tcp, proxy, dial_policy, is_tls };
        Ok(Self { origin, opener, tls, count: Arc::default() })
    }

    /// Returns the proxy that requests are sent to as they are, because the origin has no TLS.
    fn forwarder(&self) -> Option<&Arc<Proxy>> {
        self.opener.proxy.as_ref().filter(|_| !self.opener.is_tls)
    }

    /// Makes `request` one for the proxy, if it goes to one.
    pub(super) fn direct<B>(&self, request: &mut Request<B>) {
        if let Some(proxy) = self.forwarder() {
            proxy.direct(request, &self.origin);
        }
    }

    /// Returns the error for a status with which the proxy says that it did not pass the request on.
    pub(super) fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Option<Error> {
        let proxy = self.forwarder().filter(|_| status == StatusCode::PROXY_AUTHENTICATION_REQUIRED)?;
        Some(Error::Connect { reason: refusal(proxy, "it", status, headers) })
    }

    /// Returns the number of open connections.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) async fn open(&self) -> Result<Box<Link>, Error> {
        let opened = tokio::time::timeout(CONNECT_LIMIT, self.dial()).await;
        let in_time = opened.map_err(|_| self.too_slow())?;
        let (meter, (sender, connection)) = in_time.map_err(|error| Error::connect(error.as_ref()))?;
        Ok(Link::new(sender, connection, meter, Counted::among(&self.count)))
    }

    fn too_slow(&self) -> Error {
        let limit = CONNECT_LIMIT.as_secs();
        let reason = match &self.opener.proxy {
            Some(proxy) => format!("the proxy {proxy} gave no connection within {limit} s, it took too long"),
            None => "it took too long".into(),
        };
        Error::Connect { reason }
    }

    async fn dial(&self) -> Result<(Meter, (http1::SendRequest<RequestBody>, Wire)), BoxError> {
        let config = match &self.tls {
            Trust::None => None,
            Trust::System(config) => Some(Arc::clone(config)),
            Trust::Own(tls) => Some(tls.config().await?),
        };
        let (opener, origin) = (self.opener.clone(), self.origin.clone());
        let io = match config {
            Some(config) => HttpsConnector::from((opener, config)).oneshot(origin).await?,
            None => MaybeHttpsStream::Http(opener.oneshot(origin).await?),
        };
        Ok((meter(&io).clone(), builder().handshake(io).await?))
    }
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUFFER);
    // RFC 9112, 5.2: a folded line of a response is joined with spaces.
    builder.allow_obsolete_multiline_headers_in_responses(true);
    builder
}

/// Returns the meter of a socket. Over TLS it counts encrypted bytes.
fn meter(io: &Io) -> &Meter {
    match io {
        MaybeHttpsStream::Http(tcp) => tcp.inner().meter(),
        MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner().inner().meter(),
    }
}

impl Connection for Metered<TcpStream> {
    fn connected(&self) -> Connected {
        self.get_ref().connected()
    }
}
