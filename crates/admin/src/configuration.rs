//! `/configuration`: the configuration in effect, without its secrets.
//!
//! Invariant: the text is made without secrets when the file is loaded, so no part of a request sees one.
//!
//! Not here: which values are secret (the program that loads the file).

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::ConfigurationProblems;
use super::problem::Problem;
use super::view::date;
use super::{Api, json};
use json::Raw;
use protocol::ErrorCode;
use protocol::error_code::JsonObject;

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
