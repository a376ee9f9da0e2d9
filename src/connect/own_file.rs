//! Changes of the configuration file: a first one, servers added, servers removed.
//!
//! Invariants: a change adds no mistake. Mistakes in other entries stay, and so does a file that cannot be edited. In a new
//! file, a server whose variables or secrets have no value on this machine is written with `enabled: false` and the reason as
//! a comment. So `check` accepts the file and the other servers run.
//!
//! Not here: the conversion and the edit of the text (`registry`), arguments (`cli::edit`), and which references have no value
//! (`settings::expand`).

use std::path::{Path, PathBuf};

use url::Url;

use super::registry::{self, NotChanged, Offer};
use super::{Client, ClientFile, Error, FileChange, inherited, migrate, reader, snippet, unchanged};
use crate::config::Config;
use crate::config::import::json::{Json, Members, member};
use crate::config::import::ownership::{REASON, is_ours, leads_to};
use crate::config::import::{Folder, Projects};
use gateway::manager::NotConfigured;
use settings::expand::Lookup;
use settings::{Node, Problems, Value, document, one_line};

/// The line that disables a server, below its key in a file that Switchyard wrote.
const DISABLED: &str = "    enabled: false";

/// The beginning of a new file.
const HEAD: &str = "\
# The servers behind Switchyard. `switchyard add NAME URL` and `switchyard add NAME -- COMMAND` add one.
# Check a change with `switchyard check --connect`, and apply it to a running gateway with `switchyard reload`.

";
/// The servers of a file without any.
const NO_SERVERS: &str = "mcp_servers: {}\n";

/// A change of servers.
#[derive(Debug)]
pub(crate) struct ServersChange {
    /// The change, which may be empty.
    pub change: FileChange,
    /// Names of servers that are not added, and why.
    pub refused: Vec<(String, String)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Offer {
    /// A program with its arguments and variables.
    pub(crate) fn program(name: &str, command: &[String], env: &[(String, String)]) -> Self {
        let text = |text: &String| Json::Text(text.clone());
        let (program, args) =
            command.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
        let mut entry: Members =
            program.map(|program| ("command".to_owned(), text(program))).into_iter().collect();
        if !args.is_empty() {
            entry.push(("args".to_owned(), Json::List(args.iter().map(text).collect())));
        }
        Self::entry(name, entry, "env", env)
    }

    /// A URL with headers. `needs_login` stands for `auth: oauth`.
    pub(crate) fn url(name: &str, url: &str, headers: &[(String, String)], needs_login: bool) -> Self {
        let text = |text: &str| Json::Text(text.to_owned());
        let mut entry = vec![("url".to_owned(), text(url))];
        entry.extend(needs_login.then(|| ("auth".to_owned(), text("oauth"))));
        Self::entry(name, entry, "headers", headers)
    }

    fn entry(name: &str, mut entry: Members, key: &str, pairs: &[(String, String)]) -> Self {
        if !pairs.is_empty() {
            let pairs = pairs.iter().map(|(name, value)| (name.clone(), Json::Text(value.clone())));
            entry.push((key.to_owned(), Json::Object(pairs.collect())));
        }
        let servers = vec![(name.to_owned(), Json::Object(entry))];
        Self { is_typed: true, ..Self::of("the command line", servers) }
    }

    /// A server with the form of the configuration file, which may name no secret of the vault.
    pub(crate) fn own(source: &str, name: &str, entry: Members) -> Self {
        Self { is_own: true, ..Self::of(source, vec![(name.to_owned(), Json::Object(entry))]) }
    }

    /// The servers in a pasted text. `name` selects one, or names the only one. `source` is the name of the text.
    pub(crate) fn snippet(source: &str, text: &str, name: Option<&str>) -> Result<Self, Error> {
        let failed = |reason| Error::NotServers { name: source.to_owned(), reason };
        snippet::read(source, text, name).map_err(failed)
    }

    /// The servers in a client's file, without those that lead to `gateway`. Those that it has for `folder` alone take the
    /// place of others of their names.
    pub(crate) fn client(
        ClientFile { client, file, .. }: &ClientFile,
        folder: &Path,
        gateway: &Url,
    ) -> Result<Self, Error> {
        let invalid = |reason| Error::Invalid { path: file.clone(), reason };
        let root = Client::place(client).parse(&unchanged(file)?.before).map_err(invalid)?;
        let mut offer = migrate::offer(client, file, &root, gateway);
        if let Json::Object(members) = root
            && member(&members, reader::PROJECTS).is_some()
        {
            let members = reader::others(members, &[]);
            let folder = Folder { path: folder, is_asked_for: false };
            let projects = Projects::of(&members, folder).map_err(|error| invalid(error.to_string()))?;
            for (name, server) in projects.selected.into_iter().flatten() {
                offer.servers.retain(|(other, _)| other != name);
                if is_ours(name) || leads_to(gateway, server) {
                    offer.refused.push((name.clone(), REASON.to_owned()));
                } else {
                    offer.servers.push((name.clone(), server.clone()));
                }
            }
            offer.refused.extend(projects.others.into_iter().map(|other| {
                let reason = format!(
                    "it has servers of its own, which `switchyard import {} --project {}` prints",
                    file.display(),
                    one_line(other)
                );
                (other.to_owned(), reason)
            }));
        }
        Ok(offer)
    }

    /// The names of the servers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(name, _)| name.as_str())
    }
}

/// Plans to add servers to the file at `path`, which need not exist.
pub(crate) fn add(path: &Path, offers: &[Offer], environment: &Lookup<'_>) -> Result<ServersChange, Error> {
    let now = unchanged(path)?;
    let begin = now.before.trim().is_empty().then_some(HEAD);
    addition(now, begin, offers, environment)
}

/// Plans a new file at `path` that begins with the lines `head`, with these servers. Those whose variables have no value are
/// disabled. Fails if there is a file, unless it `may_replace` it.
pub(crate) fn first(
    path: &Path,
    head: &str,
    offers: &[Offer],
    may_replace: bool,
    environment: &Lookup<'_>,
) -> Result<ServersChange, Error> {
    let now = unchanged(path)?;
    if now.snapshot.exists() && !may_replace {
        let reason = "it exists already: add servers with `switchyard add`, or replace it with `--force`";
        return Err(Error::Unchanged { path: path.to_owned(), reason: reason.to_owned() });
    }
    let mut made = addition(now, Some(&format!("{head}{HEAD}")), offers, environment)?;
    let (after, disabled) = disable_without_values(path, made.change.after.clone(), environment);
    if !disabled.is_empty() {
        made.change = checked(unchanged(path)?, "", after, environment)?.0;
        made.notes.extend(disabled);
    }
    Ok(made)
}

/// Plans a file beside the configuration file that belongs to Switchyard.
pub(crate) fn beside(path: &Path, content: &str) -> Result<FileChange, Error> {
    unchanged(path)?.to(content.to_owned())
}

/// Adds servers to the text `begin`, or to the content of the file.
fn addition(
    now: FileChange,
    begin: Option<&str>,
    offers: &[Offer],
    environment: &Lookup<'_>,
) -> Result<ServersChange, Error> {
    let path = now.path.clone();
    let mut text = begin.unwrap_or(&now.before).to_owned();
    let (mut refused, mut notes) = (Vec::new(), Vec::new());
    let inherited = inherited::here(environment);
    for offer in offers {
        let failed = |reason| Error::Unchanged { path: path.clone(), reason };
        let added = registry::add(&text, offer, &inherited).map_err(failed)?;
        text = added.after;
        refused.extend(added.refused);
        for note in added.notes {
            // Each client has the same note about variables.
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    if begin == Some(text.as_str()) {
        text.push_str(NO_SERVERS);
    }
    let before = if begin.is_some() { String::new() } else { now.before.clone() };
    let (change, others) = checked(now, &before, text, environment)?;
    notes.extend(note_on(others));
    Ok(ServersChange { change, refused, notes })
}

/// Plans to remove servers from the file at `path`.
pub(crate) fn remove(
    path: &Path,
    names: &[String],
    environment: &Lookup<'_>,
) -> Result<ServersChange, Error> {
    changed(path, environment, |before| registry::remove(before, names))
}

/// Plans to change the entry of the server `name` in the file at `path`.
pub(crate) fn edit(
    path: &Path,
    name: &str,
    change: impl FnOnce(&Members) -> Result<Members, String>,
    environment: &Lookup<'_>,
) -> Result<ServersChange, Error> {
    changed(path, environment, |before| registry::edit(before, name, change))
}

/// Plans to change the text of the file at `path` as `make` does.
fn changed(
    path: &Path,
    environment: &Lookup<'_>,
    make: impl FnOnce(&str) -> Result<String, NotChanged>,
) -> Result<ServersChange, Error> {
    let now = unchanged(path)?;
    let after = make(&now.before).map_err(|refusal| match refusal {
        NotChanged::NoServer(reason) => Error::NoServer { path: path.to_owned(), reason },
        NotChanged::Entry(reason) => Error::Entry(reason),
        NotChanged::Text(reason) => Error::Unchanged { path: path.to_owned(), reason },
    })?;
    let before = now.before.clone();
    let (change, others) = checked(now, &before, after, environment)?;
    Ok(ServersChange { change, refused: Vec::new(), notes: note_on(others).into_iter().collect() })
}

/// Returns the change to `after` if that has no mistake which `before` had not, and how many it keeps.
fn checked(
    now: FileChange,
    before: &str,
    after: String,
    environment: &Lookup<'_>,
) -> Result<(FileChange, usize), Error> {
    if after == now.before {
        return Ok((now, 0));
    }
    let others = Config::check_change(&now.path, before, &after, environment).map_err(Error::Refused)?;
    Ok((now.to(after)?, others))
}

fn note_on(others: usize) -> Option<String> {
    let mistakes = if others == 1 { "another mistake" } else { "other mistakes" };
    (others > 0).then(|| {
        format!("the file has {mistakes}, which this does not change: `switchyard check` shows them")
    })
}

impl FileChange {
    /// Writes the configuration file, which has no `undo`. Returns the path of the old content, if there was a file.
    pub(crate) fn write_own(&self) -> Result<Option<PathBuf>, Error> {
        let backup = self.write()?;
        self.snapshot.forget_absence(&self.after);
        Ok(backup)
    }
}

/// Disables the servers of `text`, which Switchyard wrote, that lack values. Returns the text, and a note for each.
fn disable_without_values(path: &Path, text: String, environment: &Lookup<'_>) -> (String, Vec<String>) {
    let Ok((config, _)) = Config::parse_each(path, text.as_bytes(), environment) else {
        return (text, Vec::new());
    };
    let lacks_values =
        |wrong: &&NotConfigured| wrong.is_enabled && wrong.problems.iter().all(|problem| problem.lacks_value);
    let root = document::parse(&text, &Problems::default()).root;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut notes = Vec::new();
    // From the end, so that the numbers of earlier lines stay.
    for wrong in config.manager.not_configured.iter().filter(lacks_values).rev() {
        let Some(line) = line_of(&root, &wrong.name) else { continue };
        let reasons = reasons(wrong);
        let comments = reasons.iter().map(|reason| format!("    # Disabled, because {reason}."));
        let added = comments.chain([DISABLED.to_owned()]);
        lines.splice(line..line, added);
        let reasons = reasons.join(", and ");
        notes
            .push(format!("{}: it is disabled, because {reasons}; then remove `enabled: false`", wrong.name));
    }
    notes.reverse();
    (lines.join("\n") + "\n", notes)
}

/// The different reasons of the problems of one entry.
fn reasons(wrong: &NotConfigured) -> Vec<&str> {
    let mut reasons: Vec<&str> = Vec::new();
    for problem in &wrong.problems {
        if !reasons.contains(&problem.message.as_str()) {
            reasons.push(&problem.message);
        }
    }
    reasons
}

/// The number of the line with the key of a server, which is also the index of the line after it.
fn line_of(root: &Node, server: &str) -> Option<usize> {
    let entry = |node: &Node, key: &str| match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == key).cloned(),
        _ => None,
    };
    let servers = entry(root, "mcp_servers")?.node;
    usize::try_from(entry(&servers, server)?.key_mark.line).ok()
}

#[cfg(test)]
#[path = "own_file_tests.rs"]
mod tests;
