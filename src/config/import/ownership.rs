//! Recognizes entries that lead to Switchyard itself, which must not become its servers.
//!
//! Not here: whether an entry leads to this gateway or to another one (`connect::entry`).

use std::path::Path;

use url::{Host, Url};

use super::json::{Json, Members, member};

/// Why such an entry is left out.
pub(crate) const REASON: &str = "it leads to Switchyard itself";
/// The name of the entry that `connect` writes.
pub(crate) const NAME: &str = "switchyard";
/// The name of its package.
const PACKAGE: &str = "switchyard-mcp";
/// Members that have the URL of an entry.
pub(crate) const URL_KEYS: [&str; 4] = ["httpUrl", "serverUrl", "uri", "url"];

/// Whether `name` is one that `connect` gives an entry.
pub(crate) fn is_ours(name: &str) -> bool {
    name.strip_prefix(NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Whether `server` starts Switchyard, or has the URL of `gateway`.
pub(crate) fn leads_to(gateway: &Url, server: &Json) -> bool {
    let Json::Object(members) = server else { return false };
    match URL_KEYS.iter().find_map(|key| member(members, key)?.text()) {
        Some(url) => Url::parse(url).is_ok_and(|url| is_endpoint_of(gateway, &url)),
        None => is_program(&words(members)),
    }
}

/// Whether `url` is an endpoint for clients of `gateway`.
pub(crate) fn is_endpoint_of(gateway: &Url, url: &Url) -> bool {
    let is_endpoint = ["/mcp", "/sse"]
        .iter()
        .any(|path| url.path() == *path || url.path().starts_with(&format!("{path}/")));
    url.scheme() == gateway.scheme()
        && is_same_host(url, gateway)
        && url.port_or_known_default() == gateway.port_or_known_default()
        && (is_endpoint || url.path().starts_with(gateway.path()))
}

/// Whether these words are `switchyard stdio`, perhaps of a package.
fn is_program(words: &[&str]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let is_named = Path::new(program).file_stem().is_some_and(|stem| stem == NAME);
    let is_package =
        |word: &&str| *word == PACKAGE || word.strip_prefix(PACKAGE).is_some_and(|end| end.starts_with('@'));
    (is_named || arguments.iter().any(is_package)) && arguments.contains(&"stdio")
}

/// Whether a URL leads to this machine itself.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether two URLs name the same host. All names of loopback are one.
fn is_same_host(one: &Url, other: &Url) -> bool {
    one.host() == other.host() || is_loopback(one) && is_loopback(other)
}

/// The program of an entry and its arguments, which are two members or one list.
pub(crate) fn words(members: &Members) -> Vec<&str> {
    let all = ["command", "cmd", "args"].iter().filter_map(|key| member(members, key));
    let all = all.flat_map(|value| match value {
        Json::Text(text) => vec![text.as_str()],
        Json::List(items) => items.iter().filter_map(Json::text).collect(),
        _ => Vec::new(),
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    #[test]
    fn an_entry_that_leads_to_the_gateway_is_recognized_by_its_target() {
        let gateway = Url::parse("http://127.0.0.1:8080/mcp").expect("a URL");
        for (entry, expected) in [
            (r#"{"url": "http://localhost:8080/mcp/files"}"#, true),
            (r#"{"serverUrl": "http://127.0.0.1:8080/sse"}"#, true),
            (r#"{"url": "http://127.0.0.1:8081/mcp"}"#, false),
            (r#"{"url": "https://127.0.0.1:8080/mcp"}"#, false),
            (r#"{"command": "/usr/bin/switchyard", "args": ["stdio", "--config", "/a"]}"#, true),
            (r#"{"command": ["switchyard.exe", "stdio"]}"#, true),
            (r#"{"command": "npx", "args": ["-y", "switchyard-mcp@0.1.0", "stdio"]}"#, true),
            (r#"{"command": "npx", "args": ["-y", "other", "stdio"]}"#, false),
            (r#"{"command": "switchyard", "args": ["check"]}"#, false),
            (r#"{"command": "files", "args": ["/srv/switchyard", "stdio"]}"#, false),
            ("7", false),
        ] {
            let server = json::read(entry).expect("JSON");
            assert_eq!(leads_to(&gateway, &server), expected, "{entry}");
        }
    }
}
