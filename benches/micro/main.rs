//! What the pure parts of a call cost in isolation: `cargo bench --bench micro [-- FILTER]`.
//!
//! Everything here is public API of the crate; nothing was opened for it. Where it gives scale, a measure
//! has a neighbour: the same bytes through `serde_json::Value`, which is what a gateway pays that holds
//! messages as values.
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
    guards::sealer
);
criterion_main!(benches);
