//! Switchyard: a client-side gateway and router for the Model Context Protocol.
//!
//! Many MCP servers behind one REST call and one MCP endpoint. The crate is a library as well as a
//! program: build a manager from a configuration, mount the router in an axum application of your
//! own, or call the manager directly. `ARCHITECTURE.md` shows the floors the modules stand on.

pub mod hex;
pub mod protocol;
pub mod regular_file;
pub mod secret;
pub mod settings;

pub mod auth;
pub mod memory;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod wire;
pub mod worker;

pub mod upstream;

pub mod manager;

pub mod gateway;

pub mod admin;
pub mod downstream;

pub mod config;

pub mod app;

pub mod cli;
