//! Built-in servers: MCP servers that run inside the gateway and look like any other server.
//!
//! [`Builtin`] is what one has to be; [`connect`] makes a connection of it, so pool, breaker,
//! catalog and naming treat it like a server across the network. A new built-in touches its own
//! folder and the table in this file.

pub mod handbook;

use futures_util::future::BoxFuture;

use super::connection::Outlet;
use super::error::Error;
use crate::protocol::{Raw, Reply};

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
