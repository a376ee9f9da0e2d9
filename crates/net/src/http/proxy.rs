//! The way to the services that Switchyard calls: the HTTP proxy before them, and the files for TLS.
//!
//! Invariants: a proxy is used only where the configuration names one, or names the environment. Its credentials go to the
//! proxy alone, and no text shows them. A service on this machine is reached through a proxy only if the proxy is on this
//! machine too. Any other proxy would look for the service on its own machine.
//!
//! Not here: connections through a proxy (`connect`), and the syntax of the configuration file.

mod no_proxy;

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::uri::{Authority, Parts, Scheme};
use http::{HeaderValue, Request, Uri};
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Position, Url};

pub use self::no_proxy::NoProxy;
use super::error::Error;
use super::headers::basic_credentials;
use super::tls::{Tls, TlsFiles};

/// The proxies of one configuration: one for services with TLS, one for the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    https: Option<Arc<Proxy>>,
    http: Option<Arc<Proxy>>,
    no_proxy: NoProxy,
}

/// One proxy, which is spoken to over HTTP without TLS. `Debug` shows no credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The host and the port that are connected to.
    origin: Uri,
    is_loopback: bool,
    authorization: Option<HeaderValue>,
    /// Where it was named, such as `proxy` or `HTTPS_PROXY`.
    source: String,
}

impl Proxies {
    /// The proxy of all services that `no_proxy` does not name.
    pub fn of(proxy: Proxy, no_proxy: NoProxy) -> Self {
        let proxy = Arc::new(proxy);
        Self { https: Some(Arc::clone(&proxy)), http: Some(proxy), no_proxy }
    }

    /// The proxies that the environment names: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`. The name in small
    /// letters wins. `variable` returns the value of a variable. An error names the variable and what is wrong with it.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let find = |name: &str| {
            let both = [name.to_ascii_lowercase(), name.to_owned()];
            both.into_iter().find_map(|name| Some((variable(&name).filter(|value| !value.is_empty())?, name)))
        };
        let proxy = |name: &str| {
            let Some((value, name)) = find(name).or_else(|| find("ALL_PROXY")) else { return Ok(None) };
            let parsed = Proxy::parse(&value, &name).map_err(|reason| format!("{name} {reason}"));
            parsed.map(|proxy| Some(Arc::new(proxy)))
        };
        let no_proxy = find("NO_PROXY").map(|(value, _)| value).unwrap_or_default();
        // Programs differ in what they accept here, so entries of another form are skipped.
        let entries = no_proxy.split([',', ' ']).filter_map(|entry| entry.trim().parse().ok()).collect();
        Ok(Self { https: proxy("HTTPS_PROXY")?, http: proxy("HTTP_PROXY")?, no_proxy: NoProxy(entries) })
    }

    /// Whether the environment named no proxy.
    pub const fn is_empty(&self) -> bool {
        self.https.is_none() && self.http.is_none()
    }

    /// Returns the proxy for a request to `url`; `None` if it goes there directly.
    pub fn find(&self, url: &Url) -> Option<&Arc<Proxy>> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        proxy.as_ref().filter(|proxy| !self.no_proxy.has(url) && (proxy.is_loopback || !is_loopback(url)))
    }
}

impl Proxy {
    /// Reads a URL such as `http://proxy.example:3128`, or only the host and the port. `source` says where it was
    /// named. The error says what is wrong, and does not quote it.
    pub fn parse(text: &str, source: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&whole).map_err(|_| "is not the URL of a proxy")?;
        match url.scheme() {
            "http" => {}
            "https" => return Err("names a proxy with TLS; Switchyard speaks to a proxy over `http://`"),
            "socks" | "socks4" | "socks4a" | "socks5" | "socks5h" => {
                return Err("names a SOCKS proxy; Switchyard uses HTTP proxies only");
            }
            _ => return Err("is not the URL of an HTTP proxy"),
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err("has a path or a query, which the URL of a proxy does not have");
        }
        // The port is written out, because the parser leaves the default one away.
        let port = url.port_or_known_default().unwrap_or(80);
        let origin = format!("http://{}:{port}", &url[Position::BeforeHost..Position::AfterHost]);
        Ok(Self {
            origin: origin.parse().map_err(|_| "is not the URL of a proxy")?,
            is_loopback: is_loopback(&url),
            authorization: basic_credentials(&url),
            source: source.to_owned(),
        })
    }

    /// Sets its credentials (basic authentication).
    #[must_use]
    pub fn with_credentials(mut self, username: &str, password: &SecretString) -> Self {
        let pair = format!("{username}:{}", password.expose_secret());
        let value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
        self.authorization = value.ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self
    }

    /// Whether it has credentials.
    pub const fn has_credentials(&self) -> bool {
        self.authorization.is_some()
    }

    pub(super) const fn origin(&self) -> &Uri {
        &self.origin
    }

    /// Makes `request`, whose URI is a path, one for the proxy, which passes it on to `target` (without TLS).
    pub(super) fn direct(&self, request: &mut Request<impl Sized>, target: &Uri) {
        let mut parts = Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = target.authority().cloned();
        parts.path_and_query = request.uri().path_and_query().cloned();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        headers.extend(self.authorization.iter().map(|value| (PROXY_AUTHORIZATION, value.clone())));
    }

    /// The request for a tunnel to `target`.
    pub(super) fn connect<B: Default>(&self, target: &Authority) -> Result<Request<B>, Error> {
        let uri = Uri::builder().authority(target.clone()).build().map_err(|_| Error::unusable_url())?;
        let host = HeaderValue::from_str(target.as_str()).map_err(|_| Error::unusable_url())?;
        let mut request = Request::new(B::default());
        *request.method_mut() = http::Method::CONNECT;
        *request.uri_mut() = uri;
        request.headers_mut().insert(HOST, host);
        let own = self.authorization.iter().map(|value| (PROXY_AUTHORIZATION, value.clone()));
        request.headers_mut().extend(own);
        Ok(request)
    }
}

/// Its address and where it was named.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.origin.authority().map_or("", Authority::as_str);
        write!(f, "http://{authority} (`{}`)", self.source)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self}, credentials: {})", self.has_credentials())
    }
}

/// Whether the host of `url` is this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
        }
        None => false,
    }
}

/// Proxies and TLS of one server, or of all services that have no settings of their own. Clones share the files for TLS.
#[derive(Clone, Default)]
pub struct Network {
    proxies: Option<Arc<Proxies>>,
    tls: Option<Arc<Tls>>,
}

impl Network {
    /// A way through `proxies`, if there are any, with the files of `tls`.
    pub fn new(proxies: Option<Arc<Proxies>>, tls: Option<TlsFiles>) -> Self {
        Self { proxies, tls: tls.map(Tls::new) }
    }

    /// The way to a service that another party named. It has the same proxies and trusted authorities, but not the
    /// certificate of Switchyard, which is for one server.
    #[must_use]
    pub fn to_others(&self) -> Self {
        Self { proxies: self.proxies.clone(), tls: self.tls.as_ref().map(|tls| tls.without_identity()) }
    }

    /// Returns the proxy for a request to `url`; `None` if it goes there directly.
    pub fn proxy(&self, url: &Url) -> Option<&Arc<Proxy>> {
        self.proxies.as_ref()?.find(url)
    }

    pub(super) const fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }
}

impl PartialEq for Network {
    fn eq(&self, other: &Self) -> bool {
        let files = |network: &Self| network.tls.as_ref().map(|tls| tls.files().clone());
        self.proxies == other.proxies && files(self) == files(other)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.tls.as_ref().map(|tls| tls.files());
        f.debug_struct("Network").field("proxies", &self.proxies).field("tls", &files).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn named(proxies: &Proxies, target: &str) -> Option<String> {
        proxies.find(&url(target)).map(|proxy| proxy.origin.to_string())
    }

    fn environment(variables: &[(&str, &str)]) -> Result<Proxies, String> {
        let find = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        Proxies::from_environment(find)
    }

    #[test]
    fn environment_variables_are_read_in_both_cases_and_by_scheme() {
        let both = environment(&[
            ("HTTPS_PROXY", "http://upper:1"),
            ("https_proxy", "lower:2"),
            ("HTTP_PROXY", "http://plain"),
            ("NO_PROXY", "a.example, .b.example ,*bad*"),
        ]);
        let both = both.expect("proxies");
        assert_eq!(named(&both, "https://h/").as_deref(), Some("http://lower:2/"));
        assert_eq!(named(&both, "http://h/").as_deref(), Some("http://plain:80/"));
        assert_eq!(named(&both, "https://a.example/"), None);
        assert_eq!(named(&both, "https://x.b.example/"), None);
        let all = environment(&[("ALL_PROXY", "http://all:3"), ("https_proxy", "")]).expect("proxies");
        assert_eq!(named(&all, "https://h/").as_deref(), Some("http://all:3/"));
        assert!(environment(&[]).expect("none").is_empty());
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_and_not_quoted() {
        for (value, expected) in [
            ("socks5://u:s3cret@h:1080", "SOCKS"),
            ("https://u:s3cret@h:3128", "TLS"),
            ("http://u:s3cret@h/path", "path"),
            ("http://u:s3cret@:1", "not the URL"),
            ("ftp://u:s3cret@h", "not the URL"),
        ] {
            let error = environment(&[("ALL_PROXY", value)]).expect_err(value);
            assert!(error.starts_with("ALL_PROXY ") && error.contains(expected), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_service_on_this_machine_needs_a_proxy_on_this_machine() {
        for (proxy, is_used) in [("http://proxy.example:3128", false), ("http://127.0.0.1:3128", true)] {
            let proxies = Proxies::of(Proxy::parse(proxy, "proxy").expect(proxy), NoProxy::default());
            for target in
                ["http://localhost:1/", "https://127.0.0.9/", "http://[::1]/", "http://a.localhost/"]
            {
                assert_eq!(named(&proxies, target).is_some(), is_used, "{target} by {proxy}");
            }
            assert!(named(&proxies, "http://10.0.0.1/").is_some(), "{proxy}");
        }
    }

    #[test]
    fn credentials_are_sent_to_the_proxy_and_shown_nowhere() {
        let proxy = Proxy::parse("http://us%20er:s3cret@h:1", "proxy").expect("a proxy");
        assert_eq!(proxy.authorization.clone().expect("credentials"), "Basic dXMgZXI6czNjcmV0");
        assert!(!format!("{proxy:?} {proxy}").contains("s3cret"));
        assert_eq!(proxy.to_string(), "http://h:1 (`proxy`)");
        let other =
            Proxy::parse("h:1", "proxy").expect("a proxy").with_credentials("us er", &"s3cret".into());
        assert_eq!(other.authorization, proxy.authorization);
    }
}
