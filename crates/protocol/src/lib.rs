//! The Model Context Protocol as data: messages, ids, errors, revisions.
//!
//! Pure: no I/O, no tokio, no clock, no globals. Everything here is a function of its
//! arguments, which is why it is property-tested.
//!
//! Not here: framing (`net`), what a method *means* to a gateway (`gateway`).

pub mod abilities;
mod absent;
pub mod caching;
pub mod compose;
pub mod definition;
pub mod elicitation;
pub mod error;
pub mod error_code;
pub mod feature;
pub mod headers;
mod json_object;
pub mod lifecycle;
pub mod log_level;
pub mod message;
pub mod meta;
pub mod method;
pub mod output_schema;
pub mod problem;
pub mod sanitize;
pub mod skill;
pub mod uri;
pub mod version;
pub mod visible;

pub use abilities::Abilities;
pub use error::{ErrorObject, Reply};
pub use error_code::{ErrorCode, ErrorKind};
pub use headers::Accept;
pub use json_object::JsonObject;
pub use log_level::LogLevel;
pub use message::{Closed, Message, Notification, ParseError, Request, RequestId, Response};
pub use method::Method;
pub use problem::Problem;
pub use version::{Era, Version};

#[cfg(test)]
mod envelope_stream_tests;
#[cfg(test)]
mod scanner_tests;
