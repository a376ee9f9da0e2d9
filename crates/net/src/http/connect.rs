//! Opening connections to the origin of one server.
//!
//! Invariants: HTTP/1.1 only, no proxy, no delay of small packets. A connection is open, TLS included, within
//! [`CONNECT_LIMIT`]. The certificate of a server is checked with those that the system trusts, which are read only if
//! there is a server with TLS.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Uri;
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tower::util::MapResponse;
use tower::{BoxError, ServiceExt};
use url::{Position, Url};

use super::connection::{Counted, Io, Link, Tcp, Wire};
use super::dial_policy::{DialPolicy, Resolver, out_of_reach};
use super::error::Error;
use super::metered::{Meter, Metered};
use super::request_body::RequestBody;

/// How long a connection may take to open, TLS included.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Bytes that one read returns at most. A server that sends faster than its response is read fills this buffer for each
/// connection. The default of hyper is 408 KiB.
const READ_BUFFER: usize = 128 * 1024;

/// Opens the part of a socket below TLS.
type Opener = MapResponse<HttpConnector<Resolver>, fn(TokioIo<TcpStream>) -> Tcp>;

/// Opens connections to one origin.
pub(super) struct Dialer {
    origin: Uri,
    tcp: Opener,
    /// Around `tcp`, for an origin with TLS.
    tls: Option<HttpsConnector<Opener>>,
    /// Connections that are open.
    count: Arc<AtomicUsize>,
}

impl Dialer {
    pub(super) fn new(url: &Url, dial_policy: DialPolicy) -> Result<Self, Error> {
        let is_tls = url.scheme() == "https";
        // Without user and password, which are before the host.
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let origin = format!("{}://{authority}", url.scheme()).parse().map_err(|_| Error::unusable_url())?;
        if !dial_policy.has_host(url) {
            return Err(Error::connect(&out_of_reach()));
        }
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(dial_policy));
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        tcp.enforce_http(false);
        let tcp = tcp.map_response(metered as fn(_) -> _);
        let tls = if is_tls { Some(HttpsConnector::from((tcp.clone(), certified()?))) } else { None };
        Ok(Self { origin, tcp, tls, count: Arc::default() })
    }

    /// Returns the number of open connections.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) async fn open(&self) -> Result<Box<Link>, Error> {
        let opened = tokio::time::timeout(CONNECT_LIMIT, self.dial()).await;
        let in_time = opened.map_err(|_| Error::Connect { reason: "it took too long".into() })?;
        let (meter, (sender, connection)) = in_time.map_err(|error| Error::connect(error.as_ref()))?;
        Ok(Link::new(sender, connection, meter, Counted::among(&self.count)))
    }

    async fn dial(&self) -> Result<(Meter, (http1::SendRequest<RequestBody>, Wire)), BoxError> {
        let io = match &self.tls {
            Some(tls) => tls.clone().oneshot(self.origin.clone()).await?,
            None => MaybeHttpsStream::Http(self.tcp.clone().oneshot(self.origin.clone()).await?),
        };
        Ok((meter(&io).clone(), builder().handshake(io).await?))
    }
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUFFER);
    builder
}

/// Returns the meter of a socket. Over TLS it counts encrypted bytes.
fn meter(io: &Io) -> &Meter {
    match io {
        MaybeHttpsStream::Http(tcp) => tcp.inner().meter(),
        MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner().inner().meter(),
    }
}

fn metered(socket: TokioIo<TcpStream>) -> Tcp {
    TokioIo::new(Metered::new(socket.into_inner()))
}

impl Connection for Metered<TcpStream> {
    fn connected(&self) -> Connected {
        self.get_ref().connected()
    }
}

/// Returns the settings of TLS: servers are checked with the certificates that the system trusts. Reading those
/// takes long, so all clients share them.
fn certified() -> Result<Arc<ClientConfig>, Error> {
    static SHARED: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = SHARED.get() {
        return Ok(Arc::clone(config));
    }
    let cannot = |error: rustls::Error| Error::connect(&error);
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(cannot)?;
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(SHARED.get_or_init(|| Arc::new(config))))
}
