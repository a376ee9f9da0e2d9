//! The least a hop can cost: hyper in, hyper out, bodies streamed, nothing read.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// Passes everything to `server`, one connection there for each one here.
#[allow(clippy::disallowed_methods)] // it ends with the runtime
pub async fn start(server: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                // It ends when the client closes it.
                let _ = pass(socket, server).await;
            });
        }
    });
    Ok(address)
}

#[allow(clippy::disallowed_methods)]
async fn pass(socket: TcpStream, server: SocketAddr) -> anyhow::Result<()> {
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
