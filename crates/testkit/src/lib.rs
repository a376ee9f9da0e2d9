//! Certificates, and services that tests run in place of real ones: R2R, a bridge of RAG techniques, and an HTTP server
//! that follows a script. Each service has its own port.
//!
//! Shared by the unit tests of several crates and the integration tests of the program. Never a dependency outside of
//! tests.

pub mod certificates;
pub mod login_service;
pub mod pkce;
pub mod r2r;
pub mod rag;
pub mod scripted;
pub mod served;
