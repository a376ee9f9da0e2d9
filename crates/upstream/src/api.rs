//! Everything that a built-in server uses of this crate, and nothing else.
//!
//! The list is checked: `tests/tidy` refuses any other path into this crate from `crates/builtins`.

pub use super::connection::Closing;
pub use crate::ServerContext;
pub use crate::config::{BuiltinKind, BuiltinOptions, Defaults, Kinds, header_value};
pub use crate::connection::{
    Answer, Call, CallEvent, Connection, Connector, Dialect, Event, EventReceiver, EventSender, Events,
    RequestFuture,
};
pub use crate::error::{Delivery, Error};
pub use crate::offer::Offer;
pub use crate::rate_limit::RateLimit;
pub use crate::response_stream::ResponseBody;
pub use crate::retry::{ceiling, full_jitter};
pub use crate::secrets::Secrets;
pub use crate::session_affinity::Affinity;
