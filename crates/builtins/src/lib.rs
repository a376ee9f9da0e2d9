//! Built-in servers: MCP servers that run inside the gateway and look like any other server.
//!
//! [`Builtin`] is what one has to be, and [`KINDS`] lists the kinds of this build. To pool, breaker, catalog and naming
//! a built-in server is like a server across the network. A new one touches its own folder and its row in [`KINDS`].
//!
//! Invariant: of the crate `upstream` only the parts that its `api` names are used.

// Some of what the kinds share has no user when a kind is left out.
#![cfg_attr(
    not(all(feature = "handbook", feature = "r2r", feature = "rag")),
    allow(dead_code, unused_imports, unused_macros)
)]

mod answer;
#[cfg(feature = "chroma")]
pub mod chroma;
#[cfg(feature = "chroma")]
pub mod chunk;
mod connection;
mod declared;
#[cfg(feature = "chroma")]
pub mod embedding;
#[cfg(feature = "handbook")]
pub mod handbook;
#[cfg(test)]
mod hostile;
#[cfg(any(feature = "handbook", feature = "r2r"))]
mod private_file;
mod progress;
#[cfg(feature = "r2r")]
pub mod r2r;
#[cfg(feature = "rag")]
pub mod rag;
mod refusal;
#[cfg(any(feature = "chroma", feature = "r2r", feature = "rag"))]
mod rest;
#[cfg(test)]
mod sample;
mod schema;
mod schema_validator;
mod strict;
mod tool;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub use connection::InProcess;
pub use progress::Report;
use serde::Serialize;
use serde_json::json;

use declared::Declared;
use json::Raw;
use protocol::error_data::Rejected;
use protocol::{Era, ErrorCode, ErrorData, ErrorObject, Reply, sanitize};
use runtime::telemetry::RequestId;
use upstream::api::{Error, Kind, Kinds};

/// A connector whose connections are servers of this type, each opened anew.
macro_rules! connect {
    ($server:ty, $options:expr, $name:ident, $means:ident) => {{
        let (options, name, means) =
            (std::sync::Arc::new($options.clone()), std::sync::Arc::clone($name), $means.clone());
        let open = move |events| {
            let (options, name, means) =
                (std::sync::Arc::clone(&options), std::sync::Arc::clone(&name), means.clone());
            futures_util::FutureExt::boxed(
                async move { <$server>::open(&name, &options, &means, events).await },
            )
        };
        std::sync::Arc::new($crate::InProcess::new(open).declaring(<$server>::declared($options)))
    }};
}
pub(crate) use connect;

/// The built-in servers of this build, in the order in which messages list them.
pub const KINDS: Kinds = &[
    #[cfg(feature = "handbook")]
    Kind { name: "handbook", fields: &["handbook"], read: handbook::config::read },
    #[cfg(feature = "r2r")]
    Kind { name: "r2r", fields: &["url", "r2r"], read: r2r::config::read },
    #[cfg(feature = "rag")]
    Kind { name: "rag", fields: &["url", "rag"], read: rag::config::read },
    #[cfg(feature = "chroma")]
    Kind { name: "chroma", fields: &["url", "chroma"], read: chroma::config::read },
];

/// Resources for a built-in server under test; its tasks belong to the group of `shutdown`.
#[cfg(test)]
fn means(shutdown: &runtime::shutdown::Shutdown) -> upstream::api::Means {
    let store = runtime::store::Store::open(&runtime::store::Config::default());
    upstream::api::Means { shutdown: shutdown.clone(), store, only_looks: false }
}

/// One built-in server, running. It is made when it is first wanted, and again after it was `closed`;
/// making it is its handshake: what it needs is reached and accepts us, or it fails.
///
/// An outer error means that its service failed (it trips the breaker where
/// [`Error::trips_breaker`] says so); bad arguments and failed tools are a [`Reply`].
pub trait Builtin: Send + Sync + 'static {
    /// `{name, title, version}`.
    fn info(&self) -> Raw;

    /// Advice to language models.
    fn instructions(&self) -> Option<String>;

    /// Tool definitions as they are now, in a fixed order, each an element of `tools/list`. An implementation
    /// that changes them reports an event.
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

/// There is no tool `name`.
fn no_tool(name: &str) -> ErrorObject {
    let (name, text) = (sanitize::name(name), format!("unknown tool {:?}", sanitize::name(name)));
    let mut data = ErrorData::new(ErrorCode::ToolNotFound, &*text);
    data.members.tool = Some(&name);
    told(&text, &data)
}

/// A bug, or a fault of this machine: in the log under the id that the caller gets.
fn internal(what: &'static str, error: &dyn std::error::Error) -> ErrorObject {
    let id = RequestId::new();
    tracing::error!(request_id = %id, %error, "{what}");
    let text = format!("{what}; try again");
    let mut data = ErrorData::new(ErrorCode::InternalError, &*text);
    (data.members.retryable, data.members.request_id) = (true, Some(id.to_string()));
    told(&text, &data)
}

/// `member` of the parameters is no string.
fn no_text(member: &str, found: Option<&Raw>) -> ErrorObject {
    let (field, range) = (format!("params.{member}"), "a string");
    let (text, suggestion) = (format!("{field} must be {range}"), format!("send {field} as {range}"));
    let value = found.map(sanitize::value);
    let rejected = Rejected { field: &field, value, range, suggestion: &suggestion };
    told(&text, &ErrorData::new(ErrorCode::InvalidParams, &*text).rejecting(rejected))
}

/// There is no method `name`.
fn no_method(name: &str) -> ErrorObject {
    let text = format!("there is no method {name}");
    told(&text, &ErrorData::new(ErrorCode::MethodNotFound, &*text))
}

/// There is no resource `uri`: the error names the URI (2026-07-28 `server/resources`); gateways make of it what older
/// clients know.
fn no_resource(uri: &str) -> ErrorObject {
    let text = "there is no such resource";
    let data = ErrorData::new(ErrorCode::ResourceNotFound, text);
    told(text, &data.with(json!({"uri": sanitize::uri(uri)})))
}

/// The error with `data`, as a server of 2026-07-28 answers it.
fn told<F: Serialize>(text: &str, data: &ErrorData<'_, F>) -> ErrorObject {
    ErrorObject::new(data.members.code.number(Era::Modern), text).with_data(data)
}
