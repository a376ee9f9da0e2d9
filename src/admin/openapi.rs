//! The `OpenAPI` document and the page to browse it.
//!
//! Invariants: the page loads nothing from anywhere else and works without the internet; the
//! document is printed once, when it is first asked for. Not here: the operations, which stand beside
//! their functions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    self, ContentBuilder, HeaderBuilder, ObjectBuilder, OpenApi as Document, Ref, RefOr, ResponseBuilder,
    Type,
};
use utoipa::{IntoResponses, OpenApi};
use utoipa_swagger_ui::{Config, Url};

use super::problem::{Code, Document as Problem, PROBLEM_JSON};
use super::{not_found, operations};

/// Scripts and styles of our own only; Swagger UI writes styles into its page.
const PAGE_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Switchyard",
        description = "Tools of many MCP servers behind one API.\n\nWhile authentication is off, which is \
                       possible on loopback only, no credential is needed.\n\nA request that is refused or \
                       fails is answered with a problem document (RFC 9457) whose `code` is stable."
    ),
    components(schemas(Problem)),
    tags(
        (name = "tools", description = "Find tools and run them"),
        (name = "servers", description = "The servers behind the gateway"),
        (name = "circuit breakers", description = "Which servers are left alone for a while"),
        (name = "gateway", description = "The gateway itself"),
    )
)]
struct Base;

/// The document without its operations.
pub(super) fn base() -> Document {
    let mut document = Base::openapi();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A JSON Web Token or an API key, as the gateway is configured"))
        .build();
    let key =
        ApiKeyValue::with_description("X-API-Key", "An API key, where the gateway is configured for keys");
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    components.add_security_scheme("api_key", SecurityScheme::ApiKey(ApiKey::Header(key)));
    document
}

/// The whole document.
static TEXT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(printed(&operations::described())));

/// `/openapi.json` and `/docs`.
pub(super) fn pages<S: Clone + Send + Sync + 'static>() -> Router<S> {
    // Relative, so that the page also works where the router is nested in another one; and no badge
    // of a validator on the internet.
    let config = Arc::new(Config::new([Url::from("../openapi.json")]).validator_url("none"));
    let file = move |path: Option<Path<String>>, uri: Uri| page(config.clone(), path, uri);
    Router::new()
        .route("/openapi.json", get(|| async { with_type("application/json", TEXT.clone()) }))
        .route("/docs", get(|| async { (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")]) }))
        .route("/docs/", get(file.clone()))
        .route("/docs/{*file}", get(file))
}

/// The document as it is served and committed.
pub(super) fn printed(document: &Document) -> String {
    let text = document.to_pretty_json().expect("own types print as JSON");
    text + "\n"
}

fn with_type(media_type: &'static str, body: Bytes) -> Response {
    ([(CONTENT_TYPE, media_type)], body).into_response()
}

/// One file of Swagger UI, which is part of the program.
async fn page(config: Arc<Config<'static>>, path: Option<Path<String>>, uri: Uri) -> Response {
    let path = path.map(|Path(path)| path).unwrap_or_default();
    let Ok(Some(file)) = utoipa_swagger_ui::serve(&path, config) else {
        return not_found(uri).await.into_response();
    };
    let mut response = file.bytes.into_owned().into_response();
    let headers = response.headers_mut();
    if let Ok(media_type) = file.content_type.parse() {
        headers.insert(CONTENT_TYPE, media_type);
    }
    if file.gzpipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    response
}

/// Refusals that do not depend on the route: at the door, by the role, by a bug.
const DOOR: &[Code] = &[
    Code::BadHost,
    Code::BodyIncomplete,
    Code::Unauthorized,
    Code::Forbidden,
    Code::HostNotAllowed,
    Code::OriginNotAllowed,
    Code::BodyTimeout,
    Code::TooManyConnections,
    Code::AuthenticationBusy,
    Code::MemoryExhausted,
    Code::AuditFull,
    Code::BodyTooLarge,
    Code::InternalError,
];
/// Of a path that names a server.
const NAMED: &[Code] = &[Code::InvalidRequest, Code::ServerNotFound];
/// Between the gateway and a server.
const UPSTREAM: &[Code] = &[
    Code::Overloaded,
    Code::RateLimited,
    Code::ConnectionFailed,
    Code::OutcomeUnknown,
    Code::ServerError,
    Code::InvalidAnswer,
    Code::BackendError,
    Code::AuthFailed,
    Code::CircuitOpen,
    Code::ServerUnavailable,
    Code::TimedOut,
];
/// Of a call alone.
const CALL: &[Code] = &[
    Code::InvalidArguments,
    Code::AmbiguousTool,
    Code::ToolNotFound,
    Code::ToolChanged,
    Code::UnsupportedMediaType,
];

/// How a request that only reads may be refused.
pub(super) struct ReadProblems;
/// … and one that names a server, …
pub(super) struct NamedProblems;
/// … and one that rebuilds its connections, …
pub(super) struct ReconnectProblems;
/// … and one that approves definitions of its tools, …
pub(super) struct ApprovalProblems;
/// … and one that reads the registry file again, …
pub(super) struct ReloadProblems;
/// … and one that calls a tool.
pub(super) struct CallProblems;

impl IntoResponses for ReadProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(DOOR)
    }
}

impl IntoResponses for NamedProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED].concat())
    }
}

impl IntoResponses for ReconnectProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED, UPSTREAM].concat())
    }
}

impl IntoResponses for ApprovalProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let own = &[Code::ToolNotFound, Code::OtherDefinition, Code::ServerUnavailable];
        described(&[DOOR, NAMED, own].concat())
    }
}

impl IntoResponses for ReloadProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let own = [Code::NotFound, Code::InvalidConfiguration, Code::ServerUnavailable];
        described(&[DOOR, &own].concat())
    }
}

impl IntoResponses for CallProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        described(&[DOOR, NAMED, UPSTREAM, CALL].concat())
    }
}

/// What a 401 says beside its problem: the door adds to it what it knows of an authorization server.
fn challenge() -> openapi::Header {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let says = "`Bearer`; where tokens of an authorization server are accepted, `resource_metadata` is the URL of a \
                document that names it (RFC 9728) and needs no credential";
    HeaderBuilder::new().schema(Some(text)).description(Some(says)).build()
}

/// The responses that `codes` are answered with: one for each status, told apart by `code`.
fn described(codes: &[Code]) -> BTreeMap<String, RefOr<openapi::Response>> {
    let mut by_status: BTreeMap<String, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status().as_u16().to_string()).or_default().push(*code);
    }
    by_status.into_iter().map(|(status, codes)| (status, response(&codes).into())).collect()
}

fn response(codes: &[Code]) -> openapi::Response {
    let lines: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.title())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response = ResponseBuilder::new().description(lines.join("; ")).content(PROBLEM_JSON, content);
    if codes.contains(&Code::Unauthorized) {
        response = response.header("WWW-Authenticate", challenge());
    }
    if codes.iter().any(|code| code.may_be_temporary()) {
        let whole_seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
        let header = HeaderBuilder::new()
            .schema(Some(whole_seconds))
            .description(Some("Seconds until it is worth trying again, where that is known"));
        return response.header("Retry-After", header.build()).build();
    }
    response.build()
}
