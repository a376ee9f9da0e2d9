//! Finds entries of Switchyard that lead to another gateway, program or configuration file.

use std::path::Path;

use url::{Host, Url};

use super::entry::is_ours;
use super::{ClientFile, Gateway, shown_url, unchanged};
use crate::config::import::json::{Json, Members, member};

impl ClientFile {
    /// Says where its entry of Switchyard leads, if that is not `gateway`.
    pub fn elsewhere(&self, gateway: &Gateway) -> Option<String> {
        let root = self.client.place().parse(&unchanged(&self.file).ok()?.before).ok()?;
        let entries = self.client.place().entries(&root);
        let (_, entry) = entries.iter().find(|(name, _)| is_ours(name))?;
        let Json::Object(members) = entry else { return None };
        match super::URL_KEYS.iter().find_map(|key| member(members, key)?.text()) {
            Some(url) => of_url(url, gateway),
            None => of_program(&words(members), gateway),
        }
    }
}

fn of_url(url: &str, gateway: &Gateway) -> Option<String> {
    let leads = Url::parse(url).ok();
    let is_same = leads.as_ref().is_some_and(|url| {
        let is_endpoint = ["/mcp", "/sse"]
            .iter()
            .any(|path| url.path() == *path || url.path().starts_with(&format!("{path}/")));
        let ours = &gateway.url;
        url.scheme() == ours.scheme()
            && is_same_host(url, ours)
            && url.port_or_known_default() == ours.port_or_known_default()
            && (is_endpoint || url.path().starts_with(ours.path()))
    });
    (!is_same).then(|| format!("{}, and this gateway is at {}", shown_url(url), gateway.url))
}

/// Whether a URL leads to this machine itself.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether two URLs name the same host. All names of loopback are one.
fn is_same_host(one: &Url, other: &Url) -> bool {
    one.host() == other.host() || is_loopback(one) && is_loopback(other)
}

fn of_program(words: &[&str], gateway: &Gateway) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    // A relative path is relative to the folder of the client, which is not known here.
    let absolute = |path: &&Path| path.is_absolute();
    if Some(Path::new(program)).filter(absolute).is_some_and(|path| !path.exists()) {
        return Some(format!("it starts {program}, which does not exist"));
    }
    let config = arguments.windows(2).find(|pair| pair[0] == "--config").map(|pair| Path::new(pair[1]));
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let other = config.filter(absolute).filter(|path| real(path) != real(&gateway.config))?;
    Some(format!("it uses {}, and not {}", other.display(), gateway.config.display()))
}

/// The program of an entry and its arguments, which are two members or one list.
fn words(members: &Members) -> Vec<&str> {
    let all = ["command", "cmd", "args"].iter().filter_map(|key| member(members, key));
    let all = all.flat_map(|value| match value {
        Json::Text(text) => vec![text.as_str()],
        Json::List(items) => items.iter().filter_map(Json::text).collect(),
        _ => Vec::new(),
    });
    all.collect()
}
