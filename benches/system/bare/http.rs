//! The least a hop can cost: hyper in, hyper out, bodies streamed, nothing read, and one connection
//! to the server for each one of a client.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::child;

/// Passes everything to `server`.
pub async fn serve(server: SocketAddr) -> anyhow::Result<()> {
    let (listener, _) = child::listen().await?;
    loop {
        let (socket, _) = listener.accept().await.context("no more connections")?;
        tokio::spawn(async move {
            // The load ends by closing its connections.
            let _ = pass(socket, server).await;
        });
    }
}

async fn pass(socket: TcpStream, server: SocketAddr) -> anyhow::Result<()> {
    let upstream = TcpStream::connect(server).await?;
    upstream.set_nodelay(true)?;
    socket.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(upstream)).await?;
    tokio::spawn(connection);
    // HTTP/1 has one request at a time on a connection: the lock is never waited for.
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(move |request| forward(sender.clone(), request));
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
