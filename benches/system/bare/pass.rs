//! One connection through a hop that looks at nothing: hyper in, hyper out, bodies streamed, and one
//! connection to the server for this one of a client.
//!
//! Both benchmarks that need the least a hop can cost use this one.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Passes what comes over `socket` to `server`, until one of them closes.
#[allow(clippy::disallowed_methods)] // it ends with the runtime
pub async fn pass(socket: TcpStream, server: SocketAddr) -> anyhow::Result<()> {
    let upstream = TcpStream::connect(server).await?;
    upstream.set_nodelay(true)?;
    socket.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(upstream)).await?;
    tokio::spawn(connection);
    // HTTP/1 has one request at a time on a connection: the lock is never waited for.
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(move |request| forward(Arc::clone(&sender), request));
    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await?;
    Ok(())
}

async fn forward(
    sender: Arc<Mutex<SendRequest<Incoming>>>,
    request: Request<Incoming>,
) -> Result<Response<Incoming>, hyper::Error> {
    let mut sender = sender.lock().await;
    sender.ready().await?;
    sender.send_request(request).await
}
