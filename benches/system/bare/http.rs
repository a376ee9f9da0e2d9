//! The least a hop can cost over HTTP, for as many clients as come.

use std::net::SocketAddr;

use anyhow::Context as _;

use super::pass::pass;
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
