//! The configuration file as a whole: read, expanded, and every part made of its own share.
//!
//! Invariant: a [`Config`] is valid. A file with a problem gives no configuration but an [`Error`]
//! that names all its problems.
//!
//! Not here: what a setting means. Each part of the program reads its own (`from_settings`).

mod foreign;
pub mod import;

use std::path::Path;

use secrecy::zeroize::Zeroizing;

pub use settings::error::{Error, Report};
pub use settings::expand::Lookup;
use settings::{document, error, expand};

use gateway::manager;
use runtime::regular_file;
use settings::{Fields, Fingerprint, Mark, Problem, Problems, Setting, Shown};

/// What the operator wants, all of it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The servers, and how their tools are offered.
    pub manager: manager::config::Config,
    /// `server:`, our own listener.
    pub server: downstream::Config,
    /// What tells whether the parts changed that a running gateway does not take over.
    pub fixed: Fixed,
}

/// The parts of the file that hold from the start to the end of a gateway.
#[derive(Debug, Clone)]
pub struct Fixed([(&'static str, Fingerprint); 2]);

impl Fixed {
    fn of(fields: &Fields<'_>) -> Self {
        // Keys are taken over.
        let parts: [(_, &[&str]); 2] = [("server", &auth::Config::FIELDS), ("cache", &[])];
        Self(parts.map(|(name, but)| (name, fields.fingerprint(name, but))))
    }

    /// The names of those that are others in `now`.
    pub fn changed(&self, now: &Self) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&now.0);
        pairs.filter(|(before, now)| before != now).map(|((name, _), _)| *name).collect()
    }
}

impl Config {
    /// Reads the file at `path`. `environment` answers for `${NAME}`: [`std::env::var`], outside of
    /// tests. Relative paths in the file are relative to its folder.
    pub fn load(path: &Path, environment: &Lookup<'_>) -> Result<Self, Error> {
        let bytes = regular_file::read(path, document::MAX_BYTES as u64)
            .map_err(|reason| Error::Unreadable { file: path.to_owned(), reason })?;
        Self::parse(path, &Zeroizing::new(bytes), environment)
    }

    /// The same for the content of the file.
    pub fn parse(path: &Path, content: &[u8], environment: &Lookup<'_>) -> Result<Self, Error> {
        let problems = Problems::default();
        let text = text_of(content, &problems);
        let mut document = document::parse(text, &problems);
        foreign::refuse(&mut document.root, &problems);
        expand::expand(&mut document.root, environment, &problems);
        let folder = path.parent().unwrap_or(Path::new(""));
        let config = Self::from_settings(&Setting::root(&document.root, &problems), folder);
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => {
                let file = path.display().to_string();
                let source = error::Source { file: &file, text, tokens: &document.tokens };
                Err(Error::Invalid(Report::new(problems.sorted(), &source)))
            }
        }
    }

    /// The root of the file: the manager's fields, and `server`.
    fn from_settings(root: &Setting<'_>, folder: &Path) -> Option<Self> {
        let mut fields = root.fields()?;
        let fixed = Fixed::of(&fields);
        let manager = manager::config::Config::from_fields(&mut fields, folder, builtins::KINDS);
        let server = fields.part("server", |setting| downstream::Config::from_settings(setting, folder));
        fields.finish();
        Some(Self { manager, server: server.unwrap_or_default(), fixed })
    }
}

/// The text of a file, without a byte order mark; empty when it can not be used, which is reported.
fn text_of<'c>(content: &'c [u8], problems: &Problems) -> &'c str {
    let refuse = |mark, message: String| {
        let (path, hint) = (String::new(), None);
        problems.add(Problem { mark, path, message, hint, shown: Shown::Keys });
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
