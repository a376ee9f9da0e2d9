//! Opening connections to the origin of one server, directly or through a proxy.
//!
//! Invariants: HTTP/1.1 only, no delay of small packets. A connection is open, TLS and the tunnel of a proxy included,
//! within [`CONNECT_LIMIT`]. Through a proxy, TLS reaches to the service: its certificate is checked with its own name, and the
//! proxy sees neither requests nor responses. A failure before the tunnel is open is reported as one of the proxy, and
//! nothing was sent to the service. An address that may not be reached is not named to the proxy either.
//!
//! Not here: which proxy (`proxy`), trusted certificates (`tls`).
//!
//! Source: RFC 9110, section 9.3.6 (CONNECT).

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::PROXY_AUTHENTICATE;
use http::uri::Authority;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt};
use url::{Position, Url};

use super::connection::{Counted, Io, Link, Tcp, Wire};
use super::dial_policy::{DialPolicy, Resolver, out_of_reach};
use super::error::{Error, reason};
use super::metered::{Meter, Metered};
use super::proxy::{Network, Proxy};
use super::request_body::RequestBody;
use super::tls;
use super::tls::Tls;

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

/// Opens the part of a socket below TLS.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) tcp: HttpConnector<Resolver>,
    pub(super) proxy: Option<Arc<Proxy>>,
    /// The addresses that the service may have.
    pub(super) dial_policy: DialPolicy,
    /// Whether a proxy has to open a tunnel, because the service speaks TLS.
    pub(super) is_tls: bool,
}

impl Service<Uri> for Opener {
    type Response = Tcp;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Tcp, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let opener = self.clone();
        async move {
            let Some(proxy) = &opener.proxy else { return opener.connect(target).await };
            let authority = if opener.is_tls { Some(opener.target(&target).await?) } else { None };
            let socket = opener.connect(proxy.origin().clone()).await.map_err(|error| {
                tunnel_error(format!("the proxy {proxy} cannot be reached: {}", reason(error.as_ref())))
            })?;
            match authority {
                Some(authority) => tunnel(socket, proxy, &authority).await,
                None => Ok(socket),
            }
        }
        .boxed()
    }
}

impl Opener {
    async fn connect(&self, to: Uri) -> Result<Tcp, BoxError> {
        let socket = self.tcp.clone().oneshot(to).await?;
        Ok(TokioIo::new(Metered::new(socket.into_inner())))
    }

    /// Returns the service as it is named to the proxy: by its name, or by a checked address if not all are allowed.
    async fn target(&self, target: &Uri) -> Result<Authority, BoxError> {
        let host = target.host().unwrap_or_default();
        let port = target.port_u16().unwrap_or(443);
        let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
        if self.dial_policy == DialPolicy::Anywhere || is_address {
            return Ok(format!("{host}:{port}").parse()?);
        }
        let unchecked = || {
            tunnel_error(format!(
                "the address of {host} cannot be checked here, because only the proxy knows it; list the host in \
                 `allowed_hosts` if you trust it"
            ))
        };
        let name: Name = host.parse().map_err(|_| unchecked())?;
        let found = Resolver::new(self.dial_policy).oneshot(name).await;
        let mut found = found.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => error.into(),
            _ => unchecked(),
        })?;
        let mut address = found.next().ok_or_else(unchecked)?;
        address.set_port(port);
        Ok(address.to_string().parse()?)
    }
}

/// Opens a tunnel to `target` through `proxy`, which is connected.
async fn tunnel(socket: Tcp, proxy: &Proxy, target: &Authority) -> Result<Tcp, BoxError> {
    let lost = |error: hyper::Error| {
        tunnel_error(format!("the proxy {proxy} did not open a tunnel to {target}: {}", reason(&error)))
    };
    let (mut sender, connection) = http1::handshake::<_, Empty<Bytes>>(socket).await.map_err(lost)?;
    let exchange = async {
        let response = sender.send_request(proxy.connect(target)?).await.map_err(lost)?;
        if !response.status().is_success() {
            return Err(tunnel_error(refusal(proxy, target.as_str(), response.status(), response.headers())));
        }
        hyper::upgrade::on(response).await.map_err(lost)
    };
    // The connection is polled here and not in a task of its own, so dropping this closes the socket.
    let mut connection = std::pin::pin!(connection.with_upgrades());
    let mut exchange = std::pin::pin!(exchange);
    let upgraded = tokio::select! {
        biased;
        upgraded = &mut exchange => upgraded?,
        _ = &mut connection => exchange.await?,
    };
    let parts = upgraded.downcast::<Tcp>().map_err(|_| tunnel_error("the tunnel is not a socket".into()))?;
    if !parts.read_buf.is_empty() {
        return Err(tunnel_error(format!("the proxy {proxy} sent bytes before the tunnel was used")));
    }
    Ok(parts.io)
}

/// Says why `proxy` refuses requests to `target`, and what to do.
pub(super) fn refusal(proxy: &Proxy, target: &str, status: StatusCode, headers: &HeaderMap) -> String {
    let number = status.as_u16();
    match status {
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            let schemes = headers.get_all(PROXY_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
            let schemes: Vec<_> = schemes
                .filter_map(|value| value.split([' ', ',']).next())
                .filter(|scheme| {
                    scheme.len() <= 16 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
                })
                .take(4)
                .collect();
            let is_basic =
                schemes.is_empty() || schemes.iter().any(|name| name.eq_ignore_ascii_case("basic"));
            let remedy = if !is_basic {
                format!(
                    "it accepts only {}, and Switchyard sends `Basic`; use a local proxy that logs in to it",
                    schemes.join(", ")
                )
            } else if proxy.has_credentials() {
                "check its `username` and `password`".to_owned()
            } else {
                "set its `username` and `password: ${secret:NAME}` below `proxy:`".to_owned()
            };
            let has = if proxy.has_credentials() { "refuses its credentials" } else { "needs credentials" };
            format!("the proxy {proxy} {has} (HTTP {number}): {remedy}")
        }
        StatusCode::FORBIDDEN => format!(
            "the proxy {proxy} does not allow {target} (HTTP {number}); have it allowed there, or list the host in \
             `no_proxy` if it can be reached directly"
        ),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            format!("the proxy {proxy} cannot reach {target} (HTTP {number}); check the host and the port")
        }
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED | StatusCode::NOT_FOUND => format!(
            "the proxy {proxy} opens no tunnels (HTTP {number}); check that its URL is that of an HTTP proxy"
        ),
        _ => format!("the proxy {proxy} refused a tunnel to {target} (HTTP {number})"),
    }
}

fn tunnel_error(text: String) -> BoxError {
    Box::<dyn StdError + Send + Sync>::from(text)
}
