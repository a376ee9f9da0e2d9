//! Rules for failure and attack that have a figure, at that figure and from outside: each test has the id of its
//! rule above it, and `tests/tidy.rs` lists them all.

mod bystanders;
mod canaries;
mod drain;
mod floods;
mod foreign_sessions;
mod huge;
mod key_stores;
mod lost_calls;
mod overload;
mod payloads;
mod policies;
pub mod processes;
mod slow_readers;
mod smuggled;
mod urls;
