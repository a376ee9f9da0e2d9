//! `/reload`: reads the configuration file again.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use futures_util::future::BoxFuture;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::ReloadProblems;
use super::problem::Problem;
use super::{Api, json};
use gateway::manager::Applied;
use protocol::ErrorCode;

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
struct ReloadResult {
    /// Servers that are new.
    added: Vec<String>,
    /// Servers whose settings changed: they were replaced, and calls that ran may end.
    changed: Vec<String>,
    /// Servers that are gone.
    removed: Vec<String>,
    /// Servers that continue unchanged.
    unchanged: Vec<String>,
    /// Parts of the file that changed and take effect when the gateway is restarted.
    at_restart: Vec<&'static str>,
}

/// Read the configuration file again
///
/// Servers that are new in the file are started, servers that are gone are stopped, and servers whose
/// settings changed are replaced; the others keep their connections. Running calls end where they
/// began. A file with a problem changes nothing. Needs the role *superuser*.
#[utoipa::path(
    post, path = "/reload", tag = "gateway", operation_id = "reload",
    responses((status = 200, description = "What changed", body = ReloadResult), ReloadProblems)
)]
pub(super) async fn reload(State(Api { options, .. }): State<Api>) -> Result<Response, Problem> {
    let Some(reload) = &options.reload else {
        return Err(Problem::new(
            ErrorCode::NotFound,
            "this gateway has no configuration file to read again",
        ));
    };
    let Reloaded { applied, at_restart } =
        reload().await.map_err(|reason| Problem::new(reason.code(), reason.to_string()))?;
    let names = |list: Vec<Arc<str>>| list.iter().map(ToString::to_string).collect();
    Ok(json(&ReloadResult {
        added: names(applied.added),
        changed: names(applied.changed),
        removed: names(applied.removed),
        unchanged: names(applied.unchanged),
        at_restart,
    }))
}
