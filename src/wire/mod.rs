//! Framing: bytes to messages and back. No protocol knowledge.
