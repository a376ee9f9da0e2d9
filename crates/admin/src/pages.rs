//! Pages that are part of the program: `/openapi.json`, the files of Swagger UI below `/docs/`, and `/docs/errors`, to which
//! `type` of every problem document refers.
//!
//! Invariants: a page is served as it lies in memory, so any number of unread answers shares one copy, and the memory
//! budget does not charge it. Each page has an entity tag, and a client that names it gets 304 without a body. The pages load
//! nothing from elsewhere. The page of errors is made from the table of codes. `docs/errors.md` has the same texts; a test
//! compares it with the table.
//!
//! Not here: what the document says (`openapi`).

use std::future::ready;
use std::io::Read as _;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::read::GzDecoder;

use super::{entity_tag, not_found};
use protocol::error_code::{Numbers, PAGE, Retryable, Row, TABLE};
use runtime::memory::{SMALL, budget};

/// The page of errors above the codes.
const ERRORS_HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>Error codes of Switchyard</title>\n\
    <style>body{font:16px/1.5 sans-serif;max-width:46em;margin:2em auto;padding:0 1em}\
    h2{font:bold 1.1em monospace;margin:1.5em 0 0}:target{background:#ffc}p{margin:.3em 0}</style>\n\
    <h1>Error codes of Switchyard</h1>\n\
    <p>Every error has <code>code</code>, <code>detail</code>, <code>hint</code> and <code>retryable</code>. Where they \
    apply, <code>retry_after_ms</code>, <code>request_id</code>, <code>server</code> and <code>tool</code> are added.</p>\n";

/// Scripts and styles of our own only; Swagger UI writes styles into its page.
const PAGE_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
macro_rules! compressed {
    ($($media:literal => $($name:literal),+;)+) => {
        &[$($(($name, $media, include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")).as_slice()),)+)+]
    };
}

/// The page of Swagger UI and the files that it uses, each with its media type. They are compressed.
const FILES: &[(&str, &str, &[u8])] = compressed! {
    "text/html" => "index.html", "oauth2-redirect.html";
    "text/css" => "index.css", "swagger-ui.css";
    "image/png" => "favicon-16x16.png", "favicon-32x32.png";
    "text/javascript" => "swagger-ui-bundle.js", "swagger-ui-standalone-preset.js", "oauth2-redirect.js";
};
/// The one file that each program with Swagger UI writes itself. The address is relative, so that the page also works
/// where the router is nested in another one. There is no badge of a validator on the internet.
const INITIALIZER: (&str, &[u8]) = (
    "swagger-initializer.js",
    br##"window.onload = function() {
  window.ui = SwaggerUIBundle({
    "dom_id": "#swagger-ui",
    "url": "../openapi.json",
    "deepLinking": true,
    "layout": "StandaloneLayout",
    "validatorUrl": "none",
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
  });
};
"##,
);

static ERRORS: LazyLock<Page> = LazyLock::new(|| {
    let html = Bytes::from(errors_html());
    Page::new(html, "text/html; charset=utf-8", "no-cache").confined()
});
static UI: LazyLock<Vec<(&str, Page)>> = LazyLock::new(|| {
    let (name, script) = INITIALIZER;
    let page = |bytes, media_type: &str| Page::new(bytes, media_type, "max-age=3600").confined();
    let files = FILES.iter().map(|(name, media_type, bytes)| (*name, page(decompressed(bytes), media_type)));
    files.chain([(name, page(Bytes::from_static(script), "text/javascript"))]).collect()
});

/// Returns the content of a file that the build has compressed.
fn decompressed(bytes: &[u8]) -> Bytes {
    let mut content = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut content).expect("the build compressed it");
    content.into()
}

/// `/docs`, and `/openapi.json` if there is a `document`, which is compressed by gzip.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(document: Option<&'static [u8]>) -> Router<S> {
    document
        .map_or_else(Router::new, described)
        .route("/docs", get(|| async { (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")]) }))
        .route("/docs/", get(file))
        .route(PAGE, get(|headers: HeaderMap| async move { ERRORS.answer(&headers) }))
        .route("/docs/{*file}", get(file))
}

fn described<S: Clone + Send + Sync + 'static>(document: &'static [u8]) -> Router<S> {
    // It changes with the program, under the same address.
    let page = move || Page::new(decompressed(document), "application/json", "no-cache");
    let page = Arc::new(LazyLock::new(page));
    Router::new().route("/openapi.json", get(move |headers: HeaderMap| ready(page.answer(&headers))))
}

/// One file of Swagger UI.
async fn file(path: Option<Path<String>>, headers: HeaderMap, uri: Uri) -> Response {
    let name = path.map_or_else(|| FILES[0].0.to_owned(), |Path(path)| path);
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

/// The page of errors.
fn errors_html() -> String {
    TABLE.iter().fold(ERRORS_HEAD.to_owned(), |page, row| page + &section(row))
}

fn section(row: &Row) -> String {
    let (title, meaning, action) = (marked(row.title), marked(row.meaning), marked(&sentence(row.action)));
    format!(
        "<h2 id=\"{name}\">{name}</h2>\n<p><b>{title}.</b> {meaning}</p>\n<p>{action}</p>\n<p><small>{facts}</small></p>\n",
        name = row.name,
        facts = facts(row),
    )
}

/// Status, numbers and retryability in one line.
fn facts(row: &Row) -> String {
    let number = row.numbers.map_or_else(String::new, |numbers| format!(" · JSON-RPC {}", both(numbers)));
    format!("HTTP {}{number} · retryable: {}", row.status, retryable(row.retryable))
}

/// One number where the eras share it, else that of legacy clients first.
fn both([legacy, modern]: Numbers) -> String {
    if legacy == modern { legacy.to_string() } else { format!("{legacy}, since 2026-07-28 {modern}") }
}

const fn retryable(retryable: Retryable) -> &'static str {
    match retryable {
        Retryable::Yes => "yes",
        Retryable::No => "no",
        Retryable::Sometimes => "sometimes",
    }
}

/// `hint` as a sentence.
fn sentence(hint: &str) -> String {
    let mut letters = hint.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// `text` as HTML, its backticks as code.
fn marked(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let parts = escaped.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
