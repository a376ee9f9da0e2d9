//! Redirect URIs: where the answer of a login may go.
//!
//! Invariants: a requested URI is compared as a string with a registered one, byte by byte. The one exception is the
//! port of a loopback address over HTTP, which a program chooses when it starts to listen. A URI that was accepted is
//! written into the redirect as it is, so no second parser can read another host in it.
//!
//! Source: RFC 8252, sections 7.1, 7.3 and 8.3; RFC 9700, sections 2.1 and 4.1; MCP 2026-07-28 `basic/authorization`,
//! communication security.

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::fetch::host_and_port;

/// Limit of the length in bytes.
const MAX_BYTES: usize = 2_048;
/// Schemes of known programs, which have no dot as RFC 8252 asks for.
const KNOWN_SCHEMES: [&str; 11] = [
    "antigravity",
    "cursor",
    "kiro",
    "positron",
    "raycast",
    "trae",
    "vscode",
    "vscode-insiders",
    "vscodium",
    "warp",
    "windsurf",
];
/// Schemes that browsers and systems treat themselves, so that no program gets the answer.
const FOREIGN_SCHEMES: [&str; 16] = [
    "about",
    "blob",
    "content",
    "data",
    "file",
    "filesystem",
    "ftp",
    "intent",
    "javascript",
    "mailto",
    "sms",
    "tel",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];
/// The beginnings of loopback URIs. Each is followed by a port, a path, a query or the end.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://[::1]", "http://localhost"];

/// A registered redirect URI.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RedirectUri(String);

/// The receiver of the answer of a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Receiver {
    /// The web site of this host.
    Site(String),
    /// Some program on the person's machine: a loopback address can belong to any.
    Loopback,
    /// The program on the person's machine that has claimed this scheme.
    Program(String),
}

impl RedirectUri {
    /// Reads a URI that a client registers. The error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let expected = "a redirect URI has to begin with https://, or be a loopback address over http, or have the \
                        scheme of a program with a dot in it; an operator can list a client with another scheme";
        Self::read(text, expected, |scheme| scheme.contains('.') || KNOWN_SCHEMES.contains(&scheme))
    }

    /// Reads a URI that the operator writes for a client, which may be any program.
    pub fn of_operator(text: &str) -> Result<Self, &'static str> {
        let expected = "a redirect URI has to begin with https://, or be a loopback address over http, or have the \
                        scheme of a program in small letters, as in `myapp://callback`";
        Self::read(text, expected, |scheme| !FOREIGN_SCHEMES.contains(&scheme))
    }

    /// The error is `expected` if the receiver is not one of those that the caller accepts.
    fn read(
        text: &str,
        expected: &'static str,
        is_of_program: impl FnOnce(&str) -> bool,
    ) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("a redirect URI is longer than 2048 bytes");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['\\', '"', '<', '>', '`']) {
            return Err("a redirect URI has a character that has to be percent-encoded");
        }
        let url = Url::parse(text).map_err(|_| "a redirect URI is not an absolute URI")?;
        if url.fragment().is_some() {
            return Err("a redirect URI has a fragment");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a redirect URI has a user or a password");
        }
        let is_accepted = match url.scheme() {
            // Browsers skip further slashes in front of the host.
            "https" => text.strip_prefix("https://").is_some_and(|rest| !rest.starts_with('/')),
            "http" => is_loopback(text, &url),
            scheme => is_of_program(scheme) && text.starts_with(scheme),
        };
        if is_accepted { Ok(Self(text.to_owned())) } else { Err(expected) }
    }

    /// Whether a request may name `requested`.
    pub fn matches(&self, requested: &str) -> bool {
        self.0 == requested || self.is_at_another_port(requested)
    }

    /// The receiver of the answer.
    pub fn receiver(&self) -> Receiver {
        let Ok(url) = Url::parse(&self.0) else { return Receiver::Loopback };
        match (url.scheme(), host_and_port(&url)) {
            ("http", _) => Receiver::Loopback,
            ("https", Some(host)) => Receiver::Site(host),
            (scheme, _) => Receiver::Program(scheme.to_owned()),
        }
    }

    /// The URI as it was registered.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `requested` differs in the port of its loopback address only.
    fn is_at_another_port(&self, requested: &str) -> bool {
        LOOPBACK.iter().any(|start| {
            let rests = (self.0.strip_prefix(start), requested.strip_prefix(start));
            let (Some(own), Some(other)) = rests else { return false };
            without_port(own).is_some_and(|own| without_port(other) == Some(own))
        })
    }
}

/// Whether `url`, which was read from `text`, is a loopback address over HTTP.
fn is_loopback(text: &str, url: &Url) -> bool {
    let is_host = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.octets() == [127, 0, 0, 1],
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let rest = LOOPBACK.iter().find_map(|start| text.strip_prefix(start));
    is_host && rest.is_some_and(|rest| without_port(rest).is_some())
}

/// Returns what follows the port, if there is one: nothing, a path or a query.
fn without_port(rest: &str) -> Option<&str> {
    let end = match rest.strip_prefix(':') {
        Some(port) => {
            let digits = port.bytes().take_while(u8::is_ascii_digit).count();
            port[..digits].parse::<u16>().ok().filter(|port| *port > 0)?;
            &port[digits..]
        }
        None => rest,
    };
    (end.is_empty() || end.starts_with(['/', '?'])).then_some(end)
}

/// Returns `uri` with `parameters` added to its query. The rest of it stays as it is.
pub(crate) fn with_parameters(uri: &str, parameters: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let separator = match uri.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{uri}{separator}{query}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uri(text: &str) -> RedirectUri {
        RedirectUri::parse(text).unwrap_or_else(|reason| panic!("{text}: {reason}"))
    }

    #[test]
    fn redirect_uris_of_known_clients_are_accepted() {
        for (text, receiver) in [
            ("https://claude.ai/api/mcp/auth_callback", Receiver::Site("claude.ai".into())),
            ("https://chatgpt.com/connector_platform_oauth_redirect", Receiver::Site("chatgpt.com".into())),
            ("https://vscode.dev/redirect", Receiver::Site("vscode.dev".into())),
            ("https://vscode.dev:8443/redirect", Receiver::Site("vscode.dev:8443".into())),
            ("http://localhost/callback", Receiver::Loopback),
            ("http://localhost:3118/callback", Receiver::Loopback),
            ("http://127.0.0.1:33418/", Receiver::Loopback),
            ("http://127.0.0.1", Receiver::Loopback),
            ("http://[::1]:9/cb?a=b", Receiver::Loopback),
            ("cursor://anysphere.cursor-mcp/oauth/callback", Receiver::Program("cursor".into())),
            ("warp://mcp/oauth2callback", Receiver::Program("warp".into())),
            ("vscodium://publisher.extension/callback", Receiver::Program("vscodium".into())),
            ("raycast://oauth?package_name=mcp", Receiver::Program("raycast".into())),
            ("com.example.app:/oauth", Receiver::Program("com.example.app".into())),
        ] {
            assert_eq!(uri(text).receiver(), receiver, "{text}");
            assert!(uri(text).matches(text), "{text}");
        }
    }

    #[test]
    fn redirect_uri_that_could_leak_a_code_is_refused() {
        for text in [
            "",
            "/callback",
            "//evil.example/cb",
            "https:evil.example/cb",
            "https:///evil.example/cb",
            "http://app.example/cb",
            "http://localhost.evil.example/cb",
            "http://localhost@evil.example/cb",
            "http://127.0.0.1:80@evil.example/cb",
            "http://user@localhost/cb",
            "http://127.0.0.2/cb",
            "http://127.1/cb",
            "http://2130706433/cb",
            "http://0x7f.0.0.1/cb",
            "http://0.0.0.0/cb",
            "http://[::ffff:127.0.0.1]/cb",
            "http://LOCALHOST/cb",
            "http://localhost:0/cb",
            "http://localhost:/cb",
            "http://localhost:*/cb",
            "http://localhost:99999/cb",
            "https://app.example/cb#part",
            "https://user:pw@app.example/cb",
            "https://app.example\\@evil.example/cb",
            "https://app.example/c b",
            "https://app.example/\u{e9}",
            "https://app.example/cb\n",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vbscript:x",
            "blob:https://app.example/1",
            "about:blank",
            "ftp://app.example/",
            "mailto:a@b.example",
            "intent://scan/#Intent;end",
            "myapp://callback",
        ] {
            assert!(RedirectUri::parse(text).is_err(), "{text:?}");
        }
        assert!(RedirectUri::parse(&format!("https://app.example/{}", "a".repeat(2_048))).is_err());
    }

    #[test]
    fn operator_may_write_the_scheme_of_any_program() {
        let own = RedirectUri::of_operator("myapp://callback").expect("a URI");
        assert_eq!(own.receiver(), Receiver::Program("myapp".into()));
        assert!(
            own.matches("myapp://callback")
                && !own.matches("myapp://callback/")
                && !own.matches("MYAPP://callback")
        );
        for text in [
            "http://app.example/cb",
            "https://app.example/cb#part",
            "MyApp://callback",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vbscript:x",
            "blob:https://app.example/1",
            "about:blank",
            "mailto:a@b.example",
            "intent://scan/",
            "view-source:https://app.example/",
        ] {
            let reason = RedirectUri::of_operator(text).expect_err(text);
            assert!(!reason.contains("operator"), "an operator reads it: {reason}");
        }
    }

    #[test]
    fn only_the_port_of_a_loopback_address_may_differ() {
        for (registered, requested, expected) in [
            ("http://localhost/callback", "http://localhost:51234/callback", true),
            ("http://localhost:3118/callback", "http://localhost/callback", true),
            ("http://127.0.0.1:1/cb?a=b", "http://127.0.0.1:2/cb?a=b", true),
            ("http://[::1]/cb", "http://[::1]:8080/cb", true),
            ("http://127.0.0.1", "http://127.0.0.1:8080", true),
            ("http://localhost/callback", "http://127.0.0.1:51234/callback", false),
            ("http://localhost/callback", "http://localhost:51234/callback/", false),
            ("http://localhost/callback", "http://localhost:51234/Callback", false),
            ("http://localhost/callback", "http://localhost:51234/callback?x=1", false),
            ("http://localhost/callback", "http://localhost:51234/callback#x", false),
            ("http://localhost/callback", "https://localhost:51234/callback", false),
            ("http://localhost/callback", "http://localhost:0/callback", false),
            ("http://localhost/callback", "http://localhost:70000/callback", false),
            ("http://localhost/callback", "http://localhost:80@evil.example/callback", false),
            ("http://localhost/callback", "http://localhost.evil.example/callback", false),
            ("http://127.0.0.1", "http://127.0.0.1.evil.example", false),
            ("http://127.0.0.1", "http://127.0.0.1:80.evil.example", false),
            ("https://app.example/cb", "https://app.example:8443/cb", false),
            ("https://app.example/cb", "https://app.example/cb/../x", false),
            ("https://app.example/cb", "https://APP.example/cb", false),
            ("https://app.example/cb", "https://app.example/%63b", false),
            ("https://localhost/cb", "https://localhost:2/cb", false),
        ] {
            assert_eq!(uri(registered).matches(requested), expected, "{registered} {requested}");
        }
    }

    #[test]
    fn parameters_are_added_and_the_uri_stays_as_it_is() {
        let parameters = [("code", "a b&c"), ("state", "1+1=2")];
        for (uri, expected) in [
            ("https://a.example/cb", "https://a.example/cb?code=a+b%26c&state=1%2B1%3D2"),
            ("https://a.example", "https://a.example?code=a+b%26c&state=1%2B1%3D2"),
            ("https://a.example/?", "https://a.example/?code=a+b%26c&state=1%2B1%3D2"),
            ("https://a.example/?x=%41", "https://a.example/?x=%41&code=a+b%26c&state=1%2B1%3D2"),
        ] {
            assert_eq!(with_parameters(uri, &parameters), expected);
        }
    }

    proptest! {
        /// A requested URI that is accepted leads a browser to the host and path that were registered.
        #[test]
        fn accepted_request_never_leads_to_another_place(
            registered in "(https://|http://)(localhost|127\\.0\\.0\\.1|\\[::1\\]|a\\.example)(:[0-9]{1,5})?(/[a-z%?.@]{0,6})?",
            suffix in "[:0-9a-z@/?#.\\\\%]{0,12}",
            cut in 0_usize..40,
        ) {
            let Ok(own) = RedirectUri::parse(&registered) else { return Ok(()) };
            let requested = format!("{}{suffix}", registered.get(..cut.min(registered.len())).unwrap_or_default());
            if !own.matches(&requested) {
                return Ok(());
            }
            let (own, requested) = (Url::parse(&registered).expect("a URL"), Url::parse(&requested).expect("a URL"));
            let is_loopback = own.scheme() == "http";
            prop_assert_eq!(own.scheme(), requested.scheme());
            prop_assert_eq!(own.host_str(), requested.host_str());
            prop_assert_eq!((own.path(), own.query()), (requested.path(), requested.query()));
            prop_assert!(requested.fragment().is_none() && requested.username().is_empty());
            prop_assert!(is_loopback || own.port() == requested.port());
        }

        /// Every port of a loopback address is accepted, and no other change is.
        #[test]
        fn every_port_of_a_loopback_address_is_accepted(port in 1_u16.., other in 1_u16.., path in "/[a-z]{0,8}") {
            let own = uri(&format!("http://localhost:{port}{path}"));
            let requested = format!("http://localhost:{other}{path}");
            prop_assert!(own.matches(&requested));
            let longer = format!("{requested}x");
            prop_assert!(!own.matches(&longer));
        }
    }
}
