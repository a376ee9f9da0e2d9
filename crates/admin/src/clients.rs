//! `/clients`: the clients of the authorization server of this gateway, and the removal of one.
//!
//! Not here: what people granted to them (`grants`), and clients that have a key (`keys`).

use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::grants::{ClientKind, failed, server};
use super::openapi::GrantProblems;
use super::parameters::{Parameters, page_size, parameters};
use super::problem::Problem;
use super::view::date;
use super::{Api, json};
use authorization::{AuthorizationServer, ClientSummary, client_host};
use protocol::ErrorCode;

/// The parameters that there are.
const HINT: &str = "the parameters are `limit` and `cursor`, each at most once";

/// Which clients are returned.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ClientQuery {
    /// The most clients of the answer, 100 without it.
    #[param(nullable = false, minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[param(nullable = false, max_length = 2048, pattern = "^[0-9a-f]*$")]
    cursor: Option<String>,
}

/// The client to remove.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ClientId {
    /// The client.
    #[param(max_length = 1024, pattern = "^[!-~]*$", example = "https://claude.ai/oauth/client.json")]
    client: String,
}

/// A client of the authorization server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Client)]
struct ListedClient {
    /// Its id.
    #[schema(examples("https://claude.ai/oauth/client.json"))]
    client: String,
    /// The name that it chose for itself, or that the configuration file gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("Claude"))]
    client_name: Option<String>,
    client_kind: ClientKind,
    /// The host that vouches for it. Absent if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("claude.ai"))]
    client_host: Option<String>,
    /// Whether the operator vouches for it, by its entry or by `trusted_hosts`.
    is_trusted: bool,
    /// When it registered itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    registered_at: Option<String>,
    /// The number of grants that it has.
    grant_count: usize,
    /// The number of principals who agreed to them.
    principal_count: usize,
    /// When it last got a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    used_at: Option<String>,
}

/// Some clients.
#[derive(Debug, Serialize, ToSchema)]
struct ClientList {
    /// By their ids.
    clients: Vec<ListedClient>,
    /// The `cursor` of the next page. Absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// A client that was removed.
#[derive(Debug, Serialize, ToSchema)]
struct RemovedClient {
    /// The client.
    #[schema(examples("https://claude.ai/oauth/client.json"))]
    client: String,
    /// How many grants ended.
    grant_count: usize,
}

impl ListedClient {
    fn of(client: ClientSummary, server: &AuthorizationServer) -> Self {
        Self {
            client_host: client_host(&client.id),
            is_trusted: server.is_trusted(client.source, &client.id),
            client: client.id,
            client_name: client.name,
            client_kind: client.source.into(),
            registered_at: client.registered.map(date),
            grant_count: client.grants,
            principal_count: client.owners,
            used_at: client.used.map(date),
        }
    }
}

/// List clients of the authorization server
///
/// Those of the configuration file, those that registered themselves, and those that have a grant. Needs the role
/// *superuser*.
#[utoipa::path(
    get, path = "/clients", tag = "gateway", operation_id = "list_clients", params(ClientQuery),
    responses((status = 200, description = "Clients", body = ClientList), GrantProblems)
)]
pub(super) async fn list(
    State(api): State<Api>,
    query: Parameters<ClientQuery>,
) -> Result<Response, Problem> {
    let ClientQuery { limit, cursor } = parameters(query, HINT)?;
    let limit = page_size(limit).map_err(wrong)?;
    let server = server(&api)?;
    let mut all = server.clients(SystemTime::now()).await.map_err(|error| failed(&error))?;
    if let Some(cursor) = cursor {
        let last = hex::decode(cursor).ok().and_then(|id| String::from_utf8(id).ok());
        let last = last.ok_or_else(|| wrong("`cursor` is not one that this list has returned"))?;
        // The client may be removed since.
        all.retain(|client| client.id > last);
    }
    let has_more = all.len() > limit;
    all.truncate(limit);
    let next_cursor = all.last().filter(|_| has_more).map(|last| hex::encode(&last.id));
    let clients = all.into_iter().map(|client| ListedClient::of(client, server)).collect();
    Ok(json(&ClientList { clients, next_cursor }))
}

/// Remove a client of the authorization server
///
/// Ends all grants of the client, and removes its registration if it registered itself. A client of the configuration file
/// stays there, and one with a document can ask people again. Needs the role *superuser*.
#[utoipa::path(
    delete, path = "/clients", tag = "gateway", operation_id = "remove_client", params(ClientId),
    responses((status = 200, description = "How many grants ended", body = RemovedClient), GrantProblems)
)]
pub(super) async fn remove(State(api): State<Api>, query: Parameters<ClientId>) -> Result<Response, Problem> {
    let ClientId { client } = parameters(query, "name the `client`")?;
    let removed = server(&api)?.remove_client(&client, SystemTime::now()).await;
    let removed = removed.map_err(|error| failed(&error))?.ok_or_else(|| {
        let text = format!("there is no client `{}`", settings::one_line(&client));
        Problem::new(ErrorCode::NotFound, text).hinting("GET /api/v1/mcp/clients lists the clients")
    });
    Ok(json(&RemovedClient { client, grant_count: removed? }))
}

fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, detail).hinting(HINT)
}
