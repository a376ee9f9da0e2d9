//! Servers in a text that was pasted from the documentation of a server, in the format of any client.
//!
//! The place of the servers in the text tells the format: every key of the table of clients is known, and a text may also
//! be one entry alone. A text in the format of the configuration file stays as it is.
//!
//! Not here: command lines (`cli::add`), and the conversion (`config::import`).

use super::clients::{CLIENTS, Client, Reference, TimeoutUnit};
use super::document::{ServersPlace, Syntax, name_of};
use super::registry::{Offer, is_readable};
use super::spelling::{Dialect, is_entry};
use crate::config::import::json::{self, Json, Members, member};
use settings::one_line;

/// Keys of files that no row of the table has: settings of VS Code, in both of their forms.
const MORE: [&[&str]; 2] = [&["mcp", "servers"], &["mcp.servers"]];
/// The key of the configuration file, which other clients have too.
const OWN: &[&str] = &["mcp_servers"];
/// Begins and ends a block of code in Markdown.
const FENCE: &str = "```";

/// Reads the servers in `text`. `name` selects one of several, or is the name of the only one. `source` is the name of the
/// text for messages.
pub(super) fn read(source: &str, text: &str, name: Option<&str>) -> Result<Offer, String> {
    let text = without_fence(text);
    let (root, format) = parse(&text)?;
    let FoundServers { key, servers, inputs } = find(&root, name).ok_or_else(unknown)?;
    let mut servers = match name {
        None => servers,
        Some(name) if servers.len() == 1 => {
            vec![(name.to_owned(), servers.into_iter().next().map_or(Json::Null, |(_, server)| server))]
        }
        Some(name) => {
            let names: Vec<_> = servers.iter().map(|(name, _)| format!("`{}`", one_line(name))).collect();
            let absent = || format!("it has no server `{}`, but {}", one_line(name), names.join(", "));
            let found = servers.iter().find(|(other, _)| other == name).cloned().ok_or_else(absent);
            vec![found?]
        }
    };
    let may_be_own = format != Syntax::Toml && key == Some(OWN) || format == Syntax::Yaml && key.is_none();
    let is_own = may_be_own && servers.iter().all(is_readable);
    if !is_own {
        let dialect = dialect(format, key);
        for (_, server) in &mut servers {
            *server = dialect.common(server);
        }
    }
    Ok(Offer { source: source.to_owned(), inputs, servers, refused: Vec::new(), is_own, is_typed: false })
}

fn unknown() -> String {
    let mut keys: Vec<_> = CLIENTS.iter().map(|client| format!("`{}`", client.key.join("."))).collect();
    keys.sort();
    keys.dedup();
    format!(
        "no servers were found in it: expected one of {}, or one entry with its name or with NAME on the command line",
        keys.join(", ")
    )
}

/// Returns `text` without the fences of a block of code.
fn without_fence(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(FENCE));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn parse(text: &str) -> Result<(Json, Syntax), String> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', '/']));
    let first = first.ok_or("it is empty")?;
    let read =
        |format: Syntax, text: &str| ServersPlace { format, key: &[] }.parse(text).map(|root| (root, format));
    if first.starts_with('[') {
        read(Syntax::Toml, text)
    } else if first.starts_with('{') {
        read(Syntax::Json, text)
    } else if first.starts_with('"') {
        // Members of an object without its braces, as many pages show an entry.
        let whole = format!("{{{}}}", text.trim().trim_end_matches(','));
        json::read(&whole).map(|root| (root, Syntax::Json)).map_err(|error| error.to_string())
    } else {
        read(Syntax::Yaml, text)
    }
}

/// Servers in a text.
struct FoundServers {
    /// The keys that lead to them, unless the text is entries alone.
    key: Option<&'static [&'static str]>,
    servers: Members,
    inputs: Option<Json>,
}

fn find(root: &Json, name: Option<&str>) -> Option<FoundServers> {
    let keys = MORE.into_iter().chain(CLIENTS.iter().map(|client| client.key));
    let at_key = keys.filter_map(|key| {
        let (parent, value) = below(root, key)?;
        let servers = entries(value)?;
        Some(FoundServers { key: Some(key), servers, inputs: member(parent, "inputs").cloned() })
    });
    at_key.into_iter().next().or_else(|| {
        let servers = alone(root, name)?;
        Some(FoundServers { key: None, servers, inputs: None })
    })
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
        Json::Object(members) if !members.is_empty() => Some(members.clone()),
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

/// Returns what the clients with this format have in common: how they refer to a variable, if that is not the way of most,
/// and the unit of `timeout`, if it is the same in all of them.
fn dialect(format: Syntax, key: Option<&[&str]>) -> Dialect {
    let is_like = |other: Syntax| other == format || (format, other) == (Syntax::Yaml, Syntax::YamlList);
    let is_one = |client: &&Client| Some(client.key) == key && is_like(client.format);
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
#[path = "snippet_tests.rs"]
mod tests;
