//! Reads one server of the configuration file, and the settings beside `mcp_servers` that apply to all servers.
//!
//! Not here: what belongs to one transport (`transport`), the checks of one group of settings (beside the group).

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::builtin::{self, Kinds};
use super::transport::{self, OwnTransport};
use super::{BreakerConfig, Config, Limits, OnChange, PAUSE, Retry, SUCCESSES, Sharing, Tools, Transport};
use net::http::{DialPolicy, Network, Proxies, TlsFiles};
use protocol::Era;
use settings::{Fields, Fingerprint, Setting, settings, words};

/// Longest name of a server.
pub const MAX_SERVER_NAME: usize = 64;
/// The fields of older file formats, in which null means absent. In all other fields null is an error: an operator who
/// comments out all lines below `allow:` does not mean to allow everything.
const FIXED: [&str; 10] = [
    "url",
    "transport",
    "timeout",
    "retry_attempts",
    "retry_delay",
    "retry_max_delay",
    "circuit_breaker_threshold",
    "circuit_breaker_timeout",
    "enabled",
    "description",
];
/// Keys of a server in the files of MCP clients, and the text to write instead of each.
const FOREIGN: [(&str, &str); 15] = [
    ("type", "write `transport: http`, `sse` or `stdio`, or leave it out: a `url` means `http`"),
    ("disabled", "write `enabled: false` to disable the server, or remove the line"),
    ("serverUrl", "write `url:`"),
    ("server_url", "write `url:`"),
    ("httpUrl", "write `url:`"),
    ("includeTools", "write `tools: {allow: [NAME]}`"),
    ("excludeTools", "write `tools: {deny: [NAME]}`"),
    ("alwaysAllow", "clients ask their users before a call; remove the line"),
    ("autoApprove", "clients ask their users before a call; remove the line"),
    ("envFile", "write `env_file:`"),
    ("workingDirectory", "write `cwd:`"),
    ("requests_per_minute", PER_MINUTE),
    ("rate_limit", PER_MINUTE),
    ("rate_limit_per_minute", PER_MINUTE),
    (
        "circuit_breaker",
        "write `circuit_breaker_threshold:`, `circuit_breaker_timeout:` and `circuit_breaker_success_threshold:`",
    ),
];
const PER_MINUTE: &str = "write `limits: {requests_per_minute: 60}`";
/// The fields for all servers in which null means absent.
const FIXED_GLOBALS: [&str; 4] =
    ["default_timeout", "default_retry_attempts", "connection_pool_size", "health_check_interval"];
/// The range of the longest time of a call in seconds, whatever its server sends.
const MAX_TIMEOUT: RangeInclusive<f64> = 1.0..=86_400.0;
/// The range of the time without a message from the server after which a call times out, in seconds.
const TIMEOUT: RangeInclusive<f64> = 1.0..=600.0;
const MAX_RETRIES: u32 = 10;

settings! {
    /// The settings beside `mcp_servers`, for all servers.
    #[derive(Debug, Clone)]
    struct Globals {
        /// `timeout` of servers that name none
        default_timeout: Duration = Duration::from_secs(30), in TIMEOUT;
        /// `max_timeout` of servers that name none
        default_max_timeout: Duration = Duration::from_mins(10), in MAX_TIMEOUT;
        /// `retry_attempts` of servers that name none
        default_retry_attempts: u32 = 3, in 0..=MAX_RETRIES;
        /// `tools.on_change` of servers that name none; it does not apply to built-in servers
        default_tools_on_change: OnChange;
        /// `pass_env` of child processes that name none: proxies and certificate authorities, for example
        default_pass_env: Vec<String>, with transport::variables;
        /// the [HTTP proxy](servers.md#reach-servers-through-a-proxy) to servers and login services whose entry names
        /// none. `environment`: the proxies of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`
        proxy: Option<Arc<Proxies>> => "`none`", with transport::proxies;
        /// shared connections to one server at most, for each kind of client (era and capabilities), and processes of
        /// one server that clients have of their own. Sessions that clients have of their own are not counted. Over
        /// HTTP this is also the number of idle sockets that are kept. It does not limit calls
        /// ([what it limits](resilience.md#connection-pool))
        connection_pool_size: usize = 10, in 1..=1_000;
        /// time between two health checks of a server
        health_check_interval: Duration = Duration::from_secs(30), in PAUSE;
    }
    flat {
        lifecycle: Lifecycle;
    }
}

settings! {
    /// The settings of one server, as far as they are given.
    struct Own {
        /// a disabled server is listed, and Switchyard never contacts it
        enabled: bool = true;
        /// shown to operators
        description: Option<String>, with shown;
        /// time without a message from the server after which a call times out, all attempts included
        /// ([deadlines](resilience.md#deadlines-and-timeouts))
        timeout: Option<Duration> => "`default_timeout`", in TIMEOUT;
        /// longest time of one call, regardless of the messages that the server sends; at least `timeout`
        max_timeout: Option<Duration> => "`default_max_timeout`, or `timeout` if that is more", in MAX_TIMEOUT;
        /// extra attempts, for calls that may be repeated
        retry_attempts: Option<u32> => "`default_retry_attempts`", in 0..=MAX_RETRIES;
        /// upper bound of the first pause between attempts
        retry_delay: Duration = Duration::from_secs(1), in 0.1..=300.0;
        /// upper bound of any pause, the first one included
        retry_max_delay: Option<Duration> => "30, or `retry_delay` if that is more", in PAUSE;
        /// which clients share a connection. `auto`: each client session has its own session at a server that hands out
        /// sessions, and clients share a program until it shows that it keeps state for each. `shared`: connections are
        /// for all clients. `per_session`: each client session has its own connection
        /// ([which clients share](sharing.md#which-clients-share))
        sharing: Sharing;
        /// protocol era that Switchyard uses with the server: `legacy` is up to 2025-11-25, `modern` from 2026-07-28.
        /// With `auto` Switchyard detects it. Not for built-in servers; `modern` is not available with transport `sse`.
        /// See [Servers](sharing.md#servers-that-speak-both-protocol-eras)
        era: Option<Era> => "`auto`", with era;
        /// the [HTTP proxy](servers.md#reach-servers-through-a-proxy) to this server, its login services or the service
        /// of a built-in server
        proxy: Option<Option<Arc<Proxies>>> => "`proxy` beside `mcp_servers`", with transport::proxies;
        /// [files in PEM](servers.md#trust-another-certificate-authority-or-show-a-certificate) for TLS with this
        /// server. They are read again when they change
        tls: Option<TlsFiles>, with transport::files;
        /// whether the server may have public addresses only, whatever its name leads to. The dashboard writes it for a server
        /// that is added there, if others can reach the gateway
        public_only: bool;
        /// what a server may take
        limits: Limits;
        /// which tools are offered
        tools: Tools;
    }
    flat {
        transport: OwnTransport;
        lifecycle: OwnLifecycle;
        breaker: BreakerConfig;
    }
    foreign &FOREIGN;
}

/// The values for all servers: defaults, and settings that apply to every server.
#[derive(Debug, Clone)]
pub struct Defaults {
    all: Globals,
    /// Shows a change of `proxy`, whose text may hold a password.
    proxy: Fingerprint,
    kinds: Kinds,
}

impl Defaults {
    /// Reads the global fields from the root of the file. `kinds` are the built-in servers of the program.
    pub fn from_fields(fields: &mut Fields<'_>, kinds: Kinds) -> Self {
        fields.without_nulls(&FIXED_GLOBALS);
        let proxy = fields.fingerprint("proxy", &[]);
        Self { all: Globals::from_fields(fields).unwrap_or_default(), proxy, kinds }
    }

    /// The way to services that belong to no server.
    pub fn network(&self) -> Network {
        Network::new(self.all.proxy.clone(), None)
    }
}

impl Config {
    /// Reads the server `name`. `None` if it has no usable transport, which was reported.
    pub fn from_settings(setting: &Setting<'_>, name: &str, defaults: &Defaults) -> Option<Self> {
        check_name(name, setting);
        let Defaults { all, proxy, kinds } = defaults;
        let mut fields = setting.fields()?;
        fields.without_nulls(&FIXED);
        let identity = transport::identity(&fields);
        transport::ignore_unused(&mut fields);
        builtin::take(&mut fields, kinds);
        let mut own = Own::from_fields(&mut fields)?;
        read_other_name(&mut fields, &mut own.breaker);
        fields.finish();
        let from_files = own.transport.read_from_files();
        let transport = own.transport.complete(setting, kinds, &all.default_pass_env);
        let reached = transport.as_ref().map(|(transport, _)| transport);
        transport::refuse_for_programs(reached, setting);
        let lifecycle = all.lifecycle.with(own.lifecycle);
        lifecycle.check(setting, reached);
        let timeout = own.timeout.unwrap_or(all.default_timeout);
        check_max_timeout(own.max_timeout, timeout, setting);
        check_era(own.era, reached, setting);
        let sharing = own_connections(own.sharing, reached, setting);
        let network = Network::new(own.proxy.unwrap_or_else(|| all.proxy.clone()), own.tls);
        if own.public_only {
            transport::check_public(reached, &network, setting);
        }
        let is_builtin = matches!(reached, Some(Transport::Builtin(_)));
        own.tools.complete(setting, sharing, (!is_builtin).then_some(all.default_tools_on_change));
        check_cache(&own.tools, reached, setting);
        let (transport, target) = transport?; // last, so that the problems of the other fields are reported too
        Some(Self {
            name: name.into(),
            target,
            enabled: own.enabled,
            description: own.description,
            timeout,
            max_timeout: own.max_timeout.unwrap_or(all.default_max_timeout.max(timeout)),
            lifecycle,
            health_check_interval: all.health_check_interval,
            retry: retry(
                own.retry_attempts.unwrap_or(all.default_retry_attempts),
                own.retry_delay,
                own.retry_max_delay,
            ),
            breaker: own.breaker,
            limits: Limits { connections: all.connection_pool_size, ..own.limits },
            network,
            dial_policy: if own.public_only { DialPolicy::Public } else { DialPolicy::Anywhere },
            sharing,
            era: own.era,
            tools: own.tools,
            secrets: setting.secrets(),
            // The folder of the file does not count, so the same file on several machines gives the same servers.
            source: with_files(setting.fingerprint(), &from_files)
                .and(&format!("{all:?} {:?}", proxy.bytes())),
            identity: transport::with_passed(with_files(identity, &from_files), &transport),
            transport,
        })
    }
}

/// Adds what the settings name files for, if there is any.
fn with_files(fingerprint: Fingerprint, from_files: &str) -> Fingerprint {
    if from_files.is_empty() { fingerprint } else { fingerprint.and(from_files) }
}

/// Reads a text that operators see: a variable stays as its reference.
fn shown(setting: &Setting<'_>) -> Option<String> {
    setting.text().map(|_| setting.shown().to_owned())
}

/// Returns how clients share connections. Where each principal has its own credential, they share none.
fn own_connections(sharing: Sharing, transport: Option<&Transport>, setting: &Setting<'_>) -> Sharing {
    if !transport.is_some_and(Transport::is_per_principal) {
        return sharing;
    }
    if sharing == Sharing::Shared {
        let hint = "each principal has its own credential and so its own connections; remove `sharing`";
        let message = "`sharing: shared` does not go with `per: principal` or `${principal:…}`";
        setting.key_problem(message, Some(hint.into()));
    }
    Sharing::PerSession
}

/// Returns `requested`, or a similar name that a server can have.
pub fn server_name(requested: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String =
        requested.chars().map(|c| if allowed(c) { c } else { '-' }).take(MAX_SERVER_NAME).collect();
    let name = if plain == requested { plain.as_str() } else { plain.trim_matches('-') };
    if name.is_empty() { "server".into() } else { name.into() }
}

fn check_name(name: &str, setting: &Setting<'_>) {
    if server_name(name) != name {
        let message = format!("a server's name has 1 to {MAX_SERVER_NAME} letters, digits, `.`, `_` or `-`");
        setting.key_problem(message, None);
    }
}

/// Reads `era`; the inner `None` means `auto`.
#[allow(clippy::option_option)] // invalid, and `auto`
fn era(setting: &Setting<'_>) -> Option<Option<Era>> {
    setting.choice(&[("auto", None), ("legacy", Some(Era::Legacy)), ("modern", Some(Era::Modern))])
}

fn check_era(era: Option<Era>, transport: Option<&Transport>, server: &Setting<'_>) {
    let (message, hint) = match transport {
        Some(Transport::Sse(_)) if era == Some(Era::Modern) => (
            "`era: modern` does not go with transport `sse`",
            "2026-07-28 has no HTTP+SSE; write `transport: http`, or remove `era`",
        ),
        Some(Transport::Builtin(_)) => {
            ("`era` does not go with a built-in server", "it is part of this program; remove `era`")
        }
        _ => return,
    };
    if let Some(setting) = server.member("era") {
        setting.key_problem(message, Some(hint.into()));
    }
}

/// Reports a `max_timeout` below `timeout`. The default for all servers is raised to the `timeout` of a server.
fn check_max_timeout(own: Option<Duration>, timeout: Duration, server: &Setting<'_>) {
    if let (Some(own), Some(setting)) = (own, server.member("max_timeout"))
        && own < timeout
    {
        let hint = format!("`timeout` is {} s: raise one or lower the other", timeout.as_secs_f64());
        setting.problem("`max_timeout` must not be less than `timeout`", Some(hint));
    }
}

/// Reports a cache of results that belong to one client.
fn check_cache(tools: &Tools, transport: Option<&Transport>, server: &Setting<'_>) {
    if let (Some(Transport::Builtin(options)), Some(_)) = (transport, tools.cache_ttl)
        && let Some(per_client) = options.per_client_setting()
    {
        let hint = "an answer belongs to the project of one client; remove one of the two";
        server.key_problem(format!("`tools.cache` does not go with {per_client}"), Some(hint.into()));
    }
}

/// A first pause above the default maximum raises the maximum too. A maximum that is written limits the first pause.
fn retry(attempts: u32, delay: Duration, max_delay: Option<Duration>) -> Retry {
    let max_delay = max_delay.unwrap_or(Duration::from_secs(30).max(delay));
    Retry { attempts, delay: delay.min(max_delay), max_delay }
}

/// Reads `success_threshold`, as files of other gateways call `circuit_breaker_success_threshold`.
fn read_other_name(fields: &mut Fields<'_>, breaker: &mut BreakerConfig) {
    let Some(short) = fields.take("success_threshold") else { return };
    if fields.setting().member("circuit_breaker_success_threshold").is_some() {
        let hint = "remove `success_threshold`";
        short.key_problem("`circuit_breaker_success_threshold` says the same", Some(hint.into()));
    }
    breaker.successes = short.integer(SUCCESSES).unwrap_or(breaker.successes);
}

// When a server runs: its start, its end when nothing needs it, and its health checks.
//
// Invariant: a setting that would have no effect on a server is refused in the settings of that server. The defaults
// for all servers apply to those that they concern.

/// The range of `idle_timeout` in seconds; 0 means never.
const IDLE_TIMEOUT: RangeInclusive<f64> = 0.0..=86_400.0;
/// The range of `start_timeout` in seconds.
const START_TIMEOUT: RangeInclusive<f64> = 1.0..=3_600.0;

words! {
    /// When a child process is started.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Start {
        /// When it is needed, if its offer is remembered; otherwise with the gateway.
        #[default]
        OnDemand = "on_demand",
        /// With the gateway.
        Eager = "eager",
    }
}

words! {
    /// When the health of a server is checked.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum HealthCheck {
        /// As long as it is used. A server that nothing needs gets no request, so that it can sleep.
        #[default]
        WhenUsed = "when_used",
        /// Always.
        Always = "always",
    }
}

settings! {
    /// When a server runs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Lifecycle {
        /// `start` of programs that name none
        pub start as "default_start": Start;
        /// `start_timeout` of programs that name none
        pub start_timeout as "default_start_timeout": Duration = Duration::from_mins(2), in START_TIMEOUT;
        /// `idle_timeout` of servers that name none; 0 means never
        pub idle_timeout as "default_idle_timeout": Option<Duration> = Some(Duration::from_mins(10)), in IDLE_TIMEOUT;
        /// `health_check` of servers that name none
        pub health_check as "default_health_check": HealthCheck;
        /// how long after its start lists wait for a program of which nothing is remembered; they wait 300 ms for a
        /// server over HTTP
        pub first_list_wait: Duration = Duration::from_secs(5), in 0.0..=60.0;
    }
}

settings! {
    /// The settings of one server in place of those for all.
    #[derive(Clone, Copy)]
    pub(super) struct OwnLifecycle {
        /// when a program is started: when it is needed, if its offer is
        /// [remembered](servers.md#what-is-remembered), or with the gateway
        start: Option<Start> => "`default_start`";
        /// how long the start of a program may take, from its last output on standard error, and at most `max_timeout`
        start_timeout: Option<Duration> => "`default_start_timeout`", in START_TIMEOUT;
        /// how long nothing needs a server before its program is stopped or its connection closed; 0 means never. It
        /// does not go with `start: eager`
        idle_timeout: Option<Duration> => "`default_idle_timeout`", in IDLE_TIMEOUT;
        /// whether the health of a server over HTTP is checked after `idle_timeout` too, which keeps it awake
        health_check: Option<HealthCheck> => "`default_health_check`";
    }
}

impl Lifecycle {
    /// A server that is started at once and never rests.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn of_fake() -> Self {
        Self { start: Start::Eager, first_list_wait: Duration::from_millis(300), ..Self::default() }
    }

    /// Returns how a server runs that has `own` settings, in place of those for all.
    pub(super) fn with(self, own: OwnLifecycle) -> Self {
        let idle_timeout = own.idle_timeout.or(self.idle_timeout);
        Self {
            start: own.start.unwrap_or(self.start),
            start_timeout: own.start_timeout.unwrap_or(self.start_timeout),
            idle_timeout: idle_timeout.filter(|time| !time.is_zero()),
            health_check: own.health_check.unwrap_or(self.health_check),
            first_list_wait: self.first_list_wait,
        }
    }

    /// Reports settings of `server` that have no effect with its transport.
    pub(super) fn check(self, server: &Setting<'_>, transport: Option<&Transport>) {
        let is_child = matches!(transport, Some(Transport::Stdio(_)));
        for name in ["start", "start_timeout", "idle_timeout", "health_check"] {
            let misfit = match (transport, name) {
                (Some(Transport::Builtin(_)), _) => Some("it is part of this program; remove it"),
                (Some(_), "start" | "start_timeout") if !is_child => {
                    Some("it is for programs that Switchyard starts (`command`); remove it")
                }
                (Some(_), "health_check") if is_child => {
                    Some("a child process is checked while it runs; use `idle_timeout` or `start`")
                }
                _ => None,
            };
            if let Some(hint) = misfit {
                server.refuse_member(name, "this server", hint);
            }
        }
        if is_child && self.start == Start::Eager {
            let hint = "a process that is started with the gateway is not stopped; remove one of the two";
            server.refuse_member("idle_timeout", "`start: eager`", hint);
        }
    }
}
