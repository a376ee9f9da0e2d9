//! Configuration of the listener: `server:` in the configuration file.
//!
//! Invariant: an instance that others can reach requires credentials and knows its own names. A bind address that is
//! not loopback is refused without `auth_mode` or without `allowed_hosts`. It does not matter whether the address comes
//! from the file, the environment or the command line. The host of `public_url` is a known name. The exceptions are explicit settings in the file,
//! `allow_unauthenticated` and `anonymous_role`, and each start logs them.
//!
//! Not here: authentication (`auth`), whose settings are in the same mapping.

pub mod authorization_settings;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::time::Duration;

use ipnet::IpNet;
use oauth::ProviderSettings;
use secrecy::SecretString;

use self::authorization_settings::AuthorizationSettings;
use super::authority::{Authority, Hosts, Origin, Origins};
use super::client_address::AddressHeader;
use super::listener::Limits;
use super::protected_resource::{OwnUrl, parse_public_url};
use super::tls::Tls;
use runtime::memory;
use runtime::telemetry;
use settings::{Setting, settings, words};

const MIB: usize = 1024 * 1024;

words! {
    /// The channels on which `serve` accepts clients.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Transport {
        /// HTTP only.
        #[default]
        Http = "http",
        /// Standard input and output only, like the command `stdio`.
        Stdio = "stdio",
        /// Both in one process, with the same servers.
        Both = "both",
    }
}

settings! {
    /// Addresses, authentication and limits of the listener.
    #[derive(Debug, Clone)]
    pub struct Config {
        /// what `switchyard serve` opens; see
        /// [Connect a client that starts a program](mcp-endpoint.md#connect-a-client-that-starts-a-program-stdio)
        pub transport: Transport;
        /// address and port. `--listen` and `SWITCHYARD_LISTEN` override it. With `transport: stdio` there is no
        /// listener: `--listen` then stops the start, and the others have no effect. An address that others can reach
        /// needs `auth_mode` and `allowed_hosts`, or `allow_unauthenticated`
        pub listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)) => "`127.0.0.1:8080`", with read_address;
        /// values of `Host` that mean this gateway, beside the host of `public_url`
        pub hosts as "allowed_hosts": Hosts => "loopback names", with read_hosts;
        /// where clients reach Switchyard, such as `https://gateway.example.org` behind a proxy with TLS. Requests for
        /// its host, and from its pages, are accepted. It appears in the
        /// [metadata for clients that get a token themselves](security/tokens.md#clients-that-get-a-token-themselves-oauth),
        /// and browsers reach the [pages for logins](logins.md) below it
        pub public_url: Option<String> => "`http://` and the requested `Host`", with read_public_url;
        /// origins of web pages that may send requests, beside that of `public_url`
        pub origins as "allowed_origins": Origins => "loopback origins", with read_origins;
        /// addresses and networks of proxies, such as `10.0.0.7` or `10.1.0.0/16`, which say
        /// [where a request comes from](security/listener.md#trusted-proxies-the-address-of-a-client)
        pub trusted_proxies: Vec<IpNet>, with read_proxies;
        /// the header in which trusted proxies say it: `X-Forwarded-For` or `Forwarded` (RFC 7239). The other one is not read
        pub client_address_header: AddressHeader;
        /// with `auth_mode: none`, an address that others can reach is
        /// [open to everybody](security.md#exceptions-open-gateways-and-anonymous-readers); each start logs a warning
        pub allow_unauthenticated: bool;
        /// GET requests of REST without a credential are answered
        /// [as for a reader](security.md#exceptions-open-gateways-and-anonymous-readers); each start logs a warning
        pub anonymous_reader as "anonymous_role": bool, with read_anonymous_role;
        /// TLS of the listener, and clients with certificates ([fields](security/listener.md#tls))
        pub tls: Option<Tls> => "none: plain HTTP";
        /// clients such as claude.ai get tokens from the gateway itself ([fields](security/authorization-server.md#settings))
        pub authorization_server: Option<AuthorizationSettings> => "none: it makes no tokens";
        /// keys that encrypt task ids, cursors of task lists and `requestState` over HTTP: 1 to 8 references such as
        /// `${SEAL_KEY}`, each to at least 32 bytes. The first key seals, all keys open; see
        /// [several replicas](operate/run.md#several-replicas)
        pub seal_keys: Vec<SecretString> => "a new key at each start", with auth::read_seal_keys;
        /// threads that serve clients; a connection stays on one unless it sends
        /// [large requests](operate/inside.md#how-the-threads-are-scheduled)
        pub workers: usize = default_workers() => "one for every processor", in 1..=256;
        /// largest body of a request
        pub max_body_bytes: usize = 4 * MIB => "4194304 (4 MiB)", in 1_024..=1_073_741_824;
        /// bytes of all messages in flight: at least 32 MiB, such as `256 MiB`, `1 GiB` or a number of bytes; see
        /// [the memory budget](operate/limits.md#the-memory-budget)
        pub memory_budget: usize = memory::system::default_limit()
            => "a quarter of the memory limit of the control group or machine", with read_memory_budget;
        /// sessions at a time, of clients that use sessions
        pub max_sessions: usize = 10_000, in 1..=1_000_000;
        /// time after which an unused session ends
        pub session_idle_timeout: Duration = Duration::from_mins(30), in 1.0..=86_400.0;
        /// clients at a time: open sessions, and running requests that belong to no session. If one more client comes,
        /// [an unused session](mcp-endpoint.md#sessions) ends; if all are in use, the client gets 503
        pub max_connections: usize = 16_384, in 1..=1_000_000;
        /// how long clients are still served after SIGTERM, while `/health/ready` says 503 already
        /// ([why](operate/probes.md#graceful-shutdown-signals-and-draining))
        pub shutdown_delay: Duration, in 0.0..=600.0;
    }
    flat {
        /// How clients are authenticated.
        pub auth: auth::Config;
        /// Where tokens and secrets are stored, and the keys that seal them.
        pub vault: auth::vault::Settings;
        /// Limits of the number and the times of connections.
        pub limits: Limits;
        /// The log.
        pub log: telemetry::LogOptions;
    }
    check Config::complete;
}

/// One worker for each processor.
fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Why an address is not safe to bind with this configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exposed {
    /// Every client could call every tool.
    #[error("others can reach this address, and nobody would be asked for a credential ({})", self.hint())]
    NoAuthentication,
    /// A web page could reach Switchyard under a host name of its own (DNS rebinding).
    #[error("others can reach this address, and the names they may use for it are not listed ({})", self.hint())]
    NoHosts,
}

impl Exposed {
    const fn hint(self) -> &'static str {
        match self {
            Self::NoAuthentication => {
                "set `auth_mode: api_key`, `jwt` or `any` under `server:`, or listen on 127.0.0.1; in a container \
                 that only trusted programs reach, `allow_unauthenticated: true` opens it to everybody"
            }
            Self::NoHosts => {
                "list them in `allowed_hosts` under `server:`, such as [gateway.example.org], or listen on 127.0.0.1"
            }
        }
    }
}

impl Config {
    /// Sets what several settings decide together, and reports those that have no effect or are not safe.
    fn complete(&mut self, setting: &Setting<'_>) {
        self.raise_sockets(setting);
        self.check_exceptions(setting);
        self.accept_own_name();
        self.check_certificates(setting);
        if let Some(own) = &self.authorization_server {
            own.check(setting, self);
        }
        if let (Some(listen), Err(exposed)) = (setting.member("listen"), self.check()) {
            listen.problem(exposed.to_string(), None);
        }
    }

    /// Each client may need two sockets: one for calls, and one for messages that belong to no call.
    fn raise_sockets(&mut self, setting: &Setting<'_>) {
        if setting.member("max_connections").is_some() && setting.member("max_sockets").is_none() {
            self.limits.max_sockets = self.limits.max_sockets.max(2 * self.max_connections);
        }
    }

    /// Reports exceptions from authentication that have no effect.
    fn check_exceptions(&self, setting: &Setting<'_>) {
        if self.allow_unauthenticated
            && !self.auth.is_open()
            && let Some(setting) = setting.member("allow_unauthenticated")
        {
            let hint = "remove it, or write `auth_mode: none`".to_owned();
            setting.key_problem("it has no effect while `auth_mode` asks for credentials", Some(hint));
        }
        if self.anonymous_reader
            && self.auth.is_open()
            && let Some(setting) = setting.member("anonymous_role")
        {
            let hint = "add `auth_mode: api_key`, `jwt` or `any`, or remove it".to_owned();
            setting.key_problem("it has no effect while `auth_mode` asks for no credentials", Some(hint));
        }
    }

    /// Returns this configuration with another bind address, such as one from the command line.
    pub fn listening_on(self, listen: SocketAddr) -> Result<Self, Exposed> {
        let config = Self { listen, ..self };
        config.check()?;
        Ok(config)
    }

    /// Returns this configuration with other authentication.
    pub fn authenticating(self, auth: auth::Config) -> Result<Self, Exposed> {
        let config = Self { auth, ..self };
        config.check()?;
        Ok(config)
    }

    /// Returns the settings that lift authentication, for `check` and the log of each start.
    pub fn exceptions(&self) -> Vec<String> {
        let open = format!(
            "`allow_unauthenticated: true`: everybody who can reach {} may use and operate everything",
            self.listen
        );
        let readers =
            "`anonymous_role: reader`: everybody may read the REST API without a credential".to_owned();
        let is_open = self.allow_unauthenticated && self.auth.is_open();
        let of_tokens = self.auth.tokens().and_then(auth::Jwt::exception);
        let of_readers = self.anonymous_reader.then_some(readers);
        is_open.then_some(open).into_iter().chain(of_readers).chain(of_tokens).collect()
    }

    /// The view of each certificate that is bound to one.
    pub fn certificate_views(&self) -> BTreeMap<String, String> {
        self.tls.as_ref().map(|tls| tls.client_views.clone()).unwrap_or_default()
    }

    /// Warnings about credentials that are bound to views which are none of `views`: their holders see nothing. Reads the
    /// file of keys, and blocks.
    pub fn without_view(&self, views: &[&str]) -> Vec<String> {
        let is_missing = |(_, view): &(String, String)| !views.contains(&view.as_str());
        let lost = self.certificate_views().into_iter().filter(is_missing).map(|(name, view)| {
            format!("the certificate `{name}` sees nothing, because there is no view `{view}`")
        });
        let login = self.authorization_server.as_ref().and_then(|own| own.login.as_ref());
        let mapped = login.into_iter().flat_map(ProviderSettings::mapped_views);
        let of_people = mapped.filter(|(_, view)| !views.contains(view)).map(|(word, view)| {
            format!("`{word}` in `login.view_map` sees nothing, because there is no view `{view}`")
        });
        self.auth.without_view(views).into_iter().chain(lost).chain(of_people).collect()
    }

    /// Accepts requests for the host of `public_url`, and from its pages.
    fn accept_own_name(&mut self) {
        let Some(url) = self.public_url.as_deref().and_then(|url| url::Url::parse(url).ok()) else { return };
        if let Some(host) = url.host_str().and_then(Authority::parse) {
            self.hosts.add_own(host);
        }
        if let Some(origin) = Origin::parse(&url.origin().ascii_serialization()) {
            self.origins.add_own(origin);
        }
    }

    /// A remark about the hosts that are accepted because of `public_url`, for `check`, `doctor` and the log of a start.
    pub fn remark_on_hosts(&self) -> Option<String> {
        let Hosts::LoopbackAnd(own) = &self.hosts else { return None };
        Some(format!(
            "requests are accepted for {own} (`public_url`) and loopback hosts; list further names that a proxy or a \
             client sends as `Host` in `allowed_hosts`"
        ))
    }

    /// A warning that the limits of the authorization server count all clients as one, for `check`, `doctor` and the log of a
    /// start. A proxy has to be in front, and none is trusted.
    pub fn unknown_clients(&self) -> Option<String> {
        self.authorization_server.as_ref()?;
        let is_https = self.public_url.as_deref().is_some_and(|url| url.starts_with("https:"));
        let is_proxied = is_https && self.tls.is_none() && self.trusted_proxies.is_empty();
        is_proxied.then(|| {
            "all clients of the authorization server share one limit, because they come from the proxy before the \
             gateway; list its address in `trusted_proxies`, such as [127.0.0.1]"
                .to_owned()
        })
    }

    /// The URL at which clients reach Switchyard.
    pub(super) fn url(&self) -> OwnUrl {
        match (&self.public_url, &self.tls) {
            (Some(url), _) => OwnUrl::Public(url.clone()),
            (None, Some(_)) => OwnUrl::Https,
            (None, None) => OwnUrl::Http,
        }
    }

    /// Reports roles of certificates without an effect, and certificates as the only credential without a role.
    fn check_certificates(&self, setting: &Setting<'_>) {
        let has_roles = self.tls.as_ref().is_some_and(|tls| !tls.client_roles.is_empty());
        if matches!(self.auth, auth::Config::Certificate) && !has_roles {
            let hint =
                "list names and roles in `tls.client_roles`, and the authority in `tls.client_ca`".to_owned();
            setting.key_problem("`auth_mode: certificate`, but no certificate has a role", Some(hint));
        }
        if self.auth.is_open() && has_roles {
            let hint = "set `auth_mode: certificate`, or another one to accept keys or tokens too".to_owned();
            setting.key_problem("`tls.client_roles` has no effect without `auth_mode`", Some(hint));
        }
    }

    fn check(&self) -> Result<(), Exposed> {
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        if self.auth.is_open() {
            // Host names that are not listed are still refused.
            return if self.allow_unauthenticated { Ok(()) } else { Err(Exposed::NoAuthentication) };
        }
        if self.hosts == Hosts::Loopback { Err(Exposed::NoHosts) } else { Ok(()) }
    }
}

fn read_address(setting: &Setting<'_>) -> Option<SocketAddr> {
    setting.parsed("an address and a port, such as 127.0.0.1:8080 or [::1]:8080", parse_address)
}

/// Parses an IP address and a port; `localhost` means 127.0.0.1. Other names are not resolved.
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().ok()
}

/// Returns an address to connect to for one to listen on: all addresses of a machine include loopback.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn read_public_url(setting: &Setting<'_>) -> Option<String> {
    setting.parsed("a URL without query, such as https://gateway.example.org", parse_public_url)
}

fn read_hosts(setting: &Setting<'_>) -> Option<Hosts> {
    let expected = "a host or a host and a port, such as gateway.example.org or 10.0.0.5:8443";
    let items = setting.list()?;
    let listed: Vec<_> = items.iter().filter_map(|item| item.parsed(expected, Authority::parse)).collect();
    if listed.is_empty() {
        setting.key_problem("no host is listed, so nobody could reach the gateway", None);
    }
    Some(Hosts::Listed(listed))
}

fn read_origins(setting: &Setting<'_>) -> Option<Origins> {
    let expected = "an origin without a path, such as https://app.example.org or http://localhost:5173";
    let items = setting.list()?;
    Some(Origins::Listed(items.iter().filter_map(|item| item.parsed(expected, Origin::parse)).collect()))
}

fn read_proxies(setting: &Setting<'_>) -> Option<Vec<IpNet>> {
    let expected = "an address or a network, such as 10.0.0.7, 10.1.0.0/16 or 2001:db8:1::/48";
    let read = |item: &Setting<'_>| {
        let network = item.parsed(expected, parse_network)?;
        if network.prefix_len() == 0 {
            let hint = "list the addresses of the proxies".to_owned();
            item.problem("every client could invent its address".to_owned(), Some(hint));
        }
        Some(network)
    };
    Some(setting.list()?.iter().filter_map(read).collect())
}

/// Parses an address or a network. Peers are compared in canonical form, so an IPv4-mapped address would never match and
/// is refused.
fn parse_network(text: &str) -> Option<IpNet> {
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()?;
    (network.addr() == network.addr().to_canonical()).then_some(network)
}

fn read_anonymous_role(setting: &Setting<'_>) -> Option<bool> {
    let hint = "only GET requests are answered without a credential; give callers a key";
    setting.choice_or(&[("reader", true)], &[("caller", hint), ("superuser", hint)])
}

fn read_memory_budget(setting: &Setting<'_>) -> Option<usize> {
    let budget =
        setting.number_or_text("a number of bytes with a unit, such as 256 MiB or 1 GiB", parse_bytes)?;
    if budget < memory::LEAST {
        let least = memory::LEAST / MIB;
        setting.problem(format!("the memory budget must be at least {least} MiB"), None);
    }
    Some(budget)
}

/// Reads a number of bytes: `268435456`, `256 MiB`, `1GiB`.
fn parse_bytes(text: &str) -> Option<usize> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1024,
        "MiB" => MIB,
        "GiB" => 1024 * MIB,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
