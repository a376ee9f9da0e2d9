//! Towards MCP clients: transports, sessions, and the guard at the door.

pub mod error;
mod events;
pub mod exchange;
pub mod headers;
pub mod sessions;
pub mod stdio;
pub mod streamable_http;
