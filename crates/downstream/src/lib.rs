//! Towards MCP clients: transports, sessions, and the guard at the door.

mod activity;
pub mod admission;
mod audited;
pub mod authority;
mod bodies;
mod body_budget;
mod client_certificate;
pub mod config;
pub mod conversation;
mod cors;
pub mod error;
mod events;
pub mod exchange;
pub mod guard;
mod head_budget;
pub mod headers;
mod http1;
pub mod http_service;
mod limits;
pub mod listener;
mod load_shed;
mod moving_socket;
mod outside_calls;
mod printed;
mod protected_resource;
pub mod questions;
pub mod refusal;
pub mod replay;
pub mod sessions;
pub mod sse;
pub mod stdio;
pub mod streamable_http;
pub mod tls;
mod tls_handshake;

pub use config::Config;
