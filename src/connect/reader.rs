//! Reads the servers in a text: the file of any client, a part of it, or a snippet from the documentation of a server.
//!
//! The place of the servers in the text tells the format: every key of the table of clients is known, and a text may also
//! be entries alone. Servers that a person switched off beside their entries are switched off here too. A text in the
//! format of the configuration file stays as it is.
//!
//! Not here: command lines (`line`), links (`link`), the spelling of an entry (`spelling`), and the conversion
//! (`config::import`).

use super::clients::{CLIENTS, Client, Reference};
use super::document::{ServersPlace, Syntax, name_of};
use super::registry::is_readable;
use super::spelling::{Dialect, is_entry, is_wrapper};
use super::switches;
use crate::config::import::json::{self, Json, Members, member};
use crate::config::import::times::TimeoutUnit;
use settings::document::MAX_BYTES;

/// Keys of files that no row of the table has: settings of VS Code, in both of their forms.
const MORE: [&[&str]; 2] = [&["mcp", "servers"], &["mcp.servers"]];
/// Says that a text has nothing.
pub(super) const EMPTY: &str = "it is empty";
/// Keys whose value is a mapping of servers also if it is empty, or if none of them can be used.
const SURE: [&[&str]; 2] = [&["mcpServers"], &["servers"]];
/// The key of the configuration file, which other clients have too.
pub(super) const OWN: &[&str] = &["mcp_servers"];
/// The key at which Claude Code has the servers of single folders.
pub(super) const PROJECTS: &str = "projects";

/// Servers in a text.
#[derive(Debug)]
pub(super) struct ReadServers {
    /// The servers, in the common spelling unless they are of this program.
    pub(super) servers: Members,
    /// The `inputs` beside them.
    pub(super) inputs: Option<Json>,
    /// Whether they have the form of the configuration file.
    pub(super) is_own: bool,
    /// The other members at the top of the text.
    pub(super) others: Members,
}

/// Servers at one place of a text.
struct Place {
    /// The keys that lead to them, unless the text is entries alone.
    key: Option<&'static [&'static str]>,
    servers: Members,
    inputs: Option<Json>,
}

/// Reads `text`. `name` is that of an entry without one. `client` is the one that the text is known to be of.
pub(super) fn read(
    text: &str,
    name: Option<&str>,
    client: Option<&Client>,
) -> Result<Option<ReadServers>, String> {
    let (root, format) = parse(text)?;
    Ok(of_root(root, format, name, client))
}

/// Reads a text whose syntax was read.
pub(super) fn of_root(
    root: Json,
    format: Syntax,
    name: Option<&str>,
    client: Option<&Client>,
) -> Option<ReadServers> {
    let places = find(&root, name);
    let Json::Object(members) = root else { return None };
    let key = places.first()?.key;
    let may_be_own = format != Syntax::Toml && key == Some(OWN) || format == Syntax::Yaml && key.is_none();
    let is_own = may_be_own && places.iter().flat_map(|place| &place.servers).all(is_readable);
    let mut servers = Members::new();
    let mut inputs = None;
    let mut tops = vec!["inputs"];
    for place in places {
        let dialect = dialect(format, place.key, client);
        let mut here: Members = place
            .servers
            .into_iter()
            .map(|(name, server)| if is_own { (name, server) } else { (name, dialect.common(&server)) })
            .collect();
        if place.key.is_some() && !is_own {
            switches::apply(&members, &mut here);
        }
        servers.extend(here);
        inputs = inputs.or(place.inputs);
        tops.extend(place.key.and_then(|key| key.first()));
    }
    let others = if key.is_some() { others(members, &tops) } else { Members::new() };
    Some(ReadServers { servers, inputs, is_own, others })
}

/// Returns the members of a file that are not at the keys `tops`, with the common spelling in the servers of single folders.
pub(super) fn others(members: Members, tops: &[&str]) -> Members {
    let is_read =
        |(name, value): &(String, Json)| tops.contains(&&**name) || switches::is_applied(name, value);
    let others = members.into_iter().filter(|member| !is_read(member));
    others
        .map(|(name, value)| if name == PROJECTS { (name, of_projects(value)) } else { (name, value) })
        .collect()
}

/// Returns the folders of Claude Code with the common spelling.
fn of_projects(projects: Json) -> Json {
    let of_servers = |(name, value): (String, Json), project: &Members| match value {
        Json::Object(servers) if name == "mcpServers" => {
            let common = |(name, server): (String, Json)| (name, CLAUDE_CODE.common(&server));
            let mut servers: Members = servers.into_iter().map(common).collect();
            switches::apply(project, &mut servers);
            (name, Json::Object(servers))
        }
        value => (name, value),
    };
    let of_project = |(path, project): (String, Json)| match project {
        Json::Object(members) => {
            let read = members.iter().cloned().map(|entry| of_servers(entry, &members));
            (path, Json::Object(read.collect()))
        }
        project => (path, project),
    };
    match projects {
        Json::Object(projects) => Json::Object(projects.into_iter().map(of_project).collect()),
        projects => projects,
    }
}

/// The dialect of the only client that has servers of single folders.
const CLAUDE_CODE: Dialect = Dialect { reference: Reference::Unknown, timeout: TimeoutUnit::Milliseconds };

/// Says that there are no servers in a text, and where they would be.
pub(super) fn unknown() -> String {
    let mut keys: Vec<_> = CLIENTS.iter().map(|client| format!("`{}`", client.key.join("."))).collect();
    keys.sort();
    keys.dedup();
    format!(
        "no servers were found in it: expected one of {}, or one entry with its name or with NAME on the command line",
        keys.join(", ")
    )
}

/// Reads the syntax of a text, which its first line tells.
pub(super) fn parse(text: &str) -> Result<(Json, Syntax), String> {
    let first =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', '/', '*']));
    let first = first.ok_or(EMPTY)?;
    let read =
        |format: Syntax, text: &str| ServersPlace { format, key: &[] }.parse(text).map(|root| (root, format));
    if is_toml(first) {
        read(Syntax::Toml, text)
    } else if first.starts_with(['{', '[']) {
        read(Syntax::Json, text)
    } else if first.starts_with('"') {
        // Members of an object without its braces, as many pages show an entry.
        let whole = format!("{{{}}}", text.trim().trim_end_matches(','));
        json::read(&whole).map(|root| (root, Syntax::Json)).map_err(|error| error.to_string())
    } else if text.len() > MAX_BYTES {
        Err(format!("1:1: error: the file is larger than {MAX_BYTES} bytes"))
    } else {
        read(Syntax::Yaml, text)
    }
}

/// Whether a file with this first line is TOML: a table, or a key with its value.
fn is_toml(first: &str) -> bool {
    let is_key = |key: &str| {
        let is_of_key = |c: char| c.is_ascii_alphanumeric() || "_-.\"' ".contains(c);
        !key.trim().is_empty() && key.chars().all(is_of_key)
    };
    let inner = first.split('#').next().unwrap_or_default().trim().trim_start_matches('[');
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_quoted = || inner.split_once(']').is_some_and(|(key, _)| is_key(key));
    let is_table = first.starts_with('[') && (inner.starts_with(begins) || is_quoted());
    let is_number = |key: &str| key.split_once(']').is_some_and(|(key, _)| key.trim().parse::<f64>().is_ok());
    is_table && !is_number(inner)
        || first.split_once('=').is_some_and(|(key, _)| is_key(key) && !key.contains(": "))
}

fn find(root: &Json, name: Option<&str>) -> Vec<Place> {
    let mut keys: Vec<_> = MORE.into_iter().chain(CLIENTS.iter().map(|client| client.key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let at_key = keys.into_iter().filter_map(|key| {
        let (parent, value) = below(root, key)?;
        let servers = entries(value)?;
        let is_sure = SURE.contains(&key) && matches!(value, Json::Object(_));
        let inputs = member(parent, "inputs").cloned();
        let is_place = is_sure || servers.iter().any(|(_, server)| may_be_entry(server));
        is_place.then_some(Place { key: Some(key), servers, inputs })
    });
    let mut found: Vec<_> = at_key.collect();
    if found.is_empty() {
        found.extend(alone(root, name).map(|servers| Place { key: None, servers, inputs: None }));
    }
    found
}

/// Whether `value` may be an entry that has its target in a mapping of its own, or none because the client has it.
fn may_be_entry(value: &Json) -> bool {
    let Json::Object(members) = value else { return false };
    is_entry(value)
        || member(members, "type").is_some()
        || members.iter().any(|(name, value)| is_wrapper(name, value))
}

/// Returns the value at `key`, and the object around it.
fn below<'j>(root: &'j Json, key: &[&str]) -> Option<(&'j Members, &'j Json)> {
    let (first, rest) = key.split_first()?;
    let Json::Object(members) = root else { return None };
    let value = member(members, first)?;
    if rest.is_empty() { Some((members, value)) } else { below(value, rest) }
}

/// Returns the servers in a mapping, or in a list whose items have names.
fn entries(value: &Json) -> Option<Members> {
    match value {
        Json::Object(members) => Some(members.clone()),
        Json::List(items) if !items.is_empty() => {
            items.iter().map(|item| Some((name_of(item)?.to_owned(), item.clone()))).collect()
        }
        _ => None,
    }
}

/// Returns entries that are the whole text: one without a name, or some with their names.
fn alone(root: &Json, name: Option<&str>) -> Option<Members> {
    if is_entry(root) {
        let name = name.or_else(|| name_of(root))?;
        return Some(vec![(name.to_owned(), root.clone())]);
    }
    match root {
        Json::Object(members) if !members.is_empty() && members.iter().all(|(_, value)| is_entry(value)) => {
            Some(members.clone())
        }
        _ => None,
    }
}

/// Returns the dialect of the client, or else that of all clients with this format. It has the way in which one of them refers
/// to variables, if most do it otherwise, and the unit of `timeout`, if it is the same in all.
fn dialect(format: Syntax, key: Option<&[&str]>, client: Option<&Client>) -> Dialect {
    let is_like = |other: Syntax| other == format || (format, other) == (Syntax::Yaml, Syntax::YamlList);
    let is_one = |client: &&Client| Some(client.key) == key && is_like(client.format);
    if let Some(client) = client.filter(|client| is_one(client)) {
        return Dialect::of(client);
    }
    let rows: Vec<&Client> = CLIENTS.iter().filter(is_one).collect();
    let is_odd = |reference: &Reference| match reference {
        Reference::Between(before, _) => !matches!(*before, "${" | "${env:"),
        _ => false,
    };
    let reference = rows.iter().map(|client| client.reference).find(is_odd);
    let unit = rows.first().map_or(TimeoutUnit::Unknown, |client| client.timeout);
    let is_same = rows.iter().all(|client| client.timeout == unit);
    Dialect {
        reference: reference.unwrap_or(Reference::Unknown),
        timeout: if is_same { unit } else { TimeoutUnit::Unknown },
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
