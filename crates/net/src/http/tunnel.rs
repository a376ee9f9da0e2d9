//! Sockets to one origin, directly or through a proxy.
//!
//! Invariants: through a proxy, TLS reaches to the service: its certificate is checked with its own name, and the proxy
//! sees neither requests nor responses. A failure before the tunnel is open is reported as one of the proxy, and
//! nothing was sent to the service. An address that may not be reached is not named to the proxy either.
//!
//! Source: RFC 9110, section 9.3.6 (CONNECT).

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::PROXY_AUTHENTICATE;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tower::{BoxError, Service, ServiceExt};

use super::connection::Tcp;
use super::dial_policy::{DialPolicy, Resolver};
use super::error::reason;
use super::metered::Metered;
use super::proxy::Proxy;

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
