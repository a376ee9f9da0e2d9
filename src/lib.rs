//! Switchyard: a client-side gateway and router for the Model Context Protocol.
//!
//! Many MCP servers behind one REST call and one MCP endpoint. The crate is a library as well as a program: build a
//! manager from a configuration, mount the router in your own axum application, or call the manager directly.
//! `ARCHITECTURE.md` describes the crates.
//!
//! Semantic versioning holds for this crate. The crates that it re-exports from are parts of the program, and change
//! with any version.

pub mod app;
pub mod cli;
pub mod config;
pub mod connect;
#[cfg(test)]
mod docs_tests;

pub use admin;
pub use auth;
pub use gateway::manager;
pub use json::Raw;
pub use runtime::{memory, shutdown};
