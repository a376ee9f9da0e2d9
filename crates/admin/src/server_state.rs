//! The state of a server as the API shows it, the start of its process, and the problems of its entry in the configuration
//! file.
//!
//! Invariant: the texts have no secret, as those of [`Problem`].

use serde::Serialize;
use utoipa::ToSchema;

use protocol::sanitize::clipped;
use settings::Problem;
use upstream::status;

/// Most problems of one entry in an answer.
const MOST: usize = 20;

/// Whether a server can be used. `connecting`: being connected, or asked what it offers. `starting`: its process is
/// starting. `ready`: connected, and its tools are known. `idle`: its tools are known, and nothing needs it now; the
/// next call starts or connects it. `failed`: the last connect, discovery or health check failed;
/// it is tried again. `auth_failed`: it refuses the configured credentials and is not contacted. `disconnected`: by the program that embeds the gateway. `disabled`: in the registry. `not_configured`: its entry
/// in the configuration file has a mistake, which `problems` names.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerState {
    /// Being connected, or asked what it offers.
    Connecting,
    /// Its process is starting; `starting` says since when.
    Starting,
    /// Connected, and its tools are known.
    Ready,
    /// Its tools are known, and nothing needs it now. The next call starts or connects it.
    Idle,
    /// The last connect, discovery or health check failed; it is tried again.
    Failed,
    /// It refuses the configured credentials, for the reason in `last_error`; it is not contacted until an
    /// operator connects it again.
    AuthFailed,
    /// Somebody has to log in to it; it is not contacted until then.
    LoginRequired,
    /// Disconnected by an operator.
    Disconnected,
    /// Disabled in the registry.
    Disabled,
    /// Its entry in the configuration file has a mistake; `problems` has its place.
    #[default]
    NotConfigured,
}

impl From<status::State> for ServerState {
    fn from(state: status::State) -> Self {
        match state {
            status::State::Connecting => Self::Connecting,
            status::State::Starting => Self::Starting,
            status::State::Ready => Self::Ready,
            status::State::Idle => Self::Idle,
            status::State::Failed => Self::Failed,
            status::State::AuthFailed => Self::AuthFailed,
            status::State::LoginRequired => Self::LoginRequired,
            status::State::Disconnected => Self::Disconnected,
            status::State::Disabled => Self::Disabled,
            status::State::NotConfigured => Self::NotConfigured,
        }
    }
}

/// The start of a server's process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ServerStart)]
pub(super) struct Start {
    /// Milliseconds since it began.
    #[schema(minimum = 0)]
    elapsed_ms: f64,
    /// The last line that the program wrote to standard error.
    #[schema(required = true)]
    last_line: Option<String>,
}

impl From<&upstream::Starting> for Start {
    fn from(starting: &upstream::Starting) -> Self {
        let last_line = starting.last_line.clone().map(clipped);
        Self { elapsed_ms: starting.since.elapsed().as_secs_f64() * 1_000.0, last_line }
    }
}

/// One problem of an entry in the configuration file.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EntryProblem {
    /// The line in the file, from 1 on.
    line: u32,
    /// The column in the line, from 1 on.
    column: u32,
    /// The setting.
    #[schema(examples("mcp_servers.issues.timeout"))]
    setting: String,
    /// The actual and the expected value.
    #[schema(examples("900 is out of range, expected 1 to 600 seconds"))]
    message: String,
    /// The action that corrects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hint: Option<String>,
}

impl From<&Problem> for EntryProblem {
    fn from(problem: &Problem) -> Self {
        Self {
            line: problem.mark.line,
            column: problem.mark.column,
            setting: clipped(problem.path.clone()),
            message: clipped(problem.message.clone()),
            hint: problem.hint.clone().map(clipped),
        }
    }
}

impl EntryProblem {
    /// The first of `problems`.
    pub(super) fn all(problems: &[Problem]) -> Vec<Self> {
        problems.iter().take(MOST).map(Self::from).collect()
    }
}
