//! JSON text kept as the bytes it arrived in, and the readers that find values in it.
//!
//! [`Raw`] is one value, and [`Part`] a value inside it. The module [`scanner`] reads and checks a text in one pass.
//! The module [`envelope_stream`] takes the result out of a JSON-RPC response while it arrives.
//!
//! Invariant: no value is parsed and printed again.
//!
//! Does no I/O and knows no message of MCP (crate `protocol`).

pub mod canonical;
pub mod decimal;
pub mod envelope_stream;
pub mod fault;
pub mod part;
pub mod raw;
pub mod scanner;
mod skip;
mod tokens;

pub use fault::Fault;
pub use part::Part;
pub use raw::Raw;
