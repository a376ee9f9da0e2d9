//! The `OpenAPI` document without its operations. Only tests make the document: it is committed, and becomes part of the
//! program as it is.

use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::call_stream::{Advance, CallStart, Message, ServerRequestData, Withdrawn};
use protocol::Problem;

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
        CallStart, Advance, Message, ServerRequestData, Withdrawn
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
