//! The pages that a server asks a user to open (`elicitation/create` by URL).
//!
//! Invariant: only a URL that every reader takes for the same `http` or `https` page is accepted. Any other, such as
//! `javascript:` or one with credentials, could run code in a client or hide its host.
//!
//! Source: 2025-11-25 and 2026-07-28 `client/elicitation`, RFC 3986, section 3. Not here: who is asked.

use super::method;
use json::raw::Raw;

/// Whether `url` is a plain `http` or `https` URL: visible ASCII, with a host and without credentials.
pub(crate) fn is_web_page(url: &str) -> bool {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = url.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(rest) = rest else { return false };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>`".contains(&byte);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_host = !authority.is_empty() && !authority.starts_with(':') && !authority.contains(['@', '%']);
    url.bytes().all(is_plain) && is_host
}

/// Whether a client may be sent `params` of a request `method`: an elicitation names web pages only.
pub fn is_safe(method: &str, params: Option<&Raw>) -> bool {
    method != method::ELICITATION_CREATE || params.is_none_or(has_web_pages)
}

/// Whether all `inputRequests` of a result or of a task are safe.
pub fn are_safe(object: &Raw) -> bool {
    // A reader may take the last of two members with one name.
    let all = object.members().filter(|(name, _)| name == "inputRequests");
    all.flat_map(|(_, requests)| requests.members().map(|(_, request)| request).collect::<Vec<_>>()).all(
        |request| {
            let is_elicitation = |name: &str, value: &Raw| {
                name == "method" && value.as_part().says(method::ELICITATION_CREATE)
            };
            let members: Vec<_> = request.members().collect();
            !members.iter().any(|(name, value)| is_elicitation(name, value))
                || members
                    .iter()
                    .filter(|(name, _)| name == "params")
                    .all(|(_, params)| has_web_pages(params))
        },
    )
}

/// Whether every `url` of an elicitation is a web page, whatever its mode: clients look at the URL.
pub fn has_web_pages(params: &Raw) -> bool {
    let mut urls = params.members().filter(|(name, value)| name == "url" && !value.is_null());
    urls.all(|(_, url)| url.as_part().text().is_some_and(|url| is_web_page(&url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(&text.to_owned().into()).expect("JSON")
    }

    #[test]
    fn only_plain_web_pages_are_opened() {
        for url in [
            "https://login.example/a?b=c#d",
            "HTTP://localhost:8080/",
            "https://[::1]:1/x",
            "http://a",
            "https://a/@b?c@d:e",
            "https://a/%0d{x}|^",
        ] {
            assert!(is_web_page(url), "{url}");
        }
        for url in [
            "",
            "a",
            "//a/",
            "http:a",
            "http:/a",
            "https://",
            "https:///a",
            "https://?a",
            "https://:80/",
            "javascript:alert(1)",
            "JavaScript://a/%0aalert(1)",
            "java\nscript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vscode://a",
            "ftp://a",
            "blob:https://a/b",
            "view-source:https://a",
            " https://a",
            "https://a ",
            "\thttps://a",
            "https://a/\r\nb",
            "https://a\u{200b}.example/",
            "https://\u{430}pple.example/",
            "https://user@a/",
            "https://user:pass@a/",
            "https://login.example\\@evil.example/",
            "https:\\\\a",
            "https://%65vil/",
            "https://a/\"x",
        ] {
            assert!(!is_web_page(url), "{url:?}");
        }
    }

    #[test]
    fn every_url_of_every_request_counts() {
        for (params, safe) in [
            (r#"{"mode":"url","url":"https://a"}"#, true),
            (r#"{"mode":"form","message":"m"}"#, true),
            (r#"{"url":null}"#, true),
            (r#"{"mode":"url","url":"data:,x"}"#, false),
            (r#"{"mode":"form","url":"data:,x"}"#, false),
            (r#"{"url":"https://a","url":"data:,x"}"#, false),
            (r#"{"url":"data:,x","url":"https://a"}"#, false),
            (r#"{"\u0075rl":"data:,x"}"#, false),
            (r#"{"url":["javascript:x"]}"#, false),
        ] {
            assert_eq!(is_safe("elicitation/create", Some(&raw(params))), safe, "{params}");
            assert!(is_safe("sampling/createMessage", Some(&raw(params))));
            let request = format!(r#"{{"method":"elicitation/create","params":{params}}}"#);
            for object in [
                format!(r#"{{"inputRequests":{{"a":{{"method":"roots/list"}},"b":{request}}}}}"#),
                format!(r#"{{"inputRequests":{{}},"inputRequests":{{"b":{request}}}}}"#),
                format!(r#"{{"inputRequests":{{"b":{request},"b":{{"method":"roots/list"}}}}}}"#),
            ] {
                assert_eq!(are_safe(&raw(&object)), safe, "{object}");
            }
        }
        assert!(are_safe(&raw("{}")) && is_safe("elicitation/create", None));
    }
}
