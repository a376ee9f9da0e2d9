//! `/keys`: the API keys of the gateway, and those of `keys_file` as they are made and revoked.
//!
//! Invariants: a key is in one answer, that to its `PUT`, which no cache keeps. No answer has a hash.
//!
//! Not here: the file (`auth`).

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use secrecy::ExposeSecret;
use serde::Serialize;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::body::{self, received};
use super::openapi::KeyProblems;
use super::parameters::PathName;
use super::problem::Problem;
use super::view::date;
use super::{Api, json};
use auth::{ApiKeyList, Authenticator, KeyFile, Principal, Role};
use gateway::manager::{Manager, SecretError};
use protocol::ErrorCode;

/// The longest time of `expires` as a text.
const MAX_TIME_TEXT: usize = 40;
/// The longest name of a view.
const MAX_VIEW: usize = 64;

/// Where a key is stored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum KeyStore {
    /// In the configuration file, which alone changes it.
    ApiKeys,
    /// In the file that `keys_file` names.
    KeysFile,
}

/// An API key, without the key itself.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub(super) struct ListedKey {
    /// Its name, which is part of the key.
    #[schema(examples("laptop"))]
    pub(super) id: String,
    /// The role of its holder.
    #[schema(examples("caller"))]
    pub(super) role: String,
    /// When it was made, if that is known (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    added: Option<String>,
    /// From when on it is refused: a date or a time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("2027-06-30"))]
    expires: Option<String>,
    /// The view that its holder is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("support"))]
    pub(super) view: Option<String>,
    stored_in: KeyStore,
}

/// All API keys.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKeyList)]
struct KeyList {
    /// Those of the configuration file, then those of `keys_file`.
    keys: Vec<ListedKey>,
    /// Whether keys can be made and revoked here: `server.keys_file` is set.
    can_change: bool,
}

/// The key to make.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // describes the body, which `body::members` reads
struct NewKey {
    /// The role of its holder: `reader`, `caller` or `superuser`.
    #[schema(examples("caller"), pattern = "^(reader|caller|superuser)$")]
    role: String,
    /// From when on it is refused: a date (from its first minute on, UTC) or a time (RFC 3339). Without it, the key does not
    /// expire.
    #[schema(nullable = false, examples("2027-06-30"))]
    expires: Option<String>,
    /// The view that its holder is bound to. Without it, the key is bound to none.
    #[schema(nullable = false, examples("support"))]
    view: Option<String>,
}

/// A key that was made.
#[derive(Debug, Serialize, ToSchema)]
struct MadeKey {
    /// Its name.
    #[schema(examples("laptop"))]
    id: String,
    /// The key, which is stored nowhere and never shown again.
    key: String,
    /// The role of its holder.
    #[schema(examples("caller"))]
    role: String,
}

/// A key that was revoked.
#[derive(Debug, Serialize, ToSchema)]
struct RevokedKey {
    /// Its name.
    #[schema(examples("laptop"))]
    id: String,
}

/// All API keys
///
/// Names, roles and times; no key and no hash. Needs the role *superuser*.
#[utoipa::path(
    get, path = "/keys", tag = "gateway", operation_id = "list_keys",
    responses((status = 200, description = "The keys", body = KeyList), KeyProblems)
)]
pub(super) async fn list(State(api): State<Api>) -> Result<Response, Problem> {
    let (_, keys) = accepted(&api)?;
    let can_change = keys.file.is_some();
    Ok(json(&KeyList { keys: all(keys).await?, can_change }))
}

/// Returns all of `keys`, also those of the file.
pub(super) async fn all(keys: ApiKeyList) -> Result<Vec<ListedKey>, Problem> {
    let listed = keys.listed.iter().map(|key| ListedKey {
        id: key.id.clone(),
        role: key.role.to_string(),
        added: None,
        expires: key.expires.map(date),
        view: key.view.as_ref().map(ToString::to_string),
        stored_in: KeyStore::ApiKeys,
    });
    let mut all: Vec<_> = listed.collect();
    if let Some(file) = keys.file {
        let stored = in_file(file, KeyFile::list).await?;
        all.extend(stored.into_iter().map(|key| ListedKey {
            id: key.id,
            role: key.role,
            added: key.added,
            expires: key.expires,
            view: key.view,
            stored_in: KeyStore::KeysFile,
        }));
    }
    Ok(all)
}

/// Make an API key
///
/// Makes a key, as `switchyard key add` does, and stores its hash in `keys_file`. The answer has the key this once. It is
/// accepted at once. Needs the role *superuser*.
#[utoipa::path(
    put, path = "/keys/{key}", tag = "gateway", operation_id = "make_key",
    params(("key" = String, Path, description = "The name of the new key", example = "laptop")),
    request_body = NewKey,
    responses((status = 200, description = "The key", body = MadeKey), KeyProblems)
)]
pub(super) async fn make(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (authenticator, file) = changeable(&api, &principal, &name)?;
    if !auth::is_id(&name) {
        let text = "the name of a key has 1 to 64 lower-case letters, digits and `-`";
        return Err(Problem::new(ErrorCode::InvalidRequest, text));
    }
    let body = received(body, api.options.max_body).await?;
    let [role, expires, view] = body::members(&headers, &body, ["role", "expires", "view"])?;
    let role = Role::from_name(&body::required_text(role.as_ref(), "role", MAX_TIME_TEXT)?)
        .ok_or_else(|| invalid("role: expected `reader`, `caller` or `superuser`"))?;
    let expires =
        expires.map(|text| body::required_text(Some(&text), "expires", MAX_TIME_TEXT)).transpose()?;
    if expires.as_deref().is_some_and(|text| auth::parse_time(text).is_none()) {
        return Err(invalid("expires: expected a date such as 2027-06-30 or 2027-06-30T12:00:00Z"));
    }
    let view = view.map(|text| body::required_text(Some(&text), "view", MAX_VIEW)).transpose()?;
    if view.is_some() && role == Role::Superuser {
        return Err(invalid("view: does not go with the role superuser, which operates everything"));
    }
    let id = name.clone();
    let key = in_file(file, move |file| file.add(&name, role, expires.as_deref(), view.as_deref())).await?;
    authenticator.read_key_file().await;
    let key = key.expose_secret().to_owned();
    let mut response = json(&MadeKey { id, key, role: role.to_string() });
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Revoke an API key
///
/// Removes a key from `keys_file`, as `switchyard key revoke` does. It is refused at once, its sessions and streams end, and
/// its logins and secrets for servers are removed. Needs the role *superuser*.
#[utoipa::path(
    delete, path = "/keys/{key}", tag = "gateway", operation_id = "revoke_key",
    params(("key" = String, Path, description = "The name of the key", example = "laptop")),
    responses((status = 200, description = "The key is refused from now on", body = RevokedKey), KeyProblems)
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let (authenticator, file) = changeable(&api, &principal, &name)?;
    let (id, authenticator, manager) = (name.clone(), Arc::clone(authenticator), Arc::clone(&api.manager));
    let (done, outcome) = oneshot::channel();
    // A later key of this name has another holder, so this ends even if the client does not wait for it.
    api.options.drain.spawn(async move {
        let _ = done.send(revoked(&manager, &authenticator, file, name).await);
    });
    let ended = outcome.await;
    ended.map_err(|_| Problem::new(ErrorCode::InternalError, "the end of the key was not completed"))??;
    Ok(json(&RevokedKey { id }))
}

/// Removes the key `name` from `file`, and all that its holder has here.
async fn revoked(
    manager: &Manager,
    authenticator: &Authenticator,
    file: KeyFile,
    name: String,
) -> Result<(), Problem> {
    let (id, principal) = (name.clone(), Principal::id_of_key(&name).into());
    // Before the file changes, because its end drops the logins from memory.
    let logins = manager.revocations_of(&principal);
    in_file(file, move |file| file.revoke(&name)).await?;
    authenticator.read_key_file().await;
    match manager.forget_principal(&principal, logins).await {
        // Without a vault there are no secrets.
        Ok(()) | Err(SecretError::NoVault) => {}
        Err(error) => {
            tracing::warn!(key = id, %error, "the logins and secrets of a revoked key were not removed");
        }
    }
    Ok(())
}

/// Returns the authenticator and the keys that it accepts.
fn accepted(api: &Api) -> Result<(&Arc<Authenticator>, ApiKeyList), Problem> {
    let none = || {
        Problem::new(ErrorCode::NotFound, "this gateway accepts no API keys")
            .hinting("set `auth_mode: api_key` and `keys_file` under `server:`, and reload")
    };
    let authenticator = api.options.authenticator.as_ref().ok_or_else(none)?;
    Ok((authenticator, authenticator.api_keys().ok_or_else(none)?))
}

/// Returns the file of keys, if `principal` may change the key `name` in it.
fn changeable<'a>(
    api: &'a Api,
    principal: &Principal,
    name: &str,
) -> Result<(&'a Arc<Authenticator>, KeyFile), Problem> {
    let (authenticator, keys) = accepted(api)?;
    if Principal::is_anonymous_id(principal.id()) {
        return Err(Problem::new(ErrorCode::Forbidden, "without a credential nobody changes keys"));
    }
    if keys.listed.iter().any(|key| key.id == name) {
        let text = format!("the key `{name}` is one of `api_keys` in the configuration file");
        return Err(Problem::new(ErrorCode::FileNotChanged, text).hinting("change it there, and reload"));
    }
    let file = keys.file.ok_or_else(|| {
        Problem::new(ErrorCode::NotFound, "this gateway has no file of keys")
            .hinting("add `keys_file: switchyard-keys.json` under `server:`, and reload")
    })?;
    Ok((authenticator, file))
}

/// Does `work` with the file, which blocks.
async fn in_file<T: Send + 'static>(
    file: KeyFile,
    work: impl FnOnce(&KeyFile) -> Result<T, auth::Error> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(move || work(&file)).await;
    let done = done.map_err(|_| Problem::new(ErrorCode::InternalError, "the file of keys was not read"))?;
    done.map_err(|error| match error {
        auth::Error::NoSuchKey(_) => Problem::new(ErrorCode::NotFound, error.to_string())
            .hinting("GET /api/v1/mcp/keys lists the keys"),
        error => Problem::new(ErrorCode::FileNotChanged, error.to_string()),
    })
}

fn invalid(text: &str) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, text)
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
