//! Strict parsing of `Host` and `Origin`, and the lists of allowed hosts and origins.
//!
//! These checks keep a foreign web page from talking to an instance on its visitor's own machine (DNS
//! rebinding). The `Host` of such a page is a foreign name, and its `Origin` a foreign site.
//! Invariant: a value that is not fully understood matches nothing. An address in an unusual spelling
//! (`127.1`, `0x7f.0.0.1`, `[::ffff:127.0.0.1]`) is such a value.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::{HeaderMap, Uri};
use url::Url;

/// A host and an optional port, as in `Host` or `:authority`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    host: Host,
    port: Option<u16>,
}

/// A name in lower case, or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Address(address) => address.is_loopback(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some(address) = text.strip_prefix('[') {
            return Some(Self::Address(address.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into()));
        }
        let is_label_byte = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_label_byte);
        if text.len() > 253 || !text.split('.').all(is_label) {
            return None;
        }
        // If the last label begins with a digit, every resolver takes the text for an address (WHATWG
        // URL).
        let last = text.rsplit('.').next()?;
        if last.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(Self::Address(text.parse::<Ipv4Addr>().ok()?.into()));
        }
        Some(Self::Name(text.to_ascii_lowercase()))
    }
}

impl Authority {
    /// Parses `host`, `host:port`, `[v6]` or `[v6]:port`. A user, an empty port or a trailing dot is
    /// refused.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(parse_port(port)?)),
            _ => (text, None),
        };
        Some(Self { host: Host::parse(host)?, port })
    }

    /// Whether it has a name, and no address.
    pub(super) fn has_name(&self) -> bool {
        matches!(self.host, Host::Name(_))
    }

    /// Whether it is a loopback host.
    pub fn is_loopback(&self) -> bool {
        self.host.is_loopback()
    }

    /// Whether it is the address of a machine in its usual spelling, which no name server of a web page can move.
    pub(super) fn is_address(&self) -> bool {
        match self.host {
            Host::Name(_) => false,
            Host::Address(IpAddr::V4(address)) => !address.is_unspecified(),
            Host::Address(IpAddr::V6(address)) => {
                !address.is_unspecified() && address.to_ipv4_mapped().is_none()
            }
        }
    }

    /// Whether `self`, an entry of a list, covers `other`: without a port it covers every port.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.host == other.host && self.port.is_none_or(|port| other.port == Some(port))
    }
}

/// Returns the host that a request names: `Host`, or else the authority of its target. `guard` has checked both.
pub(crate) fn host_of<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Option<&'r str> {
    let header = headers.get(HOST).and_then(|host| host.to_str().ok());
    header.or(uri.authority().map(http::uri::Authority::as_str))
}

fn parse_port(text: &str) -> Option<u16> {
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => f.write_str(name)?,
            Host::Address(IpAddr::V4(address)) => address.fmt(f)?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The origin of a web page, as in `Origin`: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    authority: Authority,
}

impl Origin {
    /// Parses `scheme://host` or `scheme://host:port`. `null`, which stands for any page without its
    /// own origin, is refused.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let is_scheme_byte = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_scheme_byte) {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let mut authority = Authority::parse(authority)?;
        authority.port = authority.port.or(match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        });
        Some(Self { scheme, authority })
    }

    /// Whether its page is on this machine, or on the same site as `host`.
    fn is_close_to(&self, host: &Authority) -> bool {
        self.is_web() && self.authority.is_loopback() || self.is_of(host)
    }

    fn is_web(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
    }

    /// Whether a page of this origin that sends a request to `host` is on the same site. The scheme is
    /// not known behind a proxy, so a `host` without a port may have the default port of either
    /// scheme.
    fn is_of(&self, host: &Authority) -> bool {
        self.is_web()
            && self.authority.host == host.host
            && (host.port.is_none() || host.port == self.authority.port)
    }
}

/// Returns the source of `form-action` for a redirect to `url`. Login services redirect to other HTTPS origins, and
/// browsers apply the policy to each step. None for a URL that is not a web page.
pub(crate) fn form_source(url: &Url) -> Option<String> {
    match url.scheme() {
        "https" => Some("https:".to_owned()),
        "http" => {
            let origin = url.origin().ascii_serialization();
            Origin::parse(&origin).map(|_| origin)
        }
        _ => None,
    }
}

/// Accepted values of `Host`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Hosts {
    /// `localhost` and loopback addresses, with any port.
    #[default]
    Loopback,
    /// Those, and the host of `public_url` with any port.
    LoopbackAnd(Authority),
    /// The hosts of this list.
    Listed(Vec<Authority>),
}

impl Hosts {
    /// Accepts the host of `public_url` too, with any port: the proxy before Switchyard has its own.
    pub(super) fn add_own(&mut self, own: Authority) {
        let own = Authority { port: None, ..own };
        match self {
            Self::Listed(list) if list.iter().any(|listed| listed.covers(&own)) => {}
            Self::Listed(list) => list.push(own),
            Self::Loopback | Self::LoopbackAnd(_) => *self = Self::LoopbackAnd(own),
        }
    }

    /// The entries of the list that have a port, as texts.
    pub fn listed_with_port(&self) -> Vec<String> {
        match self {
            Self::Loopback | Self::LoopbackAnd(_) => Vec::new(),
            Self::Listed(list) => {
                list.iter().filter(|listed| listed.port.is_some()).map(Authority::to_string).collect()
            }
        }
    }

    /// Whether `host` is an accepted name of Switchyard.
    pub fn allow(&self, host: &Authority) -> bool {
        match self {
            Self::Loopback => host.is_loopback(),
            Self::LoopbackAnd(own) => host.is_loopback() || own.covers(host),
            Self::Listed(list) => list.iter().any(|listed| listed.covers(host)),
        }
    }
}

/// Origins of web pages that may send requests. Programs send no `Origin` and are not affected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origins {
    /// Pages served from this machine, and pages served by Switchyard.
    #[default]
    Loopback,
    /// Those, and the origin of `public_url`.
    LoopbackAnd(Origin),
    /// The origins of this list.
    Listed(Vec<Origin>),
}

impl Origins {
    /// Accepts the origin of `public_url` too. A proxy may send another `Host` than the client.
    pub(super) fn add_own(&mut self, own: Origin) {
        match self {
            Self::Listed(list) => list.push(own),
            Self::Loopback | Self::LoopbackAnd(_) => *self = Self::LoopbackAnd(own),
        }
    }

    /// Whether a page of `origin` may send requests to `host`, which is an accepted one.
    pub fn allow(&self, origin: &Origin, host: &Authority) -> bool {
        match self {
            Self::Loopback => origin.is_close_to(host),
            Self::LoopbackAnd(own) => origin == own || origin.is_close_to(host),
            Self::Listed(list) => list.contains(origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_read_strictly() {
        for (text, read) in [
            ("localhost", Some("localhost")),
            ("LocalHost:8080", Some("localhost:8080")),
            ("127.0.0.1:1", Some("127.0.0.1:1")),
            ("[::1]", Some("[::1]")),
            ("[0:0:0:0:0:0:0:1]:65535", Some("[::1]:65535")),
            ("a-b_c.example.org", Some("a-b_c.example.org")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("1password.com", Some("1password.com")),
        ] {
            assert_eq!(Authority::parse(text).map(|a| a.to_string()).as_deref(), read, "{text}");
        }
        for text in [
            "",
            ":",
            ":80",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "localhost:+80",
            "localhost:080808",
            "localhost:8080:8080",
            "localhost.",
            ".localhost",
            "a..b",
            "user@localhost",
            "user:pw@localhost:80",
            "localhost@evil.example",
            "localhost/",
            "localhost?x",
            "localhost#x",
            "localhost\\evil",
            "local host",
            " localhost",
            "localhost ",
            "localhost\t",
            "localhost,evil.example",
            "http://localhost",
            "::1",
            "[::1",
            "::1]",
            "[::1]]",
            "[[::1]]",
            "[::1]x",
            "[::1]:",
            "[::1%25lo]",
            "[::1%lo]",
            "[127.0.0.1]",
            "127.1",
            "127.0.0.01",
            "2130706433",
            "0x7f.0.0.1",
            "0x7f000001",
            "0177.0.0.1",
            "127.0.0.1.",
            "1.2.3.4.5",
            "bücher.example",
            "localhost%2eevil",
            "*.example.org",
            "*",
        ] {
            assert_eq!(Authority::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_the_usual_spellings_are_loopback() {
        let loopback = |text| Authority::parse(text).is_some_and(|authority| authority.is_loopback());
        for text in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.1:80", "[::1]:8080"] {
            assert!(loopback(text), "{text}");
        }
        for text in [
            "0.0.0.0",
            "[::]",
            "[::ffff:127.0.0.1]",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "foo.localhost",
            "10.0.0.1",
        ] {
            assert!(!loopback(text), "{text}");
        }
    }

    #[test]
    fn a_listed_host_without_a_port_covers_every_port() {
        let hosts =
            Hosts::Listed(["gw.example", "10.0.0.5:8443"].map(|t| Authority::parse(t).expect(t)).to_vec());
        for (host, allowed) in [
            ("gw.example", true),
            ("GW.example:9", true),
            ("10.0.0.5:8443", true),
            ("10.0.0.5", false),
            ("10.0.0.5:80", false),
            ("x.gw.example", false),
            ("localhost", false),
        ] {
            assert_eq!(hosts.allow(&Authority::parse(host).expect(host)), allowed, "{host}");
        }
    }

    #[test]
    fn the_own_host_is_accepted_with_any_port_beside_the_others() {
        let parse = |text| Authority::parse(text).expect(text);
        for (mut hosts, others) in [
            (Hosts::Loopback, [("localhost:1", true), ("gw.example", false)]),
            (Hosts::Listed(vec![parse("gw.example")]), [("localhost:1", false), ("gw.example", true)]),
        ] {
            hosts.add_own(parse("mcp.example.com:8443"));
            for (host, allowed) in others.into_iter().chain([
                ("mcp.example.com", true),
                ("MCP.example.com:443", true),
                ("x.mcp.example.com", false),
                ("example.com", false),
            ]) {
                assert_eq!(hosts.allow(&parse(host)), allowed, "{host}");
            }
        }
        let mut origins = Origins::Loopback;
        origins.add_own(Origin::parse("https://mcp.example.com").expect("an origin"));
        for (origin, allowed) in [
            ("https://mcp.example.com:443", true),
            ("http://mcp.example.com", false),
            ("https://evil.example", false),
            ("http://localhost:3000", true),
        ] {
            let origin = Origin::parse(origin).expect(origin);
            assert_eq!(origins.allow(&origin, &parse("10.0.0.1:8080")), allowed, "{origin:?}");
        }
    }

    #[test]
    fn origins_are_compared_with_scheme_and_port() {
        let listed = ["https://app.example", "vscode-webview://abc"].map(|t| Origin::parse(t).expect(t));
        let (listed, default) = (Origins::Listed(listed.to_vec()), Origins::Loopback);
        for (origin, in_list, by_default) in [
            ("https://app.example", true, false),
            ("https://app.example:443", true, false),
            ("HTTPS://APP.example", true, false),
            ("http://app.example", false, false),
            ("https://app.example:8443", false, false),
            ("https://x.app.example", false, false),
            ("vscode-webview://abc", true, false),
            ("http://localhost:5173", false, true),
            ("https://[::1]", false, true),
            ("ftp://localhost", false, false),
            ("https://gw.example:8443", false, true),
            ("http://gw.example:8443", false, true),
            ("https://gw.example", false, false),
        ] {
            let (origin, host) =
                (Origin::parse(origin), Authority::parse("gw.example:8443").expect("a host"));
            let origin = origin.expect("an origin");
            assert_eq!(listed.allow(&origin, &host), in_list, "{origin:?}");
            assert_eq!(default.allow(&origin, &host), by_default, "{origin:?}");
        }
        for text in [
            "null",
            "",
            "https://",
            "app.example",
            "https://app.example/",
            "https://a@app.example",
            "://x",
            "https:app",
            "1x://a",
            "file://",
        ] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }
}
