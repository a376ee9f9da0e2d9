//! `switchyard grants`: the grants of people to clients at the authorization server, and the end of them.
//!
//! Invariant: names of clients are chosen by strangers, so they are cells of a table, which makes them visible.

use http::Method;

use super::super::error::CommandError;
use super::super::remote::{Remote, not_a_gateway};
use super::GrantAction;
use super::members::{elements, number, or_dash, text};
use super::screen::{Screen, View};
use super::table::{Cell, Column, Table};
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
) -> Result<(), CommandError> {
    match action {
        None => list(remote, &GrantChoice::default(), screen).await,
        Some(GrantAction::List { choice, .. }) => list(remote, choice, screen).await,
        Some(GrantAction::Clients(_)) => clients(remote, screen).await,
        Some(GrantAction::Revoke { which, .. }) => revoke(remote, which, screen).await,
    }
}

/// Lists grants.
async fn list(remote: &Remote, choice: &GrantChoice, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let filters = [("principal", &choice.of), ("client", &choice.client)];
    let filters: Vec<_> =
        filters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let grants = all(remote, "grants", &filters).await?;
    Ok(screen.show(&View::of_items("grants", &grants, "id", GRANTS))?)
}

/// Lists the clients of the authorization server.
async fn clients(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let clients = all(remote, "clients", &[]).await?;
    Ok(screen.show(&View::of_items("clients", &clients, "client", CLIENTS))?)
}

/// Ends grants.
async fn revoke(remote: &Remote, which: &Revoked, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let (path, query, whose): (&[_], _, _) = match which {
        Revoked { grant: Some(grant), .. } => {
            let id = found(remote, grant).await?;
            let ended = remote.rest(Method::DELETE, &["grants", &id], &[]).await?;
            ended.get("id").ok_or_else(not_a_gateway)?;
            return Ok(screen.show(&View::list(ended.clone(), &[ended], "id", GRANTS))?);
        }
        Revoked { client: Some(client), .. } => (&["clients"], [("client", &**client)], client),
        Revoked { of: Some(of), .. } => (&["grants"], [("principal", &**of)], of),
        Revoked { grant: None, of: None, client: None } => {
            return Err(CommandError::Usage("name a grant, or --of, or --client".into()));
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
async fn found(remote: &Remote, part: &str) -> Result<String, CommandError> {
    let is_whole = part.contains('-');
    if is_whole || part.len() < SHORT {
        return Ok(part.to_owned());
    }
    let grants = all(remote, "grants", &[]).await?;
    let mut ids: Vec<String> = grants.iter().map(|grant| text(grant, "id")).collect();
    ids.retain(|id| id.ends_with(part));
    match <[String; 1]>::try_from(ids) {
        Ok([id]) => Ok(id),
        Err(ids) if ids.is_empty() => Ok(part.to_owned()),
        Err(ids) => Err(CommandError::Usage(format!("several grants end with {part}: {}", ids.join(", ")))),
    }
}

/// Returns the items of all pages of `list`.
async fn all(remote: &Remote, list: &str, filters: &[(&str, &str)]) -> Result<Vec<Raw>, CommandError> {
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

const GRANTS: &[Column] = &[
    ("GRANT", |grant| Cell::new(end_of(&text(grant, "id")))),
    ("PERSON", |grant| named(grant, "principal_name", "principal")),
    ("CLIENT", |grant| named(grant, "client_name", "client")),
    ("VOUCHED BY", voucher),
    ("ROLE", |grant| Cell::of(grant, "role")),
    ("VIEW", |grant| Cell::new(&or_dash(text(grant, "view")))),
    ("ENDPOINT", |grant| Cell::of(grant, "resource")),
    ("LAST USED", |grant| Cell::of(grant, "used_at")),
];

const CLIENTS: &[Column] = &[
    ("CLIENT", |client| Cell::of(client, "client")),
    ("NAME", |client| Cell::new(&or_dash(text(client, "client_name")))),
    ("KIND", |client| Cell::of(client, "client_kind")),
    ("VOUCHED BY", voucher),
    ("GRANTS", |client| Cell::new(&number(client, "grant_count"))),
    ("PEOPLE", |client| Cell::new(&number(client, "principal_count"))),
    ("LAST USED", |client| Cell::new(&or_dash(text(client, "used_at")))),
];

/// The end of an id, by which a person can name the grant.
fn end_of(id: &str) -> &str {
    id.char_indices().nth_back(SHORT - 1).map_or(id, |(at, _)| &id[at..])
}

/// A cell with a name, or else with the id.
fn named(of: &Raw, name: &str, id: &str) -> Cell {
    Cell::of(of, if text(of, name).is_empty() { id } else { name })
}

/// A cell with the one who vouches for the name of the client.
fn voucher(of: &Raw) -> Cell {
    match of.text("client_host") {
        _ if text(of, "client_kind") == "configured" => Cell::new("operator"),
        Some(host) => Cell::new(&host),
        None => Cell::warning("nobody"),
    }
}
