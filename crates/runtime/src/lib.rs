//! The base of every part of the program: tasks with a common shutdown, worker threads, telemetry and the memory budget.
//! Secrets, private and regular files, rates, the connection to Redis, and the cache are here too.
//!
//! Does not depend on MCP servers and clients.

pub mod fair_shares;
pub mod memory;
pub mod private_file;
pub mod rate;
pub mod redis_link;
pub mod regular_file;
pub mod secret;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod worker;
