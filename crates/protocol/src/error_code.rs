//! Every error code of Switchyard: one table, from which all that clients read about an error is made.
//!
//! A `Problem` begins with the row of its code, so JSON-RPC errors, problem documents and failed results of `/call` agree.
//! The enumerations of the `OpenAPI` document, `docs/errors.md` and the page at `/docs/errors` are made from it too.
//!
//! Invariants: a released code never changes its meaning, because programs decide by it.
//!
//! This module does not say which failure has which code; each layer maps its own failures.

mod table;

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;
use serde::{Serialize, Serializer};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

pub use table::{ErrorCode, TABLE};

/// Numbers of JSON-RPC errors that have a meaning in MCP (JSON-RPC 2.0, section 5.1; MCP 2026-07-28, `basic/index`).
pub mod code {
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
}

/// Path of the page that explains every code.
pub const PAGE: &str = "/docs/errors";

/// Kind of an error, `data.type` of JSON-RPC errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request must be changed.
    InvalidParams,
    /// A credential was refused: that of the client, or that of Switchyard at a server.
    AuthenticationError,
    /// The server, or the service that it uses, is missing or broken.
    ServiceUnavailable,
    /// No answer arrived in time.
    Timeout,
    /// The circuit breaker refused the call.
    CircuitOpen,
    /// Too many requests at a time, or too much memory in use.
    RateLimited,
    /// All connections or sessions are taken.
    ConnectionLimitExceeded,
    /// The name, path or id does not exist.
    NotFound,
    /// Switchyard failed.
    InternalError,
}

/// Whether repeating an unchanged request can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retryable {
    /// It can, after a while.
    Yes,
    /// It cannot, or the tool may have run already.
    No,
    /// Each error says it for itself.
    Sometimes,
}

/// Where clients meet a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// In problem documents of every REST operation, and in JSON-RPC errors.
    Every,
    /// In problem documents of every REST operation only.
    EveryRest,
    /// In problem documents of the REST operations that reach a server, and in JSON-RPC errors.
    Server,
    /// In problem documents of the REST operations that name it, and in JSON-RPC errors.
    Both,
    /// In problem documents of the REST operations that name it.
    Rest,
    /// In JSON-RPC errors only.
    Mcp,
    /// In the result of `/call`, with status 200 and `success: false`.
    Call,
}

/// JSON-RPC error code towards clients of both protocol eras, legacy first.
pub type Numbers = [i64; 2];

/// Row of the table: what is always true of one code.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The code itself.
    pub code: ErrorCode,
    /// The code as clients read it.
    pub name: &'static str,
    /// Where it occurs.
    pub surface: Surface,
    /// Its usual kind.
    pub kind: ErrorKind,
    /// HTTP status of the REST API, and of the MCP endpoint before a method is called.
    pub status: u16,
    /// JSON-RPC error codes; none where it never occurs over MCP.
    pub numbers: Option<Numbers>,
    /// Whether repeating the request can succeed.
    pub retryable: Retryable,
    /// Short description, the `title` of problem documents.
    pub title: &'static str,
    /// Case in which it occurs.
    pub meaning: &'static str,
    /// Advice, the `hint` unless the failure has a more exact one.
    pub action: &'static str,
}

impl Row {
    /// Whether problem documents have it.
    pub(crate) fn is_of_rest(&self) -> bool {
        !matches!(self.surface, Surface::Mcp | Surface::Call)
    }
}

/// Declares the codes and their table at once, so that none can lack its row.
macro_rules! error_codes {
    ($($variant:ident = $name:literal, $surface:ident, $kind:ident, $status:literal, $numbers:expr, $retryable:ident,
       $title:literal, $meaning:literal, $action:literal;)*) => {
        /// Stable code of an error, as clients read it in `code`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)*
        }

        /// The table, in the order of the page.
        pub const TABLE: &[Row] = &[$(Row {
            code: ErrorCode::$variant,
            name: $name,
            surface: Surface::$surface,
            kind: ErrorKind::$kind,
            status: $status,
            numbers: $numbers,
            retryable: Retryable::$retryable,
            title: $title,
            meaning: $meaning,
            action: $action,
        },)*];
    };
}

use error_codes;

impl ErrorCode {
    /// Its row of the table.
    pub const fn row(self) -> &'static Row {
        // The macro writes both in one order.
        &TABLE[self as usize]
    }

    /// The code as clients read it.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The HTTP status of the REST API, and of the MCP endpoint before a method is called.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The JSON-RPC error codes towards clients of both protocol eras.
    pub const fn numbers(self) -> Numbers {
        match self.row().numbers {
            Some(numbers) => numbers,
            None => [code::INTERNAL_ERROR; 2],
        }
    }

    /// The code over REST, where prompts and resources have no codes of their own. A failure that only an MCP client
    /// can resolve, such as a server that asks for input, is an answer there that is not valid.
    pub fn over_rest(self) -> Self {
        match self {
            Self::InvalidParams => Self::InvalidRequest,
            Self::PromptNotFound | Self::ResourceNotFound | Self::AmbiguousUri => Self::NotFound,
            Self::AmbiguousPrompt => Self::AmbiguousTool,
            code if code.row().is_of_rest() => code,
            _ => Self::InvalidAnswer,
        }
    }

    /// Whether repeating the request can succeed, where the failure does not say it.
    pub const fn is_retryable(self) -> bool {
        matches!(self.row().retryable, Retryable::Yes)
    }

    /// Reference to its part of the page, `type` of problem documents (RFC 9457, 3.1.1).
    pub fn reference(self) -> String {
        format!("{PAGE}#{self}")
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The schema of `code` in problem documents.
impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        enumeration("What kind of problem it is. Stable: programs may decide by it.", Row::is_of_rest)
    }
}

impl ToSchema for ErrorCode {
    fn name() -> Cow<'static, str> {
        "Code".into()
    }
}

/// Schema of `code` in failed results of `/call`.
#[derive(Debug)]
pub struct CallCode;

impl PartialSchema for CallCode {
    fn schema() -> RefOr<Schema> {
        enumeration("Why `success` is false. Stable: programs may decide by it.", |row| {
            row.surface == Surface::Call
        })
    }
}

impl ToSchema for CallCode {
    fn name() -> Cow<'static, str> {
        "CallCode".into()
    }
}

/// The codes that `is_of_it`, each with its meaning.
fn enumeration(says: &str, is_of_it: fn(&Row) -> bool) -> RefOr<Schema> {
    let rows = || TABLE.iter().filter(|row| is_of_it(row));
    let lines = rows().map(|row| format!("\n- `{}`: {}", row.name, row.meaning));
    let text = format!("{says}\n{}", lines.collect::<String>());
    let schema = ObjectBuilder::new().schema_type(Type::String).description(Some(text));
    schema.enum_values(Some(rows().map(|row| row.name))).build().into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// `variant` with an underscore before each capital letter.
    fn snake_case(variant: &str) -> String {
        let mut name = String::new();
        for letter in variant.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    #[test]
    fn every_code_has_its_own_row_and_name() {
        let names: HashSet<&str> = TABLE.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), TABLE.len());
        for row in TABLE {
            assert_eq!(row.code.row().name, row.name);
            assert_eq!(row.name, snake_case(&format!("{:?}", row.code)));
            for text in [row.title, row.meaning, row.action] {
                assert!(!text.is_empty() && !text.ends_with(' '), "{}: {text:?}", row.name);
            }
            assert!(row.meaning.ends_with('.') && !row.title.ends_with('.'), "{}", row.name);
        }
    }

    #[test]
    fn numbers_and_statuses_are_in_their_ranges() {
        for row in TABLE {
            let failed = (400..600).contains(&row.status);
            match row.surface {
                Surface::Mcp => assert!(failed || row.status == 200, "{}", row.name),
                Surface::Call => assert_eq!(row.status, 200, "{}", row.name),
                _ => assert!(failed, "{}", row.name),
            }
            let is_of_mcp = !matches!(row.surface, Surface::EveryRest | Surface::Rest | Surface::Call);
            assert!(!is_of_mcp || row.numbers.is_some(), "{}", row.name);
            let Some([_, modern]) = row.numbers else { continue };
            // 2026-07-28 reserves the range from -32000 to -32099 for the protocol.
            let of_protocol =
                [code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY, code::UNSUPPORTED_PROTOCOL_VERSION];
            assert!(!(-32099..=-32000).contains(&modern) || of_protocol.contains(&modern), "{}", row.name);
        }
    }
}
