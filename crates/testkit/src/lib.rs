//! Services that tests run in place of real ones: R2R and a bridge of RAG techniques, each on a port of its own.
//!
//! Shared by the unit tests of `builtins` and the integration tests of the program. Never a dependency outside of
//! tests.

pub mod r2r;
pub mod rag;
pub mod served;
