//! Switchyard: a client-side gateway and router for the Model Context Protocol.
//!
//! Many MCP servers behind one REST call and one MCP endpoint. The crate is a library as well as a program:
//! [`Switchyard`] calls tools from Rust, and [`Switchyard::router`] mounts the routes in an axum application.
//! `docs/library.md` shows both. `ARCHITECTURE.md` describes the crates that this one is made of.
//!
//! Semantic versioning holds for what is documented here, except the module `program`. The crates below are parts of the
//! program, and change with any version.

// Without the program only the routes are used of what builds and runs it.
#[cfg_attr(not(feature = "program"), allow(dead_code, unreachable_pub))]
mod app;
#[cfg(feature = "program")]
mod cli;
#[cfg_attr(not(feature = "program"), allow(dead_code, unreachable_pub))]
mod config;
#[cfg(feature = "program")]
mod connect;
#[cfg(all(test, feature = "program"))]
mod docs_tests;
mod library;
#[cfg(feature = "program")]
pub mod program;

pub use auth::{Action, Principal, Role};
pub use gateway::manager::Approval;
pub use library::{
    Builder, CallError, Config, Failure, ServerConfig, ServerStatus, StartError, Switchyard, Tool,
    ToolResponse, set_memory_budget,
};
pub use runtime::shutdown::Shutdown;
pub use settings::problem::{Error as ConfigError, Report};
pub use settings::{Mark, Problem, Shown};

/// The examples of the page on the library, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryPage;
