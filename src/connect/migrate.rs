//! Moves the servers of a client to the configuration file, so that the client keeps one entry.
//!
//! `config::import` converts them; this brings every client's spelling to the one that it reads. Invariants: a server
//! leaves the client only if the configuration file has it, the same server and not one of the same name. The rest of
//! the configuration file stays as it is.

use std::path::{Path, PathBuf};

use super::clients::{Client, Reference};
use super::document::{Format, Place, yaml};
use super::{Change, Error, entry};
use crate::config::import::json::{Json, Members, member};
use crate::config::import::{self, Imported};
use settings::one_line;

const SERVERS: &str = "mcp_servers";
const PLACE: Place = Place { format: Format::Yaml, key: &[SERVERS] };
/// Members of other clients, and the name that `config::import` reads.
const SPELLINGS: [(&str, &str); 6] = [
    ("uri", "url"),
    ("cmd", "command"),
    ("envs", "env"),
    ("environment", "env"),
    ("http_headers", "headers"),
    ("active", "enabled"),
];
/// Members without a meaning for a gateway.
const IGNORED: [&str; 3] = ["name", "source", "tools"];

/// The configuration file to which servers move.
#[derive(Debug)]
pub struct Registry {
    /// Its path.
    pub path: PathBuf,
}

/// The servers that move.
pub(super) struct Moved {
    /// The names of the servers in the client's file.
    pub(super) names: Vec<String>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// The change of the configuration file.
    pub(super) change: Option<Change>,
}

impl Registry {
    /// Plans to move the servers in `root`, which was read from `file`.
    pub(super) fn take(&self, client: &Client, file: &Path, root: &Json) -> Result<Moved, Error> {
        let mut moved = Moved { names: Vec::new(), notes: Vec::new(), change: None };
        let invalid = |reason| Error::Invalid { path: self.path.clone(), reason };
        let now = super::unchanged(&self.path)?;
        let present = PLACE.parse(&now.before).map_err(invalid)?;
        let source = file.display().to_string();
        let mut new = Members::new();
        for (name, server) in client.place().entries(root) {
            if entry::is_ours(&name) {
                continue;
            }
            let server = (name.clone(), common(client, server));
            match judge(&source, client, root, &server, &present) {
                Ok(Verdict::Same) => moved.names.push(name),
                Ok(Verdict::New) => {
                    moved.names.push(name);
                    new.push(server);
                }
                Err(reason) => {
                    moved.notes.push(format!("{}: it stays where it is: {reason}", one_line(&name)));
                }
            }
        }
        if new.is_empty() {
            return Ok(moved);
        }
        let imported = convert(&source, client, root, new).map_err(invalid)?;
        moved.notes.extend(imported.notes);
        let change = Change::new(&self.path, |before| merged(before, &imported.yaml, imported.servers))?;
        moved.change = Some(change);
        Ok(moved)
    }
}

enum Verdict {
    /// The configuration file has it.
    Same,
    /// It has no server of this name.
    New,
}

/// Decides whether a server can leave the client.
fn judge(
    source: &str,
    client: &Client,
    root: &Json,
    server: &(String, Json),
    present: &Json,
) -> Result<Verdict, String> {
    let imported = convert(source, client, root, vec![server.clone()])?;
    let parsed = PLACE.parse(&imported.yaml)?;
    let Some((own, value)) = PLACE.entries(&parsed).into_iter().next() else {
        let reason = imported.notes.into_iter().next().unwrap_or_default();
        return Err(reason.strip_prefix(&format!("{}: ", one_line(&server.0))).unwrap_or(&reason).to_owned());
    };
    match PLACE.entries(present).into_iter().find(|(name, _)| *name == own) {
        None => Ok(Verdict::New),
        Some((_, there)) if there == value => Ok(Verdict::Same),
        Some(_) => Err(format!("the configuration file has another server `{own}`")),
    }
}

/// Converts servers with the common spelling.
fn convert(source: &str, client: &Client, root: &Json, servers: Members) -> Result<Imported, String> {
    let mut file = vec![("mcpServers".to_owned(), Json::Object(servers))];
    if let (Json::Object(members), "vscode") = (root, client.id) {
        file.extend(member(members, "inputs").map(|inputs| ("inputs".to_owned(), inputs.clone())));
    }
    import::of_servers(source, &file).map_err(|error| error.to_string())
}

/// Returns a server with the spelling that `config::import` reads.
fn common(client: &Client, server: &Json) -> Json {
    let Json::Object(members) = server else { return server.clone() };
    let mut result = Members::new();
    for (name, value) in members {
        add(client, name, value, &mut result);
    }
    Json::Object(result)
}

fn add(client: &Client, name: &str, value: &Json, result: &mut Members) {
    let name = SPELLINGS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
    let value = referring(client, value);
    match (name, value) {
        (name, _) if IGNORED.contains(&name) => {}
        ("command", Json::List(mut items)) if !items.is_empty() => {
            let args = items.split_off(1);
            result.extend(items.pop().map(|program| ("command".to_owned(), program)));
            result.push(("args".to_owned(), Json::List(args)));
        }
        ("type", Json::Text(text)) => {
            let text = match text.as_str() {
                "remote" | "streamable" => "http".to_owned(),
                _ => text,
            };
            result.push(("type".to_owned(), Json::Text(text)));
        }
        ("requestOptions", Json::Object(options)) => {
            result.extend(member(&options, "headers").map(|headers| ("headers".to_owned(), headers.clone())));
        }
        ("bearer_token_env_var" | "bearerTokenEnv", Json::Text(variable)) => {
            add_header(result, "Authorization", format!("Bearer ${{{variable}}}"));
        }
        ("env_http_headers", Json::Object(headers)) => {
            for (header, variable) in &headers {
                add_header(result, header, format!("${{{}}}", variable.text().unwrap_or_default()));
            }
        }
        (name, value) => add_member(result, name, value),
    }
}

/// Adds a member, and merges headers from two places.
fn add_member(result: &mut Members, name: &str, value: Json) {
    match (result.iter_mut().find(|(key, _)| key == name), value) {
        (Some((_, Json::Object(there))), Json::Object(more)) => there.extend(more),
        (_, value) => result.push((name.to_owned(), value)),
    }
}

fn add_header(result: &mut Members, header: &str, value: String) {
    add_member(result, "headers", Json::Object(vec![(header.to_owned(), Json::Text(value))]));
}

/// Returns `value` with the client's references to variables as `${NAME}`.
fn referring(client: &Client, value: &Json) -> Json {
    let Reference::Between(before, after) = client.reference else { return value.clone() };
    match value {
        Json::Text(text) if before != "${" => Json::Text(rewritten(text, before, after)),
        Json::List(items) => Json::List(items.iter().map(|item| referring(client, item)).collect()),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), referring(client, value)));
            Json::Object(members.collect())
        }
        _ => value.clone(),
    }
}

fn rewritten(text: &str, before: &str, after: &str) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once(after) {
        Some((name, rest)) => format!("{text}${{{}}}{rest}", name.trim()),
        None => format!("{text}{before}{part}"),
    })
}

/// Returns the configuration file with the servers of `yaml` added.
fn merged(before: &str, yaml: &str, count: usize) -> Result<String, String> {
    if before.trim().is_empty() {
        return Ok(yaml.to_owned());
    }
    let unsafe_edit = || "1:1: error: servers cannot be added to its layout".to_owned();
    let (_, lines) = yaml.split_once(&format!("{SERVERS}:\n")).ok_or_else(unsafe_edit)?;
    let after = yaml::append(before, SERVERS, lines)?;
    let (old, new) = (PLACE.parse(before)?, PLACE.parse(&after)?);
    let (old, new) = (PLACE.entries(&old), PLACE.entries(&new));
    let is_kept =
        old.iter().all(|(name, server)| new.iter().any(|(key, value)| key == name && value == server));
    if is_kept && new.len() == old.len() + count { Ok(after) } else { Err(unsafe_edit()) }
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
