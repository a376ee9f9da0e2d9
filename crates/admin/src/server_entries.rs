//! `PUT`, `PATCH` and `DELETE` of `/servers/{name}`: the entries of servers in the configuration file.
//!
//! Invariants: a client names a URL and texts that are sent to it, and nothing that starts a program or that is read on this
//! machine. Its texts are literal: none of them becomes a reference. A change of the file needs a credential.
//!
//! Not here: the edit of the file (the program that loads it).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::{self, received};
use super::configuration::{ReloadResult, reloaded};
use super::openapi::EntryProblems;
use super::parameters::{Parameters, PathName, parameters};
use super::problem::Problem;
use super::{Api, Options, json};
use auth::Principal;
use json::Raw;
use protocol::ErrorCode;
use protocol::JsonObject;

/// The most headers of a server.
const MAX_HEADERS: usize = 64;

/// The settings of a server that a client gives. All texts are literal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntrySettings {
    /// Its URL.
    pub url: Option<String>,
    /// The headers of each request to it, in the place of those before.
    pub headers: Option<BTreeMap<String, String>>,
    /// Whether it needs a login (`auth: oauth`).
    pub oauth: Option<bool>,
    /// Its description.
    pub description: Option<String>,
    /// Whether it is contacted.
    pub enabled: Option<bool>,
}

/// A change of the entry of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryChange {
    /// Adds the server.
    Add(EntrySettings),
    /// Changes the given settings.
    Edit(EntrySettings),
    /// Removes the server.
    Remove,
}

/// A planned or made change of the file, without secrets.
#[derive(Debug, Clone, Default)]
pub struct EditedEntry {
    /// The entry before; none if there was none.
    pub before: Option<Raw>,
    /// The entry after; none if it is removed.
    pub after: Option<Raw>,
    /// Further facts for the operator.
    pub notes: Vec<String>,
    /// Whether the file was written.
    pub written: bool,
    /// The name of the file with the content before, beside the configuration file.
    pub backup: Option<String>,
}

/// Why the file is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotEdited {
    /// The request asks for what it may not have, or for no valid entry.
    Invalid(String),
    /// There is no server of this name.
    Unknown(String),
    /// The file is read-only, changed meanwhile, has an entry that is in the way, or cannot be edited.
    Conflict(String),
}

/// Changes the entry of the server with this name in the configuration file, or only plans that if the last argument is true.
/// It blocks.
pub type EditEntry = Arc<dyn Fn(&str, &EntryChange, bool) -> Result<EditedEntry, NotEdited> + Send + Sync>;

/// The parameter of a change.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeQuery {
    /// Checks and shows the change, and writes nothing.
    #[param(nullable = false)]
    dry_run: Option<bool>,
}

impl ChangeQuery {
    fn of(query: Parameters<Self>) -> Result<bool, Problem> {
        let query = parameters(query, "the only parameter is `dry_run`: `true` or `false`")?;
        Ok(query.dry_run == Some(true))
    }
}

/// Whether a request with this URI changes nothing.
pub(super) fn is_dry_run(uri: &Uri) -> bool {
    Query::<ChangeQuery>::try_from_uri(uri).is_ok_and(|Query(query)| query.dry_run == Some(true))
}

/// The entry of a server, as a client writes it.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // describes the body, which `body::members` reads
struct ServerEntry {
    /// Its MCP endpoint.
    #[schema(min_length = 1, max_length = 2048, examples("https://issues.example.org/mcp"))]
    url: String,
    /// Sent with each request to it, as they are: a text cannot refer to a variable or a secret.
    #[schema(nullable = false)]
    headers: Option<BTreeMap<String, String>>,
    /// Whether somebody has to log in to it (`auth: oauth`).
    #[schema(nullable = false)]
    oauth: Option<bool>,
    /// Shown to operators.
    #[schema(nullable = false, min_length = 1, max_length = 1000)]
    description: Option<String>,
    /// A disabled server is listed, and never contacted.
    #[schema(nullable = false)]
    enabled: Option<bool>,
}

/// Settings of a server that change. Those that are left out stay.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // describes the body, too
struct ServerEntryPatch {
    /// Its MCP endpoint. Another one needs its `headers` too.
    #[schema(nullable = false, min_length = 1, max_length = 2048)]
    url: Option<String>,
    /// Replace those before; `{}` removes them.
    #[schema(nullable = false)]
    headers: Option<BTreeMap<String, String>>,
    /// Whether somebody has to log in to it (`auth: oauth`).
    #[schema(nullable = false)]
    oauth: Option<bool>,
    /// Shown to operators.
    #[schema(nullable = false, min_length = 1, max_length = 1000)]
    description: Option<String>,
    /// A disabled server is listed, and never contacted.
    #[schema(nullable = false)]
    enabled: Option<bool>,
}

/// A change of the configuration file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ServerEntryChange)]
struct EntryChangeResult {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    /// Its entry before, with `***` for each value that may be secret; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<JsonObject>)]
    before: Option<Raw>,
    /// Its entry after the change; absent if it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<JsonObject>)]
    after: Option<Raw>,
    /// Further facts about the change.
    notes: Vec<String>,
    /// Whether the file was written. It is not with `dry_run`, and if the entry is like that already.
    written: bool,
    /// The file beside the configuration file that has the content before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    backup: Option<String>,
    /// The reload after the file was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reloaded: Option<ReloadResult>,
    /// Why the file, which was written, is not in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    not_reloaded: Option<String>,
}

/// Add a server to the configuration file
///
/// Writes the entry of a server at a URL, as `switchyard add` does, keeps the content before as a backup, and reloads. With
/// `dry_run=true` it is only checked and shown. A server that is a program is added in the file, because no client may start
/// one. If others can reach this gateway, the server must have a public address. Needs the role *superuser*, and
/// authentication that is on.
#[utoipa::path(
    put, path = "/servers/{name}", tag = "servers", operation_id = "add_server",
    params(("name" = String, Path, description = "The new server", example = "issues"), ChangeQuery),
    request_body = ServerEntry,
    responses((status = 200, description = "The change", body = EntryChangeResult), EntryProblems)
)]
pub(super) async fn add(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    query: Parameters<ChangeQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let dry_run = ChangeQuery::of(query)?;
    let edit = editing(&api.options, &principal)?;
    let settings = settings(&headers, body, api.options.max_body).await?;
    if settings.url.is_none() {
        return Err(Problem::new(
            ErrorCode::InvalidRequest,
            "url: found nothing, expected the URL of the server",
        )
        .hinting("a server that is a program is added in the configuration file, or with `switchyard add`"));
    }
    changed(&api, edit, (name, EntryChange::Add(settings)), dry_run).await
}

/// Change a server in the configuration file
///
/// Changes settings of a server in the configuration file, keeps the content before as a backup, and reloads. With
/// `dry_run=true` the change is only checked and shown. Needs the role *superuser*, and authentication that is on.
#[utoipa::path(
    patch, path = "/servers/{name}", tag = "servers", operation_id = "edit_server",
    params(("name" = String, Path, description = "The server", example = "issues"), ChangeQuery),
    request_body = ServerEntryPatch,
    responses((status = 200, description = "The change", body = EntryChangeResult), EntryProblems)
)]
pub(super) async fn edit(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    query: Parameters<ChangeQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let dry_run = ChangeQuery::of(query)?;
    let edit = editing(&api.options, &principal)?;
    let settings = settings(&headers, body, api.options.max_body).await?;
    changed(&api, edit, (name, EntryChange::Edit(settings)), dry_run).await
}

/// Remove a server from the configuration file
///
/// Removes the entry of a server, as `switchyard remove` does, keeps the content before as a backup, and reloads. With
/// `dry_run=true` the change is only checked and shown. Needs the role *superuser*, and authentication that is on.
#[utoipa::path(
    delete, path = "/servers/{name}", tag = "servers", operation_id = "remove_server",
    params(("name" = String, Path, description = "The server", example = "issues"), ChangeQuery),
    responses((status = 200, description = "The change", body = EntryChangeResult), EntryProblems)
)]
pub(super) async fn remove(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    query: Parameters<ChangeQuery>,
) -> Result<Response, Problem> {
    let dry_run = ChangeQuery::of(query)?;
    let edit = editing(&api.options, &principal)?;
    changed(&api, edit, (name, EntryChange::Remove), dry_run).await
}

/// Returns the function that changes the file, if `principal` may have it.
fn editing(options: &Options, principal: &Principal) -> Result<EditEntry, Problem> {
    if Principal::is_anonymous_id(principal.id()) {
        let text = "without authentication nobody changes the configuration file over REST";
        return Err(Problem::new(ErrorCode::Forbidden, text).hinting(
            "set `server.auth_mode`, or edit the file and reload: `switchyard add`, `switchyard reload`",
        ));
    }
    let none = || Problem::new(ErrorCode::NotFound, "this gateway has no configuration file to change");
    options.edit_entry.clone().ok_or_else(none)
}

/// Reads the settings of a body.
async fn settings(headers: &HeaderMap, body: Body, most: usize) -> Result<EntrySettings, Problem> {
    let body = received(body, most).await?;
    let names = ["url", "headers", "oauth", "description", "enabled"];
    let [url, of_requests, oauth, description, enabled] = body::members(headers, &body, names)?;
    let text = |value: Option<Raw>, field, most| {
        value.map(|value| body::required_text(Some(&value), field, most)).transpose()
    };
    let flag = |value: Option<Raw>, field| {
        value.map(|value| value.read::<bool>().map_err(|_| expected(field, "true or false"))).transpose()
    };
    let of_requests = of_requests.map(|value| {
        let read = value.read::<BTreeMap<String, String>>().ok();
        let fits = value.is_object() && value.duplicate_key().is_none();
        read.filter(|all| fits && all.len() <= MAX_HEADERS)
            .ok_or_else(|| expected("headers", "an object with up to 64 strings"))
    });
    Ok(EntrySettings {
        url: text(url, "url", 2048)?,
        headers: of_requests.transpose()?,
        oauth: flag(oauth, "oauth")?,
        description: text(description, "description", 1000)?,
        enabled: flag(enabled, "enabled")?,
    })
}

fn expected(field: &str, what: &str) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, format!("{field}: expected {what}"))
}

/// Makes the change, or plans it, and reloads after it.
async fn changed(
    api: &Api,
    edit: EditEntry,
    (name, change): (String, EntryChange),
    dry_run: bool,
) -> Result<Response, Problem> {
    let server = name.clone();
    let edited = tokio::task::spawn_blocking(move || edit(&name, &change, dry_run)).await;
    let edited = edited.map_err(|_| Problem::new(ErrorCode::InternalError, "changing the file failed"))?;
    let EditedEntry { before, after, notes, written, backup } = edited.map_err(|reason| match reason {
        NotEdited::Invalid(text) => Problem::new(ErrorCode::InvalidRequest, text),
        NotEdited::Unknown(text) => Problem::new(ErrorCode::ServerNotFound, text),
        NotEdited::Conflict(text) => Problem::new(ErrorCode::FileNotChanged, text),
    })?;
    let (reloaded, not_reloaded) = if written {
        match reloaded(&api.options).await {
            Ok(result) => (Some(result), None),
            Err(problem) => (None, Some(problem.detail.clone())),
        }
    } else {
        (None, None)
    };
    Ok(json(&EntryChangeResult { server, before, after, notes, written, backup, reloaded, not_reloaded }))
}

#[cfg(test)]
#[path = "server_entries_tests.rs"]
mod tests;
