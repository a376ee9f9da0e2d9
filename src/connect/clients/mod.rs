//! MCP clients: where each keeps its servers, and how it writes one.
//!
//! Everything that is known of a client is one row of [`CLIENTS`], with its source and date. A row that no
//! documentation confirms is not `verified`, and `connect` says so.
//!
//! Not here: reading and writing the files.

mod rows;

use std::path::{Path, PathBuf};

use super::document::{ServersPlace, Syntax};
use crate::config::import::ownership::URL_KEYS;
use crate::config::import::times::TimeoutUnit;
pub(crate) use rows::CLIENTS;

/// One MCP client.
#[derive(Debug)]
pub(crate) struct Client {
    /// The name on the command line.
    pub id: &'static str,
    /// The name its users know.
    pub name: &'static str,
    /// The files of one user. The first one of the system that exists is used, else the first one of the system.
    pub user: &'static [UserFile],
    /// The file of a project, below its folder.
    pub project: Option<&'static str>,
    /// The syntax of the files.
    pub format: Syntax,
    /// The keys that lead to the servers.
    pub key: &'static [&'static str],
    /// An entry with a URL, if the client connects over Streamable HTTP.
    pub http: Option<Http>,
    /// An entry with a program.
    pub stdio: StdioEntry,
    /// How an entry refers to a variable of the environment.
    pub reference: Reference,
    /// The unit of `timeout` in an entry.
    pub timeout: TimeoutUnit,
    /// Largest length of an entry's name.
    pub max_name: usize,
    /// Characters of an entry's name beside letters and digits.
    pub name_marks: &'static str,
    /// The page that says so. Tests compare the documentation with it.
    #[cfg_attr(not(test), allow(dead_code))]
    pub source: &'static str,
    /// When that page was read.
    #[cfg_attr(not(test), allow(dead_code))]
    pub checked: &'static str,
    /// Whether the page confirms the whole row.
    pub verified: bool,
    /// A note for its users.
    pub note: &'static str,
}

/// A file of one user.
#[derive(Debug)]
pub(crate) struct UserFile {
    /// The systems on which it is there.
    pub systems: &'static [System],
    /// The folder above it.
    pub base: Base,
    /// Its path below that folder.
    pub path: &'static str,
    /// A variable that names another folder, and the path below that.
    pub variable: Option<(&'static str, &'static str)>,
}

/// An operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    /// Linux and other Unix systems.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

/// All systems.
pub(super) const EVERYWHERE: &[System] = &[System::Linux, System::MacOs, System::Windows];

/// A folder that depends on the user and the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The home folder.
    Home,
    /// `$XDG_CONFIG_HOME`, else `~/.config`, on every system.
    Config,
    /// The folder of applications: `~/.config`, `~/Library/Application Support`, or `%APPDATA%`.
    Application,
    /// The folder of their data: `~/.local/share`, `~/Library/Application Support`, or `%APPDATA%`.
    Data,
}

/// A member of an entry whose value does not depend on the gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Constant {
    /// A string.
    Text(&'static str),
    /// `true`.
    Yes,
    /// A number.
    Number(&'static str),
    /// The list `["*"]`.
    Everything,
    /// The name of the entry.
    Name,
    /// The name of the variable with the key.
    Variable,
}

/// Members with constant values.
pub(crate) type Constants = &'static [(&'static str, Constant)];

/// The shape of an entry with a URL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Http {
    /// Members before the URL.
    pub before: Constants,
    /// The member with the URL.
    pub url: &'static str,
    /// The members that lead to the headers.
    pub headers: &'static [&'static str],
    /// Members after all others.
    pub after: Constants,
}

/// The shape of an entry with a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StdioEntry {
    /// Members before the program.
    pub before: Constants,
    /// The member with the program.
    pub command: &'static str,
    /// The member with its arguments. Without it, the program and its arguments are one list.
    pub args: Option<&'static str>,
    /// Members after all others.
    pub after: Constants,
}

/// How an entry refers to a variable of the environment.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reference {
    /// Not at all, as far as is known.
    Unknown,
    /// Its name stands between these.
    Between(&'static str, &'static str),
    /// Members of the entry take the place of the header.
    Members(Constants),
}

/// Which file of a client is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Scope {
    /// The file for everything that the user does.
    #[default]
    User,
    /// The file of one project, which others may get too.
    Project,
}

/// The machine on which the clients are.
pub(crate) struct Host<'h> {
    /// The system.
    pub system: System,
    /// The home folder of the user.
    pub home: PathBuf,
    /// The folder of the project.
    pub project: PathBuf,
    /// The variables of the environment.
    pub variable: &'h dyn Fn(&str) -> Option<String>,
}

impl Client {
    /// Finds a client by its name on the command line.
    pub(crate) fn find(id: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.id == id)
    }

    /// Finds the client that keeps its servers in a file with this path, in any folder.
    pub(super) fn of_path(path: &Path) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| {
            let mut files = client.user.iter().map(|file| file.path).chain(client.project);
            files.any(|known| path.ends_with(known))
        })
    }

    /// Returns the file of a scope, if there is one on this system.
    pub(crate) fn file(&self, scope: Scope, host: &Host<'_>) -> Option<PathBuf> {
        match scope {
            Scope::Project => self.project.map(|path| host.project.join(path)),
            Scope::User => {
                let files = self.user.iter().filter(|file| file.systems.contains(&host.system));
                let paths: Vec<_> = files.map(|file| host.path(file)).collect();
                paths.iter().find(|path| path.exists()).or(paths.first()).cloned()
            }
        }
    }

    /// The members that `connect` can write into an entry, or that would lead it elsewhere. Not that of the headers, which the
    /// user may have too.
    pub(super) fn written_keys(&self) -> Vec<&'static str> {
        let names = |constants: Constants| constants.iter().map(|(name, _)| *name);
        let mut keys: Vec<_> = names(self.stdio.before).chain(names(self.stdio.after)).collect();
        keys.extend(URL_KEYS.into_iter().chain(["type", self.stdio.command]).chain(self.stdio.args));
        if let Some(http) = &self.http {
            keys.extend(names(http.before).chain(names(http.after)));
        }
        if let Reference::Members(members) = self.reference {
            keys.extend(names(members));
        }
        keys
    }

    /// Whether it is a header that `connect` writes.
    pub(super) fn is_own_header(&self, name: &str, text: &str) -> bool {
        let Reference::Between(before, after) = self.reference else { return false };
        let reference = text.strip_prefix("Bearer ").and_then(|text| text.strip_prefix(before));
        let variable = reference.and_then(|text| text.strip_suffix(after));
        let is_variable = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        name.eq_ignore_ascii_case("Authorization") && variable.is_some_and(is_variable)
    }

    pub(super) const fn place(&self) -> ServersPlace {
        ServersPlace { format: self.format, key: self.key }
    }
}

impl Host<'_> {
    fn path(&self, file: &UserFile) -> PathBuf {
        let folder = |name: &str| (self.variable)(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = file.variable.and_then(|(variable, path)| Some(folder(variable)?.join(path)));
        named.unwrap_or_else(|| self.folder(file.base).join(file.path))
    }

    /// Returns the folder that `base` is on this machine.
    pub(crate) fn folder(&self, base: Base) -> PathBuf {
        let variable =
            |name: &str| (self.variable)(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let xdg = |name, default| variable(name).unwrap_or_else(|| self.home.join(default));
        match (base, self.system) {
            (Base::Home, _) => self.home.clone(),
            (Base::Config, _) | (Base::Application, System::Linux) => xdg("XDG_CONFIG_HOME", ".config"),
            (Base::Data, System::Linux) => xdg("XDG_DATA_HOME", ".local/share"),
            (_, System::MacOs) => self.home.join("Library/Application Support"),
            (_, System::Windows) => variable("APPDATA").unwrap_or_else(|| self.home.join("AppData/Roaming")),
        }
    }
}

impl System {
    /// The system of this program.
    pub(crate) const fn current() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}
