//! `/configuration` and `/reload`: the configuration in effect, without its secrets, and reading its file again.
//!
//! Invariant: the text is made without secrets when the file is loaded, so no part of a request sees one.
//!
//! Not here: which values are secret (the program that loads the file).

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use futures_util::future::BoxFuture;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::{ConfigurationProblems, ReloadProblems};
use super::problem::Problem;
use super::server_state::EntryProblem;
use super::view::date;
use super::{Api, Options, json};
use gateway::manager::{Applied, NotConfigured};
use json::Raw;
use protocol::ErrorCode;
use protocol::JsonObject;

/// Returns the configuration in effect.
pub type Configuration = Arc<dyn Fn() -> Loaded + Send + Sync>;

/// A configuration file as it was loaded.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Its settings in their order, as JSON. References to variables are as written, and secrets are replaced.
    pub settings: Raw,
    /// The time at which it was loaded.
    pub at: SystemTime,
    /// The file as it was named to the program.
    pub file: String,
}

/// The configuration in effect.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LoadedConfiguration)]
struct EffectiveConfiguration {
    /// When the file was loaded: at the start, or by the last reload.
    #[schema(format = DateTime)]
    loaded_at: String,
    /// The settings in the order of the file. A reference such as `${TOKEN}` is shown as it is written. A value that may
    /// be secret is `***`.
    #[schema(value_type = JsonObject)]
    configuration: Raw,
}

/// The configuration as loaded
///
/// Secrets are replaced by `***`. Changes of `server` and `cache` take effect when the gateway is restarted. Needs the
/// role *superuser*.
#[utoipa::path(
    get, path = "/configuration", tag = "gateway", operation_id = "get_configuration",
    responses((status = 200, description = "The configuration", body = EffectiveConfiguration), ConfigurationProblems)
)]
pub(super) async fn show(State(Api { options, .. }): State<Api>) -> Result<Response, Problem> {
    let Some(configuration) = &options.configuration else {
        return Err(Problem::new(ErrorCode::NotFound, "this gateway has no configuration file"));
    };
    let Loaded { settings, at, .. } = configuration();
    Ok(json(&EffectiveConfiguration { loaded_at: date(at), configuration: settings }))
}

/// Reloads the configuration file of the running instance. An error means that nothing changed.
pub type Reload = Arc<dyn Fn() -> BoxFuture<'static, Result<Reloaded, NotReloaded>> + Send + Sync>;

/// Why the running configuration was not replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// The file has problems. The text names them and contains no value that may be secret.
    #[error("{0}")]
    File(String),
    /// Reading it panicked.
    #[error("reading the configuration failed; the log says where")]
    Panicked,
    /// The program is shutting down.
    #[error("the gateway is ending")]
    Ending,
}

impl NotReloaded {
    const fn code(&self) -> ErrorCode {
        match self {
            Self::File(_) => ErrorCode::InvalidConfiguration,
            Self::Panicked => ErrorCode::InternalError,
            Self::Ending => ErrorCode::ServerUnavailable,
        }
    }

    /// Its stable code, in the answer and the audit log.
    pub fn outcome(&self) -> String {
        self.code().to_string()
    }
}

/// The result of a reload.
#[derive(Debug, Clone)]
pub struct Reloaded {
    /// The changes of the servers.
    pub applied: Applied,
    /// Parts of the file that changed since the start and need a restart.
    pub at_restart: Vec<&'static str>,
}

/// The result of a reload. Servers have the order of the configuration file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reloaded)]
pub(super) struct ReloadResult {
    /// Servers that are new.
    added: Vec<String>,
    /// Servers whose settings changed: they were replaced, and calls that ran may end.
    changed: Vec<String>,
    /// Servers that are gone.
    removed: Vec<String>,
    /// Servers that continue unchanged.
    unchanged: Vec<String>,
    /// Servers that continue with their old settings, because their new entries have mistakes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retained: Vec<String>,
    /// Servers that are not there, because their entries have mistakes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_configured: Vec<String>,
    /// The mistakes in these entries, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<ReloadProblem>,
    /// Parts of the file that changed and take effect when the gateway is restarted.
    at_restart: Vec<&'static str>,
}

/// A mistake in the entry of a server.
#[derive(Debug, Serialize, ToSchema)]
struct ReloadProblem {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    #[serde(flatten)]
    problem: EntryProblem,
}

impl ReloadProblem {
    fn all(wrong: &NotConfigured) -> impl Iterator<Item = Self> {
        let problem = |problem| Self { server: wrong.name.to_string(), problem };
        EntryProblem::all(&wrong.problems).into_iter().map(problem)
    }
}

/// Read the configuration file again
///
/// Servers that are new in the file are started, servers that are gone are stopped, and servers whose
/// settings changed are replaced; the others keep their connections. Running calls end where they
/// began. If the entry of a server has a mistake, the server continues with its old settings, or it is `not_configured`;
/// the rest of the file is applied. A mistake elsewhere in the file changes nothing. Needs the role *superuser*.
#[utoipa::path(
    post, path = "/reload", tag = "gateway", operation_id = "reload",
    responses((status = 200, description = "What changed", body = ReloadResult), ReloadProblems)
)]
pub(super) async fn reload(State(Api { options, .. }): State<Api>) -> Result<Response, Problem> {
    reloaded(&options).await.map(|result| json(&result))
}

/// Reads the configuration file again.
pub(super) async fn reloaded(options: &Options) -> Result<ReloadResult, Problem> {
    let Some(reload) = &options.reload else {
        return Err(Problem::new(
            ErrorCode::NotFound,
            "this gateway has no configuration file to read again",
        ));
    };
    let Reloaded { applied, at_restart } =
        reload().await.map_err(|reason| Problem::new(reason.code(), reason.to_string()))?;
    let names = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
    let mistakes = || applied.mistakes();
    let is_retained = |wrong: &&NotConfigured| applied.retained.contains(&wrong.name);
    Ok(ReloadResult {
        added: names(&applied.added),
        changed: names(&applied.changed),
        removed: names(&applied.removed),
        unchanged: names(&applied.unchanged),
        retained: names(&applied.retained),
        not_configured: mistakes()
            .filter(|wrong| !is_retained(wrong))
            .map(|wrong| wrong.name.to_string())
            .collect(),
        problems: mistakes().flat_map(ReloadProblem::all).collect(),
        at_restart,
    })
}
