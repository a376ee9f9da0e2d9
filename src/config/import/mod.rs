//! Converts the configuration of an MCP client, or of another program, to a configuration file.
//!
//! The servers of a client have the common spelling (`connect::spelling`), which all formats are read into, together with
//! `inputs` (VS Code) and those of one folder (Claude Code). It also converts the files of other MCP servers (`programs`). The
//! caller reads the file and prints the result.
//!
//! Invariants: [`super::Config`] can read the output, and it has the same meaning. Everything that is not imported gets
//! a note. A server that cannot be imported does not affect the others. No note quotes a value that may be a secret.
//! Secrets of the input are copied to the YAML unchanged.

mod bridge;
mod filters;
pub(crate) mod json;
pub(crate) mod ownership;
mod programs;
mod projects;
mod references;
pub(crate) mod secrets;
mod server;
pub(crate) mod times;
pub(crate) mod yaml;

use std::collections::BTreeSet;
use std::env::VarError;
use std::fmt::{self, Write as _};
use std::path::Path;

use json::{Json, Members};
pub(crate) use programs::import as of_program;
pub use projects::Folder;
pub(crate) use projects::Projects;
use references::References;
use url::Url;

use super::Config;
use settings::document::MAX_BYTES;
use settings::{Mark, one_line};
use upstream::config::{MAX_SERVER_NAME, server_name};

/// Largest file that is read, in bytes. Clients store other data in their files too.
pub(crate) const MAX_JSON: usize = 16 << 20;

/// A configuration file, and notes for its user.
#[derive(Debug)]
pub struct Imported {
    /// The content of the file.
    pub yaml: String,
    /// The notes, one line each.
    pub notes: Vec<String>,
    /// How many servers it has.
    pub servers: usize,
}

/// Why a file cannot be imported.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Error {
    /// The position.
    pub mark: Mark,
    /// The problem.
    pub message: String,
    /// How to fix it.
    pub hint: Option<&'static str>,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: error: {}", self.mark, self.message)?;
        self.hint.map_or(Ok(()), |hint| write!(f, "\n    hint: {hint}"))
    }
}

impl Error {
    fn whole(message: impl Into<String>, hint: Option<&'static str>) -> Self {
        Self { mark: Mark::START, message: message.into(), hint }
    }
}

/// Converts the file of a client with the common spelling: `mcpServers`, `inputs`, and the servers for `folder` in `projects`.
/// Entries that lead to Switchyard at `gateway` are left out. `source` is the name of the file in a comment.
pub(crate) fn of_file(
    source: &str,
    root: &Members,
    folder: Folder<'_>,
    gateway: &Url,
) -> Result<Imported, Error> {
    of_client(source, root, folder, Some(gateway), false)
}

/// Converts servers that were already read: the `mcpServers` of `root`, with its `inputs`. Secrets of the vault are
/// references only if the operator typed the servers (`is_typed`).
pub(crate) fn of_servers(source: &str, root: &Members, is_typed: bool) -> Result<Imported, Error> {
    of_client(source, root, Folder::none(), None, is_typed)
}

/// Returns a note about the secrets that `server` holds as they are.
pub(crate) fn secret_note(name: &str, server: &Json) -> Option<String> {
    let Json::Object(members) = server else { return None };
    let draft = server::draft(members, &mut References::new(&[], &[server])).ok()?;
    Some(format!("{}: {}", one_line(name), draft.of_secrets?))
}

/// Returns the first secret of the vault that `server`, as a configuration file has it, names.
pub(crate) fn named_secret(server: &Json) -> Option<String> {
    let mut found = None;
    server.texts(&mut |text| {
        found = found.take().or_else(|| references::secrets_in(text).next().map(str::to_owned));
    });
    found
}

fn of_client(
    source: &str,
    root: &Members,
    folder: Folder<'_>,
    gateway: Option<&Url>,
    is_typed: bool,
) -> Result<Imported, Error> {
    let mut notes = Vec::new();
    let (servers, inputs) = parts(root, folder, &mut notes)?;
    let values: Vec<_> = servers.iter().map(|(_, server)| server).collect();
    let references = References::new(inputs, &values);
    let references = if is_typed { references.reading_secrets() } else { references };
    let mut all = All { references, names: BTreeSet::new(), notes };
    let is_own = |name: &str, server: &Json| {
        gateway.is_some_and(|gateway| ownership::is_ours(name) || ownership::leads_to(gateway, server))
    };
    let convert = |(name, server): &&(String, Json)| {
        if is_own(name, server) { all.left_out(name, ownership::REASON) } else { all.server(name, server) }
    };
    let yaml: Vec<_> = servers.iter().map(convert).collect();
    let yaml = format!("{}mcp_servers:\n{}", all.head(source), yaml.concat());
    let needed = all.references.needed.iter();
    let set = |name: &str| match name.strip_prefix(references::SECRET) {
        Some(secret) => to_set(secret),
        None => format!("set the variable {name}"),
    };
    all.notes.extend(needed.map(|(name, what)| format!("{}: {what}", set(name))));
    if yaml.len() > MAX_BYTES {
        return Err(Error::whole(
            format!("this makes a configuration file of more than {MAX_BYTES} bytes"),
            None,
        ));
    }
    Ok(Imported { yaml, notes: all.notes, servers: all.names.len() })
}

/// Says how to set the secret `name` of the vault.
pub(crate) fn to_set(name: &str) -> String {
    format!("set the secret {name} with `switchyard secret set {name}`")
}

/// Returns the text of a file without its byte order mark.
pub(crate) fn text_of(content: &[u8]) -> Result<&str, Error> {
    if content.len() > MAX_JSON {
        let hint = "copy `mcpServers` into a file of its own";
        return Err(Error::whole(format!("the file is larger than {MAX_JSON} bytes"), Some(hint)));
    }
    let text = std::str::from_utf8(content).map_err(|error| {
        let line = content[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        let mark = Mark { line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 };
        Error { mark, message: "the file is not UTF-8 from this line on".into(), hint: None }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Servers and inputs of the input file.
type Parts<'j> = (Vec<&'j (String, Json)>, &'j [Json]);

/// Finds servers and inputs; adds notes about other content.
fn parts<'j>(root: &'j Members, folder: Folder<'_>, notes: &mut Vec<String>) -> Result<Parts<'j>, Error> {
    let projects = Projects::of(root, folder)?;
    let (mut servers, mut inputs, mut others): (Vec<_>, &[Json], Vec<_>) = (Vec::new(), &[], Vec::new());
    let mut is_one = projects.selected.is_some();
    for (name, value) in root {
        match (name.as_str(), value) {
            ("mcpServers", Json::Object(members)) => {
                is_one = true;
                servers.extend(members);
            }
            ("mcpServers", _) => {
                return Err(Error::whole(format!("`{name}` is {}, expected an object", value.kind()), None));
            }
            ("inputs", Json::List(items)) => inputs = items,
            ("$schema", _) => {}
            ("projects", Json::Object(_)) if projects.has_any() => {}
            _ => others.push(name.as_str()),
        }
    }
    if !others.is_empty() {
        notes.push(format!("not taken over: {}", server::names(others.into_iter())));
    }
    let elsewhere = projects.shown("servers for other folders, to be had by `--project`: ");
    if is_one {
        notes.extend((!elsewhere.is_empty()).then_some(elsewhere));
        return Ok((projects.over(servers, notes), inputs));
    }
    if !elsewhere.is_empty() {
        return Err(Error::whole(format!("there are only {elsewhere}"), None));
    }
    Err(Error::whole("it has no servers", None))
}

/// Servers converted so far.
struct All<'j> {
    references: References<'j>,
    /// Names already in use.
    names: BTreeSet<String>,
    notes: Vec<String>,
}

impl All<'_> {
    /// Returns the lines of the server `name`, or a comment that says why there are none.
    fn server(&mut self, name: &str, server: &Json) -> String {
        let Json::Object(members) = server else {
            return self.left_out(name, &format!("it is {}, expected an object", server.kind()));
        };
        let before = self.references.clone();
        let draft = match server::draft(members, &mut self.references) {
            Ok(draft) => draft,
            Err(reason) => {
                self.references = before;
                return self.left_out(name, &reason);
            }
        };
        let lines = |name: &str, remarks: &str| format!("  {}:\n{remarks}{}", yaml::key(name), draft.yaml);
        if let Some(reason) = refusal(&format!("mcp_servers:\n{}", lines("x", "")), "mcp_servers.x") {
            self.references = before;
            return self.left_out(name, &reason);
        }
        let own = self.own_name(name);
        self.references.needed_by(&own);
        let mut comments = String::new();
        for remark in &draft.remarks {
            self.notes.push(format!("{}: {remark}", one_line(name)));
            let _ = writeln!(comments, "    # {}", yaml::comment(remark));
        }
        lines(&own, &comments)
    }

    fn left_out(&mut self, name: &str, reason: &str) -> String {
        let note = format!("{}: left out: {reason}", one_line(name));
        let comment = format!("  # {}\n", yaml::comment(&note));
        self.notes.push(note);
        comment
    }

    /// Returns `name`, or a similar valid name that no other server has.
    fn own_name(&mut self, name: &str) -> String {
        let own = near_names(&server_name(name)).find(|own| !self.names.contains(own)).unwrap_or_default();
        self.names.insert(own.clone());
        if own != name {
            self.notes.push(format!("{}: it is called `{own}` now", one_line(name)));
        }
        own
    }

    /// Returns the comment at the top of the file.
    fn head(&self, source: &str) -> String {
        let mut head = format!("# Made of {} by `switchyard import`.\n", yaml::comment(source));
        let needed = self.references.needed.iter();
        let variables: Vec<_> = needed.filter(|(name, _)| !name.starts_with(references::SECRET)).collect();
        if !variables.is_empty() {
            head.push_str("# Set these variables of the environment before Switchyard starts:\n");
        }
        for (name, what) in variables {
            let _ = writeln!(head, "#   {name}: {}", yaml::comment(what));
        }
        head
    }
}

/// Returns `valid`, and then the names near it: `valid-2` and so on.
pub(crate) fn near_names(valid: &str) -> impl Iterator<Item = String> {
    let numbered = |number: u64| {
        let end = format!("-{number}");
        let room = valid.len().min(MAX_SERVER_NAME.saturating_sub(end.len()));
        format!("{}{end}", &valid[..room])
    };
    std::iter::once(valid.to_owned()).chain((2..).map(numbered))
}

/// Returns why a configuration file would be refused, if it would be. Relative paths are resolved against `base`.
fn refusal(yaml: &str, base: &str) -> Option<String> {
    let unset = |_: &str| Err(VarError::NotPresent);
    match Config::check(Path::new("mcp_servers.yaml"), yaml, &unset).err()? {
        settings::problem::Error::Invalid(report) => {
            let problem = report.problems.first()?;
            let at = problem.path.strip_prefix(base).unwrap_or(&problem.path);
            let at = at.trim_start_matches('.');
            let colon = if at.is_empty() { "" } else { ": " };
            Some(format!("{at}{colon}{}", problem.message))
        }
        error @ settings::problem::Error::Unreadable { .. } => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
