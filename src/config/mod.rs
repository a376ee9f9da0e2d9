//! The whole configuration file: read, expanded, and split into the parts of the program.
//!
//! Invariant: a [`Config`] is valid. A mistake in the entry of a server costs this server only, which is among
//! `manager.not_configured`. A mistake elsewhere gives an [`Error`]. All mistakes of a file are reported at once.
//!
//! Not here: the meaning of settings. Each part of the program reads its own (`from_settings`).

#[cfg(feature = "handbook")]
mod documentation;
#[cfg(feature = "program")]
mod edited;
mod foreign;
#[cfg(feature = "program")]
pub(crate) mod import;
mod listener;
mod shown;
mod vault;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::zeroize::Zeroizing;

pub(crate) use listener::Listener;
use settings::document::{self, Document};
pub(crate) use settings::expand::Lookup;
use settings::expand::SecretLookup;
pub(crate) use settings::problem::{Error, Report};
use settings::{
    Entry, Fields, Fingerprint, FromSetting, Mark, Node, Problem, Problems, Setting, Shown, Value, expand,
    problem, settings,
};
#[cfg(feature = "program")]
pub(crate) use shown::is_public_setting;

use gateway::manager::remembered::Folder;
use gateway::manager::{self, LimitTargets, history, without_effect};
use runtime::regular_file;
use upstream::api::Kinds;

/// The complete configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The servers, and how their tools are offered.
    pub manager: manager::config::Config,
    /// `server:`, the listener.
    pub server: downstream::Config,
    /// Whether a change of the file is applied without a request (`watch`).
    pub is_watched: bool,
    /// Detects changes of the parts that a reload does not apply.
    pub fixed: RestartSettings,
    /// The file as JSON for operators: in its order, with references as written, without secrets.
    pub shown: json::Raw,
    /// The file as it was named to the program.
    pub file: PathBuf,
}

settings! {
    /// The settings of the file itself.
    #[derive(Debug)]
    struct FileSettings {
        /// whether a change of this file is [applied by itself](operate/reload.md#change-the-configuration), about two seconds
        /// after it was written. A change of this setting takes effect at a restart
        watch: bool;
    }
}

/// Fingerprints of the parts of the file that a reload does not apply.
#[derive(Debug, Clone)]
pub struct RestartSettings([(&'static str, Fingerprint); 3]);

impl RestartSettings {
    fn of(fields: &Fields<'_>) -> Self {
        // The keys are left out, because a reload applies them.
        let parts: [(_, &[&str]); 3] = [("server", &auth::Config::FIELDS), ("cache", &[]), ("watch", &[])];
        Self(parts.map(|(name, but)| (name, fields.fingerprint(name, but))))
    }

    /// Returns the names of the parts that differ in `now`.
    pub fn changed(&self, now: &Self) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&now.0);
        pairs.filter(|(before, now)| before != now).map(|((name, _), _)| *name).collect()
    }
}

/// Removes the root keys that begin with `x-`, which hold values for aliases, as in files of Docker Compose.
fn remove_extensions(root: &mut Node) {
    if let Value::Map(entries) = &mut root.value {
        entries.retain(|entry| !entry.key.starts_with("x-"));
    }
}

impl Config {
    /// Loads the file at `path`, which must have no mistake. `environment` resolves `${NAME}`; outside of tests it is
    /// [`std::env::var`]. The vault resolves `${secret:NAME}`. Paths in the file are relative to its folder.
    pub fn load(path: &Path, environment: &Lookup<'_>) -> Result<Self, Error> {
        whole(Self::load_each(path, environment))
    }

    /// Loads the file at `path` like [`Config::load`]. A mistake in the entry of a server costs this server only, as with
    /// [`Config::parse_each`].
    pub fn load_each(path: &Path, environment: &Lookup<'_>) -> Result<(Self, Option<Report>), Error> {
        Self::parse_each(path, &Zeroizing::new(read(path)?), environment)
    }

    /// Reads only the settings of the vault, so that a secret can be set before the file that refers to it is valid.
    pub fn load_vault(path: &Path, environment: &Lookup<'_>) -> Result<auth::vault::Settings, Error> {
        part(path, |root, problems| vault::read(root, environment, folder_of(path), problems))
    }

    /// Reads only the API keys, so that one can be revoked whatever mistakes the rest of the file has; `None` if the gateway
    /// accepts none.
    pub fn load_keys(path: &Path, environment: &Lookup<'_>) -> Result<Option<auth::ApiKeyList>, Error> {
        part(path, |root, problems| {
            let secrets = vault::secrets(vault::part_of(root), environment, folder_of(path));
            let mut keys = server_part(root, &auth::ApiKeyList::FIELDS);
            expand::expand(&mut keys, &vault::sources(environment, &secrets), problems);
            let server = Setting::root(&keys, problems).in_folder(folder_of(path)).member("server");
            server.and_then(|server| auth::ApiKeyList::of_server(&server))
        })
    }

    /// Reads where the gateway of the file at `path` listens, whatever mistakes the rest of the file has.
    pub fn load_listener(path: &Path, environment: &Lookup<'_>) -> Result<Listener, Error> {
        let content = Zeroizing::new(read(path)?);
        let problems = Problems::default();
        let text = text_of(&content, &problems);
        let document = document::parse(text, &problems);
        listener::read(text, &document.root, environment).map_err(|found| {
            let problems = if problems.is_empty() { found } else { problems };
            invalid(path, text, &document, &problems)
        })
    }

    /// Parses the content of the file, which must have no mistake.
    pub fn parse(path: &Path, content: &[u8], environment: &Lookup<'_>) -> Result<Self, Error> {
        whole(Self::parse_each(path, content, environment))
    }

    /// Parses the content of the file. A mistake in the entry of a server costs this server only: it is among
    /// `manager.not_configured`. The report is about all mistakes; `None` if there is none. A disabled server without a value
    /// of a variable is not among the servers either, and that is no mistake.
    pub fn parse_each(
        path: &Path,
        content: &[u8],
        environment: &Lookup<'_>,
    ) -> Result<(Self, Option<Report>), Error> {
        Self::parse_with(path, content, environment, None, builtins::KINDS)
    }

    /// Returns what the readers of the file expect.
    pub(crate) fn recorded() -> settings::Recorded {
        let problems = Problems::recording();
        Self::from_settings(&Setting::any(&problems), json::Raw::of(&()), builtins::KINDS);
        problems.into_recorded()
    }

    fn parse_with(
        path: &Path,
        content: &[u8],
        environment: &Lookup<'_>,
        secrets: Option<&SecretLookup<'_>>,
        kinds: Kinds,
    ) -> Result<(Self, Option<Report>), Error> {
        // Values of their own stand for secrets that are not there yet, and neither are files.
        let problems = if secrets.is_some() { Problems::without_files() } else { Problems::default() };
        let problems = problems.with_layout(Self::recorded);
        let text = text_of(content, &problems);
        let mut document = document::parse(text, &problems);
        remove_extensions(&mut document.root);
        foreign::refuse(&mut document.root, &problems);
        let of_vault = vault::secrets(vault::part_of(&document.root), environment, folder_of(path));
        let secrets = secrets.unwrap_or(&of_vault);
        let sources = vault::sources(environment, secrets);
        expand::expand(&mut document.root, &sources, &problems);
        Self::from_document(path, text, &document, kinds, &problems)
    }

    /// Parses a configuration that a program made, in which no text refers to a variable or a folder of the user.
    pub(crate) fn literal(path: &Path, text: &str) -> Result<Self, Error> {
        let problems = Problems::default();
        let document = document::parse(text, &problems);
        whole(Self::from_document(path, text, &document, builtins::KINDS, &problems))
    }

    fn from_document(
        path: &Path,
        text: &str,
        document: &Document,
        kinds: Kinds,
        problems: &Problems,
    ) -> Result<(Self, Option<Report>), Error> {
        let shown = shown::without_secrets(&document.root);
        let root = Setting::root(&document.root, problems).in_folder(folder_of(path));
        let read = Self::from_settings(&root, shown, kinds);
        let all = problems.sorted();
        let of_servers = |config: &Self| {
            let count: usize = config.manager.not_configured.iter().map(|server| server.problems.len()).sum();
            !problems.is_cut() && all.len() == count
        };
        let Some(config) = read.filter(of_servers) else {
            return Err(invalid(path, text, document, problems));
        };
        let needs_nothing = config.manager.not_configured.iter().filter(|server| !server.is_mistake());
        let ignored: Vec<&Problem> = needs_nothing.flat_map(|server| &server.problems).collect();
        let mistakes: Vec<_> = all.into_iter().filter(|problem| !ignored.contains(&problem)).collect();
        let report = (!mistakes.is_empty()).then(|| report(path, text, document, mistakes));
        Ok((config.remembering(path), report))
    }

    /// Keeps the offers of the servers of the file at `path`, and past calls, in the state folder, if one is known.
    fn remembering(mut self, path: &Path) -> Self {
        let state = self.server.vault.folder();
        self.manager.history_folder = state.as_ref().map(|state| history::folder(state, path));
        self.manager.remembered = state.map(|state| Arc::new(Folder::new(&state, path)));
        path.clone_into(&mut self.file);
        self
    }

    /// The names of the views.
    pub fn views(&self) -> Vec<&str> {
        self.manager.views.iter().map(|view| &*view.name).collect()
    }

    /// Warnings about limits of callers that limit nothing. Reads the file of keys, and blocks.
    pub fn limits_without_effect(&self) -> Vec<String> {
        let (keys, servers) = (self.server.auth.key_ids(), self.manager.names());
        let known = LimitTargets { views: &self.views(), servers: &servers, keys: keys.as_deref() };
        without_effect(&self.manager.limits, &known)
    }

    /// Reads the root of the file: the manager's settings, and `server`.
    fn from_settings(root: &Setting<'_>, shown: json::Raw, kinds: Kinds) -> Option<Self> {
        let mut fields = root.fields()?;
        let fixed = RestartSettings::of(&fields);
        let manager = manager::config::Config::read(&mut fields, kinds);
        let server = fields.part("server", downstream::Config::from_setting);
        let file = FileSettings::from_fields(&mut fields).unwrap_or_default();
        fields.finish();
        let mut server = server.unwrap_or_default();
        server.auth.set_network(&manager.network);
        // The file of the vault is read when a token is needed, so it stops nothing else.
        let vault = server.vault.vault().ok().map(auth::vault::Vault::new);
        let manager = manager::config::Config { vault, ..manager };
        let is_watched = file.watch;
        Some(Self { manager, server, is_watched, fixed, shown, file: PathBuf::new() })
    }
}

/// Returns `root` with nothing but the settings `names` of `server`.
fn server_part(root: &Node, names: &[&str]) -> Node {
    let members = |node: &Node, names: &[&str]| match &node.value {
        Value::Map(members) => {
            members.iter().filter(|member| names.contains(&member.key.as_str())).cloned().collect()
        }
        _ => Vec::new(),
    };
    let server = members(root, &["server"]).into_iter().map(|server: Entry| {
        let settings = members(&server.node, names);
        Entry { node: Node { mark: server.node.mark, value: Value::Map(settings) }, ..server }
    });
    Node { mark: root.mark, value: Value::Map(server.collect()) }
}

/// The folder of the file at `path`.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    regular_file::read(path, document::MAX_BYTES as u64)
        .map_err(|reason| Error::Unreadable { file: path.to_owned(), reason })
}

/// Reads the part of the file at `path` that `read_part` takes of its root.
fn part<T>(path: &Path, read_part: impl FnOnce(&Node, &Problems) -> T) -> Result<T, Error> {
    let content = Zeroizing::new(read(path)?);
    let problems = Problems::default();
    let text = text_of(&content, &problems);
    let document = document::parse(text, &problems);
    let part = read_part(&document.root, &problems);
    if problems.is_empty() { Ok(part) } else { Err(invalid(path, text, &document, &problems)) }
}

fn invalid(path: &Path, text: &str, document: &Document, problems: &Problems) -> Error {
    Error::Invalid(report(path, text, document, problems.sorted()))
}

fn report(path: &Path, text: &str, document: &Document, problems: Vec<Problem>) -> Report {
    let file = path.display().to_string();
    problem::Source { file: &file, text, tokens: &document.tokens }.report(problems)
}

/// Returns the configuration if it has no mistake.
fn whole(read: Result<(Config, Option<Report>), Error>) -> Result<Config, Error> {
    match read? {
        (config, None) => Ok(config),
        (_, Some(report)) => Err(Error::Invalid(report)),
    }
}

/// Returns the text of a file without its byte order mark; reports a problem and returns an empty
/// text if it cannot be used.
fn text_of<'c>(content: &'c [u8], problems: &Problems) -> &'c str {
    let refuse = |mark, message: String| {
        let (path, hint) = (String::new(), None);
        problems.add(Problem { mark, path, message, hint, shown: Shown::Keys, lacks_value: false });
        ""
    };
    if content.len() > document::MAX_BYTES {
        return refuse(Mark::START, format!("the file is larger than {} bytes", document::MAX_BYTES));
    }
    match std::str::from_utf8(content) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let good = &content[..error.valid_up_to()];
            let line = good.split(|byte| *byte == b'\n').count();
            let mark = Mark { line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 };
            refuse(mark, "the file is not UTF-8 from this line on".into())
        }
    }
}

#[cfg(test)]
mod tests;
