//! Secrets: values that never reach a log, an error or an answer.
//!
//! A secret is a [`SecretString`]: it has no `Debug` text and no `Serialize`, and it is wiped when dropped. It is
//! exposed in one place only, where it is written into a request or a child's environment. A URL may contain
//! credentials too, so it is shown as [`redacted_url`] only.

pub use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// Returns `url` without user, password, fragment and the values of its query.
pub fn redacted_url(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail only for URLs that cannot have a user, such as `data:`.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_fragment(None);
    if url.query().is_some() {
        shown.set_query(None);
        let names: Vec<String> =
            url.query_pairs().map(|(name, value)| redacted_pair(&name, &value)).collect();
        return format!("{shown}?{}", names.join("&"));
    }
    shown.into()
}

/// A name without a value may itself be the secret, as in `?token`.
fn redacted_pair(name: &str, value: &str) -> String {
    if value.is_empty() {
        return "…".into();
    }
    let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    format!("{name}=…")
}

/// Redacts the text of a URL that still contains references such as `${HOST}`. User, password, query and fragment are
/// removed.
pub fn redacted_reference(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}{separator}{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_credentials() {
        for (url, shown) in [
            ("http://localhost:8001", "http://localhost:8001/"),
            ("https://user:pass@example.org/mcp", "https://example.org/mcp"),
            ("https://example.org/mcp?api_key=s3cret&v=2#tok", "https://example.org/mcp?api_key=…&v=…"),
            ("https://example.org/?s3cret", "https://example.org/?…"),
            ("https://example.org/?a%26b=1", "https://example.org/?a%26b=…"),
        ] {
            assert_eq!(redacted_url(&Url::parse(url).expect("a URL")), shown);
        }
    }

    #[test]
    fn a_shown_reference_has_no_credentials() {
        for (text, shown) in [
            ("${URL}", "${URL}"),
            ("https://user:${PASS}@${HOST}/mcp?key=s3cret#x", "https://${HOST}/mcp"),
            ("https://us@er:s3cret@${HOST}", "https://${HOST}"),
        ] {
            assert_eq!(redacted_reference(text), shown);
        }
    }
}
