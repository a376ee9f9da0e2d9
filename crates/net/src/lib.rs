//! The network below MCP: the one HTTP client ([`http`]), and framing, which is bytes to messages and back.
//!
//! No knowledge of MCP. Both framings are bounded while they read. A message that is too long is discarded as it arrives,
//! apart from a part ([`Clip`]) that says which request it answers.

mod clip;
#[cfg(test)]
mod fake_socket;
pub mod http;
mod joined_write;
pub mod lines;
pub mod sse;

pub use clip::Clip;
use clip::Discard;
pub use joined_write::poll_write_joined;
