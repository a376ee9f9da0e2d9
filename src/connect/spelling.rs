//! The entry of a server in the spelling of any client, as the one that `config::import` reads.
//!
//! Clients give the same member several names and forms. Each name stands for one meaning wherever it is written, so that one
//! table serves all clients. A [`Dialect`] has the rest, such as the unit of `timeout`.
//!
//! Not here: what a member means in the configuration file (`config::import`).

use super::clients::{Client, Reference};
use crate::config::import::json::{Json, Members, member};
use crate::config::import::times::{TIMEOUT_MS, TIMEOUT_SEC, TimeoutUnit};

/// Members of other clients, and the name that `config::import` reads.
const SPELLINGS: [(&str, &str); 9] = [
    ("uri", "url"),
    ("cmd", "command"),
    ("envs", "env"),
    ("environment", "env"),
    ("http_headers", "headers"),
    ("active", "enabled"),
    ("envFile", "env_file"),
    ("workingDirectory", "cwd"),
    ("working_directory", "cwd"),
];
/// Members without a meaning for a gateway.
const IGNORED: [&str; 2] = ["name", "source"];
/// Members of which every entry has one.
const TARGETS: [&str; 6] = ["command", "cmd", "url", "httpUrl", "serverUrl", "uri"];
/// Those of them with a URL.
const URLS: [&str; 4] = ["url", "httpUrl", "serverUrl", "uri"];
/// The member with the names of variables that a program gets.
const PASSED: &str = "pass_env";
/// Mappings in which some clients have all of an entry.
const WRAPPERS: [&str; 2] = ["config", "transport"];

/// The differences between clients that the names of members do not tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    /// How an entry refers to a variable.
    pub(super) reference: Reference,
    /// The unit of `timeout`.
    pub(super) timeout: TimeoutUnit,
}

impl Dialect {
    /// The dialect of an unknown client.
    pub(super) const UNKNOWN: Self = Self { reference: Reference::Unknown, timeout: TimeoutUnit::Unknown };

    pub(super) const fn of(client: &Client) -> Self {
        Self { reference: client.reference, timeout: client.timeout }
    }

    /// Returns a server with the spelling that `config::import` reads.
    pub(super) fn common(self, server: &Json) -> Json {
        let Json::Object(members) = server else { return server.clone() };
        let mut result = Members::new();
        for (name, value) in unwrapped(members) {
            self.add(name, value, &mut result);
        }
        Json::Object(result)
    }

    fn add(self, name: &str, value: &Json, result: &mut Members) {
        let name = SPELLINGS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
        let value = referring(self.reference, value);
        match (name, value) {
            (name, _) if IGNORED.contains(&name) => {}
            ("timeout", value) => result.push((self.timeout_name().to_owned(), value)),
            ("command", Json::List(mut items)) if !items.is_empty() => {
                let args = items.split_off(1);
                result.extend(items.pop().map(|program| ("command".to_owned(), program)));
                result.push(("args".to_owned(), Json::List(args)));
            }
            // Older files of Zed.
            ("command", Json::Object(program)) => {
                for (name, value) in &program {
                    self.add(if name == "path" { "command" } else { name }, value, result);
                }
            }
            ("type", Json::Text(text)) => {
                let text = match text.as_str() {
                    "remote" | "streamable" => "http".to_owned(),
                    _ => text,
                };
                result.push(("type".to_owned(), Json::Text(text)));
            }
            ("requestOptions", Json::Object(options)) => {
                if let Some(headers) = member(&options, "headers") {
                    add_member(result, "headers", headers.clone());
                }
            }
            ("bearer_token_env_var" | "bearerTokenEnv", Json::Text(variable)) => {
                add_header(result, "Authorization", format!("Bearer ${{{variable}}}"));
            }
            ("env_http_headers", Json::Object(headers)) => {
                for (header, variable) in &headers {
                    add_header(result, header, format!("${{{}}}", variable.text().unwrap_or_default()));
                }
            }
            // Variables of Codex that a program gets, and those whose values Goose keeps elsewhere.
            ("env_vars", Json::List(items)) => result.push((PASSED.to_owned(), names_of(items))),
            ("env_keys", Json::List(items)) => add_keys(result, &items),
            (name, value) => add_member(result, name, value),
        }
    }

    const fn timeout_name(self) -> &'static str {
        match self.timeout {
            TimeoutUnit::Unknown => "timeout",
            TimeoutUnit::Seconds => TIMEOUT_SEC,
            TimeoutUnit::Milliseconds => TIMEOUT_MS,
        }
    }
}

/// Adds the variables of this machine that a program of this entry gets, besides those that it names itself.
pub(super) fn with_passed(server: &mut Json, passed: &[String]) -> bool {
    let Json::Object(members) = server else { return false };
    if URLS.iter().any(|url| member(members, url).is_some()) || member(members, "command").is_none() {
        return false;
    }
    let own = match member(members, "env") {
        Some(Json::Object(env)) => env.iter().map(|(name, _)| name.clone()).collect(),
        _ => Vec::new(),
    };
    let mut named = match member(members, PASSED) {
        Some(Json::List(items)) => items.clone(),
        _ => Vec::new(),
    };
    let before = named.len();
    for name in passed.iter().filter(|name| !own.contains(name)) {
        let name = Json::Text(name.clone());
        if !named.contains(&name) {
            named.push(name);
        }
    }
    let is_more = named.len() > before;
    if is_more {
        members.retain(|(name, _)| name != PASSED);
        members.push((PASSED.to_owned(), Json::List(named)));
    }
    is_more
}

/// Returns an entry without the variables that a program gets, which depend on the machine.
pub(super) fn without_passed(server: &Json) -> Json {
    let Json::Object(members) = server else { return server.clone() };
    Json::Object(members.iter().filter(|(name, _)| name != PASSED).cloned().collect())
}

/// Whether `value` is the entry of a server.
pub(super) fn is_entry(value: &Json) -> bool {
    let Json::Object(members) = value else { return false };
    TARGETS.iter().any(|target| member(members, target).is_some())
}

/// Whether a member of an entry is a mapping that has its target.
pub(super) fn is_wrapper(name: &str, value: &Json) -> bool {
    WRAPPERS.contains(&name) && is_entry(value)
}

/// The members of an entry, and those of a mapping in it that has its target.
fn unwrapped(members: &Members) -> impl Iterator<Item = (&str, &Json)> {
    members.iter().flat_map(move |(name, value)| match value {
        Json::Object(inner) if is_wrapper(name, value) => {
            inner.iter().map(|(name, value)| (name.as_str(), value)).collect()
        }
        _ => vec![(name.as_str(), value)],
    })
}

/// Returns the names in a list of names and of mappings with a `name`.
fn names_of(items: Vec<Json>) -> Json {
    let name = |item| match item {
        Json::Object(members) => member(&members, "name").cloned(),
        other => Some(other),
    };
    Json::List(items.into_iter().filter_map(name).collect())
}

/// Adds variables of a program that have the values of Switchyard's.
fn add_keys(result: &mut Members, items: &[Json]) {
    for name in items.iter().filter_map(Json::text) {
        let reference = Json::Text(format!("${{{name}}}"));
        add_member(result, "env", Json::Object(vec![(name.to_owned(), reference)]));
    }
}

/// Adds a member, and merges mappings from two places.
fn add_member(result: &mut Members, name: &str, value: Json) {
    match (result.iter_mut().find(|(key, _)| key == name), value) {
        (Some((_, Json::Object(there))), Json::Object(more)) => {
            let is_new = |(key, _): &(String, Json)| member(there, key).is_none();
            let more: Members = more.into_iter().filter(is_new).collect();
            there.extend(more);
        }
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
