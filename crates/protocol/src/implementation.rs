//! The name and version that Switchyard gives of itself: the `Implementation` of the schema.
//!
//! Source: `Implementation` in `schema.ts`, the same in all revisions since 2024-11-05; `title` since 2025-06-18.

use serde::Serialize;

use json::raw::Raw;

#[derive(Serialize)]
struct Implementation {
    name: &'static str,
    title: &'static str,
    version: &'static str,
}

/// `{name, title, version}` of the gateway, for `clientInfo` and `serverInfo`.
pub fn own_info() -> Raw {
    Raw::of(&Implementation { name: "switchyard", title: "Switchyard", version: env!("CARGO_PKG_VERSION") })
}
