//! Framing: bytes to messages and back. No protocol knowledge.
//!
//! Both framings are bounded while they read: a message that is too long is thrown away as it
//! arrives, and what is kept of it ([`Clip`]) is enough to say whose answer it was.

mod clip;
pub mod joined;
pub mod lines;
pub mod sse;
pub mod transfer_coding;

pub use clip::Clip;
