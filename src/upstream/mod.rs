//! One server: everything that is needed to call it well, and nothing about who calls.

pub mod breaker;
pub mod builtin;
mod bulkhead;
pub mod config;
pub mod connection;
pub mod error;
mod retry;
pub mod transport;

pub use config::Config;
pub use connection::{Call, Connection, Connector, Event, Events, Outlet};
pub use error::{Delivery, Error};
