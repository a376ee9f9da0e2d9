//! Built-in servers: MCP servers that run inside the gateway and look like any other server.
//!
//! [`Builtin`] is what one has to be; [`connector`] makes connections to it, so pool, breaker,
//! catalog and naming treat it like a server across the network. A new built-in touches its own
//! folder and the table in this file.

mod connection;
pub mod handbook;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub use connection::InProcess;

use super::config;
use super::connection::{Connector, Outlet};
use super::error::Error;
use crate::protocol::{Raw, Reply};
use crate::shutdown::Shutdown;

/// How the built-in server of `config` is reached; its tasks run in `shutdown`.
pub fn connector(config: &config::Builtin, shutdown: &Shutdown) -> Arc<dyn Connector> {
    let shutdown = shutdown.clone();
    match config {
        config::Builtin::Handbook(options) => {
            let options = options.clone();
            Arc::new(InProcess::new(move || {
                let (options, shutdown) = (options.clone(), shutdown.clone());
                async move { handbook::Handbook::open(&options, &shutdown).await }.boxed()
            }))
        }
    }
}

/// One built-in server. The outer error of [`Builtin::call`] means that the service behind it
/// failed (it trips the breaker); bad arguments and failed tools are a [`Reply`].
pub trait Builtin: Send + Sync + 'static {
    /// `{name, title, version}`.
    fn info(&self) -> Raw;

    /// Advice to language models.
    fn instructions(&self) -> Option<String>;

    /// Tool definitions, in a fixed order, each an element of `tools/list`.
    fn tools(&self) -> Vec<Raw>;

    /// Runs the tool `name`; `arguments` is an object. An unknown name is a JSON-RPC error −32602.
    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Raw,
        outlet: &'a Outlet,
    ) -> BoxFuture<'a, Result<Reply, Error>>;
}
