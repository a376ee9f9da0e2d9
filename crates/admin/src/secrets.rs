//! `/secrets`: the secrets that servers need of each principal (`${principal:NAME}` in `headers`).
//!
//! Invariants: a value is never read back, and is in no answer, error or log. A caller sees and changes its own secrets, and
//! sets those alone that a server asks for. Superusers change those of every principal. Without a credential there is no
//! principal that could have secrets.
//!
//! Not here: the vault (`auth`), and requests to servers (`upstream`).

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::{self, received};
use super::openapi::SecretProblems;
use super::parameters::{Parameters, PathName, parameters};
use super::problem::Problem;
use super::view::date;
use super::{Api, authorised_about, json};
use auth::vault::{self, MAX_OWN_SECRET_BYTES, MAX_OWNER_BYTES, SECRET_NAME, is_secret_name};
use auth::{Action, Principal};
use gateway::manager::{NeededSecret, OwnChange, Scope, SecretError};
use protocol::ErrorCode;
use protocol::sanitize::clipped;
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::Subject;

/// The principal whose secrets a request is about.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SecretQuery {
    /// The principal, such as `key:laptop`; without it, the principal of this request. Another one needs the role
    /// *superuser*.
    #[param(nullable = false, max_length = 512, example = "key:laptop")]
    principal: Option<String>,
}

/// A secret of one principal, without its value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Secret)]
struct ListedSecret {
    /// Its name.
    #[schema(examples("CRM_KEY"))]
    name: String,
    /// The servers that are sent it.
    #[schema(examples(json!(["crm"])))]
    servers: Vec<String>,
    /// Whether it has a value.
    is_set: bool,
    /// When the value was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    set_at: Option<String>,
}

/// The secrets of one principal.
#[derive(Debug, Serialize, ToSchema)]
struct SecretList {
    /// The principal.
    #[schema(examples("key:laptop"))]
    principal: String,
    /// Those that servers need, and those that have a value, by their names.
    secrets: Vec<ListedSecret>,
}

/// The value of a secret.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // describes the body, which `body::members` reads
struct SecretValue {
    /// One line of ASCII characters, which no answer repeats.
    #[schema(min_length = 1, max_length = 4096, format = Password)]
    value: String,
}

/// Secrets for servers
///
/// The secrets that servers need of each principal, and whether each is set. No value is in the answer. Needs the role
/// *caller* for one's own, and *superuser* for those of another principal.
#[utoipa::path(
    get, path = "/secrets", tag = "servers", operation_id = "list_secrets", params(SecretQuery),
    responses((status = 200, description = "The secrets", body = SecretList), SecretProblems)
)]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Extension(id): Extension<RequestId>,
    query: Parameters<SecretQuery>,
) -> Result<Response, Problem> {
    let owner = owner(&principal, query, (None, id))?;
    shown(&api, &principal, owner).await
}

/// Set a secret for servers
///
/// Sets the value that servers are sent in calls of the principal. The next call uses it. One's own secrets are those that a
/// server needs. Needs the role *caller* for one's own, and *superuser* for those of another principal.
#[utoipa::path(
    put, path = "/secrets/{secret}", tag = "servers", operation_id = "set_secret",
    params(("secret" = String, Path, description = "The name of the secret", example = "CRM_KEY"), SecretQuery),
    request_body = SecretValue,
    responses((status = 200, description = "The secrets, without values", body = SecretList), SecretProblems)
)]
pub(super) async fn set(
    State(api): State<Api>,
    (Extension(principal), Extension(id)): (Extension<Principal>, Extension<RequestId>),
    PathName(name): PathName,
    query: Parameters<SecretQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let owner = owner(&principal, query, (Some(&name), id))?;
    let is_needed =
        || needed(&api, &principal, &owner).is_ok_and(|all| all.iter().any(|one| one.name == name));
    if *owner == **principal.id() && !is_needed() {
        return Err(unknown(&name));
    }
    if !is_secret_name(&name) {
        let text = format!("the name of a secret has {SECRET_NAME}");
        return Err(Problem::new(ErrorCode::InvalidRequest, text));
    }
    let body = received(body, api.options.max_body).await?;
    let [value] = body::members(&headers, &body, ["value"])?;
    let value = value.and_then(|value| value.read::<String>().ok()).map(SecretString::from);
    let value = value.ok_or_else(|| {
        let text = format!("value: expected a string of 1 to {MAX_OWN_SECRET_BYTES} bytes");
        Problem::new(ErrorCode::InvalidRequest, text)
    })?;
    let _place = place(&api, &principal, &owner)?;
    api.manager.set_secret_of(&owner, &name, &value).await.map_err(|error| failed(&error))?;
    shown(&api, &principal, owner).await
}

/// Remove a secret for servers
///
/// Removes the value. Connections that use it end. Needs the role *caller* for one's own, and *superuser* for those of
/// another principal.
#[utoipa::path(
    delete, path = "/secrets/{secret}", tag = "servers", operation_id = "remove_secret",
    params(("secret" = String, Path, description = "The name of the secret", example = "CRM_KEY"), SecretQuery),
    responses((status = 200, description = "The secrets, without values", body = SecretList), SecretProblems)
)]
pub(super) async fn remove(
    State(api): State<Api>,
    (Extension(principal), Extension(id)): (Extension<Principal>, Extension<RequestId>),
    PathName(name): PathName,
    query: Parameters<SecretQuery>,
) -> Result<Response, Problem> {
    let owner = owner(&principal, query, (Some(&name), id))?;
    let _place = place(&api, &principal, &owner)?;
    if !api.manager.remove_secret_of(&owner, &name).await.map_err(|error| failed(&error))? {
        return Err(unknown(&name));
    }
    shown(&api, &principal, owner).await
}

/// Returns the principal whose secrets are meant, if `principal` may see and change them.
fn owner(
    principal: &Principal,
    query: Parameters<SecretQuery>,
    (name, id): (Option<&str>, RequestId),
) -> Result<String, Problem> {
    let query = parameters(query, "the only parameter is `principal`, at most once")?;
    let owner = query.principal.unwrap_or_else(|| principal.id().to_string());
    if owner != **principal.id() {
        let (secret, of) = (name.map(str::to_owned), Some(owner.clone()));
        let subject = Subject { secret, of, ..Subject::default() };
        authorised_about(Some(principal), Action::ChangeSecretsOfOthers, Some(id), &subject)?;
    }
    if Principal::is_anonymous_id(&owner) {
        let text = "a caller without a credential has no secrets";
        return Err(Problem::new(ErrorCode::InvalidRequest, text).hinting(
            "name a `principal`, or set `auth_mode: api_key` in the configuration file: each key has secrets of its own",
        ));
    }
    if owner.is_empty() || owner.len() > MAX_OWNER_BYTES {
        let text = format!("principal: expected the id of a principal, 1 to {MAX_OWNER_BYTES} bytes");
        return Err(Problem::new(ErrorCode::InvalidRequest, text));
    }
    Ok(owner)
}

/// Returns the place of a change of a secret of `owner`. Callers change their own as often as each of them may.
fn place(api: &Api, principal: &Principal, owner: &str) -> Result<Option<OwnChange>, Problem> {
    if principal.may(Action::ChangeSecretsOfOthers) {
        return Ok(None);
    }
    api.manager.admit_own_change(owner).map(Some).map_err(|error| failed(&error))
}

/// Returns what servers need of `owner`. A credential that is bound to a view learns of no server outside of it.
fn needed(api: &Api, principal: &Principal, owner: &str) -> Result<Vec<NeededSecret>, Problem> {
    let scope = if *owner == **principal.id() { api.scope(principal, None)? } else { Scope::ALL };
    Ok(api.manager.needed_secrets(&scope))
}

async fn shown(api: &Api, principal: &Principal, owner: String) -> Result<Response, Problem> {
    let set = api.manager.secrets_of(&owner).await.map_err(|error| failed(&error))?;
    let set_at = |name: &str| set.iter().find(|(other, _)| other == name).map(|(_, at)| date(*at));
    let listed = |name: String, servers| {
        let set_at = set_at(&name);
        ListedSecret { name, servers, is_set: set_at.is_some(), set_at }
    };
    let needed = needed(api, principal, &owner)?;
    let others = set.iter().filter(|(name, _)| !needed.iter().any(|secret| secret.name == *name));
    let mut secrets: Vec<_> = others.map(|(name, _)| listed(name.clone(), Vec::new())).collect();
    secrets.extend(needed.into_iter().map(|NeededSecret { name, servers }| listed(name, names(&servers))));
    secrets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(json(&SecretList { principal: clipped(owner), secrets }))
}

fn names(servers: &[Arc<str>]) -> Vec<String> {
    servers.iter().map(ToString::to_string).collect()
}

fn unknown(name: &str) -> Problem {
    let text = format!("no server needs the secret `{}` of you", settings::one_line(name));
    Problem::new(ErrorCode::NotFound, text).hinting("GET /api/v1/mcp/secrets lists those that servers need")
}

fn failed(error: &SecretError) -> Problem {
    match error {
        SecretError::Unsendable
        | SecretError::Vault(vault::Error::LongValue { .. } | vault::Error::LongName) => {
            Problem::new(ErrorCode::InvalidRequest, error.to_string())
        }
        SecretError::TooOften { retry_in } => {
            let text = "your secrets are changed too often, or those of many callers are being changed";
            protocol::Problem::new(ErrorCode::LimitReached, text).after(*retry_in).into()
        }
        SecretError::NoVault => Problem::new(ErrorCode::FileNotChanged, error.to_string()),
        // The text names files of the gateway, which are none of the caller's business.
        SecretError::Vault(error) => {
            tracing::warn!(%error, "a request for the secrets of a caller failed");
            let text = match error {
                vault::Error::Full { .. } | vault::Error::Share { .. } => {
                    "the vault has no room for this secret; remove one that is not used, or ask an operator, who finds the \
                     reason in the log"
                }
                _ => "the vault cannot be used; an operator finds the reason in the log",
            };
            Problem::new(ErrorCode::FileNotChanged, text)
        }
    }
}
