//! Servers in a text that was pasted from the documentation of a server: a line, a link, or the format of any client.
//!
//! Not here: the formats (`reader`, `line`, `link`), and the conversion (`config::import`).

use super::link::OneServer;
use super::reader::{ReadServers, unknown};
use super::registry::Offer;
use super::spelling::Dialect;
use super::{line, link, reader};
use crate::config::import::json::{Json, Members, member};
use settings::one_line;

/// Begins and ends a block of code in Markdown.
const FENCE: &str = "```";

/// Reads the servers in `text`. `name` selects one of several, or is the name of the only one. `source` is the name of the
/// text for messages.
pub(super) fn read(source: &str, text: &str, name: Option<&str>) -> Result<Offer, String> {
    let text = without_fence(text);
    if let Some(one) = link::read(&text).or_else(|| line::read(&text)) {
        return of_one(source, one?, name);
    }
    let ReadServers { servers, inputs, is_own, .. } = reader::read(&text, name, None)?.ok_or_else(unknown)?;
    let servers = match name {
        None => servers,
        Some(name) => vec![selected(servers, name)?],
    };
    if servers.is_empty() {
        return Err(unknown());
    }
    Ok(Offer { inputs, is_own, ..Offer::of(source, servers) })
}

/// Returns the server `name`, or the only one with this name.
fn selected(mut servers: Members, name: &str) -> Result<(String, Json), String> {
    if let [_] = servers.as_slice() {
        return servers.pop().map(|(_, server)| (name.to_owned(), server)).ok_or_else(unknown);
    }
    let names: Vec<_> = servers.iter().map(|(name, _)| format!("`{}`", one_line(name))).collect();
    let absent = || format!("it has no server `{}`, but {}", one_line(name), names.join(", "));
    servers.into_iter().find(|(other, _)| other == name).ok_or_else(absent)
}

/// Returns the server of a line or a link. `name` takes precedence over its own.
fn of_one(source: &str, one: OneServer, name: Option<&str>) -> Result<Offer, String> {
    let OneServer { name: own, entry, inputs } = one;
    let name = name.map(str::to_owned).or(own).ok_or_else(|| without_name(&entry))?;
    let servers = vec![(name, Dialect::UNKNOWN.common(&entry))];
    Ok(Offer { inputs, ..Offer::of(source, servers) })
}

/// Says that the server of a line needs a name.
fn without_name(entry: &Json) -> String {
    let Json::Object(members) = entry else { return unknown() };
    let text = |name| member(members, name).and_then(Json::text);
    if let Some(url) = text("url") {
        return format!("a URL needs a name: `switchyard add NAME {}`", one_line(url));
    }
    let args = match member(members, "args") {
        Some(Json::List(items)) => items.iter().filter_map(Json::text).collect(),
        _ => Vec::new(),
    };
    let words: Vec<_> = text("command").into_iter().chain(args).collect();
    format!("a program needs a name: `switchyard add NAME -- {}`", one_line(&words.join(" ")))
}

/// Returns `text` without the fences of a block of code.
fn without_fence(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(FENCE));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
#[path = "snippet_tests.rs"]
mod tests;
