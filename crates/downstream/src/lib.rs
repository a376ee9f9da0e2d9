//! Towards MCP clients: transports, sessions, and the guard at the door.

mod activity;
mod audited;
pub mod authority;
mod bodies;
pub mod config;
pub mod conversation;
mod cors;
pub mod error;
mod events;
pub mod exchange;
pub mod front;
pub mod guard;
mod head_budget;
pub mod headers;
mod http1;
pub mod listener;
mod moving_socket;
mod outside_calls;
mod passing;
pub mod places;
mod printed;
mod protected_resource;
pub mod questions;
mod reading;
pub mod refusal;
pub mod replay;
pub mod sessions;
pub mod sse;
pub mod stdio;
pub mod streamable_http;
mod turned_away;

pub use config::Config;
