//! Moves the servers of a client to the configuration file, so that the client keeps one entry.
//!
//! Invariant: a server leaves the client only if the configuration file has it, the same server and not one of the same
//! name.
//!
//! Not here: the edit of the configuration file (`registry`).

use std::path::{Path, PathBuf};

use url::Url;

use super::clients::{Client, Reference};
use super::registry::{self, Offer};
use super::{Error, FileChange};
use crate::config::import::json::{Json, Members, member};
use crate::config::import::ownership::{self, is_ours};
use settings::one_line;

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
    pub(super) change: Option<FileChange>,
}

impl Registry {
    /// Plans to move the servers in `root`, which was read from `file`, without those that lead to `gateway`.
    pub(super) fn take(
        &self,
        client: &Client,
        file: &Path,
        root: &Json,
        gateway: &Url,
    ) -> Result<Moved, Error> {
        let invalid = |reason| Error::Invalid { path: self.path.clone(), reason };
        let now = super::unchanged(&self.path)?;
        let added = registry::add(&now.before, &offer(client, file, root, gateway)).map_err(invalid)?;
        let mut notes: Vec<String> = added
            .refused
            .iter()
            .map(|(name, reason)| format!("{}: it stays where it is: {reason}", one_line(name)))
            .collect();
        notes.extend(added.notes);
        let change = if added.after == now.before { None } else { Some(now.to(added.after)?) };
        Ok(Moved { names: added.names, notes, change })
    }
}

/// Returns the servers in `root`, which was read from `file` of `client`. The entry of Switchyard is left out, and so is any
/// other that leads to `gateway`.
pub(super) fn offer(client: &Client, file: &Path, root: &Json, gateway: &Url) -> Offer {
    let all = client.place().entries(root).into_iter().filter(|(name, _)| !is_ours(name));
    let (own, others): (Vec<_>, Vec<_>) = all.partition(|(_, server)| ownership::leads_to(gateway, server));
    let refused = |(name, _)| (name, ownership::REASON.to_owned());
    let inputs = match (root, client.id) {
        (Json::Object(members), "vscode") => member(members, "inputs").cloned(),
        _ => None,
    };
    Offer {
        source: file.display().to_string(),
        inputs,
        refused: own.into_iter().map(refused).collect(),
        servers: others.into_iter().map(|(name, server)| (name, common(client.reference, server))).collect(),
        is_own: false,
        is_typed: false,
    }
}

/// Returns a server with the spelling that `config::import` reads.
pub(super) fn common(reference: Reference, server: &Json) -> Json {
    let Json::Object(members) = server else { return server.clone() };
    let mut result = Members::new();
    for (name, value) in members {
        add(reference, name, value, &mut result);
    }
    Json::Object(result)
}

fn add(reference: Reference, name: &str, value: &Json, result: &mut Members) {
    let name = SPELLINGS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
    let value = referring(reference, value);
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
fn referring(reference: Reference, value: &Json) -> Json {
    let Reference::Between(before, after) = reference else { return value.clone() };
    match value {
        Json::Text(text) if before != "${" => Json::Text(rewritten(text, before, after)),
        Json::List(items) => Json::List(items.iter().map(|item| referring(reference, item)).collect()),
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), referring(reference, value)));
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

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
