//! Links to the page at which a person logs in to a server, and the URLs at which a browser reaches Switchyard.
//!
//! ```text
//! {base}/oauth/start?login=TICKET        TICKET = sealed {server, principal, expiry}
//! ```
//!
//! Invariants: a link carries no authority. The page that it opens demands a browser session of the same principal. A
//! ticket is sealed, so that only Switchyard makes one, and expires after ten minutes. A base URL comes from
//! `server.public_url`, or from a `Host` that is a loopback host with the port of the listener, or listed in
//! `server.allowed_hosts` with its port. So a caller cannot choose where login services send browsers to.
//!
//! Not here: the pages (`downstream::login`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::logins::{LoginService, OwnClient};
use auth::{Principal, Role, Sealer};

/// Path of the page that a link opens.
pub const START: &str = "/oauth/start";
/// Path to which the login service sends the browser back.
pub(crate) const CALLBACK: &str = "/oauth/callback";
/// Path of the client id metadata document.
pub(crate) const CLIENT_METADATA: &str = "/oauth/client.json";
/// How long a link can be opened.
pub const LIFETIME: Duration = Duration::from_mins(10);

/// Separates tickets from other sealed values.
const PURPOSE: &str = "login ticket";

/// A link, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginLink {
    /// The URL of the page.
    pub url: String,
    /// The end of its lifetime.
    pub expires_at: SystemTime,
}

/// The content of the ticket in a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The server to log in to.
    pub server: String,
    /// The id of the principal that asked for the link.
    pub principal: String,
    /// Seconds since 1970.
    expires_at: u64,
}

impl Ticket {
    /// Whether its time is over at `now`.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        is_past(self.expires_at, now)
    }
}

/// Returns the seconds from 1970 to `time`.
pub fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Whether `seconds` since 1970 are over at `now`.
pub fn is_past(expires_at: u64, now: SystemTime) -> bool {
    expires_at <= seconds(now)
}

/// Makes and opens links.
#[derive(Debug)]
pub struct LoginLinks {
    sealer: Arc<Sealer>,
    public_url: Option<String>,
    /// The scheme of the listener.
    scheme: &'static str,
    local: LocalHosts,
}

/// The values of `Host` at which browsers on the machine of the gateway reach it.
#[derive(Debug, Default)]
pub struct LocalHosts {
    /// The address of the listener; `None` for any port.
    pub listen: Option<SocketAddr>,
    /// Hosts with a port that the operator listed.
    pub listed: Vec<String>,
}

impl LocalHosts {
    fn contain(&self, host: &str) -> bool {
        let Some(listen) = self.listen else { return is_loopback(host) };
        if self.listed.iter().any(|listed| listed.eq_ignore_ascii_case(host)) {
            return is_loopback(host);
        }
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        let is_usual = matches!(name, "localhost" | "127.0.0.1" | "[::1]");
        let is_own = format!("{name}:{port}") == listen.to_string();
        (is_usual || is_own) && port == listen.port().to_string() && is_loopback(host)
    }
}

impl LoginLinks {
    /// Links to `public_url`, or else to the loopback address at which a client reaches Switchyard.
    pub fn new(sealer: Arc<Sealer>, public_url: Option<String>) -> Self {
        Self { sealer, public_url, scheme: "http", local: LocalHosts::default() }
    }

    /// Says at which hosts browsers on this machine reach the listener.
    pub fn reached_at(mut self, local: LocalHosts) -> Self {
        self.local = local;
        self
    }

    /// Says whether the listener speaks TLS.
    pub const fn over_tls(mut self, is_tls: bool) -> Self {
        self.scheme = if is_tls { "https" } else { "http" };
        self
    }

    /// Returns the sealer, for other values of the same login.
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Returns the URL at which browsers reach Switchyard, without a trailing slash. `host` is the `Host` of the
    /// request. None if no `public_url` is configured and the host is not one of this machine.
    pub fn base(&self, host: Option<&str>) -> Option<String> {
        let host = host.filter(|host| self.local.contain(host));
        base_url(self.public_url.as_deref(), self.scheme, host)
    }

    /// Returns Switchyard as an OAuth client.
    pub fn own_client(&self, host: Option<&str>) -> Option<OwnClient> {
        let base = self.base(host)?;
        let own = |path| Url::parse(&format!("{base}{path}")).ok();
        let client_metadata_url = own(CLIENT_METADATA).filter(|_| self.has_client_metadata());
        Some(OwnClient { redirect_uri: own(CALLBACK)?, client_metadata_url })
    }

    /// Whether there is a client id metadata document: login services must be able to fetch it over HTTPS.
    pub fn has_client_metadata(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    /// Makes a link for `principal` to log in to `server`. None if the base URL is not known.
    pub fn link(
        &self,
        server: &str,
        principal: &Principal,
        host: Option<&str>,
        now: SystemTime,
    ) -> Option<LoginLink> {
        let (base, expires_at) = (self.base(host)?, now + LIFETIME);
        let ticket = Ticket {
            server: server.to_owned(),
            principal: principal.id().to_string(),
            expires_at: seconds(expires_at),
        };
        let payload = serde_json::to_vec(&ticket).ok()?;
        let sealed = self.sealer.seal(PURPOSE, &everybody(), &payload);
        Some(LoginLink { url: format!("{base}{START}?login={sealed}"), expires_at })
    }

    /// Opens the ticket of a link. None for a changed or invented one.
    pub fn open(&self, ticket: &str) -> Option<Ticket> {
        serde_json::from_slice(&self.sealer.open(PURPOSE, &everybody(), ticket)?).ok()
    }
}

/// The principal that tickets are sealed with. The principal of a ticket is part of its content instead, so that the
/// page can tell a link of somebody else from a damaged one. No credential gives an empty id.
fn everybody() -> Principal {
    Principal::new("", Role::Reader)
}

/// Returns the URL at which a browser reaches Switchyard: `public_url`, or that of a loopback `Host`.
pub fn base_url(public_url: Option<&str>, scheme: &str, host: Option<&str>) -> Option<String> {
    let own = || host.filter(|host| is_loopback(host)).map(|host| format!("{scheme}://{host}"));
    public_url.map(str::to_owned).or_else(own)
}

/// Whether `host`, the value of a `Host` header, is a loopback address or `localhost`.
pub fn is_loopback(host: &str) -> bool {
    let Ok(url) = Url::parse(&format!("http://{host}/")) else { return false };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    is_plain
        && match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
}

/// The logins and their links, as the pages and the REST API share them.
#[derive(Clone)]
pub struct LoginContext {
    /// The logins.
    pub service: Arc<dyn LoginService>,
    /// The links.
    pub links: Arc<LoginLinks>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(public_url: Option<&str>) -> LoginLinks {
        LoginLinks::new(Arc::new(Sealer::random()), public_url.map(str::to_owned))
    }

    #[test]
    fn a_ticket_names_its_server_and_principal_for_ten_minutes() {
        let (links, now) = (links(None), SystemTime::now());
        let alice = Principal::new("key:alice", Role::Caller);
        let link = links.link("notes", &alice, Some("127.0.0.1:8080"), now).expect("a link");
        let ticket = link.url.strip_prefix("http://127.0.0.1:8080/oauth/start?login=").expect("the page");
        let opened = links.open(ticket).expect("a ticket");
        assert_eq!((opened.server.as_str(), opened.principal.as_str()), ("notes", "key:alice"));
        assert!(!opened.is_expired(now + Duration::from_secs(599)));
        assert!(opened.is_expired(link.expires_at));
        let mut changed = ticket.to_owned();
        changed.replace_range(20..21, if &ticket[20..21] == "A" { "B" } else { "A" });
        assert_eq!(links.open(&changed), None);
        let other = self::links(None);
        assert_eq!(other.open(ticket), None, "another key");
    }

    #[test]
    fn a_base_url_follows_the_host_to_the_listener_only() {
        let listen = "127.0.0.1:8080".parse().ok();
        let local = links(None).reached_at(LocalHosts { listen, listed: vec!["localhost:9000".into()] });
        for host in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "localhost:9000"] {
            assert_eq!(local.base(Some(host)), Some(format!("http://{host}")));
        }
        for host in
            ["localhost", "localhost:8081", "127.0.0.1:9000", "127.0.0.2:8080", "127.1:8080", "a:8080"]
        {
            assert_eq!(local.base(Some(host)), None, "{host}");
        }
        let other = LocalHosts { listen: "127.0.0.2:80".parse().ok(), listed: vec!["gw.example:1".into()] };
        let other = links(None).reached_at(other);
        assert!(other.base(Some("127.0.0.2:80")).is_some() && other.base(Some("gw.example:1")).is_none());
    }

    #[test]
    fn a_base_url_is_configured_or_loopback() {
        let local = links(None);
        for (host, base) in [
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("localhost", Some("http://localhost")),
            ("[::1]:9", Some("http://[::1]:9")),
            ("gateway.example", None),
            ("localhost.evil.example", None),
            ("evil.example/@localhost", None),
            ("a@localhost", None),
            ("", None),
        ] {
            assert_eq!(local.base(Some(host)).as_deref(), base, "{host}");
        }
        assert_eq!(local.base(None), None);
        let secure = links(None).over_tls(true);
        assert_eq!(secure.base(Some("127.0.0.1:8443")).as_deref(), Some("https://127.0.0.1:8443"));
        let public = links(Some("https://gw.example/mcp-gateway"));
        let own = public.own_client(Some("127.0.0.1")).expect("URLs");
        assert_eq!(own.redirect_uri.as_str(), "https://gw.example/mcp-gateway/oauth/callback");
        let document = own.client_metadata_url.expect("a document");
        assert_eq!(document.as_str(), "https://gw.example/mcp-gateway/oauth/client.json");
        let plain = links(Some("http://gw.example")).own_client(None).expect("URLs");
        assert_eq!(plain.client_metadata_url, None);
    }
}
