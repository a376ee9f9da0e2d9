//! `switchyard grants`: the grants of people to clients at the authorization server, and the end of them.
//!
//! Invariant: names of clients are chosen by strangers, so they are cells of a table, which makes them visible.

use http::Method;

use super::super::remote::{Remote, RemoteError, not_a_gateway};
use super::GrantAction;
use super::screen::{Screen, View};
use super::servers::{elements, names, number, or_dash, text};
use super::table::{Cell, Table};
use json::Raw;

/// Items of one answer.
const PAGE: &str = "1000";
/// The last characters of the id of a grant, which a table shows.
const SHORT: usize = 8;

/// Which grants are listed.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GrantChoice {
    /// Only what this principal granted, such as `key:laptop`.
    #[arg(long, value_name = "PRINCIPAL")]
    of: Option<String>,
    /// Only what was granted to this client, by its id.
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
}

/// Which grants end.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Revoked {
    /// One grant: its id, or the end of it that `switchyard grants` shows.
    grant: Option<String>,
    /// All that this principal granted, such as `key:laptop`.
    #[arg(long, value_name = "PRINCIPAL")]
    of: Option<String>,
    /// All that was granted to this client, by its id, and its registration.
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
}

/// Does `action`; without one it lists all grants.
pub(super) async fn run(
    remote: &Remote,
    action: Option<&GrantAction>,
    screen: &mut Screen<'_>,
) -> Result<(), RemoteError> {
    match action {
        None => list(remote, &GrantChoice::default(), screen).await,
        Some(GrantAction::List { choice, .. }) => list(remote, choice, screen).await,
        Some(GrantAction::Clients(_)) => clients(remote, screen).await,
        Some(GrantAction::Revoke { which, .. }) => revoke(remote, which, screen).await,
    }
}

/// Lists grants.
async fn list(remote: &Remote, choice: &GrantChoice, screen: &mut Screen<'_>) -> Result<(), RemoteError> {
    let filters = [("principal", &choice.of), ("client", &choice.client)];
    let filters: Vec<_> =
        filters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let grants = all(remote, "grants", &filters).await?;
    screen.show(&View {
        names: names(&grants, "id"),
        document: document("grants", &grants),
        table: table(&grants),
    })?;
    Ok(())
}

/// Lists the clients of the authorization server.
async fn clients(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), RemoteError> {
    let clients = all(remote, "clients", &[]).await?;
    let mut table = Table::new(&["CLIENT", "NAME", "KIND", "VOUCHED BY", "GRANTS", "PEOPLE", "LAST USED"]);
    table.rows.extend(clients.iter().map(|client| {
        vec![
            Cell::new(&text(client, "client")),
            Cell::new(&or_dash(text(client, "client_name"))),
            Cell::new(&text(client, "client_kind")),
            voucher(client),
            Cell::new(&number(client, "grant_count")),
            Cell::new(&number(client, "principal_count")),
            Cell::new(&or_dash(text(client, "used_at"))),
        ]
    }));
    screen.show(&View {
        names: names(&clients, "client"),
        document: document("clients", &clients),
        table,
    })?;
    Ok(())
}

/// Ends grants.
async fn revoke(remote: &Remote, which: &Revoked, screen: &mut Screen<'_>) -> Result<(), RemoteError> {
    let (path, query, whose): (&[_], _, _) = match which {
        Revoked { grant: Some(grant), .. } => {
            let id = found(remote, grant).await?;
            let ended = remote.rest(Method::DELETE, &["grants", &id], &[]).await?;
            ended.get("id").ok_or_else(not_a_gateway)?;
            let table = table(std::slice::from_ref(&ended));
            screen.show(&View { names: vec![id], document: ended, table })?;
            return Ok(());
        }
        Revoked { client: Some(client), .. } => (&["clients"], [("client", &**client)], client),
        Revoked { of: Some(of), .. } => (&["grants"], [("principal", &**of)], of),
        Revoked { grant: None, of: None, client: None } => {
            return Err(RemoteError::Usage("name a grant, or --of, or --client".into()));
        }
    };
    let ended = remote.rest(Method::DELETE, path, &query).await?;
    ended.get("grant_count").ok_or_else(not_a_gateway)?;
    let mut table = Table::new(&["OF", "GRANTS ENDED"]);
    table.rows.push(vec![Cell::new(whose), Cell::new(&number(&ended, "grant_count"))]);
    screen.show(&View { names: vec![whose.clone()], document: ended, table })?;
    Ok(())
}

/// Returns the id of the grant that ends with `part`.
async fn found(remote: &Remote, part: &str) -> Result<String, RemoteError> {
    let is_whole = part.contains('-');
    if is_whole || part.len() < SHORT {
        return Ok(part.to_owned());
    }
    let mut ids = names(&all(remote, "grants", &[]).await?, "id");
    ids.retain(|id| id.ends_with(part));
    match <[String; 1]>::try_from(ids) {
        Ok([id]) => Ok(id),
        Err(ids) if ids.is_empty() => Ok(part.to_owned()),
        Err(ids) => Err(RemoteError::Usage(format!("several grants end with {part}: {}", ids.join(", ")))),
    }
}

/// Returns the items of all pages of `list`.
async fn all(remote: &Remote, list: &str, filters: &[(&str, &str)]) -> Result<Vec<Raw>, RemoteError> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = [("limit", PAGE)].into_iter().chain(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let query: Vec<_> = filters.iter().copied().chain(page).collect();
        let answer = remote.rest(Method::GET, &[list], &query).await?;
        found.extend(elements(&answer, list)?);
        match answer.text("next_cursor") {
            Some(next) => cursor = Some(next.into_owned()),
            None => return Ok(found),
        }
    }
}

/// Returns an answer with the items of all pages.
fn document(list: &str, items: &[Raw]) -> Raw {
    let items: Vec<_> = items.iter().map(Raw::as_str).collect();
    let text = format!("{{\"{list}\":[{}]}}", items.join(","));
    Raw::parse(&text.into()).unwrap_or_else(|_| Raw::empty_object())
}

fn table(grants: &[Raw]) -> Table {
    let mut table =
        Table::new(&["GRANT", "PERSON", "CLIENT", "VOUCHED BY", "ROLE", "VIEW", "ENDPOINT", "LAST USED"]);
    table.rows.extend(grants.iter().map(|grant| {
        let id = text(grant, "id");
        let [name, person] = ["client_name", "principal_name"].map(|member| text(grant, member));
        vec![
            Cell::new(id.char_indices().nth_back(SHORT - 1).map_or(&*id, |(at, _)| &id[at..])),
            Cell::new(&if person.is_empty() { text(grant, "principal") } else { person }),
            Cell::new(&if name.is_empty() { text(grant, "client") } else { name }),
            voucher(grant),
            Cell::new(&text(grant, "role")),
            Cell::new(&or_dash(text(grant, "view"))),
            Cell::new(&text(grant, "resource")),
            Cell::new(&text(grant, "used_at")),
        ]
    }));
    table
}

/// A cell with the one who vouches for the name of the client.
fn voucher(of: &Raw) -> Cell {
    match of.text("client_host") {
        _ if text(of, "client_kind") == "configured" => Cell::new("operator"),
        Some(host) => Cell::new(&host),
        None => Cell::warning("nobody"),
    }
}
