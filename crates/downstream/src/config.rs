//! Configuration of the listener: `server:` in the configuration file.
//!
//! Invariant: an instance that others can reach requires credentials and knows its own names. A bind address that is
//! not loopback is refused without `auth_mode` or without `allowed_hosts`. It does not matter whether the address comes
//! from the file, the environment or the command line. The host of `public_url` is a known name. The exceptions are explicit settings in the file,
//! `allow_unauthenticated` and `anonymous_role`, and each start logs them.
//!
//! Not here: authentication (`auth`), whose settings are in the same mapping.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use secrecy::SecretString;

use super::authority::{Authority, Hosts, Origin, Origins};
use super::listener::Limits;
use super::protected_resource::{OwnUrl, parse_public_url};
use super::tls::Tls;
use runtime::memory;
use runtime::telemetry::{self, Format, Level};
use settings::{Fields, Setting};

const MIB: usize = 1024 * 1024;
/// Describes a valid `public_url` in error texts.
const PUBLIC_URL: &str = "a URL without query, such as https://gateway.example.org";

/// The channels on which `serve` accepts clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// HTTP only.
    #[default]
    Http,
    /// Standard input and output only, like the command `stdio`.
    Stdio,
    /// Both in one process, with the same servers.
    Both,
}

/// Addresses, authentication and limits of the listener.
#[derive(Debug, Clone)]
pub struct Config {
    /// The channels on which clients are accepted.
    pub transport: Transport,
    /// The address to bind.
    pub listen: SocketAddr,
    /// Threads that serve clients.
    pub workers: usize,
    /// Accepted values of `Host`.
    pub hosts: Hosts,
    /// The URL at which clients reach Switchyard, without a trailing slash, if it differs from the `Host` of their
    /// requests.
    pub public_url: Option<String>,
    /// Origins of web pages that may send requests.
    pub origins: Origins,
    /// How clients are authenticated.
    pub auth: auth::Config,
    /// Whether clients need no credential, although the address is not loopback.
    pub allow_unauthenticated: bool,
    /// Whether GET requests of REST without a credential are answered as for a reader (`anonymous_role: reader`).
    pub anonymous_reader: bool,
    /// Secrets that seal tokens for clients; none: a random key of this process.
    pub seal_keys: Vec<SecretString>,
    /// Where tokens and secrets are stored, and the keys that seal them.
    pub vault: auth::vault::Settings,
    /// Limits of the number and the times of connections.
    pub limits: Limits,
    /// How long clients are still served after shutdown was requested; readiness is already off then.
    pub shutdown_delay: Duration,
    /// The largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Limit of concurrent clients: sessions, and requests without a session.
    pub max_connections: usize,
    /// Limit of open legacy sessions.
    pub max_sessions: usize,
    /// After this time without use, a legacy session is removed.
    pub session_idle_timeout: Duration,
    /// Limit of the bytes of all requests, answers and notifications in flight.
    pub memory_budget: usize,
    /// Certificate and key, if the listener speaks TLS.
    pub tls: Option<Tls>,
    /// The log.
    pub log: telemetry::LogOptions,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            transport: Transport::default(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            workers: default_workers(),
            hosts: Hosts::default(),
            public_url: None,
            origins: Origins::default(),
            auth: auth::Config::default(),
            allow_unauthenticated: false,
            anonymous_reader: false,
            seal_keys: Vec::new(),
            vault: auth::vault::Settings::default(),
            limits: Limits::default(),
            shutdown_delay: Duration::ZERO,
            max_body_bytes: 4 * 1024 * 1024,
            max_connections: 16_384,
            max_sessions: 10_000,
            session_idle_timeout: Duration::from_mins(30),
            memory_budget: memory::system::default_limit(),
            tls: None,
            log: telemetry::LogOptions::default(),
        }
    }
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
    /// Reads `server:`; missing settings have their defaults. Paths of key files are relative to `folder`.
    pub fn from_settings(setting: &Setting<'_>, folder: &Path) -> Option<Self> {
        let mut fields = setting.fields()?;
        let default = Self::default();
        let listen = fields.take("listen");
        let clients = fields.integer("max_connections", 1..=1_000_000);
        let auth = auth::Config::from_fields(&mut fields, folder);
        let mut config = Self {
            transport: read_transport(&mut fields),
            listen: listen.as_ref().and_then(read_address).unwrap_or(default.listen),
            workers: fields.integer("workers", 1..=256).unwrap_or(default.workers),
            hosts: read_hosts(&mut fields),
            public_url: fields.parsed("public_url", PUBLIC_URL, parse_public_url),
            origins: read_origins(&mut fields),
            allow_unauthenticated: read_allow_unauthenticated(&mut fields, &auth),
            anonymous_reader: read_anonymous_role(&mut fields, &auth),
            auth,
            seal_keys: auth::read_seal_keys(&mut fields),
            vault: auth::vault::Settings::from_fields(&mut fields, folder),
            limits: read_limits(&mut fields, clients, default.limits),
            shutdown_delay: fields.seconds("shutdown_delay", 0.0..=600.0).unwrap_or(default.shutdown_delay),
            max_body_bytes: fields
                .integer("max_body_bytes", 1_024..=1_073_741_824)
                .unwrap_or(default.max_body_bytes),
            max_connections: clients.unwrap_or(default.max_connections),
            max_sessions: fields.integer("max_sessions", 1..=1_000_000).unwrap_or(default.max_sessions),
            session_idle_timeout: fields
                .seconds("session_idle_timeout", 1.0..=86_400.0)
                .unwrap_or(default.session_idle_timeout),
            memory_budget: read_memory_budget(&mut fields).unwrap_or(default.memory_budget),
            tls: fields.part("tls", |tls| Tls::from_settings(tls, folder)),
            log: read_log(&mut fields, folder),
        };
        fields.finish();
        config.accept_own_name();
        config.check_certificates(setting);
        if let (Some(listen), Err(exposed)) = (listen, config.check()) {
            listen.problem(exposed.to_string(), None);
        }
        Some(config)
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

fn read_transport(fields: &mut Fields<'_>) -> Transport {
    let options = [("http", Transport::Http), ("stdio", Transport::Stdio), ("both", Transport::Both)];
    fields.choice("transport", &options).unwrap_or_default()
}

fn read_address(setting: &Setting<'_>) -> Option<SocketAddr> {
    setting.parsed("an address and a port, such as 127.0.0.1:8080 or [::1]:8080", parse_address)
}

/// Parses an IP address and a port; `localhost` means 127.0.0.1. Other names are not resolved.
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().ok()
}

fn read_hosts(fields: &mut Fields<'_>) -> Hosts {
    let expected = "a host or a host and a port, such as gateway.example.org or 10.0.0.5:8443";
    let Some(list) = fields.take("allowed_hosts") else { return Hosts::Loopback };
    let listed = read_list(&list, expected, Authority::parse);
    if listed.is_empty() {
        list.key_problem("no host is listed, so nobody could reach the gateway", None);
    }
    Hosts::Listed(listed)
}

fn read_origins(fields: &mut Fields<'_>) -> Origins {
    let expected = "an origin without a path, such as https://app.example.org or http://localhost:5173";
    match fields.take("allowed_origins") {
        None => Origins::Loopback,
        Some(list) => Origins::Listed(read_list(&list, expected, Origin::parse)),
    }
}

fn read_list<T>(setting: &Setting<'_>, expected: &str, parse: fn(&str) -> Option<T>) -> Vec<T> {
    let items = setting.list().unwrap_or_default();
    items.iter().filter_map(|item| item.parsed(expected, parse)).collect()
}

/// Reads the limits. `clients` is the configured limit of clients. Each client may need two sockets: one for calls, and
/// one for messages that belong to no call.
fn read_limits(fields: &mut Fields<'_>, clients: Option<usize>, default: Limits) -> Limits {
    let enough = clients.map_or(0, |clients| 2 * clients).max(default.max_sockets);
    Limits {
        max_sockets: fields.integer("max_sockets", 1..=1_000_000).unwrap_or(enough),
        header_timeout: fields.seconds("header_timeout", 0.1..=60.0).unwrap_or(default.header_timeout),
        body_timeout: fields.seconds("body_timeout", 0.1..=600.0).unwrap_or(default.body_timeout),
        idle_timeout: fields.seconds("idle_timeout", 0.1..=3_600.0).unwrap_or(default.idle_timeout),
        write_timeout: fields.seconds("write_timeout", 0.1..=600.0).unwrap_or(default.write_timeout),
        drain_timeout: fields.seconds("drain_timeout", 0.0..=600.0).unwrap_or(default.drain_timeout),
    }
}

fn read_memory_budget(fields: &mut Fields<'_>) -> Option<usize> {
    let setting = fields.take("memory_budget")?;
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

fn read_allow_unauthenticated(fields: &mut Fields<'_>, auth: &auth::Config) -> bool {
    let Some(setting) = fields.take("allow_unauthenticated") else { return false };
    let is_allowed = setting.boolean().unwrap_or_default();
    if is_allowed && !auth.is_open() {
        let hint = "remove it, or write `auth_mode: none`".to_owned();
        setting.key_problem("it has no effect while `auth_mode` asks for credentials", Some(hint));
    }
    is_allowed
}

fn read_anonymous_role(fields: &mut Fields<'_>, auth: &auth::Config) -> bool {
    let Some(setting) = fields.take("anonymous_role") else { return false };
    let hint = "only GET requests are answered without a credential; give callers a key";
    let is_reader = setting.choice_or(&[("reader", true)], &[("caller", hint), ("superuser", hint)]);
    if is_reader.is_some() && auth.is_open() {
        let hint = "add `auth_mode: api_key`, `jwt` or `any`, or remove it".to_owned();
        setting.key_problem("it has no effect while `auth_mode` asks for no credentials", Some(hint));
    }
    is_reader.unwrap_or_default()
}

fn read_log(fields: &mut Fields<'_>, folder: &Path) -> telemetry::LogOptions {
    let formats = [("auto", Format::Auto), ("json", Format::Json), ("pretty", Format::Pretty)];
    let levels = "one of `error`, `warn`, `info`, `debug`, `trace`";
    telemetry::LogOptions {
        format: fields.choice("log_format", &formats).unwrap_or_default(),
        level: fields.parsed("log_level", levels, Level::from_word).unwrap_or_default(),
        file: fields.part("log_file", |file| file.file_path(folder)),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
