//! Numbers of JSON-RPC errors that have a meaning in MCP.
//!
//! Source: JSON-RPC 2.0 section 5.1 and MCP (2026-07-28, `basic/index`, Error Codes).

/// The text is not JSON.
pub(crate) const PARSE_ERROR: i64 = -32700;
/// The JSON is not one request, notification or response.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist (HTTP 404 in the modern era).
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method, or name an unknown tool.
pub const INVALID_PARAMS: i64 = -32602;
/// The gateway failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// A server could not be reached, or its answer was lost. The first of Switchyard's codes towards legacy clients; the
/// range is grandfathered and widely used.
pub const CONNECTION_CLOSED: i64 = -32000;
/// The first of Switchyard's codes towards modern clients. The protocol reserves −32000…−32099.
pub(crate) const OURS_MODERN: i64 = -31000;
/// Up to 2025-11-25: there is no such resource. Later revisions use `INVALID_PARAMS`.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// 2025-11-25: a user must visit the pages in `data.elicitations` first.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// Modern: a header contradicts the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// Modern: the request needs a capability the client did not declare.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// Modern: the revision is not supported; `data.supported` lists the supported ones.
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
