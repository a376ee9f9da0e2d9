//! Cookies of the pages: their names, attributes and reading.
//!
//! Invariants: scripts cannot read a cookie (`HttpOnly`). Over HTTPS it has the prefix `__Host-`, so neither another
//! host of the same domain nor a page over HTTP can set it. Over plain HTTP, which is for loopback, the name has the
//! port, because browsers send the cookies of all ports of a host. A name that occurs twice is not read.
//!
//! Source: RFC 6265bis, sections 4.1.2 and 4.1.3.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use url::Url;

/// When a browser sends a cookie with requests that other sites cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SameSite {
    /// With links and redirects from other sites, but not with their forms and images. The login service sends the
    /// browser back by such a redirect, so the session needs this value.
    Lax,
    /// Never.
    Strict,
}

/// The form of cookies under one base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cookies {
    is_secure: bool,
    port: Option<u16>,
}

impl Cookies {
    /// Cookies of the pages below `base`.
    pub(crate) fn of(base: &str) -> Self {
        let port = Url::parse(base).ok().and_then(|url| url.port_or_known_default());
        Self { is_secure: base.starts_with("https://"), port }
    }

    fn name(&self, purpose: &str) -> String {
        match self.port {
            Some(port) if !self.is_secure => format!("switchyard-{purpose}-{port}"),
            _ if self.is_secure => format!("__Host-switchyard-{purpose}"),
            _ => format!("switchyard-{purpose}"),
        }
    }

    /// Returns the value of the only cookie for `purpose`.
    pub(crate) fn read<'h>(&self, purpose: &str, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = self.name(purpose);
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(found, _)| *found == name).map(|(_, value)| value);
        values.next().filter(|_| values.next().is_none())
    }

    /// Returns the header that sets the cookie for `purpose` until the browser is closed.
    pub(crate) fn set(&self, purpose: &str, value: &str, same_site: SameSite) -> Option<HeaderValue> {
        self.header(purpose, value, same_site, "")
    }

    /// Returns the header that deletes the cookie for `purpose`.
    pub(crate) fn delete(&self, purpose: &str) -> Option<HeaderValue> {
        self.header(purpose, "", SameSite::Lax, "; Max-Age=0")
    }

    fn header(&self, purpose: &str, value: &str, same_site: SameSite, end: &str) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.name(purpose);
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site:?}{secure}{end}");
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        let value = |line: &&str| (COOKIE, HeaderValue::from_str(line).expect("text"));
        lines.iter().map(value).collect()
    }

    #[test]
    fn a_cookie_is_bound_to_its_host_over_https_and_to_its_port_otherwise() {
        let secure =
            Cookies::of("https://gw.example/x").set("session", "abc", SameSite::Lax).expect("a header");
        assert_eq!(secure, "__Host-switchyard-session=abc; Path=/; HttpOnly; SameSite=Lax; Secure");
        let local =
            Cookies::of("http://127.0.0.1:8080").set("session", "abc", SameSite::Strict).expect("a header");
        assert_eq!(local, "switchyard-session-8080=abc; Path=/; HttpOnly; SameSite=Strict");
        assert!(local.is_sensitive() && Cookies::of("http://localhost").name("a") == "switchyard-a-80");
        let gone = Cookies::of("https://gw.example").delete("session").expect("a header");
        assert!(
            gone.to_str().expect("text").contains("session=; ")
                && gone.to_str().expect("text").ends_with("Max-Age=0")
        );
    }

    #[test]
    fn only_a_cookie_that_is_there_once_is_read() {
        let cookies = Cookies::of("http://localhost:1");
        for (lines, value) in [
            (&["switchyard-session-1=a"][..], Some("a")),
            (&["x=1; switchyard-session-1=a;y=2"], Some("a")),
            (&["x=1", "switchyard-session-1=a"], Some("a")),
            (&["switchyard-session-1=a; switchyard-session-1=b"], None),
            (&["switchyard-session-1=a", "switchyard-session-1=a"], None),
            (&["switchyard-session-2=a"], None),
            (&["switchyard-session-1"], None),
            (&[], None),
        ] {
            assert_eq!(cookies.read("session", &headers(lines)), value, "{lines:?}");
        }
    }
}
