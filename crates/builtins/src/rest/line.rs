//! The connections of the pool: how they are opened, and a socket that is never taken for alive
//! when its end has arrived.
//!
//! Invariant: whoever polls a connection before writing a request to it learns of everything that had
//! arrived on its socket by then, the end included. A runtime tells of that only when it next looks at
//! its sockets, which may be after the request was written; then nobody could say whether it ran.
//! hyper reads an idle connection before it takes the next request, and hands back one that it
//! did not take, which the pool puts to another connection.
//!
//! Not here: TLS and what is trusted (`transport/http/connect`).

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::{BoxError, Service};
use url::Url;

use super::CONNECT_LIMIT;
use upstream::api::{Error, certified, reason};

/// A connection, with TLS where the service wants it.
type Io = MaybeHttpsStream<TokioIo<Attentive>>;

/// Opens connections, TLS included, within [`CONNECT_LIMIT`].
#[derive(Clone)]
pub(super) struct Dialer(HttpsConnector<Tcp>);

impl Dialer {
    /// For the service at `url`. One without TLS costs no reading of the system's certificates.
    pub(super) fn new(url: &Url) -> Result<Self, Error> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        tcp.enforce_http(false);
        let tls = if url.scheme() == "https" { certified()? } else { trusting_nobody()?.into() };
        Ok(Self(HttpsConnector::from((Tcp(tcp), tls))))
    }
}

/// For connections without TLS; one with it would be refused.
fn trusting_nobody() -> Result<ClientConfig, Error> {
    let cannot = |error: rustls::Error| Error::Connect { reason: reason(&error) };
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into());
    let builder = builder.with_safe_default_protocol_versions().map_err(cannot)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

impl Service<Uri> for Dialer {
    type Response = Io;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Io, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        timeout(CONNECT_LIMIT, self.0.call(to)).map(|in_time| in_time?).boxed()
    }
}

/// What is below TLS.
#[derive(Clone)]
struct Tcp(HttpConnector);

impl Service<Uri> for Tcp {
    type Response = TokioIo<Attentive>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<TokioIo<Attentive>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let opened = self.0.call(to).map_ok(|io| TokioIo::new(Attentive(io.into_inner())));
        opened.map_err(Into::into).boxed()
    }
}

/// A socket that is looked at itself when the runtime knows of nothing to read.
pub(super) struct Attentive(TcpStream);

impl AsyncRead for Attentive {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(context, buffer);
        if read.is_ready() || buffer.remaining() == 0 {
            return read;
        }
        // The waker is registered: what arrives after this look wakes.
        match (&*SockRef::from(&self.0)).read(buffer.initialize_unfilled()) {
            Ok(count) => {
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for Attentive {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Connection for Attentive {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}
