//! Writes Switchyard into the files of MCP clients, and takes it out again.
//!
//! A [`Plan`] is made first and shown as a diff. Writing it is a step of its own, which fails if a file changed in
//! between. Invariants: only the entry of Switchyard changes, and with an import the entries that moved. A file that
//! cannot be read or edited stays as it is.
//!
//! Not here: arguments, questions and exit codes (`cli::connect`).

pub(crate) mod clients;
mod diff;
mod document;
mod entry;
pub(crate) mod file;
mod import;
pub(crate) mod inherited;
mod line;
mod link;
mod migrate;
pub(crate) mod own_file;
mod reader;
mod registry;
pub(crate) mod served;
mod snippet;
mod spelling;
mod switches;
mod to_vault;

use std::path::{Path, PathBuf};

use clients::{CLIENTS, Client, Host, Scope};
use config_import::json::{Json, Members};
pub(crate) use config_import::ownership::is_loopback;
use config_import::ownership::{URL_KEYS, is_ours};
use document::Edit;
pub(crate) use entry::Gateway;
use file::Snapshot;
pub use import::import;
pub(crate) use line::is_url;
pub(crate) use migrate::Registry;
pub(crate) use registry::Offer;
pub(crate) use to_vault::MovedSecrets;

use crate::config::{self, import as config_import};
pub(crate) use diff::{diff, public_diff};

/// Why a client is not connected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The client has no file of this scope.
    #[error("{0} has no file of this scope on this system")]
    NoFile(&'static str),
    /// The client cannot refer to a variable.
    #[error(
        "{0} has no documented way to read a variable in its file: connect it without `--key-env`, and write the \
         header into the entry yourself"
    )]
    NoVariables(&'static str),
    /// The client starts a program, which a URL, a view or a key cannot change.
    #[error(
        "{0} starts a program instead of using a URL, so `--url`, `--view` and `--key-env` have no effect on it"
    )]
    OnlyStdio(&'static str),
    /// The name of the entry is too long.
    #[error("the name `{name}` is longer than the {max} characters that {client} accepts")]
    LongName {
        /// The name.
        name: String,
        /// The client.
        client: &'static str,
        /// The limit.
        max: usize,
    },
    /// A path is not UTF-8.
    #[error("the path of this program or of the configuration file is not UTF-8")]
    OddPath,
    /// The file is not valid, or its layout is not supported.
    #[error("{}:{reason}\n    hint: nothing was changed; `switchyard connect json` prints an entry to paste", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason, with a position.
        reason: String,
    },
    /// The configuration file is not valid, or would not be after the change.
    #[error("{0}\nnothing was changed")]
    Refused(config::Error),
    /// The configuration file cannot be changed in this way.
    #[error("{}: {reason}; nothing was changed", .path.display())]
    Unchanged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The configuration file has no such server.
    #[error("{}: {reason}; nothing was changed", .path.display())]
    NoServer {
        /// The file.
        path: PathBuf,
        /// The reason, with a similar name.
        reason: String,
    },
    /// The new entry of a server is refused.
    #[error("{0}")]
    Entry(String),
    /// A pasted text cannot be used.
    #[error("{name}: {reason}")]
    NotServers {
        /// The name of the text.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The vault cannot be opened or written.
    #[error("{0}; nothing was written")]
    Vault(#[from] auth::vault::Error),
    /// The file cannot be read or written.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: file::Error,
    },
}

/// The changes that connect one client.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The file of the client.
    pub client: FileChange,
    /// The configuration file, if servers move to it.
    pub registry: Option<FileChange>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A new content for a file.
#[derive(Debug)]
pub(crate) struct FileChange {
    /// The path that was asked for.
    pub path: PathBuf,
    /// The content before.
    pub before: String,
    /// The content after.
    pub after: String,
    snapshot: Snapshot,
}

impl FileChange {
    /// Returns the change to the content `after`. Fails if the file may not be written.
    fn to(self, after: String) -> Result<Self, Error> {
        let failed = |reason| Error::File { path: self.path.clone(), reason };
        self.snapshot.check_writable().map_err(failed)?;
        Ok(Self { after, ..self })
    }

    /// Whether the file already is as it should be.
    pub(crate) fn is_empty(&self) -> bool {
        self.before == self.after
    }

    /// Writes the file. Returns the path of the backup, if there was a file.
    pub(crate) fn write(&self) -> Result<Option<PathBuf>, Error> {
        if self.is_empty() {
            return Ok(None);
        }
        self.snapshot.replace(&self.after).map_err(|reason| Error::File { path: self.path.clone(), reason })
    }
}

/// Plans to connect `client` to `gateway`. With a registry, the client's other servers move to it.
pub(crate) fn plan(
    client: &Client,
    file: &Path,
    gateway: &Gateway,
    registry: Option<&mut Registry>,
) -> Result<Plan, Error> {
    let (name, entry) = gateway.entry(client)?;
    let mut plan = Plan { client: unchanged(file)?, registry: None, notes: Vec::new() };
    let invalid = |reason| Error::Invalid { path: file.to_owned(), reason };
    let root = client.place().parse(&plan.client.before).map_err(invalid)?;
    let entries = client.place().entries(&root);
    let existing = entries.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    let entry = existing.map_or_else(|| entry.clone(), |existing| with_additions(client, existing, &entry));
    // An equal entry in another style stays as the user wrote it.
    let is_there = existing.is_some_and(|existing| is_same(existing, &entry));
    let moved = registry.map(|registry| registry.take(client, file, &root, &gateway.url)).transpose()?;
    let remove = moved.as_ref().map(|moved| moved.names.clone()).unwrap_or_default();
    if !is_there || !remove.is_empty() {
        let edit = Edit { name: &name, entry: &entry, remove: &remove };
        plan.client.after = client.place().apply(&plan.client.before, &edit).map_err(invalid)?;
        plan.client
            .snapshot
            .check_writable()
            .map_err(|reason| Error::File { path: file.to_owned(), reason })?;
    }
    if let Some(moved) = moved {
        plan.notes = moved.notes;
        plan.registry = moved.change;
    }
    if !client.verified {
        plan.notes
            .push(format!("this file of {} is not confirmed by its documentation: check it", client.name));
    }
    if !client.note.is_empty() {
        plan.notes.push(client.note.to_owned());
    }
    Ok(plan)
}

/// Returns `entry` with what the user added to `existing`, if both lead to the same place. The headers of another
/// place are left out, and what an earlier `connect` wrote.
fn with_additions(client: &Client, existing: &Json, entry: &Json) -> Json {
    let (Json::Object(before), Json::Object(ours)) = (existing, entry) else { return entry.clone() };
    if target(existing) != target(entry) {
        return entry.clone();
    }
    let written = client.written_keys();
    let added: Vec<_> = before.iter().filter(|(name, _)| !written.contains(&name.as_str())).collect();
    Json::Object(merged(client, ours, &added))
}

/// Returns `ours` with the members of `added` that it lacks, also in objects that both have, such as the headers. A header that
/// an earlier `connect` wrote is left out.
fn merged(client: &Client, ours: &[(String, Json)], added: &[&(String, Json)]) -> Members {
    let mut all = ours.to_vec();
    for (name, value) in added {
        let own = all.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, own)| own);
        match (own, value) {
            (Some(Json::Object(own)), Json::Object(added)) => {
                *own = merged(client, own, &added.iter().collect::<Vec<_>>());
            }
            (Some(_), _) => {}
            (None, Json::Object(added)) if !added.is_empty() => {
                let left = merged(client, &[], &added.iter().collect::<Vec<_>>());
                all.extend((!left.is_empty()).then(|| (name.clone(), Json::Object(left))));
            }
            (None, Json::Text(text)) if client.is_own_header(name, text) => {}
            (None, value) => all.push((name.clone(), value.clone())),
        }
    }
    all
}

/// Whether two entries have the same members, in any order.
fn is_same(one: &Json, other: &Json) -> bool {
    let (Json::Object(one), Json::Object(other)) = (one, other) else { return one == other };
    one.len() == other.len()
        && one.iter().all(|(name, value)| {
            config_import::json::member(other, name).is_some_and(|other| is_same(value, other))
        })
}

/// Reads a file that may need no change, so it need not be writable.
fn unchanged(path: &Path) -> Result<FileChange, Error> {
    let failed = |reason| Error::File { path: path.to_owned(), reason };
    let snapshot = Snapshot::read(path).map_err(failed)?;
    let before = snapshot.text().map_err(failed)?.to_owned();
    Ok(FileChange { path: path.to_owned(), after: before.clone(), before, snapshot })
}

/// Restores what was in `file` before the last `connect`. Returns whether there was a file.
pub(crate) fn undo(file: &Path) -> Result<bool, Error> {
    let failed = |reason| Error::File { path: file.to_owned(), reason };
    Snapshot::read(file).and_then(|snapshot| snapshot.restore()).map_err(failed)
}

/// A file of a client that is on this machine.
#[derive(Debug)]
pub(crate) struct ClientFile {
    /// The client.
    pub client: &'static Client,
    /// Which of its files.
    pub scope: Scope,
    /// The file.
    pub file: PathBuf,
    /// Whether it has an entry of Switchyard.
    pub state: State,
}

/// Whether a file has an entry of Switchyard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has none, or there is no file yet.
    NotConnected,
    /// It has one, with this URL or program.
    Connected(String),
    /// It cannot be read.
    Unreadable(String),
}

/// Returns the files of the clients on this machine. A client is there if its file or the folder of that file is.
pub(crate) fn installed(host: &Host<'_>) -> Vec<ClientFile> {
    let scopes = [Scope::User, Scope::Project];
    let all = CLIENTS.iter().flat_map(|client| scopes.map(|scope| (client, scope)));
    let found = all.filter_map(|(client, scope)| {
        let file = client.file(scope, host)?;
        let has_folder = || is_own_folder(&file, host) && scope == Scope::User;
        let is_there = file.exists() || has_folder();
        is_there.then(|| ClientFile { client, scope, state: state(client, &file), file })
    });
    found.collect()
}

/// Whether the folder of `file` exists and belongs to the client alone.
fn is_own_folder(file: &Path, host: &Host<'_>) -> bool {
    file.parent().is_some_and(|folder| folder != host.home && folder.is_dir())
}

fn state(client: &Client, file: &Path) -> State {
    let read = unchanged(file).map_err(|error| match error {
        Error::File { reason, .. } => reason.to_string(),
        other => other.to_string(),
    });
    let root = match read.and_then(|change| client.place().parse(&change.before)) {
        Ok(root) => root,
        Err(reason) => return State::Unreadable(reason),
    };
    let entries = client.place().entries(&root);
    let ours = entries.iter().find(|(name, _)| is_ours(name));
    ours.map_or(State::NotConnected, |(_, entry)| State::Connected(target(entry)))
}

/// Returns the URL or the program of an entry.
fn target(entry: &Json) -> String {
    let Json::Object(members) = entry else { return String::new() };
    let texts = |names: &[&str]| {
        names.iter().find_map(|name| match config_import::json::member(members, name)? {
            Json::Text(text) => Some(text.clone()),
            Json::List(items) => items.first().and_then(Json::text).map(str::to_owned),
            _ => None,
        })
    };
    let found = texts(&URL_KEYS).or_else(|| texts(&["command", "cmd"])).unwrap_or_default();
    shown_url(&found)
}

/// Returns a URL without user, password and query, and any other text on one line.
fn shown_url(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(url) if url.has_host() => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        _ => settings::one_line(text),
    }
}

#[cfg(test)]
mod client_page_tests;
#[cfg(test)]
mod tests;
