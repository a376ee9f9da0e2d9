//! The `OpenAPI` document.
//!
//! Invariant: the problems of each operation come from one list of codes, which the code itself uses. Not
//! here: the operations, which are described beside their functions; serving the document (`pages`).

use std::collections::BTreeMap;

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    self, ContentBuilder, HeaderBuilder, ObjectBuilder, OpenApi as Document, Ref, RefOr, ResponseBuilder,
    Type,
};
use utoipa::{IntoResponses, OpenApi};

use super::call_stream_data::{Advance, Asked, Begun, Message, Withdrawn};
use super::problem::PROBLEM_JSON;
use protocol::{ErrorCode, Problem};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Switchyard",
        description = "Tools of many MCP servers behind one API.\n\nWhile authentication is off, which is \
                       possible on loopback only, no credential is needed.\n\nA request that is refused or \
                       fails is answered with a problem document (RFC 9457) whose `code` is stable."
    ),
    components(schemas(
        Problem,
        // The data of streaming calls, which the media type cannot refer to.
        Begun, Advance, Message, Asked, Withdrawn
    )),
    // Holds for every operation that does not say otherwise. `X-API-Key` is not an alternative here, because clients of
    // some generators then send both headers, and two credentials are refused.
    security((), ("bearer" = [])),
    tags(
        (name = "tools", description = "Find tools and run them"),
        (name = "resources and prompts", description = "Read what servers offer beside tools"),
        (name = "servers", description = "The servers behind the gateway"),
        (name = "circuit breakers", description = "Servers that are not contacted for a while"),
        (name = "gateway", description = "The gateway itself"),
    )
)]
struct Base;

/// The document without its operations.
pub(super) fn base() -> Document {
    let mut document = Base::openapi();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A JSON Web Token or an API key, as the gateway is configured. The header `X-API-Key` takes a key too, but \
             not beside this one",
        ))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    document
}

/// Prints the document as it is served and committed.
pub(super) fn printed(document: &Document) -> String {
    let text = document.to_pretty_json().expect("own types print as JSON");
    text + "\n"
}

/// Refusals that do not depend on the route: checks of the listener, missing rights, bugs.
const DOOR: &[ErrorCode] = &[
    ErrorCode::BadHost,
    ErrorCode::BodyIncomplete,
    ErrorCode::Unauthorized,
    ErrorCode::Forbidden,
    ErrorCode::HostNotAllowed,
    ErrorCode::OriginNotAllowed,
    ErrorCode::CsrfTokenRequired,
    ErrorCode::BodyTimeout,
    ErrorCode::TooManyConnections,
    ErrorCode::AuthenticationBusy,
    ErrorCode::MemoryExhausted,
    ErrorCode::AuditFull,
    ErrorCode::BodyTooLarge,
    ErrorCode::TooManyHeads,
    ErrorCode::TransferCodingNotSupported,
    ErrorCode::InternalError,
];
/// Refusals of a path that names a server.
const NAMED: &[ErrorCode] = &[ErrorCode::InvalidRequest, ErrorCode::ServerNotFound];
/// Failures between Switchyard and a server.
const UPSTREAM: &[ErrorCode] = &[
    ErrorCode::Overloaded,
    ErrorCode::RateLimited,
    ErrorCode::ConnectionFailed,
    ErrorCode::OutcomeUnknown,
    ErrorCode::ServerError,
    ErrorCode::InvalidAnswer,
    ErrorCode::BackendError,
    ErrorCode::AuthFailed,
    ErrorCode::LoginRequired,
    ErrorCode::CircuitOpen,
    ErrorCode::ServerUnavailable,
    ErrorCode::TimedOut,
];
/// Failures of calls of tools only.
const CALL: &[ErrorCode] = &[
    ErrorCode::InvalidArguments,
    ErrorCode::AmbiguousTool,
    ErrorCode::ToolNotFound,
    ErrorCode::ToolChanged,
    ErrorCode::UnsupportedMediaType,
];

/// Failures of reading resources and prompts only.
const READ: &[ErrorCode] = &[
    ErrorCode::InvalidArguments,
    ErrorCode::AmbiguousTool,
    ErrorCode::NotFound,
    ErrorCode::UnsupportedMediaType,
];

/// Problems of a request that only reads.
pub(super) struct ReadProblems;
/// Problems of a request with a query.
pub(super) struct QueryProblems;
/// Problems of a request that names a server, in its path or in its query.
pub(super) struct NamedProblems;
/// Problems of a request that names a tool in its path.
pub(super) struct ToolProblems;
/// Problems of a list, of which the query may name a server.
pub(super) struct QueryNamedProblems;
/// Problems of a request that reads from a server.
pub(super) struct ServerReadProblems;
/// Problems of the answer to a server request.
pub(super) struct AnswerProblems;
/// Problems of a request that rebuilds the connections of a server.
pub(super) struct ReconnectProblems;
/// Problems of a request that enables or disables a server.
pub(super) struct SwitchProblems;
/// Problems of a request that approves definitions of tools.
pub(super) struct ApprovalProblems;
/// Problems of a request that reloads the configuration file.
pub(super) struct ReloadProblems;
/// Problems of a request for the configuration.
pub(super) struct ConfigurationProblems;
/// Problems of a request about a login.
pub(super) struct LoginProblems;
/// Problems of a request that calls a tool.
pub(super) struct CallProblems;

impl IntoResponses for ReadProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(DOOR)
    }
}

impl IntoResponses for QueryProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, &[ErrorCode::InvalidRequest]].concat())
    }
}

impl IntoResponses for NamedProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED].concat())
    }
}

impl IntoResponses for ToolProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, &[ErrorCode::InvalidRequest, ErrorCode::ToolNotFound]].concat())
    }
}

impl IntoResponses for QueryNamedProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED].concat())
    }
}

impl IntoResponses for ServerReadProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED, UPSTREAM, READ].concat())
    }
}

impl IntoResponses for AnswerProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let own = &[ErrorCode::InvalidRequest, ErrorCode::NotFound, ErrorCode::UnsupportedMediaType];
        described(&[DOOR, own].concat())
    }
}

impl IntoResponses for ReconnectProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED, UPSTREAM].concat())
    }
}

impl IntoResponses for SwitchProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED, &[ErrorCode::ServerUnavailable]].concat())
    }
}

impl IntoResponses for ApprovalProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let own = &[ErrorCode::ToolNotFound, ErrorCode::OtherDefinition, ErrorCode::ServerUnavailable];
        described(&[DOOR, NAMED, own].concat())
    }
}

impl IntoResponses for ConfigurationProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, &[ErrorCode::NotFound]].concat())
    }
}

impl IntoResponses for ReloadProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let own = [ErrorCode::NotFound, ErrorCode::InvalidConfiguration, ErrorCode::ServerUnavailable];
        described(&[DOOR, &own].concat())
    }
}

impl IntoResponses for LoginProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED, &[ErrorCode::LoginNotPossible, ErrorCode::LoginFailed]].concat())
    }
}

impl IntoResponses for CallProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED, UPSTREAM, CALL].concat())
    }
}

/// The header of a 401 beside its problem. The listener adds the URL of the metadata, if it has one.
fn challenge() -> openapi::Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let says = "`Bearer`; where tokens of an authorization server are accepted, `resource_metadata` is the URL of a \
                document that names it (RFC 9728) and needs no credential";
    HeaderBuilder::new().schema(Some(text)).description(Some(says)).build()
}

/// Returns the responses of `codes`: one for each status, in which `code` tells them apart.
fn described(codes: &[ErrorCode]) -> BTreeMap<String, RefOr<openapi::Response>> {
    let mut by_status: BTreeMap<String, Vec<ErrorCode>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.row().status.to_string()).or_default().push(*code);
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
