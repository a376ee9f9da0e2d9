//! Built-in servers: MCP servers that run inside the gateway and look like any other server.
//!
//! [`Builtin`] is what one has to be; [`connector`] makes connections to it, so pool, breaker,
//! catalog and naming treat it like a server across the network. A new built-in touches its own
//! folder, its options in `upstream/config` and its row in the table of this file ([`connector`]).

mod answer;
pub mod chroma;
pub mod chunk;
mod connection;
mod declared;
pub mod embedding;
pub mod handbook;
#[cfg(test)]
mod hostile;
mod private_file;
mod r2r;
mod rag;
mod refusal;
mod report;
mod rest;
#[cfg(test)]
mod sample;
mod schema;
#[cfg(test)]
#[allow(unreachable_pub)] // the integration tests use it too
#[path = "../../../tests/it/support/served.rs"]
mod served;
mod shape;
mod strict;
mod tool;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub use connection::InProcess;
pub use report::Report;
use serde_json::json;

use super::connection::Connector;
use super::error::Error;
use super::{Means, config};
use crate::protocol::error::code;
use crate::protocol::{ErrorObject, Raw, Reply, foreign};
use crate::telemetry::RequestId;
use declared::Declared;

/// A connector whose connections are servers of this type, opened anew for each.
macro_rules! opening {
    ($server:ty, $options:ident, $name:ident, $means:ident) => {{
        let (options, name, means) = ($options.clone(), Arc::clone($name), $means.clone());
        let open = move |events| {
            let (options, name, means) = (options.clone(), Arc::clone(&name), means.clone());
            async move { <$server>::open(&name, &options, &means, events).await }.boxed()
        };
        Arc::new(InProcess::new(open).declaring(<$server>::declared($options)))
    }};
}

/// How the built-in server `name` of `config` is reached; its tasks run in the group of `means`.
pub fn connector(name: &Arc<str>, config: &config::Builtin, means: &Means) -> Arc<dyn Connector> {
    match config {
        config::Builtin::Handbook(options) => opening!(handbook::Handbook, options, name, means),
        config::Builtin::R2r(options) => opening!(r2r::R2r, options, name, means),
        config::Builtin::Rag(options) => opening!(rag::Rag, options, name, means),
        config::Builtin::Chroma(options) => opening!(chroma::VectorStore, options, name, means),
    }
}

/// Resources for a built-in server under test; its tasks belong to the group of `shutdown`.
#[cfg(test)]
fn means(shutdown: &crate::shutdown::Shutdown) -> Means {
    let store = crate::store::Store::open(&crate::store::Config::default());
    Means { shutdown: shutdown.clone(), store, only_looks: false }
}

/// One built-in server, running. It is made when it is first wanted, and again after it was `closed`;
/// making it is its handshake: what it needs is reached and accepts us, or it fails.
///
/// An outer error means that the service behind it failed (it trips the breaker where
/// [`Error::trips_breaker`] says so); bad arguments and failed tools are a [`Reply`].
pub trait Builtin: Send + Sync + 'static {
    /// `{name, title, version}`.
    fn info(&self) -> Raw;

    /// Advice to language models.
    fn instructions(&self) -> Option<String>;

    /// Tool definitions as they are now, in a fixed order, each an element of `tools/list`. Who changes
    /// them reports that as an event.
    fn tools(&self) -> Vec<Raw>;

    /// Runs the tool `name`; `arguments` is an object. An unknown name is −32602.
    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Raw,
        report: &'a Report,
    ) -> BoxFuture<'a, Result<Reply, Error>>;

    /// Resource definitions as they are now, each an element of `resources/list`; none when it offers no
    /// resources.
    fn resources(&self) -> Option<Vec<Raw>> {
        None
    }

    /// The URIs of the resources whose changes it reports, as `notifications/resources/updated`.
    fn told_resources(&self) -> &[&str] {
        &[]
    }

    /// The result of `resources/read` for `uri`. An unknown one is −32602 with the URI.
    fn read<'a>(&'a self, uri: &'a str, _report: &'a Report) -> BoxFuture<'a, Result<Reply, Error>> {
        std::future::ready(Ok(Err(no_resource(uri)))).boxed()
    }

    /// Asks whether what it needs is there.
    fn health(&self) -> BoxFuture<'_, Result<(), Error>> {
        std::future::ready(Ok(())).boxed()
    }

    /// Resolves when it is of no more use, with the reason; then it is dropped, and made again when it
    /// is wanted.
    fn closed(&self) -> BoxFuture<'_, String> {
        std::future::pending().boxed()
    }
}

/// `{name, title, version}` of a built-in, which is as old as the program.
fn info(name: &str, title: &str) -> Raw {
    let version = env!("CARGO_PKG_VERSION");
    Raw::object(&[("name", &Raw::of(name)), ("title", &Raw::of(title)), ("version", &Raw::of(version))])
}

/// There is no tool `name`: −32602.
fn no_tool(name: &str) -> ErrorObject {
    let name = foreign::name(name);
    ErrorObject::new(code::INVALID_PARAMS, &format!("unknown tool {name:?}"))
        .with_data(&json!({"type": "not_found", "code": "tool_not_found", "tool": name}))
}

/// A bug, or a fault of this machine: in the log under the id that the caller gets.
fn internal(what: &'static str, error: &dyn std::error::Error) -> ErrorObject {
    let id = RequestId::new();
    tracing::error!(error_id = %id, %error, "{what}");
    let data = json!({"type": "internal_error", "code": "internal_error", "error_id": id, "retryable": true});
    ErrorObject::new(code::INTERNAL_ERROR, &format!("{what}; try again")).with_data(&data)
}

/// `member` of the parameters is no string.
fn no_text(member: &str, found: Option<&Raw>) -> ErrorObject {
    let (field, valid) = (format!("params.{member}"), "a string");
    let data = json!({
        "type": "invalid_params", "code": "invalid_params", "field": field,
        "rejected_value": found.map(foreign::value), "valid_range": valid,
        "suggestion": format!("send {field} as {valid}"),
    });
    ErrorObject::new(code::INVALID_PARAMS, &format!("{field} must be {valid}")).with_data(&data)
}

/// There is no resource `uri`: −32602 with the URI (2026-07-28 `server/resources`); gateways make of it
/// what older clients know.
fn no_resource(uri: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, "there is no such resource")
        .with_data(&json!({"type": "not_found", "code": "resource_not_found", "uri": foreign::uri(uri)}))
}
