//! Switchyard: a client-side gateway and router for the Model Context Protocol.
//!
//! Many MCP servers behind one REST call and one MCP endpoint. The crate is a library as well as a program:
//! [`Switchyard`] calls tools from Rust, and [`app::router`] mounts the routes in an axum application.
//! `docs/library.md` shows both. `ARCHITECTURE.md` describes the crates that this one is made of.
//!
//! Semantic versioning holds for what is documented here. The crates below it are parts of the program, and change with
//! any version.

pub mod app;
#[cfg(feature = "program")]
#[doc(hidden)]
pub mod cli;
pub mod config;
#[cfg(feature = "program")]
#[doc(hidden)]
pub mod connect;
#[cfg(all(test, feature = "program"))]
mod docs_tests;
mod library;

/// The principal of a request, for [`app::router_for_principals`] and [`admin::router`].
pub mod auth {
    pub use ::auth::{Principal, Role};
}

/// The REST API alone.
pub mod admin {
    pub use ::admin::{Options, router};
}

pub use gateway::manager;
pub use json::Raw;
pub use library::{Builder, CallError, ServerConfig, StartError, Switchyard, ToolResponse};
pub use protocol::{ErrorCode, ErrorObject, Problem};
pub use runtime::{memory, shutdown};
pub use upstream::Error as UpstreamError;

/// The examples of the page on the library, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryPage;
