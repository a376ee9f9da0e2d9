//! The least a hop can cost: hyper in, hyper out, bodies streamed, nothing read.

#[path = "../system/bare/pass.rs"]
mod pass;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

/// Passes everything to `server`, one connection there for each one here.
#[allow(clippy::disallowed_methods)] // it ends with the runtime
pub async fn start(server: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                // It ends when the client closes it.
                let _ = pass::pass(socket, server).await;
            });
        }
    });
    Ok(address)
}
