//! The settings of one server, parsed and in range.
//!
//! Invariant: a value of these types is valid. The configuration file is checked while it is read, so no code below
//! checks again.

mod builtin;
mod env_file;
mod headers;
mod parse;
mod tools;
mod transport;

pub use super::forwarded_headers::{PrincipalHeader, is_sendable};
pub use builtin::{BuiltinKind, BuiltinOptions, Kinds};
pub use headers::{header_value, is_reserved_header};
pub use parse::{Defaults, HealthCheck, Lifecycle, MAX_SERVER_NAME, Start, server_name};
pub use tools::{OnChange, Tools, is_match};

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use secrecy::SecretString;
use url::Url;

use super::HEALTH_LIMIT;
use super::credential::TokenSource;
use super::liveness::SilenceLimits;
use super::state_signs::StateSign;
use net::http::{DialPolicy, Network};
use protocol::Era;
use settings::{Fingerprint, settings, words};

/// Limits of the time for one connect over HTTP, handshake included. Between them it is the server's `timeout`.
const CONNECT_LIMITS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(2));

/// The range of any time except the deadline of a call, in seconds: a tenth to a day.
const PAUSE: RangeInclusive<f64> = 0.1..=86_400.0;
/// The range of the probes that close a breaker.
const SUCCESSES: RangeInclusive<u32> = 1..=100;

/// One server of the configuration file.
#[derive(Debug, Clone)]
pub struct Config {
    /// The key in `mcp_servers`.
    pub name: Arc<str>,
    /// The transport to it.
    pub transport: Transport,
    /// The target for operators: a URL without credentials, a program without its arguments, or the kind of built-in. A
    /// variable stays as its reference, `${NAME}`.
    pub target: String,
    /// A disabled server is listed and never contacted.
    pub enabled: bool,
    /// Shown to operators. A variable stays as its reference, `${NAME}`.
    pub description: Option<String>,
    /// Time without a message from the server after which a call times out.
    pub timeout: Duration,
    /// The longest time of one call, all attempts included, whatever the server sends.
    pub max_timeout: Duration,
    /// When it runs.
    pub lifecycle: Lifecycle,
    /// Time between two health checks.
    pub health_check_interval: Duration,
    /// The retries of failed calls.
    pub retry: Retry,
    /// The settings of the circuit breaker.
    pub breaker: BreakerConfig,
    /// The limits for one server.
    pub limits: Limits,
    /// The proxies and the files for TLS.
    pub network: Network,
    /// The addresses that it may have.
    pub dial_policy: DialPolicy,
    /// Which clients share a connection to it.
    pub sharing: Sharing,
    /// The protocol era to use; `None` means that Switchyard detects it.
    pub era: Option<Era>,
    /// The tools that are offered, and their names.
    pub tools: Tools,
    /// Values that are redacted from the text of the server: the values of variables in its settings, and the strings
    /// that contain them.
    pub secrets: Vec<SecretString>,
    /// The fingerprint of all its settings. After a reload, a server with another fingerprint is a new server. The
    /// default is equal to no other.
    pub source: Fingerprint,
    /// The fingerprint of the settings that decide what it offers: how it is reached or started, and with which
    /// credential. Another one means that a remembered offer may be that of another server.
    pub identity: Fingerprint,
}

impl Config {
    /// How long the lists of a server may take together.
    pub(super) fn list_limit(&self) -> Duration {
        let (least, most) = CONNECT_LIMITS;
        self.timeout.clamp(least, most) + self.timeout
    }

    /// The time limit of one connect, handshake included. The start of a child process has limits of its own, which
    /// this one contains.
    pub(super) fn connect_limit(&self) -> Duration {
        if matches!(self.transport, Transport::Stdio(_)) {
            return self.max_timeout.max(self.lifecycle.start_timeout);
        }
        let (least, most) = CONNECT_LIMITS;
        self.timeout.clamp(least, most)
    }

    /// How long the server may leave a request unanswered.
    pub(super) fn silence_limits(&self) -> SilenceLimits {
        SilenceLimits { check: self.timeout.min(HEALTH_LIMIT), call: self.timeout }
    }

    /// Whether each principal has a credential of its own, and so connections of its own: a login, or a secret that a
    /// header has.
    pub fn is_per_principal(&self) -> bool {
        self.transport.is_per_principal()
    }

    /// The names of the secrets that its headers have of each principal, without repetitions.
    pub fn principal_secrets(&self) -> Vec<&str> {
        PrincipalHeader::all_secrets(self.transport.http().map_or(&[], |http| &http.principal_headers))
    }

    /// The headers of clients that it gets.
    pub fn forwarded_headers(&self) -> &[HeaderName] {
        self.transport.http().map_or(&[], |http| &http.forward)
    }

    /// The advice for a server that showed `signs` of keeping state for each client. Where clients have their own
    /// sessions anyway there is none.
    pub const fn hint(&self, signs: &[StateSign]) -> Option<&'static str> {
        match (self.sharing, &self.transport) {
            _ if signs.is_empty() => None,
            (Sharing::Auto, Transport::Stdio(_)) => Some(
                "new sessions have processes of their own; set `sharing: per_session` for that from the start, or `sharing: shared` to share its state",
            ),
            (Sharing::Shared, _) => Some(
                "all clients share its state; set `sharing: per_session` to give each session a connection of its own",
            ),
            (Sharing::Auto | Sharing::PerSession, _) => None,
        }
    }

    /// A warning for the operator about valid settings.
    pub fn warning(&self) -> Option<&'static str> {
        match &self.transport {
            Transport::Builtin(options) => options.warning(),
            Transport::Http(http) | Transport::Sse(http) => match &http.token {
                Some(TokenSource::OAuth(settings)) => settings.warning(),
                _ => None,
            },
            Transport::Stdio(_) => None,
        }
    }
}

words! {
    /// Which clients share a connection to a server.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Sharing {
        /// As the protocol says. Each client session has its own session at a server that hands out sessions. Clients
        /// share a child process until it shows that it keeps state for each client.
        #[default]
        Auto = "auto",
        /// All clients, as far as server requests still reach the right client.
        Shared = "shared",
        /// None: each client session has its own connection, which declares exactly what the client can do and ends with
        /// the session. For servers that keep state, or send requests outside of calls.
        PerSession = "per_session",
    }
}

/// The transport to a server.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Streamable HTTP, with detection of an old HTTP+SSE server.
    Http(Http),
    /// HTTP+SSE of 2024-11-05.
    Sse(Http),
    /// A child process.
    Stdio(Stdio),
    /// A built-in server.
    Builtin(Arc<dyn BuiltinOptions>),
}

impl Transport {
    /// The server behind a URL, if it is one.
    pub(super) const fn http(&self) -> Option<&Http> {
        match self {
            Self::Http(http) | Self::Sse(http) => Some(http),
            Self::Stdio(_) | Self::Builtin(_) => None,
        }
    }

    /// Whether each principal has a credential of its own.
    pub(super) fn is_per_principal(&self) -> bool {
        let has_own_login = |source: &TokenSource| matches!(source, TokenSource::OAuth(login) if login.per == oauth::Per::Principal);
        self.http().is_some_and(|http| {
            !http.principal_headers.is_empty() || http.token.as_ref().is_some_and(has_own_login)
        })
    }
}

/// A server behind a URL. `Debug` shows no URL, because any part of one may be a secret.
#[derive(Clone)]
pub struct Http {
    /// The MCP endpoint.
    pub url: Url,
    /// Sent with every request: `headers`, and what `auth` adds.
    pub headers: Vec<(HeaderName, SecretString)>,
    /// Sent with each request of a principal, with secrets of that principal.
    pub principal_headers: Vec<PrincipalHeader>,
    /// Headers of clients that calls carry on.
    pub forward: Vec<HeaderName>,
    /// The source of the token that is sent beside them.
    pub token: Option<TokenSource>,
}

impl Http {
    /// The server at `url`, which gets no headers but those of the protocol.
    pub const fn at(url: Url) -> Self {
        Self { url, headers: Vec::new(), principal_headers: Vec::new(), forward: Vec::new(), token: None }
    }
}

/// A server that is a child process. `Debug` shows no arguments, because any of them may be a secret.
#[derive(Clone)]
pub struct Stdio {
    /// The program, looked up in `PATH`; no shell.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to add to a short allow-list of Switchyard's own environment.
    pub env: BTreeMap<String, SecretString>,
    /// Further variables of Switchyard that it inherits, if they are set.
    pub pass_env: Vec<String>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio").field("env", &self.env).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// The retries of failed calls.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// The number of extra attempts.
    pub attempts: u32,
    /// Upper bound of the first pause.
    pub delay: Duration,
    /// Upper bound of any pause.
    pub max_delay: Duration,
}

settings! {
    /// The settings of the circuit breaker.
    #[derive(Debug, Clone, Copy)]
    pub struct BreakerConfig {
        /// consecutive failures after which the breaker opens and the server is not contacted
        pub threshold as "circuit_breaker_threshold": u32 = 5, in 1..=10_000;
        /// time until one call probes the server
        pub timeout as "circuit_breaker_timeout": Duration = Duration::from_secs(30), in PAUSE;
        /// consecutive probes that must succeed before the breaker closes; `success_threshold` is accepted too
        pub successes as "circuit_breaker_success_threshold": u32 = 1, in SUCCESSES;
    }
}

const PER_MINUTE: &str = "write `requests_per_minute`";

settings! {
    /// The limits for one server.
    #[derive(Debug, Clone, Copy)]
    pub struct Limits {
        /// calls that run at a time
        pub concurrent_calls: usize = 64, in 1..=10_000;
        /// calls that wait until a running call ends; further calls are refused at once
        pub waiting_calls: usize = 256, in 0..=100_000;
        /// largest message of the server
        pub message_bytes: usize = 16 << 20 => "16777216 (16 MiB)", in 1 << 10..=1 << 30;
        /// requests of clients that the server gets in any minute, retries included; further requests are
        /// [refused](resilience.md#limits-per-server-the-bulkhead) with `overloaded` and `Retry-After`. For the built-in
        /// server R2R see also `r2r.requests_per_minute`
        pub requests_per_minute: Option<usize>, in 1..=60_000;
    }
    other {
        /// The most connections, which over HTTP are sessions with it, and the most idle sockets that are kept
        /// (`connection_pool_size`).
        pub connections: usize;
    }
    foreign &[("rate_limit", PER_MINUTE), ("rate_limit_per_minute", PER_MINUTE), ("rpm", PER_MINUTE)];
}

#[cfg(test)]
mod tests;
