//! What the operator says of one server, parsed and in range.
//!
//! Invariant: a value of these types is valid; where it came from, the configuration file, is
//! checked while it is read, so nobody below asks again.

mod builtin;
mod chroma;
mod handbook;
mod parse;
mod project;
mod rag;
mod tools;
mod transport;

pub use chroma::Chroma;
pub use handbook::{Collection, Handbook, Keeping};
pub use parse::{Defaults, MAX_SERVER_NAME, server_name};
pub use project::ProjectName;
pub use rag::Rag;
pub use tools::{OnChange, Tools};
pub use transport::is_reserved_header;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use secrecy::SecretString;
use url::{Host, Url};

use super::signs::Sign;
use super::token_file::TokenFile;
use crate::protocol::Era;
use crate::settings::Fingerprint;

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
            Transport::Builtin(Builtin::R2r(options)) if options.shows_secrets() => {
                Some("its credentials go over the network in clear text; use https")
            }
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
    Builtin(Builtin),
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

/// A built-in server: each kind with its own options.
#[derive(Debug, Clone)]
pub enum Builtin {
    /// Search over a folder of Markdown.
    Handbook(Box<Handbook>),
    /// The tools of an R2R retrieval service.
    R2r(Box<R2r>),
    /// The techniques of a RAG service.
    Rag(Rag),
    /// Documents in a Chroma vector store.
    Chroma(Box<Chroma>),
}

/// Options of the R2R server. `Debug` shows no URL: any part of one may be a secret.
#[derive(Clone)]
pub struct R2r {
    /// Where R2R answers, without `/v3`.
    pub url: Url,
    /// Who we are there.
    pub credentials: Credentials,
    /// Names the default collection.
    pub project: ProjectName,
    /// Whether calls are about the project of their client, where that tells one.
    pub follows_client: bool,
    /// Requests to R2R within a minute, if they are limited.
    pub requests_per_minute: Option<usize>,
    /// Whether that is made when it is missing.
    pub auto_create_collections: bool,
    /// Where the collection of each project is remembered; none: below the user's state folder.
    pub collection_mapping_file: Option<PathBuf>,
    /// Only files below these folders are taken in.
    pub ingest_roots: Vec<PathBuf>,
    /// The largest file that is taken in, in bytes.
    pub max_file_bytes: u64,
    /// What `search_mode: advanced` is.
    pub advanced_search: AdvancedSearch,
    /// How long answers may be given again.
    pub cache_ttl: CacheTtl,
}

/// What a search with `search_mode: advanced` does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdvancedSearch {
    /// It searches by meaning and by words.
    #[default]
    Hybrid,
    /// What R2R calls so: the same, for answers that its language model invents first.
    R2r,
}

impl fmt::Debug for R2r {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("R2r").field("project", &self.project).finish_non_exhaustive()
    }
}

impl R2r {
    /// Whether what we show of who we are can be read on the way there: no TLS, and not on this machine.
    fn shows_secrets(&self) -> bool {
        let is_local = match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => true,
        };
        self.url.scheme() == "http" && !is_local && !matches!(self.credentials, Credentials::None)
    }
}

/// Who we are at R2R.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// Whoever R2R takes callers without credentials for.
    None,
    /// A key, which neither ends nor needs to be renewed.
    ApiKey(SecretString),
    /// An account, with which we log in.
    Account {
        /// Its name.
        email: SecretString,
        /// Its password.
        password: SecretString,
    },
}

/// How long answers of R2R may be given again; zero: not at all.
#[derive(Debug, Clone, Copy)]
pub struct CacheTtl {
    /// Of searches.
    pub search: Duration,
    /// Of generated answers.
    pub rag: Duration,
    /// Of lists.
    pub list: Duration,
}

impl Default for CacheTtl {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { search: seconds(300), rag: seconds(120), list: seconds(60) }
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
