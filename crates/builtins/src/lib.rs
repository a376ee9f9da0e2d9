//! Built-in servers: MCP servers that run inside the gateway and look like any other server.
//!
//! [`Builtin`] is the interface of a built-in server, and [`KINDS`] lists the kinds of this build. Pool,
//! breaker, catalog and naming treat a built-in server like a remote one. A new one touches only its own
//! folder and its row in [`KINDS`].
//!
//! Invariant: of the crate `upstream` only the parts that its `api` names are used.

// Some shared code is unused when a kind is disabled.
#![cfg_attr(
    not(all(feature = "handbook", feature = "r2r", feature = "rag")),
    allow(dead_code, unused_imports, unused_macros)
)]

mod answer;
#[cfg(feature = "chroma")]
mod chroma;
#[cfg(feature = "chroma")]
pub mod chunk;
mod connection;
#[cfg(feature = "chroma")]
mod embedding;
#[cfg(feature = "handbook")]
mod handbook;
#[cfg(test)]
mod hostile;
mod progress;
#[cfg(feature = "r2r")]
mod r2r;
#[cfg(feature = "rag")]
mod rag;
mod refusal;
#[cfg(any(feature = "chroma", feature = "r2r", feature = "rag"))]
mod rest;
#[cfg(test)]
mod sample;
mod schema;
mod schema_validator;
mod tool;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub use connection::InProcessConnector;
#[cfg(feature = "handbook")]
pub use handbook::config::{EmbeddedFiles, HandbookOptions};
pub use progress::Report;

use connection::Declared;
use json::Raw;
use protocol::{Era, ErrorCode, ErrorObject, Problem, Reply, sanitize};
use runtime::telemetry::RequestId;
use upstream::api::{BuiltinKind, Error, Kinds};

/// Makes a connector that opens a new server of this type for each connection.
macro_rules! connect {
    ($server:ty, $options:expr, $name:ident, $server_context:ident) => {{
        let (options, name, server_context) =
            (std::sync::Arc::new($options.clone()), std::sync::Arc::clone($name), $server_context.clone());
        let open = move |events| {
            let (options, name, server_context) =
                (std::sync::Arc::clone(&options), std::sync::Arc::clone(&name), server_context.clone());
            futures_util::FutureExt::boxed(async move {
                <$server>::open(&name, &options, &server_context, events).await
            })
        };
        std::sync::Arc::new($crate::InProcessConnector::new(open).declaring(<$server>::declared($options)))
    }};
}
pub(crate) use connect;

/// The built-in servers of this build, in the order of messages that list them.
pub const KINDS: Kinds = &[
    #[cfg(feature = "handbook")]
    BuiltinKind { name: "handbook", fields: &["handbook"], read: handbook::config::read },
    #[cfg(feature = "r2r")]
    BuiltinKind { name: "r2r", fields: &["url", "r2r"], read: r2r::config::read },
    #[cfg(feature = "rag")]
    BuiltinKind { name: "rag", fields: &["url", "rag"], read: rag::config::read },
    #[cfg(feature = "chroma")]
    BuiltinKind { name: "chroma", fields: &["url", "chroma"], read: chroma::config::read },
];

/// Makes the resources of a built-in server under test. Its tasks belong to the group of `shutdown`.
#[cfg(test)]
fn server_context(shutdown: &runtime::shutdown::Shutdown) -> upstream::api::ServerContext {
    upstream::api::ServerContext::alone(shutdown)
}

/// A running built-in server. It is opened when it is first needed, and again after it was `closed`. Opening
/// is its handshake: it fails if a service that it needs is not reachable or refuses the credentials.
///
/// An outer error means that this service failed, and trips the breaker if [`Error::trips_breaker`] says so.
/// Bad arguments and failed tools are a [`Reply`].
pub trait Builtin: Send + Sync + 'static {
    /// How it introduces itself.
    const INFO: BuiltinInfo;

    /// Returns the current tool definitions in a fixed order, each an entry of `tools/list`. An
    /// implementation that changes them reports an event.
    fn tools(&self) -> Vec<Raw>;

    /// Runs the tool `name`. `arguments` is an object. An unknown name is error −32602.
    fn call(
        &self,
        name: &str,
        arguments: Raw,
        report: &Report,
    ) -> impl Future<Output = Result<Reply, Error>> + Send;

    /// Returns the current resource definitions, each an entry of `resources/list`. `None` if the server has
    /// no resources.
    fn resources(&self) -> Option<Vec<Raw>> {
        None
    }

    /// Returns the URIs of resources whose changes it reports with `notifications/resources/updated`.
    fn subscribable_resources(&self) -> &[&str] {
        &[]
    }

    /// Returns the result of `resources/read` for `uri`. An unknown URI is error −32602 with the URI.
    fn read(&self, uri: &str, _report: &Report) -> impl Future<Output = Result<Reply, Error>> + Send {
        std::future::ready(Ok(Err(no_resource(uri))))
    }

    /// Checks whether the services that it needs are available.
    fn health(&self) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Resolves with the reason when the server is no longer usable. It is then dropped, and opened again
    /// when it is needed.
    fn closed(&self) -> BoxFuture<'_, String> {
        std::future::pending().boxed()
    }
}

/// How a built-in server introduces itself. Its version is that of the program.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinInfo {
    /// Name for programs.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Advice for language models.
    pub instructions: &'static str,
}

/// Makes the error for an unknown tool `name`.
fn no_tool(name: &str) -> ErrorObject {
    let name = sanitize::name(name);
    sent(Problem::new(ErrorCode::ToolNotFound, format!("unknown tool {name:?}")).about(None, Some(&name)))
}

/// Makes the error for a bug or a fault of this machine. Logs it under the id that the client gets.
fn internal(what: &'static str, error: &dyn std::error::Error) -> ErrorObject {
    let id = RequestId::new();
    tracing::error!(request_id = %id, %error, "{what}");
    let problem = Problem::new(ErrorCode::InternalError, format!("{what}; try again"));
    sent(problem.with(|problem| (problem.retryable, problem.request_id) = (true, Some(id.to_string()))))
}

/// Makes the error for a `member` of the parameters that is not a string.
fn no_text(member: &str, found: Option<&Raw>) -> ErrorObject {
    let (field, range) = (format!("params.{member}"), "a string");
    let (text, suggestion) = (format!("{field} must be {range}"), format!("send {field} as {range}"));
    sent(Problem::new(ErrorCode::InvalidParams, text).rejecting(field, found, range, suggestion))
}

/// Makes the error for an unknown method `name`.
fn no_method(name: &str) -> ErrorObject {
    sent(Problem::new(ErrorCode::MethodNotFound, format!("there is no method {name}")))
}

/// Makes the error for an unknown resource `uri`, with the URI (2026-07-28 `server/resources`). The gateway
/// converts it for older clients.
fn no_resource(uri: &str) -> ErrorObject {
    let problem = Problem::new(ErrorCode::ResourceNotFound, "there is no such resource");
    sent(problem.with_mcp("uri", &sanitize::uri(uri)))
}

/// Makes the error as a server of 2026-07-28 sends it.
fn sent(problem: Problem) -> ErrorObject {
    problem.error(Era::Modern).into_answer()
}
