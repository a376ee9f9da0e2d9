//! The limits: what a hop costs that looks at nothing, each in a process of its own with one thread.

pub mod fixed;
pub mod http;
pub mod pass;
pub mod stdio;
