//! The dashboard at `/ui/`: files that are part of the program.
//!
//! Invariants: the files are public and equal in all installations; what the dashboard shows comes from the REST API, with
//! the rights of its visitor. It runs no script and no style of others, nor any that is written into a page. It can be
//! put in no frame.
//!
//! Not here: the session of the visitor (`downstream`).

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;

use super::not_found;
use super::pages::Page;
use protocol::visible::INVISIBLE;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Name, media type and content of a file.
type File = (&'static str, &'static str, &'static [u8]);

macro_rules! files {
    ($($media:expr => $($name:literal),+;)+) => {
        &[$($(($name, $media, include_bytes!(concat!("../ui/", $name)).as_slice()),)+)+]
    };
}

/// The files. The first one is the page itself.
const FILES: &[File] = files! {
    "text/html; charset=utf-8" => "index.html";
    STYLE => "layout.css", "parts.css";
    "image/svg+xml" => "icon.svg";
    SCRIPT => "main.js", "api.js", "dom.js", "state.js", "chart.js", "actions.js", "diff.js", "form.js", "call.js",
        "servers.js", "server.js", "entries.js", "keys.js", "people.js", "stderr.js", "tool.js", "tools.js", "views.js", "why.js", "callers.js", "offers.js", "media.js",
        "command.js", "health.js", "calls.js", "history.js", "changes.js", "logins.js", "secrets.js", "system.js", "configuration.js",
        "metrics.js", "events.js", "theme.js";
};

static PAGES: LazyLock<Vec<(&str, Page)>> = LazyLock::new(|| {
    let page = |(name, media, bytes): &File| (*name, Page::new(Bytes::from_static(bytes), media, "no-cache"));
    let protected = |(name, mut page): (&'static str, Page)| {
        protect(&mut page.headers);
        (name, page)
    };
    let invisible = ("invisible.js", Page::new(Bytes::from(invisible()), SCRIPT, "no-cache"));
    FILES.iter().map(page).chain([invisible]).map(protected).collect()
});

/// Returns the script with the invisible characters, so that the dashboard has the same ones as all other parts.
fn invisible() -> String {
    let mut script = "// The invisible characters of `protocol::visible`, but for line ends and tabs.\n\
                      export const INVISIBLE = /(?![\\n\\t])["
        .to_owned();
    for range in INVISIBLE {
        // A string can always be written to.
        let _ = write!(script, "\\u{{{:x}}}-\\u{{{:x}}}", u32::from(*range.start()), u32::from(*range.end()));
    }
    script + "]/gu;\n"
}

fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// `/ui` and the files below it.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/ui", get(|| async { (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "ui/")]) }))
        .route("/ui/", get(file))
        .route("/ui/{file}", get(file))
}

async fn file(path: Option<Path<String>>, headers: HeaderMap, uri: Uri) -> Response {
    let name = path.map_or_else(|| FILES[0].0.to_owned(), |Path(path)| path);
    match PAGES.iter().find(|(found, _)| *found == name) {
        Some((_, page)) => page.answer(&headers),
        None => not_found(uri).await.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_small_and_name_no_other_site() {
        let all: usize = FILES.iter().map(|(_, _, bytes)| bytes.len()).sum();
        assert!(all <= 250 * 1024, "{all} bytes");
        for (name, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).expect("UTF-8");
            let urls =
                text.match_indices("://").map(|(at, _)| &text[at.saturating_sub(5)..text.len().min(at + 30)]);
            let foreign: Vec<&str> = urls.filter(|url| !url.contains("http://www.w3.org/")).collect();
            assert!(foreign.is_empty(), "{name}: {foreign:?}");
        }
    }

    #[test]
    fn dashboard_has_the_invisible_characters_of_all_other_parts() {
        let script = invisible();
        assert!(
            script.contains(r"(?![\n\t])[\u{0}-\u{1f}\u{7f}-\u{9f}") && script.ends_with("]/gu;\n"),
            "{script}"
        );
        assert_eq!(script.matches("\\u{").count(), 2 * INVISIBLE.len());
        assert!(PAGES.iter().any(|(name, page)| *name == "invisible.js" && page.bytes == script));
        let (_, _, dom) = FILES.iter().find(|(name, ..)| *name == "dom.js").expect("a file");
        let dom = std::str::from_utf8(dom).expect("UTF-8");
        assert!(dom.contains("from './invisible.js'") && dom.contains("replace(INVISIBLE, escaped)"));
    }

    #[test]
    fn no_file_makes_markup_or_code_of_a_text() {
        let sinks =
            ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "srcdoc"];
        for (name, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).expect("UTF-8");
            for sink in sinks {
                assert!(!text.contains(sink), "{name} has {sink}");
            }
            assert!(*name != "index.html" || !text.contains("style=") && !text.contains("onclick"), "{name}");
        }
    }
}
