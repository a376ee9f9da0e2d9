//! The state of a server as the API shows it, and the start of its process.

use serde::Serialize;
use utoipa::ToSchema;

use protocol::sanitize::clipped;
use upstream::status;

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
