//! The `OpenAPI` document.
//!
//! Invariant: the problems of an operation are those of every operation, which the table of codes marks, and its own. Not
//! here: the operations, which are described beside their functions; serving the document (`pages`).

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::{
    self, ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, ResponseBuilder, Type,
};

use super::problem::PROBLEM_JSON;
use protocol::ErrorCode;
use protocol::error_code::{Row, Surface, TABLE};

/// Declares the problems of groups of operations: those of every operation, those between Switchyard and a server if the
/// operation `reaches` one, and their own ones.
macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident, $reaches:literal, [$($own:ident),*];)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
                described($reaches, &[$(ErrorCode::$own),*])
            }
        }
    )*};
}

problems! {
    /// Problems of a request that only reads.
    ReadProblems, false, [];
    /// Problems of a request with a query.
    QueryProblems, false, [InvalidRequest];
    /// Problems of a request for the history, which may be off.
    HistoryProblems, false, [InvalidRequest, NotFound];
    /// Problems of a request that names a server, in its path or in its query.
    NamedProblems, false, [InvalidRequest, ServerNotFound, ServerNotConfigured, ViewNotFound];
    /// Problems of a request that names a view in its path.
    ViewProblems, false, [InvalidRequest, ViewNotFound];
    /// Problems of a request that names a tool. Its server may not have been reached yet.
    ToolProblems, true, [InvalidRequest, ToolNotFound, ViewNotFound];
    /// Problems of a request that reads from a server.
    ServerReadProblems, true,
        [InvalidRequest, ServerNotFound, ViewNotFound, InvalidArguments, AmbiguousTool, NotFound, UnsupportedMediaType];
    /// Problems of the answer to a server request.
    AnswerProblems, false, [InvalidRequest, NotFound, UnsupportedMediaType];
    /// Problems of a request that rebuilds the connections of a server.
    ReconnectProblems, true, [InvalidRequest, ServerNotFound];
    /// Problems of a request that enables or disables a server.
    SwitchProblems, false, [InvalidRequest, ServerNotFound, ServerNotConfigured, ServerUnavailable];
    /// Problems of a request that approves definitions of tools.
    ApprovalProblems, false,
        [InvalidRequest, ServerNotFound, ServerNotConfigured, ToolNotFound, OtherDefinition, ServerUnavailable];
    /// Problems of a request that reloads the configuration file.
    ReloadProblems, false, [NotFound, InvalidConfiguration, ServerUnavailable];
    /// Problems of a request that changes the entry of a server.
    EntryProblems, false, [InvalidRequest, NotFound, ServerNotFound, UnsupportedMediaType, FileNotChanged];
    /// Problems of a request about API keys.
    KeyProblems, false, [InvalidRequest, NotFound, UnsupportedMediaType, FileNotChanged];
    /// Problems of a request about secrets of principals.
    SecretProblems, false, [InvalidRequest, NotFound, UnsupportedMediaType, FileNotChanged, LimitReached];
    /// Problems of a request about grants or clients of the authorization server.
    GrantProblems, false, [InvalidRequest, NotFound, StoreUnavailable];
    /// Problems of a request for standard error of a server.
    StderrProblems, false, [InvalidRequest, NotFound, ServerNotFound, ServerNotConfigured];
    /// Problems of a request for the configuration.
    ConfigurationProblems, false, [NotFound];
    /// Problems of a request about a login.
    LoginProblems, false, [InvalidRequest, ServerNotFound, ServerNotConfigured, LoginNotPossible, LoginFailed];
    /// Problems of a request that calls a tool.
    CallProblems, true, [
        InvalidRequest, ServerNotFound, ViewNotFound, InvalidArguments, AmbiguousTool, ToolNotFound, ToolChanged, UnsupportedMediaType
    ];
}

/// The header of a 401 beside its problem. The listener adds the URL of the metadata, if it has one.
fn challenge() -> openapi::Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let says = "`Bearer`; where tokens of an authorization server are accepted, `resource_metadata` is the URL of a \
                document that names it (RFC 9728) and needs no credential";
    HeaderBuilder::new().schema(Some(text)).description(Some(says)).build()
}

/// Returns the responses of an operation with its `own` codes: one for each status, in which `code` tells them apart.
fn described(reaches_server: bool, own: &[ErrorCode]) -> BTreeMap<String, RefOr<openapi::Response>> {
    let is_possible = |row: &&Row| match row.surface {
        Surface::Every | Surface::EveryRest => true,
        Surface::Server => reaches_server || own.contains(&row.code),
        _ => own.contains(&row.code),
    };
    let mut by_status: BTreeMap<String, Vec<ErrorCode>> = BTreeMap::new();
    for row in TABLE.iter().filter(is_possible) {
        by_status.entry(row.status.to_string()).or_default().push(row.code);
    }
    by_status.into_iter().map(|(status, codes)| (status, response(&codes).into())).collect()
}

fn response(codes: &[ErrorCode]) -> openapi::Response {
    let lines: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.row().title)).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response = ResponseBuilder::new().description(lines.join("; ")).content(PROBLEM_JSON, content);
    if codes.contains(&ErrorCode::Unauthorized) {
        response = response.header("WWW-Authenticate", challenge());
    }
    if matches!(codes.first().map(|code| code.row().status), Some(429 | 502 | 503)) {
        let whole_seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
        let header = HeaderBuilder::new()
            .schema(Some(whole_seconds))
            .description(Some("Seconds until it is worth trying again, where that is known"));
        return response.header("Retry-After", header.build()).build();
    }
    response.build()
}
