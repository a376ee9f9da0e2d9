//! `/grants`: the grants of people to clients at the authorization server of this gateway, and the end of them.
//!
//! Invariants: a superuser sees and ends all grants, every other person the own ones. A credential that is bound to a view sees
//! and ends those for this view and those without one. A client that acts for a person, and a caller without a credential, see
//! none, unless they have the role superuser. The grant of another one gets the answer of a missing one. No answer has a token.
//!
//! Not here: the grants (`authorization`), and the clients (`clients`).

use std::sync::Arc;
use std::time::SystemTime;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::openapi::GrantProblems;
use super::parameters::{Parameters, PathName, page_size, parameters};
use super::problem::Problem;
use super::view::date;
use super::{Api, authorised, json};
use auth::vault::MAX_OWNER_BYTES;
use auth::{Action, Principal};
use authorization::{AuthorizationServer, ClientSource, GrantFilter, GrantSummary, StoreError, client_host};
use protocol::ErrorCode;
use protocol::sanitize::clipped;
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::Subject;

/// The parameters that there are.
const HINT: &str = "the parameters are `principal`, `client`, `limit` and `cursor`, each at most once";

/// The longest id of a client, in bytes.
const MAX_CLIENT: usize = 1024;
/// The longest cursor, in bytes.
const MAX_CURSOR: usize = 64;

/// Which grants are returned.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GrantQuery {
    /// Only what this principal granted. Another one than that of the request needs the role *superuser*.
    #[param(nullable = false, max_length = 512, example = "key:laptop")]
    principal: Option<String>,
    /// Only what was granted to this client.
    #[param(
        nullable = false,
        max_length = 1024,
        pattern = "^[!-~]*$",
        example = "https://claude.ai/oauth/client.json"
    )]
    client: Option<String>,
    /// The most grants of the answer, 100 without it.
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before, with the same other parameters.
    #[param(nullable = false, max_length = 64)]
    cursor: Option<String>,
}

/// The principal whose grants end.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct GrantOwner {
    /// The principal. Another one than that of the request needs the role *superuser*.
    #[param(max_length = 512, example = "key:laptop")]
    principal: String,
}

/// Where the metadata of a client comes from.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientKind {
    /// The configuration file.
    Configured,
    /// The document at its id, so the host of the document vouches for it.
    Document,
    /// A registration that anybody could make. No host vouches for its name.
    Registered,
}

/// A grant of one person to one client.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Grant)]
struct ListedGrant {
    /// Its id.
    #[schema(examples("0f3a6c1d2e4b5a697887-5d41402abc4b2a76b9719d911017c592"))]
    id: String,
    /// The principal who agreed.
    #[schema(examples("key:laptop"))]
    principal: String,
    /// An email address or account name, if the principal signed in at the login service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("ann@example.org"))]
    principal_name: Option<String>,
    /// The client.
    #[schema(examples("https://claude.ai/oauth/client.json"))]
    client: String,
    /// The name that the client chose for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("Claude"))]
    client_name: Option<String>,
    client_kind: ClientKind,
    /// The host that vouches for the client. Absent if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("claude.ai"))]
    client_host: Option<String>,
    /// Whether the operator vouches for the client, by its entry or by `trusted_hosts`.
    is_trusted: bool,
    /// Where the answer of the login was sent.
    #[schema(examples("https://claude.ai/api/mcp/auth_callback"))]
    redirect_uri: String,
    /// The endpoint that its tokens are for.
    #[schema(examples("https://gateway.example.org/mcp"))]
    resource: String,
    /// The role of the client.
    #[schema(examples("caller"))]
    role: String,
    /// The view that the client is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("support"))]
    view: Option<String>,
    /// The scopes of its tokens.
    #[schema(examples(json!(["mcp:read", "mcp:call"])))]
    scopes: Vec<String>,
    /// When the person agreed.
    #[schema(format = DateTime)]
    granted_at: String,
    /// When the client last got a token. A client in use gets one each ten minutes.
    #[schema(format = DateTime)]
    used_at: String,
}

/// Some grants.
#[derive(Debug, Serialize, ToSchema)]
struct GrantList {
    /// Those of one principal are beside each other.
    grants: Vec<ListedGrant>,
    /// The `cursor` of the next page. Absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// The grants that ended.
#[derive(Debug, Serialize, ToSchema)]
struct RevokedGrants {
    /// The principal.
    #[schema(examples("key:laptop"))]
    principal: String,
    /// How many ended.
    grant_count: usize,
}

impl From<ClientSource> for ClientKind {
    fn from(source: ClientSource) -> Self {
        match source {
            ClientSource::Configured => Self::Configured,
            ClientSource::Document => Self::Document,
            ClientSource::Registered => Self::Registered,
        }
    }
}

impl ListedGrant {
    fn of(grant: GrantSummary, server: &AuthorizationServer) -> Self {
        Self {
            id: grant.id,
            principal: clipped(grant.owner),
            principal_name: grant.owner_name.map(clipped),
            client_host: client_host(&grant.client),
            is_trusted: server.is_trusted(grant.source, &grant.client),
            client: grant.client,
            client_name: grant.client_name,
            client_kind: grant.source.into(),
            redirect_uri: grant.redirect_uri,
            resource: grant.resource,
            role: grant.access.role.to_string(),
            scopes: grant.access.scope().split(' ').map(str::to_owned).collect(),
            view: grant.access.view,
            granted_at: date(grant.made),
            used_at: date(grant.used),
        }
    }
}

/// List grants
///
/// The grants of people to clients at the authorization server of this gateway. Needs the role *reader*. Only a *superuser*
/// gets the grants of others; every other person gets its own. A client that acts for a person gets none.
#[utoipa::path(
    get, path = "/grants", tag = "gateway", operation_id = "list_grants", params(GrantQuery),
    responses((status = 200, description = "Grants", body = GrantList), GrantProblems)
)]
pub(super) async fn list(
    State(api): State<Api>,
    (Extension(principal), Extension(id)): (Extension<Principal>, Extension<RequestId>),
    query: Parameters<GrantQuery>,
) -> Result<Response, Problem> {
    let query = parameters(query, HINT)?;
    let server = server(&api)?;
    let GrantQuery { principal: owner, client, limit, cursor } = query;
    let (limit, after) = (page_size(limit).map_err(wrong)?, cursor.unwrap_or_default());
    if after.len() > MAX_CURSOR || !after.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Err(wrong("`cursor` is not one that this list has returned"));
    }
    if client.as_ref().is_some_and(|client| client.len() > MAX_CLIENT) {
        return Err(wrong("`client` is longer than 1024 bytes"));
    }
    let filter = GrantFilter { client, ..selected(&principal, owner, id)? };
    let page = server.grant_page(&filter, &after, limit, SystemTime::now()).await.map_err(|e| failed(&e))?;
    let next_cursor = page.grants.last().filter(|_| page.has_more).map(|last| last.id.clone());
    let grants = page.grants.into_iter().map(|grant| ListedGrant::of(grant, server)).collect();
    Ok(json(&GrantList { grants, next_cursor }))
}

/// End a grant
///
/// None of its tokens is accepted from now on, and the sessions, streams and calls of the client end. The client has to ask
/// the person again. Needs the role *reader* for one's own, and *superuser* for those of another principal. A client that acts
/// for a person has none of its own.
#[utoipa::path(
    delete, path = "/grants/{grant}", tag = "gateway", operation_id = "revoke_grant",
    params(("grant" = String, Path, description = "The id of the grant",
        example = "0f3a6c1d2e4b5a697887-5d41402abc4b2a76b9719d911017c592")),
    responses((status = 200, description = "The grant that ended", body = ListedGrant), GrantProblems)
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(id): PathName,
) -> Result<Response, Problem> {
    let server = server(&api)?;
    let found = server.grant(&id, SystemTime::now()).await.map_err(|error| failed(&error))?;
    let found = found.filter(|found| is_seen_by(&principal, found)).ok_or_else(|| {
        let text = format!("there is no grant `{}`", settings::one_line(&id));
        Problem::new(ErrorCode::NotFound, text).hinting("GET /api/v1/mcp/grants lists the grants")
    })?;
    server.end_grant(&id).await.map_err(|error| failed(&error))?;
    let (client, of) = (Some(found.client.clone()), Some(found.owner.clone()));
    let subject = Subject { grant: Some(id), client, of, ..Subject::default() };
    let mut response = json(&ListedGrant::of(found, server));
    response.extensions_mut().insert(subject);
    Ok(response)
}

/// End all grants of a principal
///
/// Every client to which the principal granted something loses it, as when each grant ends. Needs the role *reader* for one's
/// own, and *superuser* for those of another principal. A client that acts for a person has none of its own.
#[utoipa::path(
    delete, path = "/grants", tag = "gateway", operation_id = "revoke_grants", params(GrantOwner),
    responses((status = 200, description = "How many grants ended", body = RevokedGrants), GrantProblems)
)]
pub(super) async fn revoke_all(
    State(api): State<Api>,
    (Extension(principal), Extension(id)): (Extension<Principal>, Extension<RequestId>),
    query: Parameters<GrantOwner>,
) -> Result<Response, Problem> {
    let GrantOwner { principal: owner } =
        parameters(query, "name the `principal`, such as ?principal=key:laptop")?;
    let server = server(&api)?;
    let filter = selected(&principal, Some(owner.clone()), id)?;
    let ended = server.end_grants(&filter, SystemTime::now()).await.map_err(|error| failed(&error))?;
    Ok(json(&RevokedGrants { principal: clipped(owner), grant_count: ended }))
}

/// Returns the grants of `owner` that `principal` may see and end, or all that it may.
fn selected(principal: &Principal, owner: Option<String>, id: RequestId) -> Result<GrantFilter, Problem> {
    if owner.as_ref().is_some_and(|owner| owner.is_empty() || owner.len() > MAX_OWNER_BYTES) {
        return Err(wrong("`principal` is not the id of a principal, which has 1 to 512 bytes"));
    }
    if !has_own(principal) || owner.as_ref().is_some_and(|owner| **owner != **principal.id()) {
        authorised(Some(principal), Action::RevokeGrantsOfOthers, Some(id))?;
    }
    if principal.may(Action::RevokeGrantsOfOthers) {
        return Ok(GrantFilter { owner, ..GrantFilter::default() });
    }
    let view = principal.view().map(ToString::to_string);
    Ok(GrantFilter { owner: Some(principal.id().to_string()), view, client: None })
}

/// Whether `principal` may see and end `grant`.
fn is_seen_by(principal: &Principal, grant: &GrantSummary) -> bool {
    let is_in_view =
        || principal.view().zip(grant.access.view.as_deref()).is_none_or(|(bound, view)| **bound == *view);
    let is_own = || has_own(principal) && *grant.owner == **principal.id() && is_in_view();
    principal.may(Action::RevokeGrantsOfOthers) || is_own()
}

/// Whether `principal` can have grants of its own, and is no client that got one of them.
fn has_own(principal: &Principal) -> bool {
    !principal.is_of_grant() && !Principal::is_anonymous_id(principal.id())
}

/// Returns the authorization server.
pub(super) fn server(api: &Api) -> Result<&Arc<AuthorizationServer>, Problem> {
    api.options.grants.as_ref().ok_or_else(|| {
        Problem::new(
            ErrorCode::NotFound,
            "this gateway has no authorization server, so nobody grants anything",
        )
        .hinting("set `authorization_server` under `server:` in the configuration file")
    })
}

/// A failure of the store. Its text names files of the gateway, which are none of the caller's business.
pub(super) fn failed(error: &StoreError) -> Problem {
    tracing::error!(%error, "a request for grants failed");
    Problem::new(ErrorCode::StoreUnavailable, "the grants and clients cannot be read or changed now")
}

fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, detail).hinting(HINT)
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
