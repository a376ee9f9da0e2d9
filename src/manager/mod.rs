//! The facade over all servers: which exist, what they offer, who owns a name.

pub mod catalog;
pub mod config;
pub mod naming;
