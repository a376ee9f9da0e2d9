//! The configuration file of another program (YAML) as one of Switchyard.
//!
//! Values move to the places that `config::foreign` names; keys of Switchyard stay. Such a program becomes a server of
//! its built-in kind, with the settings that this kind requires.
//!
//! Invariants: every line that is left out is noted. An import opens nothing to others: an address that others can reach
//! becomes loopback, and a file that asks for credentials gets a key. No note quotes a value, except that key.

use std::collections::BTreeSet;

use secrecy::ExposeSecret;

use super::json::{Json, Members, member};
use super::{Error, Imported, references, refusal, yaml};
use crate::config::foreign::{self, Counterpart};
use settings::one_line;

/// The keys that Switchyard reads at the root of its file.
const OWN: [&str; 17] = [
    "mcp_servers",
    "server",
    "cache",
    "default_timeout",
    "default_max_timeout",
    "default_retry_attempts",
    "default_tools_on_change",
    "default_pass_env",
    "connection_pool_size",
    "health_check_interval",
    "tool_names",
    "max_tool_name_length",
    "tools_per_page",
    "arguments_in_events",
    "errors_in_events",
    "history",
    "watch",
];
/// The id of the key that is made for a file that asks for keys.
const KEY_ID: &str = "imported";

/// Makes a file of `root`; `source` is what a comment in it calls the file.
pub(crate) fn import(source: &str, root: &Members) -> Result<Imported, Error> {
    let mut file = File::default();
    for (name, value) in root {
        file.add(&[name], value);
    }
    file.listen(root);
    file.cache(root);
    file.log(root);
    file.r2r();
    file.chroma(root);
    file.rag(root);
    file.keys();
    let servers = match member(&file.tree, "mcp_servers") {
        Some(Json::Object(servers)) => servers.len(),
        _ => 0,
    };
    let mut yaml = format!("# Made of {} by `switchyard import`.\n", yaml::comment(source));
    let needed = file.needed();
    if !needed.is_empty() {
        yaml.push_str("# Set these variables of the environment before Switchyard starts:\n");
        yaml.extend(needed.iter().map(|name| format!("#   {name}\n")));
    }
    if !file.left_out.is_empty() {
        yaml.push_str("# Left out:\n");
        yaml.extend(file.left_out.iter().map(|line| format!("#   {}\n", yaml::comment(line))));
    }
    yaml.push_str(&yaml::block(file.tree));
    if let Some(reason) = refusal(&yaml, "") {
        return Err(Error::whole(format!("what it says would be refused here: {reason}"), None));
    }
    file.notes.extend(needed.iter().map(|name| format!("set the variable {name}")));
    let left_out = file.left_out.iter().map(|line| format!("left out: {line}"));
    Ok(Imported { yaml, notes: left_out.chain(file.notes).collect(), servers })
}

/// A file in the making.
#[derive(Default)]
struct File {
    tree: Members,
    /// The lines that are left out, with the reason of each: for the file and for the screen.
    left_out: Vec<String>,
    /// Further notes, for the screen only, because one may have a key.
    notes: Vec<String>,
}

impl File {
    /// Puts `value`, which stands at `path`, where Switchyard has it.
    fn add(&mut self, path: &[&str], value: &Json) {
        let name = path.join(".");
        match (foreign::ours(&name), value) {
            (Some(Counterpart::At(place)), _) => self.put(place, value.clone()),
            (Some(Counterpart::Nothing(why)), _) => self.left_out.push(format!("`{name}`: {why}")),
            (Some(Counterpart::PartOf(..)), _) => {} // it is read with the others of its setting
            (None, Json::Object(members)) if foreign::is_above_any(&name) => {
                for (key, value) in members {
                    self.add(&[path, &[key]].concat(), value);
                }
            }
            (None, _) if path.first().is_some_and(|root| OWN.contains(root)) => {
                put(&mut self.tree, path, value.clone());
            }
            (None, _) => self.left_out.push(format!("`{}`: Switchyard has no such setting", one_line(&name))),
        }
    }

    fn put(&mut self, place: &str, value: Json) {
        put(&mut self.tree, &place.split('.').collect::<Vec<_>>(), value);
    }

    /// Puts a text unless something is there.
    fn put_default(&mut self, place: &str, text: &str) {
        if find(&self.tree, place).is_none() {
            self.put(place, Json::Text(text.to_owned()));
        }
    }

    /// Address and port of the listener.
    fn listen(&mut self, root: &Members) {
        let host = find(root, "server.host").and_then(written);
        let port = find(root, "server.port").or_else(|| find(root, "mcp_server.http_port")).and_then(written);
        if host.is_none() && port.is_none() {
            return;
        }
        let is_local = host.is_none_or(|host| matches!(host, "localhost" | "127.0.0.1" | "::1"));
        if !is_local {
            self.left_out.push(
                "`server.host`: others could reach it; to let them, write `server.listen` with `auth_mode` and \
                 `allowed_hosts`, or `allow_unauthenticated: true`"
                    .to_owned(),
            );
        }
        self.put("server.listen", Json::Text(format!("127.0.0.1:{}", port.unwrap_or("8080"))));
    }

    /// The database of Redis is the path of its URL.
    fn cache(&mut self, root: &Members) {
        let database = find(root, "cache.redis.db").and_then(written).filter(|number| *number != "0");
        let (Some(number), Some(Json::Text(url))) = (database, find(&self.tree, "cache.url")) else { return };
        let url = format!("{}/{number}", url.trim_end_matches('/'));
        self.put("cache.url", Json::Text(url));
    }

    fn log(&mut self, root: &Members) {
        match find(root, "logging.format").and_then(written) {
            None => {}
            Some("json") => self.put("server.log_format", Json::Text("json".to_owned())),
            Some(_) => self.put("server.log_format", Json::Text("pretty".to_owned())),
        }
    }

    fn r2r(&mut self) {
        if find(&self.tree, "mcp_servers.r2r").is_none() {
            return;
        }
        self.builtin("r2r", "http://localhost:7272");
        if find(&self.tree, "mcp_servers.r2r.r2r.project").is_none() {
            self.put("mcp_servers.r2r.r2r.project", Json::Text("default".to_owned()));
            self.put_default("mcp_servers.r2r.r2r.project_from", "client");
            self.notes.push(
                "r2r: a call uses the collection of the folder of its client, or of the project `default`: see \
                 `r2r.project_from`"
                    .to_owned(),
            );
        }
        if find(&self.tree, "mcp_servers.r2r.r2r.ingest_roots").is_none() {
            let root = Json::Text(".".to_owned());
            self.put("mcp_servers.r2r.r2r.ingest_roots", Json::List(vec![root]));
            self.notes.push(
                "r2r: only files below the folder of the new file can be ingested: name the folders of your projects \
                 as `r2r.ingest_roots`"
                    .to_owned(),
            );
        }
    }

    fn chroma(&mut self, root: &Members) {
        let at = |name: &str| find(root, &format!("tools.chromadb.{name}")).and_then(written);
        let (host, port) = (at("host"), at("port"));
        if find(&self.tree, "mcp_servers.chroma").is_none() && host.is_none() && port.is_none() {
            return;
        }
        let url = format!("http://{}:{}", host.unwrap_or("localhost"), port.unwrap_or("8000"));
        self.builtin("chroma", &url);
    }

    fn rag(&mut self, root: &Members) {
        if member(root, "mcp_server").is_none() {
            return;
        }
        self.builtin("rag", "${RAG_BRIDGE_URL:-http://localhost:8001}");
        self.notes.push("rag: the file does not name the bridge: set `url`, or RAG_BRIDGE_URL".to_owned());
    }

    /// The built-in server of a kind, at `url` unless another one is known.
    fn builtin(&mut self, kind: &str, url: &str) {
        for (name, text) in [("transport", "builtin"), ("builtin", kind), ("url", url)] {
            self.put_default(&format!("mcp_servers.{kind}.{name}"), text);
        }
    }

    /// A file that asks for credentials and has none gets a key, so that it is not open.
    fn keys(&mut self) {
        let has = |name: &str| find(&self.tree, &format!("server.{name}")).is_some();
        match find(&self.tree, "server.auth_mode").and_then(written) {
            Some("api_key") if !has("api_keys") => {}
            Some("jwt" | "any") if !has("jwt") && !has("api_keys") => {
                let note = "`auth_mode` is `api_key` until you add `jwt` under `server`: the file has none";
                self.notes.push(note.to_owned());
                self.put("server.auth_mode", Json::Text("api_key".to_owned()));
            }
            _ => return,
        }
        let (key, hash) = auth::generate(KEY_ID);
        let entry = [("id", KEY_ID.to_owned()), ("hash", hash.to_string()), ("role", "caller".to_owned())];
        let entry = entry.map(|(name, text)| (name.to_owned(), Json::Text(text)));
        self.put("server.api_keys", Json::List(vec![Json::Object(entry.into())]));
        self.notes.push(format!("a key for its clients, shown this once: {}", key.expose_secret()));
    }

    /// The variables that have to be set.
    fn needed(&self) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        for (_, value) in &self.tree {
            value.texts(&mut |text| needed.extend(references::without_default(text).map(str::to_owned)));
        }
        needed
    }
}

/// The value at a path whose parts are separated by dots.
fn find<'j>(members: &'j Members, path: &str) -> Option<&'j Json> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (member(members, first)?, rest) {
        (value, None) => Some(value),
        (Json::Object(members), Some(rest)) => find(members, rest),
        _ => None,
    }
}

/// Puts `value` at `path`, in the place of what is there.
fn put(members: &mut Members, path: &[&str], value: Json) {
    let Some((first, rest)) = path.split_first() else { return };
    let at = members.iter().position(|(name, _)| name == first).unwrap_or_else(|| {
        members.push(((*first).to_owned(), Json::Null));
        members.len() - 1
    });
    let slot = &mut members[at].1;
    if rest.is_empty() {
        *slot = value;
        return;
    }
    if !matches!(slot, Json::Object(_)) {
        *slot = Json::Object(Members::new());
    }
    if let Json::Object(members) = slot {
        put(members, rest, value);
    }
}

/// A text or a number as it is written.
fn written(value: &Json) -> Option<&str> {
    match value {
        Json::Text(text) | Json::Number(text) => Some(text),
        _ => None,
    }
}
