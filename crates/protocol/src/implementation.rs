//! The name and version that Switchyard gives of itself: the `Implementation` of the schema.
//!
//! Source: `Implementation` in `schema.ts`, the same in all revisions since 2024-11-05; `title` since 2025-06-18.

use bytes::Bytes;

use json::raw::Raw;

const OWN: &str =
    concat!(r#"{"name":"switchyard","title":"Switchyard","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// `{name, title, version}` of the gateway, for `clientInfo` and `serverInfo`.
pub const fn own_info() -> Raw {
    Raw::unindexed(Bytes::from_static(OWN.as_bytes()))
}
