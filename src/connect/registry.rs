//! Adds servers to the text of a configuration file, and removes them.
//!
//! `config::import` converts them. Invariants: comments, order and all other servers stay. A text whose layout cannot be
//! edited in this way is refused, not rewritten.
//!
//! Not here: the spelling of clients (`migrate`, `snippet`), and files (`file`).

use std::env::VarError;
use std::path::Path;

use super::document::{self, Edit, ServersPlace, Syntax, yaml};
use super::inherited;
use super::spelling::{with_passed, without_passed};
use crate::config::Config;
use crate::config::import::json::{Json, Members, member};
use crate::config::import::yaml::block;
use crate::config::import::{self, Imported, near_names};
use settings::{nearest, one_line};
use upstream::config::server_name;

const SERVERS: &str = "mcp_servers";
const PLACE: ServersPlace = ServersPlace { format: Syntax::Yaml, key: &[SERVERS] };

/// Servers to add, with the spelling that `config::import` reads.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Where they come from.
    pub(super) source: String,
    /// The `inputs` beside them.
    pub(super) inputs: Option<Json>,
    pub(super) servers: Members,
    /// Names of servers there that are not offered, and why.
    pub(crate) refused: Vec<(String, String)>,
    /// Whether they have the form of the configuration file already.
    pub(super) is_own: bool,
    /// Whether the operator typed them as arguments, so that they may name secrets of the vault.
    pub(super) is_typed: bool,
    /// Whether they are of a client, so that one whose name is taken gets a near name. A name that a person wrote stays.
    pub(super) is_of_client: bool,
}

impl Offer {
    /// Servers that nobody typed.
    pub(super) fn of(source: &str, servers: Members) -> Self {
        Self {
            source: source.to_owned(),
            inputs: None,
            servers,
            refused: Vec::new(),
            is_own: false,
            is_typed: false,
            is_of_client: false,
        }
    }
}

/// A text with more servers.
#[derive(Debug)]
pub(super) struct Added {
    /// The new text.
    pub(super) after: String,
    /// Names of offered servers that it has.
    pub(super) names: Vec<String>,
    /// Names of offered servers that it does not have, and why.
    pub(super) refused: Vec<(String, String)>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// Adds the servers of `offer` to the text `before`. Programs get the variables `inherited`.
pub(super) fn add(before: &str, offer: &Offer, inherited: &[String]) -> Result<Added, String> {
    let present = PLACE.parse(before)?;
    let refused = offer.refused.clone();
    let mut added = Added { after: before.to_owned(), names: Vec::new(), refused, notes: Vec::new() };
    let mut new = Members::new();
    for (name, server) in &offer.servers {
        match judge(offer, (name, server), &present) {
            Ok(verdict) => {
                added.names.push(name.clone());
                match verdict {
                    Verdict::Same => {}
                    Verdict::New => new.push((name.clone(), server.clone())),
                    Verdict::NewAs { taken, near } => {
                        added.notes.push(format!(
                            "{}: it is called `{near}` here, because the file has another `{taken}`",
                            one_line(name)
                        ));
                        new.push((near, server.clone()));
                    }
                }
            }
            Err(reason) => added.refused.push((name.clone(), reason)),
        }
    }
    if !new.is_empty() {
        let passed = not_passed_yet(&present, inherited);
        let mut is_passed = false;
        for (_, server) in new.iter_mut().filter(|_| !offer.is_own) {
            is_passed |= with_passed(server, &passed);
        }
        let imported = convert(offer, new)?;
        added.after = document::with_unix_lines(before, |text| merged(text, &imported))?;
        added.notes.extend(imported.notes);
        added.notes.extend(is_passed.then(|| inherited::note(&passed)));
    }
    Ok(added)
}

/// Returns the variables for programs of a file, whose own list of the same takes precedence if it has them all.
fn not_passed_yet(present: &Json, inherited: &[String]) -> Vec<String> {
    let Json::Object(root) = present else { return inherited.to_vec() };
    let usual: Vec<String> = match member(root, "default_pass_env") {
        Some(Json::List(items)) => items.iter().filter_map(Json::text).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if inherited.iter().all(|name| usual.contains(name)) {
        return Vec::new();
    }
    // The list of a server replaces that of the file.
    let further = inherited.iter().filter(|name| !usual.contains(name)).cloned();
    usual.iter().cloned().chain(further).collect()
}

/// Why the text of a file is not changed.
#[derive(Debug)]
pub(super) enum NotChanged {
    /// It has no such server.
    NoServer(String),
    /// The new entry is refused.
    Entry(String),
    /// It cannot be read, or its layout cannot be edited.
    Text(String),
}

impl From<String> for NotChanged {
    fn from(reason: String) -> Self {
        Self::Text(reason)
    }
}

/// Returns the text `before` without the servers `names`.
pub(super) fn remove(before: &str, names: &[String]) -> Result<String, NotChanged> {
    let present = PLACE.parse(before)?;
    let entries = PLACE.entries(&present);
    if let Some(absent) = names.iter().find(|name| !entries.iter().any(|(other, _)| other == *name)) {
        return Err(NotChanged::NoServer(no_server(absent, &entries)));
    }
    let after = document::with_unix_lines(before, |text| yaml::remove(text, SERVERS, names))?;
    let unsafe_edit = || "its layout cannot be edited safely".to_owned();
    let rest = PLACE.parse(&after).map_err(|_| unsafe_edit())?;
    let mut remaining = entries.into_iter().filter(|(name, _)| !names.contains(name));
    let is_kept = PLACE.entries(&rest).into_iter().all(|entry| remaining.next() == Some(entry));
    if is_kept && remaining.next().is_none() && others(&present) == others(&rest) {
        Ok(after)
    } else {
        Err(unsafe_edit().into())
    }
}

/// Returns the text `before` with the entry of the server `name` as `change` returns it. Comments in it are lost.
pub(super) fn edit(
    before: &str,
    name: &str,
    change: impl FnOnce(&Members) -> Result<Members, String>,
) -> Result<String, NotChanged> {
    let present = PLACE.parse(before)?;
    let entries = PLACE.entries(&present);
    let entry = entries.iter().find(|(other, _)| other == name).map(|(_, entry)| *entry);
    let Some(Json::Object(members)) = entry else {
        return Err(NotChanged::NoServer(no_server(name, &entries)));
    };
    let entry = Json::Object(change(members).map_err(NotChanged::Entry)?);
    if Json::Object(members.clone()) == entry {
        return Ok(before.to_owned());
    }
    Ok(PLACE.apply(before, &Edit { name, entry: &entry, remove: &[] })?)
}

/// Says that the file has no server `name`.
fn no_server(name: &str, entries: &[(String, &Json)]) -> String {
    let near = nearest(name, entries.iter().map(|(name, _)| name.as_str()));
    let hint = near.map(|name| format!(": did you mean `{name}`?")).unwrap_or_default();
    format!("there is no server `{}`{hint}", one_line(name))
}

/// The members of a configuration file that are not servers.
fn others(root: &Json) -> Vec<&(String, Json)> {
    let Json::Object(members) = root else { return Vec::new() };
    members.iter().filter(|(name, _)| name != SERVERS).collect()
}

/// The way in which a server is added.
enum Verdict {
    /// The configuration file has it.
    Same,
    /// It has no server of this name.
    New,
    /// It has another server of the name `taken`, and none of the name `near`.
    NewAs { taken: String, near: String },
}

/// Decides whether a server can be added.
fn judge(offer: &Offer, (name, server): (&str, &Json), present: &Json) -> Result<Verdict, String> {
    if let Some(secret) = import::named_secret(server).filter(|_| offer.is_own && !offer.is_typed) {
        let secret = one_line(&secret);
        return Err(format!(
            "it reads the secret `{secret}` of the vault: write it into the file yourself if that is meant"
        ));
    }
    let imported = convert(offer, vec![(name.to_owned(), server.clone())])?;
    let parsed = PLACE.parse(&imported.yaml)?;
    let Some((own, value)) = PLACE.entries(&parsed).into_iter().next() else {
        let reason = imported.notes.into_iter().next().unwrap_or_default();
        return Err(reason.strip_prefix(&format!("{}: ", one_line(name))).unwrap_or(&reason).to_owned());
    };
    let entries = PLACE.entries(present);
    let value = without_passed(value);
    let there =
        |name: &str| entries.iter().find(|(other, _)| other == name).map(|(_, entry)| without_passed(entry));
    // A near name that another server of the offer has is not free.
    let is_free = |name: &str| offer.servers.iter().all(|(other, _)| server_name(other) != name);
    for near in near_names(&own) {
        match there(&near) {
            Some(entry) if entry == value => return Ok(Verdict::Same),
            None if near == own => return Ok(Verdict::New),
            None if is_free(&near) => return Ok(Verdict::NewAs { taken: own.clone(), near }),
            Some(_) if !offer.is_of_client => break,
            _ => {}
        }
    }
    Err(format!("the configuration file has another server `{own}`"))
}

/// Whether the reader of the configuration file accepts this server as it is.
pub(super) fn is_readable(server: &(String, Json)) -> bool {
    Config::check(Path::new(""), &as_is(vec![server.clone()]), &|_| Err(VarError::NotPresent)).is_ok()
}

/// Returns a configuration file with these servers as they are.
pub(super) fn as_is(servers: Members) -> String {
    block(vec![(SERVERS.to_owned(), Json::Object(servers))])
}

/// Converts servers with the common spelling.
fn convert(offer: &Offer, servers: Members) -> Result<Imported, String> {
    if offer.is_own {
        let notes = servers.iter().filter_map(|(name, server)| import::secret_note(name, server)).collect();
        return Ok(Imported { servers: servers.len(), yaml: as_is(servers), notes });
    }
    let mut file = vec![("mcpServers".to_owned(), Json::Object(servers))];
    file.extend(offer.inputs.clone().map(|inputs| ("inputs".to_owned(), inputs)));
    import::of_servers(&offer.source, &file, offer.is_typed).map_err(|error| error.to_string())
}

/// Returns the configuration file with the servers of `yaml` added.
fn merged(before: &str, Imported { yaml, servers: count, .. }: &Imported) -> Result<String, String> {
    if before.trim().is_empty() {
        return Ok(yaml.clone());
    }
    let unsafe_edit = || "1:1: error: servers cannot be added to its layout".to_owned();
    let (_, lines) = yaml.split_once(&format!("{SERVERS}:\n")).ok_or_else(unsafe_edit)?;
    let after = yaml::append(before, SERVERS, lines)?;
    let (old_root, new_root) = (PLACE.parse(before)?, PLACE.parse(&after).map_err(|_| unsafe_edit())?);
    let (old, new) = (PLACE.entries(&old_root), PLACE.entries(&new_root));
    let is_kept = others(&old_root) == others(&new_root)
        && old.iter().all(|(name, server)| new.iter().any(|(key, value)| key == name && value == server));
    if is_kept && new.len() == old.len() + count { Ok(after) } else { Err(unsafe_edit()) }
}
