//! The base of every part of the program: tasks that end with it, worker threads, telemetry, the memory
//! budget, secrets, regular files and the cache.
//!
//! Knows nothing of MCP servers and clients.

pub mod hex;
pub mod memory;
pub mod regular_file;
pub mod secret;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod worker;
