//! Pages as HTML, without scripts and without anything from elsewhere.
//!
//! Invariants: every text is escaped, invisible characters too, so that a name cannot look like another one. The headers forbid scripts, frames and caching. A page tells its URL to no other
//! site, because the URL may have a ticket or a code.
//!
//! Own code and no template crate: there are about ten pages, each a title, some paragraphs and one form.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use protocol::visible;

/// Limit of one foreign text, in characters.
const MAX_TEXT: usize = 1_000;
const STYLE: &str = include_str!("page.css");
/// The name above each page, with the sign of the dashboard (`icon.svg`).
const BRAND: &str = "<header><svg viewBox=\"0 0 24 24\" width=\"22\" height=\"22\" aria-hidden=\"true\">\
    <rect width=\"24\" height=\"24\" rx=\"6\" fill=\"#2f5fd0\"/><path d=\"M5 7h4c4 0 4 10 8 10h2M5 17h4c1.6 0 2.5-1.6 \
    3.3-3.5M13 9.5C13.8 8 14.9 7 17 7h2\" fill=\"none\" stroke=\"#fff\" stroke-width=\"2\" stroke-linecap=\"round\"/></svg>\
    Switchyard</header>";

/// The one style of the pages, by its hash.
static STYLE_SOURCE: LazyLock<String> =
    LazyLock::new(|| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(STYLE))));

/// A page before it is sent.
#[derive(Debug)]
pub(crate) struct Page {
    status: StatusCode,
    title: String,
    body: String,
    /// Sources of `form-action`. None if there is no form.
    form_targets: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Page {
    /// A page with `title` as its heading.
    pub(crate) fn new(status: StatusCode, title: &str) -> Self {
        let title = escaped(title);
        Self { status, title, body: String::new(), form_targets: None, headers: Vec::new() }
    }

    /// A page that says what went wrong.
    pub(crate) fn failure(status: StatusCode, title: &str, text: &str) -> Self {
        let page = Self::new(status, title);
        page.marked(text, " class=\"alert\" role=\"alert\"")
    }

    /// Adds a paragraph that a person has to see.
    pub(crate) fn warning(self, text: &str) -> Self {
        self.marked(text, " class=\"alert\"")
    }

    /// Adds a paragraph.
    pub(crate) fn text(self, text: &str) -> Self {
        self.marked(text, "")
    }

    fn marked(mut self, text: &str, attributes: &str) -> Self {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "<p{attributes}>{}</p>", escaped(text));
        self
    }

    /// Adds a link to `target`, which is a URL.
    pub(crate) fn link(mut self, target: &str, text: &str) -> Self {
        let _ = writeln!(self.body, "<p><a href=\"{}\">{}</a></p>", quoted(target), escaped(text));
        self
    }

    /// Adds a list of names and values.
    pub(crate) fn facts(mut self, facts: &[(&str, &str)]) -> Self {
        self.body.push_str("<dl>\n");
        for (name, value) in facts {
            let _ = writeln!(self.body, "<dt>{}</dt><dd><bdi>{}</bdi></dd>", escaped(name), escaped(value));
        }
        self.body.push_str("</dl>\n");
        self
    }

    /// Adds a form, whose answer may be a page of Switchyard only.
    pub(crate) fn form(mut self, HtmlForm(html): HtmlForm) -> Self {
        self.body += &html;
        self.body.push_str("</form>\n");
        self.form_targets.get_or_insert_with(|| "'self'".to_owned());
        self
    }

    /// Allows the form to be answered with a redirect to `target`, a source of the Content Security Policy.
    pub(crate) fn leading_to(mut self, target: &str) -> Self {
        let targets = self.form_targets.get_or_insert_with(|| "'self'".to_owned());
        targets.push(' ');
        targets.push_str(target);
        self
    }

    /// Sets a cookie.
    pub(crate) fn cookie(mut self, cookie: Option<HeaderValue>) -> Self {
        self.headers.extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
        self
    }

    /// Says when to try again, if that is known.
    pub(crate) fn retry_after(mut self, seconds: impl Into<Option<u64>>) -> Self {
        self.headers.extend(seconds.into().map(|seconds| (RETRY_AFTER, seconds.into())));
        self
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let Self { status, title, body, form_targets, headers } = self;
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} · Switchyard</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n{BRAND}\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
        );
        let mut response = (status, html).into_response();
        // A browser replaces the `Origin` of a form by `null` under `no-referrer`, and forms are accepted by it.
        let referrer = if form_targets.is_some() { "same-origin" } else { "no-referrer" };
        protect(response.headers_mut(), form_targets.as_deref().unwrap_or("'none'"), referrer);
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response.headers_mut().extend(headers);
        response
    }
}

/// A form before it is added to a page. Its action is relative, so that it works below any `public_url`.
pub(crate) struct HtmlForm(String);

impl HtmlForm {
    /// A form that is sent to `action`.
    pub(crate) fn to(action: &'static str) -> Self {
        Self(format!("<form method=\"post\" action=\"{action}\">\n"))
    }

    /// Adds a value that is not shown.
    pub(crate) fn hidden(mut self, name: &'static str, value: &str) -> Self {
        let value = quoted(value);
        let _ = writeln!(self.0, "<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
        self
    }

    /// Adds a field for a secret.
    pub(crate) fn secret(mut self, name: &'static str, label: &'static str) -> Self {
        let _ = writeln!(
            self.0,
            "<label for=\"{name}\">{label}</label>\n<input type=\"password\" id=\"{name}\" name=\"{name}\" \
             autocomplete=\"current-password\" required autofocus>"
        );
        self
    }

    /// Adds a button that sends the form with `value` as the field `name`.
    pub(crate) fn choice(mut self, name: &'static str, value: &'static str, text: &str) -> Self {
        let text = escaped(text);
        let _ = writeln!(self.0, "<button type=\"submit\" name=\"{name}\" value=\"{value}\">{text}</button>");
        self
    }

    /// Adds the button that sends the form.
    pub(crate) fn button(mut self, text: &str) -> Self {
        let _ = writeln!(self.0, "<button type=\"submit\">{}</button>", escaped(text));
        self
    }
}

/// Answers with a redirect that the browser follows with GET.
pub(crate) fn see_other(location: &str, cookies: impl IntoIterator<Item = HeaderValue>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    protect(headers, "'none'", "no-referrer");
    headers.extend(cookies.into_iter().map(|cookie| (SET_COOKIE, cookie)));
    match HeaderValue::from_str(location) {
        Ok(location) => _ = headers.insert(LOCATION, location),
        Err(_) => *response.status_mut() = StatusCode::BAD_GATEWAY,
    }
    response
}

fn protect(headers: &mut HeaderMap, form_targets: &str, referrer: &'static str) {
    let policy = format!(
        "default-src 'none'; style-src {}; form-action {form_targets}; base-uri 'none'; frame-ancestors 'none'",
        *STYLE_SOURCE
    );
    // The parts are our own or checked, so the policy is a valid header; a page without one must not be sent.
    let policy = HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, referrer),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Returns `text` for HTML, in at most as many characters as a foreign text may have.
pub(crate) fn escaped(text: &str) -> String {
    let mut letters = text.chars();
    let clipped: String = letters.by_ref().take(MAX_TEXT).flat_map(visible::escaped).collect();
    let end = if letters.next().is_some() { "…" } else { "" };
    quoted(&clipped) + end
}

fn quoted(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            letter => html.push(letter),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_become_markup_or_change_how_others_look() {
        assert_eq!(escaped("<script>\"'&"), "&lt;script&gt;&quot;&#39;&amp;");
        assert_eq!(escaped("a\u{202e}b\u{200b}c\nd\u{e0041}"), r"a\u{202e}b\u{200b}c\nd\u{e0041}");
        assert_eq!(escaped(&"<".repeat(1_001)), "&lt;".repeat(1_000) + "…");
        let form = HtmlForm::to("start").hidden("a", "\"><script>").button("<b>").0;
        assert!(!form.contains("<script>") && !form.contains("<b>"), "{form}");
    }

    #[test]
    fn a_page_loads_nothing_and_is_in_no_frame() {
        let header = |response: &Response, name: HeaderName| {
            response.headers()[name].to_str().expect("text").to_owned()
        };
        let page = Page::new(StatusCode::OK, "t").into_response();
        let policy = header(&page, CONTENT_SECURITY_POLICY);
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-")
                && policy.contains("form-action 'none'")
        );
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"));
        assert_eq!(header(&page, X_FRAME_OPTIONS), "DENY");
        assert_eq!(header(&page, CACHE_CONTROL), "no-store");
        assert_eq!(header(&page, REFERRER_POLICY), "no-referrer");
        let form =
            Page::new(StatusCode::OK, "t").form(HtmlForm::to("start")).leading_to("https:").into_response();
        assert!(header(&form, CONTENT_SECURITY_POLICY).contains("form-action 'self' https:;"));
        assert_eq!(header(&form, REFERRER_POLICY), "same-origin");
    }
}
