//! The Model Context Protocol as data: messages, ids, errors, revisions.
//!
//! Floor 0. Pure: no I/O, no tokio, no clock, no globals. Everything here is a function of its
//! arguments, which is why it is property-tested.
//!
//! Not here: framing (`wire`), what a method *means* to a gateway (`gateway`).

pub mod abilities;
pub mod caching;
pub mod canonical;
mod decimal;
pub mod error;
pub mod feature;
pub mod foreign;
pub mod headers;
pub mod lifecycle;
pub mod log_level;
pub mod message;
pub mod meta;
pub mod method;
pub mod output_schema;
mod part;
mod places;
mod plain;
pub mod raw;
pub mod response;
mod scan;
mod skip;
pub mod splice;
mod survey;
pub mod uri;
pub mod version;

pub use abilities::Abilities;
pub use error::{ErrorObject, Origin, Reply};
pub use log_level::LogLevel;
pub use message::{Message, Notification, ParseError, Request, RequestId, Response};
pub use method::Method;
pub use part::Part;
pub use raw::Raw;
pub use response::Closed;
pub use version::{Era, Version};
