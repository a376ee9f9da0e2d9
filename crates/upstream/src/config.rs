//! What the operator says of one server, parsed and in range.
//!
//! Invariant: a value of these types is valid; where it came from, the configuration file, is
//! checked while it is read, so nobody below asks again.

mod builtin;
mod parse;
mod tools;
mod transport;

pub use builtin::{BuiltinOptions, Kind, Kinds};
pub use parse::{Defaults, MAX_SERVER_NAME, server_name};
pub use tools::{OnChange, Tools};
pub use transport::{Given, header_value, is_reserved_header, require};

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use secrecy::SecretString;
use url::Url;

use super::signs::Sign;
use super::token_file::TokenFile;
use protocol::Era;
use settings::Fingerprint;

/// Bounds of the time one connect has, handshake included; between them it is the server's
/// `timeout`, because the first start of a child process may install it.
const CONNECT_LIMITS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(2));

/// One server of the registry file.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its key in `mcp_servers`.
    pub name: Arc<str>,
    /// How it is reached.
    pub transport: Transport,
    /// What is reached, as operators may see it: a URL without credentials, a program without its
    /// arguments, the kind of built-in. A variable stands there as its reference, `${NAME}`.
    pub target: String,
    /// A disabled server is listed and never contacted.
    pub enabled: bool,
    /// Shown to operators; a variable stands there as its reference, `${NAME}`.
    pub description: Option<String>,
    /// Time without a message from the server after which a call is given up.
    pub timeout: Duration,
    /// Longest time of one call, all attempts included, whatever the server sends.
    pub max_timeout: Duration,
    /// Time between two health checks.
    pub health_check_interval: Duration,
    /// When a failed call is tried again.
    pub retry: Retry,
    /// When the server is left alone.
    pub breaker: Breaker,
    /// Caps on what one server may take of us.
    pub limits: Limits,
    /// Who shares a connection to it.
    pub sharing: Sharing,
    /// The protocol era that is spoken with it; none: Switchyard finds out.
    pub era: Option<Era>,
    /// Which of its tools are offered, and under which names.
    pub tools: Tools,
    /// What must not be shown of what it says: the values of variables in its settings, and the texts
    /// that hold them.
    pub secrets: Vec<SecretString>,
    /// Of all that it was read from: a server with another one is another server, when a running
    /// gateway is given a new configuration. The default is equal to no other.
    pub source: Fingerprint,
}

impl Config {
    /// How long one connect may take, handshake included.
    pub(super) fn connect_limit(&self) -> Duration {
        let (least, most) = CONNECT_LIMITS;
        self.timeout.clamp(least, most)
    }

    /// What an operator should know of it although it is valid.
    pub fn warning(&self) -> Option<&'static str> {
        match &self.transport {
            Transport::Builtin(options) => options.warning(),
            _ => None,
        }
    }
}

/// Who shares a connection to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Everybody, until the server shows that it keeps state for each client. Sessions that begin after that have
    /// connections of their own.
    #[default]
    Auto,
    /// Everybody, as far as what the server asks still reaches the right client.
    Shared,
    /// Nobody: each client session has one of its own, which declares exactly what the client can do
    /// and ends with the session. For servers that keep state, or ask outside of calls.
    PerSession,
}

impl Sharing {
    /// The advice for a server that showed `signs` of keeping state for each client.
    pub const fn hint(self, signs: &[Sign]) -> Option<&'static str> {
        match self {
            Self::Auto if !signs.is_empty() => Some(
                "new sessions have connections of their own; set `sharing: per_session` for that from the start, or `sharing: shared` to share its state",
            ),
            Self::Shared if !signs.is_empty() => Some(
                "all clients share its state; set `sharing: per_session` to give each session a connection of its own",
            ),
            _ => None,
        }
    }

    /// The word in the registry file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Shared => "shared",
            Self::PerSession => "per_session",
        }
    }
}

/// The way to a server.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Streamable HTTP, with detection of an old HTTP+SSE server.
    Http(Http),
    /// HTTP+SSE of 2024-11-05.
    Sse(Http),
    /// A child process.
    Stdio(Stdio),
    /// A server inside the gateway.
    Builtin(Arc<dyn BuiltinOptions>),
}

/// A server behind a URL. `Debug` shows no URL: any part of one may be a secret.
#[derive(Clone)]
pub struct Http {
    /// The MCP endpoint.
    pub url: Url,
    /// Sent with every request: `headers`, and what `auth` adds.
    pub headers: Vec<(HeaderName, SecretString)>,
    /// Holds the token that is sent beside them.
    pub token: Option<TokenFile>,
}

/// A server that is a child process. `Debug` shows no arguments: any of them may be a secret.
#[derive(Clone)]
pub struct Stdio {
    /// The program, looked up in `PATH`; no shell.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to a short allow-list of our own environment.
    pub env: BTreeMap<String, SecretString>,
    /// Variables of ours that it gets too, where we have them.
    pub pass_env: Vec<String>,
    /// Where it runs.
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

/// When a failed call is tried again.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Extra attempts.
    pub attempts: u32,
    /// Upper bound of the first pause.
    pub delay: Duration,
    /// Upper bound of any pause.
    pub max_delay: Duration,
}

/// When the server is left alone.
#[derive(Debug, Clone, Copy)]
pub struct Breaker {
    /// Consecutive failures that open it.
    pub threshold: u32,
    /// Consecutive probes that must succeed before an open one is closed.
    pub successes: u32,
    /// Time it stays open before one probe.
    pub timeout: Duration,
}

/// Caps on what one server may take of us.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at most, which over HTTP are sessions with it; and idle sockets that are kept
    /// (`connection_pool_size`).
    pub connections: usize,
    /// Calls that run at a time.
    pub concurrent_calls: usize,
    /// Calls that wait for one of those to end; more are refused.
    pub waiting_calls: usize,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Requests of clients that are sent to it in a minute; none: as many as come.
    pub requests_per_minute: Option<usize>,
}

#[cfg(test)]
mod tests;
