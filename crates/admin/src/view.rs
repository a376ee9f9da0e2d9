//! Servers, tools and breakers as the API shows them: serializable, and described for `OpenAPI`.
//!
//! Invariants: no part of a server's configuration that may contain a secret is shown. A definition keeps the bytes of
//! its server. Times are converted here from the monotonic clock to dates.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::changed_tool::ChangedTool;
use super::server_state::{EntryProblem, ServerState, Start};
use gateway::manager::catalog::CatalogEntry;
use gateway::manager::{NotConfigured, ServerEntry, ServerStatus, Snapshot};
use json::Raw;
use protocol::JsonObject;
use protocol::Version;
use protocol::sanitize::clipped;
use runtime::telemetry::durations::{Outcome, Quantiles};
use upstream::config::Transport;
use upstream::status::Status;
use upstream::{Config, breaker};

pub(super) use gateway::manager::live_events::date;

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TransportName {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// A child process.
    Stdio,
    /// Inside the gateway.
    Builtin,
}

impl From<&Transport> for TransportName {
    fn from(transport: &Transport) -> Self {
        match transport {
            Transport::Http(_) => Self::Http,
            Transport::Sse(_) => Self::Sse,
            Transport::Stdio(_) => Self::Stdio,
            Transport::Builtin(_) => Self::Builtin,
        }
    }
}

/// The state of a circuit breaker. `closed`: calls pass. `open`: calls are refused at once.
/// `half_open`: one call is trying out whether the server is back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BreakerState {
    /// Calls pass.
    #[default]
    Closed,
    /// Calls are refused at once.
    Open,
    /// One call is trying out whether the server is back.
    HalfOpen,
}

impl From<breaker::State> for BreakerState {
    fn from(state: breaker::State) -> Self {
        match state {
            breaker::State::Closed => Self::Closed,
            breaker::State::Open => Self::Open,
            breaker::State::HalfOpen => Self::HalfOpen,
        }
    }
}

/// One server.
#[derive(Debug, Default, Serialize, ToSchema)]
#[allow(clippy::struct_field_names)] // `server` is in every answer
pub(super) struct Server {
    /// Its key in the registry.
    #[schema(examples("issues"))]
    name: String,
    /// Its name, as all answers about a server have it.
    #[schema(examples("issues"))]
    server: String,
    /// How it is reached; none if its entry in the configuration file has a mistake.
    #[schema(required = true)]
    transport: Option<TransportName>,
    /// Its address without credentials, for `http` and `sse`. A variable of the environment stands
    /// there as its reference, such as `${HOST}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("https://issues.example.org/mcp"))]
    url: Option<String>,
    /// The program without its arguments, for `stdio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    command: Option<String>,
    /// Which one, for `builtin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    builtin: Option<String>,
    /// A disabled server is listed, and never contacted.
    enabled: bool,
    /// Ready or idle, with its circuit breaker closed, and the last request was not answered with HTTP 500 or more.
    healthy: bool,
    state: ServerState,
    /// The page at which you log in to it, if it needs a login that you may do. It lasts ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("http://127.0.0.1:8080/oauth/start?login=AAECAwQF"))]
    pub(super) login_url: Option<String>,
    /// The state of its circuit breaker.
    breaker: BreakerState,
    /// Tools of it that are offered.
    tool_count: usize,
    /// Resources of it that are offered.
    resource_count: usize,
    /// Resource templates of it that are offered.
    template_count: usize,
    /// Prompts of it that are offered.
    prompt_count: usize,
    /// Whether its offer is remembered from an earlier run and was not read again yet.
    remembered: bool,
    /// Milliseconds since a remembered offer was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    remembered_age_ms: Option<f64>,
    /// The start of its process, while one is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    starting: Option<Start>,
    /// The revision of MCP spoken with it; none until it was reached for the first time.
    #[schema(required = true, examples("2026-07-28"))]
    protocol_version: Option<&'static str>,
    /// Its description in the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<String>,
    /// Its last failure, in words, until the server works again. If it is not configured: the first of `problems`.
    #[schema(required = true)]
    last_error: Option<String>,
    /// When that was (RFC 3339).
    #[schema(format = DateTime, required = true)]
    last_error_at: Option<String>,
    /// The problems of its entry in the configuration file. A server that runs has some if a reload kept its old settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<EntryProblem>,
    /// Faults of its offer, such as tools that cannot be called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    offer_problems: Vec<String>,
    /// Signs that it keeps state for each client: `asks_for_roots`, `asks_for_sampling`,
    /// `asks_for_elicitation`, `list_changed_by_call`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state_signs: Vec<&'static str>,
    /// The setting that helps with that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    state_hint: Option<&'static str>,
    /// How many of its tools have a definition that is not the trusted one.
    changed_tool_count: usize,
    /// Those tools, at most 100 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed_tools: Vec<ChangedTool>,
    /// Live connections: sessions with it, or processes. Over HTTP each call has a socket beside that.
    connections: usize,
    /// Calls that run.
    running_calls: usize,
    /// Calls that wait for one of those to end.
    waiting_calls: usize,
    /// How long its calls took within the last one to two minutes; `null` without any.
    #[schema(required = true)]
    recent_calls: Option<RecentCalls>,
    counters: Counters,
}

/// The durations of calls that reached the server, from the request to the beginning of its response. Each is at most 3 %
/// more than the exact one.
#[derive(Debug, Serialize, ToSchema)]
struct RecentCalls {
    /// How many calls.
    count: u64,
    /// Milliseconds below which half of them were.
    #[schema(minimum = 0)]
    p50_ms: f64,
    /// Milliseconds below which 95 % of them were.
    #[schema(minimum = 0)]
    p95_ms: f64,
    /// Milliseconds below which 99 % of them were.
    #[schema(minimum = 0)]
    p99_ms: f64,
}

impl From<Quantiles> for RecentCalls {
    fn from(Quantiles { calls, p50, p95, p99 }: Quantiles) -> Self {
        Self { count: calls, p50_ms: in_ms(p50), p95_ms: in_ms(p95), p99_ms: in_ms(p99) }
    }
}

/// Calls since the gateway started.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = CallCounters)]
struct Counters {
    /// All of them.
    calls: u64,
    /// Calls that failed between the gateway and the server.
    failures: u64,
    /// Calls that the server answered with a JSON-RPC error.
    rpc_errors: u64,
    /// Calls whose tool reported an error.
    tool_errors: u64,
    /// Calls that the gateway refused, because a breaker was open or too many calls were waiting.
    refusals: u64,
    /// Attempts beyond the first.
    retries: u64,
}

impl From<&ServerStatus> for Server {
    fn from(server: &ServerStatus) -> Self {
        let (config, status) = (&server.config, &server.status);
        let transport = TransportName::from(&config.transport);
        let target = |shown: bool| shown.then(|| config.target.clone());
        let counters = &status.counters;
        Self {
            name: config.name.to_string(),
            server: config.name.to_string(),
            transport: Some(transport),
            url: target(matches!(transport, TransportName::Http | TransportName::Sse)),
            command: target(transport == TransportName::Stdio),
            builtin: target(transport == TransportName::Builtin),
            enabled: config.enabled,
            healthy: status.is_healthy(),
            state: status.state.into(),
            login_url: None,
            breaker: status.breaker.state.into(),
            tool_count: server.tools,
            resource_count: server.resources,
            template_count: server.templates,
            prompt_count: server.prompts,
            remembered: status.remembered_ago.is_some(),
            remembered_age_ms: status.remembered_ago.map(in_ms),
            starting: status.starting.as_ref().map(Start::from),
            protocol_version: status.version.map(Version::as_str),
            description: config.description.clone(),
            last_error: status.last_error.clone().map(clipped),
            last_error_at: status.last_error_ago.and_then(|ago| date_before(SystemTime::now(), ago)),
            problems: EntryProblem::all(&server.problems),
            offer_problems: status.problems.clone(),
            state_signs: status.signs.iter().map(|sign| sign.as_str()).collect(),
            state_hint: config.hint(&status.signs),
            changed_tool_count: server.changed_tools(),
            changed_tools: ChangedTool::all(server),
            connections: status.connections,
            running_calls: status.running,
            waiting_calls: status.waiting,
            recent_calls: server.durations.recent(Instant::now()).map(RecentCalls::from),
            counters: Counters {
                calls: counters.calls,
                failures: counters.failures,
                rpc_errors: server.durations.count(Outcome::RpcError),
                tool_errors: server.durations.count(Outcome::ToolError),
                refusals: counters.refusals,
                retries: counters.retries,
            },
        }
    }
}

impl From<&NotConfigured> for Server {
    fn from(wrong: &NotConfigured) -> Self {
        Self {
            name: wrong.name.to_string(),
            server: wrong.name.to_string(),
            enabled: wrong.is_enabled,
            state: wrong.state().into(),
            last_error: Some(clipped(wrong.reason())),
            problems: EntryProblem::all(&wrong.problems),
            ..Self::default()
        }
    }
}

impl From<&ServerEntry> for Server {
    fn from(entry: &ServerEntry) -> Self {
        match entry {
            ServerEntry::Server(server) => (&**server).into(),
            ServerEntry::NotConfigured(wrong) => wrong.into(),
        }
    }
}

impl Server {
    /// Prints what counts of `servers` for whether a list of them is another one. Ages and links, which change with time alone,
    /// do not. A link lasts longer than the time after which `now` makes a difference.
    pub(super) fn steady(servers: &mut [Self], now: SystemTime) -> Vec<u8> {
        type Moving = (Option<String>, Option<f64>, Option<String>);
        let take = |server: &mut Self| -> Moving {
            let error_at = server.last_error_at.take();
            // To the second, because each list computes it again.
            server.last_error_at = error_at.as_ref().map(|at| at.chars().take(19).collect());
            (server.login_url.take(), server.remembered_age_ms.take(), error_at)
        };
        let moving: Vec<Moving> = servers.iter_mut().map(take).collect();
        let mut text = Raw::of(&servers).bytes().to_vec();
        if moving.iter().any(|(link, ..)| link.is_some()) {
            let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            text.extend((since.as_secs() / 240).to_be_bytes());
        }
        for (server, (link, age, error_at)) in servers.iter_mut().zip(moving) {
            (server.login_url, server.remembered_age_ms, server.last_error_at) = (link, age, error_at);
        }
        text
    }
}

/// One circuit breaker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CircuitBreaker)]
pub(super) struct Breaker {
    /// The server it guards.
    server: String,
    state: BreakerState,
    /// Failures in a row, up to now.
    failure_count: u32,
    /// Probes in a row that succeeded while half-open; `circuit_breaker_success_threshold` of them close it.
    success_count: u32,
    /// Seconds until a call is let through to probe; `null` while closed and while one probes.
    #[schema(minimum = 0, required = true)]
    seconds_until_probe: Option<f64>,
    /// Milliseconds until then.
    #[schema(minimum = 0, required = true)]
    probe_in_ms: Option<f64>,
}

impl From<&ServerStatus> for Breaker {
    fn from(server: &ServerStatus) -> Self {
        let breaker = &server.status.breaker;
        Self {
            server: server.config.name.to_string(),
            state: breaker.state.into(),
            failure_count: breaker.consecutive_failures,
            success_count: breaker.successes,
            seconds_until_probe: breaker.retry_in.map(|pause| pause.as_secs_f64()),
            probe_in_ms: breaker.retry_in.map(in_ms),
        }
    }
}

/// One tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tool)]
pub(super) struct ListedTool {
    /// The name it is offered under; enough to call it.
    #[schema(examples("issues__create_issue"))]
    name: String,
    /// The server that has it.
    #[schema(examples("issues"))]
    server: String,
    /// Its name there: calls it together with `server`.
    #[schema(examples("create_issue"))]
    tool: String,
    /// Its definition as the server wrote it, `inputSchema` and all, under `name`.
    #[schema(value_type = JsonObject)]
    definition: Raw,
    /// SHA-256 of the definition as the server wrote it, where definitions are compared: what `tools.trusted` of
    /// the registry takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sha256: Option<String>,
}

impl ListedTool {
    pub(super) fn of(snapshot: &Snapshot, entry: &CatalogEntry) -> Self {
        let server = snapshot.server(&entry.route.server).ok();
        Self {
            name: entry.exposed.clone(),
            server: entry.route.server.to_string(),
            tool: tool_name(snapshot, &entry.route.server, &entry.route.subject),
            definition: entry.definition.clone(),
            sha256: server.and_then(|server| server.trust.sha256(&entry.route.subject)),
        }
    }
}

/// Returns the name of a tool among its server's tools: `name`, unless the operator renamed it.
pub(super) fn tool_name(snapshot: &Snapshot, server: &str, name: &str) -> String {
    let renamed = |config: &Config| config.tools.rename.get(name).cloned();
    let config = snapshot.server(server).map(|server| server.upstream.config());
    config.ok().and_then(renamed).unwrap_or_else(|| name.to_owned())
}

/// How one server is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ServerHealth {
    name: String,
    /// Its name, as all answers about a server have it.
    server: String,
    /// Ready or idle, with its circuit breaker closed, and the last request was not answered with HTTP 500 or more.
    healthy: bool,
    enabled: bool,
    state: ServerState,
    /// The page at which you log in to it, if it needs a login that you may do. It lasts ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("http://127.0.0.1:8080/oauth/start?login=AAECAwQF"))]
    pub(super) login_url: Option<String>,
    /// How long the last successful health check took.
    #[schema(minimum = 0, required = true)]
    latency_ms: Option<f64>,
    /// Its last failure, in words, until the server works again.
    #[schema(required = true)]
    last_error: Option<String>,
    /// When that was (RFC 3339).
    #[schema(format = DateTime, required = true)]
    last_error_at: Option<String>,
    /// When it last answered anything (RFC 3339).
    #[schema(format = DateTime, required = true, examples("2026-11-20T12:34:56.789Z"))]
    last_seen: Option<String>,
    /// The problems of its entry in the configuration file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<EntryProblem>,
}

impl ServerHealth {
    pub(super) fn of(entry: &ServerEntry, now: SystemTime) -> Self {
        let status: Option<&Status> = match entry {
            ServerEntry::Server(server) => Some(&server.status),
            ServerEntry::NotConfigured(_) => None,
        };
        let at = |ago| date_before(now, ago);
        Self {
            name: entry.name().to_string(),
            server: entry.name().to_string(),
            healthy: entry.is_healthy(),
            enabled: entry.is_enabled(),
            state: entry.state().into(),
            login_url: None,
            latency_ms: status.and_then(|status| status.latency).map(in_ms),
            last_error: entry.last_error().map(clipped),
            last_error_at: status.and_then(|status| status.last_error_ago).and_then(at),
            last_seen: status.and_then(|status| status.seen_ago).and_then(at),
            problems: EntryProblem::all(entry.problems()),
        }
    }
}

/// Returns `time` in milliseconds, rounded to three decimals.
pub(super) fn in_ms(time: Duration) -> f64 {
    // More than 2⁵³ µs are 285 years.
    #[allow(clippy::cast_precision_loss)]
    let micros = (time.as_nanos().saturating_add(500) / 1000) as f64;
    micros / 1000.0
}

/// The time that was `ago`, if the calendar has it.
fn date_before(now: SystemTime, ago: Duration) -> Option<String> {
    now.checked_sub(ago).map(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_alone_makes_no_other_list_until_a_link_gets_old() {
        let server = |age: f64, link: &str, error_at: &str| Server {
            remembered_age_ms: Some(age),
            login_url: Some(link.to_owned()),
            last_error_at: Some(error_at.to_owned()),
            ..Server::default()
        };
        let steady = |one: Server, seconds| {
            let mut servers = [one];
            let text = Server::steady(&mut servers, SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert!(servers[0].login_url.is_some() && servers[0].remembered_age_ms.is_some());
            (text, servers[0].last_error_at.clone())
        };
        let (first, kept) = steady(server(1.0, "a", "2026-11-28T10:00:00.123Z"), 240);
        assert_eq!(kept.as_deref(), Some("2026-11-28T10:00:00.123Z"));
        assert_eq!(steady(server(2.0, "b", "2026-11-28T10:00:00.124Z"), 479).0, first);
        assert_ne!(steady(server(2.0, "b", "2026-11-28T10:00:00.124Z"), 480).0, first);
        assert_ne!(steady(server(1.0, "a", "2026-11-28T10:00:01.123Z"), 240).0, first);
    }
}
