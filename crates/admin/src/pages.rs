//! Pages that are part of the program: `/openapi.json`, the files of Swagger UI below `/docs/`, and `/docs/errors`.
//!
//! Invariants: a page is served as it lies in memory, so any number of unread answers shares one copy, and the memory
//! budget does not charge it. Each page has an
//! entity tag, and a client that names it gets 304 without a body. The pages load nothing from elsewhere.
//!
//! Not here: what the document says (`openapi`).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use utoipa_swagger_ui::{Config, SwaggerFile, Url};

use super::{entity_tag, error_page, not_found, openapi, operations};
use protocol::error_code::PAGE;
use runtime::memory::{SMALL, budget};

/// Scripts and styles of our own only; Swagger UI writes styles into its page.
const PAGE_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The files that the page uses. The first one is the page itself.
const FILES: [&str; 10] = [
    "index.html",
    "index.css",
    "favicon-16x16.png",
    "favicon-32x32.png",
    "swagger-initializer.js",
    "swagger-ui.css",
    "swagger-ui-bundle.js",
    "swagger-ui-standalone-preset.js",
    "oauth2-redirect.html",
    "oauth2-redirect.js",
];

static DOCUMENT: LazyLock<Page> = LazyLock::new(|| {
    let text = openapi::printed(&operations::described());
    // It changes with the program, under the same address.
    Page::new(Bytes::from(text), "application/json", "no-cache")
});
static ERRORS: LazyLock<Page> = LazyLock::new(|| {
    let html = Bytes::from(error_page::html());
    Page::new(html, "text/html; charset=utf-8", "no-cache").confined()
});
static UI: LazyLock<Vec<(&str, Page)>> = LazyLock::new(|| {
    // Relative, so that the page also works where the router is nested in another one; and no badge
    // of a validator on the internet.
    let config = Arc::new(Config::new([Url::from("../openapi.json")]).validator_url("none"));
    let file = |name| utoipa_swagger_ui::serve(name, Arc::clone(&config)).ok().flatten();
    FILES.into_iter().filter_map(|name| Some((name, Page::of(file(name)?)))).collect()
});

/// `/openapi.json` and `/docs`.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/openapi.json", get(|headers: HeaderMap| async move { DOCUMENT.answer(&headers) }))
        .route("/docs", get(|| async { (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")]) }))
        .route("/docs/", get(file))
        .route(PAGE, get(|headers: HeaderMap| async move { ERRORS.answer(&headers) }))
        .route("/docs/{*file}", get(file))
}

/// One file of Swagger UI.
async fn file(path: Option<Path<String>>, headers: HeaderMap, uri: Uri) -> Response {
    let name = path.map_or_else(|| FILES[0].to_owned(), |Path(path)| path);
    match UI.iter().find(|(found, _)| *found == name) {
        Some((_, page)) => page.answer(&headers),
        None => not_found(uri).await.into_response(),
    }
}

/// A page with what its headers say.
pub(super) struct Page {
    pub(super) bytes: Bytes,
    /// Media type, entity tag and the rest, as each answer has them.
    pub(super) headers: HeaderMap,
}

impl Page {
    pub(super) fn new(bytes: Bytes, media_type: &str, cache: &'static str) -> Self {
        let value = |text: &str| HeaderValue::from_str(text).expect("plain text");
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, value(media_type)),
            (ETAG, entity_tag::of(&bytes)),
            (CACHE_CONTROL, HeaderValue::from_static(cache)),
        ]);
        if bytes.len() >= SMALL {
            budget().exempt(&bytes);
        }
        Self { bytes, headers }
    }

    fn of(file: SwaggerFile<'static>) -> Self {
        let bytes = match file.bytes {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let mut page = Self::new(bytes, &file.content_type, "max-age=3600");
        if file.gzpipped {
            page.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        page.confined()
    }

    /// Allows the page no script and no style of others.
    fn confined(mut self) -> Self {
        self.headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        self
    }

    /// The page, or 304 for a client that has it.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        let mut response = if entity_tag::is_known(request, &self.headers[ETAG]) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            self.bytes.clone().into_response()
        };
        response.headers_mut().extend(self.headers.clone());
        response
    }
}
