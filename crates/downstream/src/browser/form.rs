//! Queries and forms of pages: their fields, and the check that a form comes from a page of Switchyard.
//!
//! Invariants: a field that occurs twice makes the whole input invalid (RFC 6749, section 3.1, for the callback). A
//! form is accepted only if the browser says that a page of the same origin sent it, and tokens are compared in constant
//! time.
//!
//! Not here: reading the body within its limits (`guard`).

use http::header::ORIGIN;
use http::{HeaderMap, HeaderName};
use subtle::ConstantTimeEq;
use url::{Url, form_urlencoded};

/// Most fields of a query or a form.
const MAX_FIELDS: usize = 32;
/// Header in which a browser says which site caused a request (Fetch Metadata).
pub(crate) static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Header in which a browser says what it does with the answer.
static SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The fields of a query or a form.
#[derive(Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Parses a URL-encoded text. None if a field occurs twice or there are too many.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text) {
            if fields.len() == MAX_FIELDS || fields.iter().any(|(known, _)| *known == name) {
                return None;
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Some(Self(fields))
    }

    /// Returns a field that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// Whether `headers` are those of a form that a page below `base` sent. All current browsers send `Origin` with a form.
pub(crate) fn is_own(headers: &HeaderMap, base: &str) -> bool {
    net::http::is_media_type(headers, "application/x-www-form-urlencoded") && is_of_own_page(headers, base)
}

/// Whether the browser says that a page below `base` caused the request. Browsers say it with each request that is not
/// GET or HEAD.
pub(crate) fn is_of_own_page(headers: &HeaderMap, base: &str) -> bool {
    let site = headers.get(&SEC_FETCH_SITE);
    let mut origins = headers.get_all(ORIGIN).iter();
    let origin = origins.next();
    let is_once = origins.next().is_none();
    let own = Url::parse(base).map(|base| base.origin().ascii_serialization());
    let fits = |own: String| origin.is_none_or(|origin| origin.as_bytes() == own.as_bytes());
    let is_named = origin.is_some() || site.is_some();
    is_named && is_once && site.is_none_or(|site| site == "same-origin") && own.is_ok_and(fits)
}

/// Whether a browser says which page or site caused the request.
pub(crate) fn names_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(&SEC_FETCH_SITE)
}

/// Whether no other site caused the request, as far as the browser says. A link of the user has the value `none`.
pub(crate) fn is_not_of_other_site(headers: &HeaderMap) -> bool {
    headers.get(&SEC_FETCH_SITE).is_none_or(|site| site == "same-origin" || site == "none")
}

/// Whether a page of another site uses the answer in itself, as an image or a frame. Browsers name no `Origin` for that.
pub(crate) fn is_embedded_elsewhere(headers: &HeaderMap) -> bool {
    let is = |name: &HeaderName, expected| headers.get(name).is_some_and(|value| value == expected);
    is(&SEC_FETCH_SITE, "cross-site") && !is(&SEC_FETCH_DEST, "document")
}

/// Whether two secrets are equal, in constant time.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::*;

    const BASE: &str = "http://127.0.0.1:8080";

    #[test]
    fn a_form_of_another_site_is_refused() {
        for (origin, site, own) in [
            (Some("http://127.0.0.1:8080"), Some("same-origin"), true),
            (Some("http://127.0.0.1:8080"), None, true),
            (None, Some("same-origin"), true),
            (None, None, false),
            (Some("null"), None, false),
            (Some("null"), Some("same-origin"), false),
            (Some("http://127.0.0.1:8081"), None, false),
            (Some("http://127.0.0.1:8081"), Some("same-site"), false),
            (Some("https://127.0.0.1:8080"), None, false),
            (Some("http://localhost:8080"), None, false),
            (Some("http://127.0.0.1:8080"), Some("cross-site"), false),
            (Some("http://127.0.0.1:8080"), Some("none"), false),
            (None, Some("none"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse().expect("text"));
            for (name, value) in [(&ORIGIN, origin), (&SEC_FETCH_SITE, site)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().expect("text"));
                }
            }
            assert_eq!(is_own(&headers, BASE), own, "{origin:?} {site:?}");
            headers.insert(CONTENT_TYPE, "text/plain".parse().expect("text"));
            assert!(!is_own(&headers, BASE), "another kind of body");
        }
        let twice = ["http://127.0.0.1:8080"; 2].map(|origin| (ORIGIN, origin.parse().expect("text")));
        let mut headers: HeaderMap = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse().expect("text"));
        for (name, value) in twice {
            headers.append(name, value);
        }
        assert!(!is_own(&headers, BASE));
    }

    #[test]
    fn a_field_is_there_once_or_the_input_is_invalid() {
        let fields = Fields::parse(b"a=1&b=x%20y+z&c=").expect("fields");
        assert_eq!((fields.get("a"), fields.get("b"), fields.get("c")), (Some("1"), Some("x y z"), None));
        assert!(Fields::parse(b"code=a&state=b&code=a").is_none());
        let many = (0..33).map(|n| format!("f{n}=")).collect::<Vec<_>>().join("&");
        assert!(Fields::parse(many.as_bytes()).is_none());
    }
}
