//! Cost of the pure parts of a call in isolation: `cargo bench --bench micro [-- FILTER]`.
//!
//! All measured functions are public API of the crate. Some measurements have a counterpart for
//! comparison: the same bytes through `serde_json::Value`, which is the cost of a gateway that parses
//! messages into values.
#![allow(missing_docs)] // the macros of criterion
#![allow(unreachable_pub)] // a benchmark exports nothing

mod guards;
mod lists;
mod messages;
mod streams;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    messages::from_clients,
    messages::from_servers,
    messages::edits,
    messages::mirrored,
    streams::events,
    lists::lookup,
    lists::thousand_tools,
    guards::breaker,
    guards::sealer,
    guards::tokens
);
criterion_main!(benches);
