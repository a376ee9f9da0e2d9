//! Opens a file that a client names, only below the folders that the operator allowed.
//!
//! Invariants: no race and no link can lead outside (`no_follow`). Only regular files up to the size limit are
//! opened. Without a configured folder, nothing is opened.
//!
//! A hard link counts as a regular file: its creator could read the file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::no_follow::{self, FileList, MAX_FILES, Unlisted};
use super::source::SourceFile;
use crate::refusal::Refusal;

/// Longest path in bytes, as operating systems accept it.
const LONGEST_PATH: usize = 4096;
const FIELD: &str = "file_path";

/// The allowed folders, each with its name in R2R.
#[derive(Debug)]
pub(super) struct Roots {
    all: Vec<Root>,
    max_bytes: u64,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    label: String,
}

impl Roots {
    /// The folders `paths`. Files of more than `max_bytes` in them are refused.
    pub(super) fn new(paths: &[PathBuf], max_bytes: u64) -> Self {
        let named = |path: &PathBuf| Root { path: path.clone(), label: label(path, paths) };
        Self { all: paths.iter().map(named).collect(), max_bytes }
    }

    /// Lists the files below the folder at `path`, as absolute paths. Blocks.
    pub(super) fn list(&self, path: &str) -> Result<FileList, Refusal> {
        let listed = self.check_any(path).and_then(|()| {
            let (root, names) = self.place(path, 0)?;
            no_follow::files(&root.path, &names).map_err(|failure| match failure {
                Unlisted::Unreadable(error) => self.unopened(path, &error),
                Unlisted::TooMany => refusal(path)
                    .because("The folder has too many files or subfolders.")
                    .valid(&format!("a folder with at most {MAX_FILES} files"))
                    .suggest("Name its subfolders one after another."),
            })
        });
        let absolute = |name: String| format!("{}/{name}", path.trim_end_matches('/'));
        let listed = listed.map(|FileList { files, ignored }| {
            let files = files.into_iter().map(absolute).collect();
            FileList { files, ignored }
        });
        listed.map_err(|refusal| refusal.of_field("folder_path"))
    }

    /// Opens the file at `path`. Blocks.
    pub(super) fn open(&self, path: &str) -> Result<SourceFile, Refusal> {
        self.check_any(path)?;
        let (root, names) = self.place(path, 1)?;
        let file = no_follow::open_file(&root.path, &names).map_err(|error| self.unopened(path, &error))?;
        let len = self.checked(path, &file)?;
        let name = names.iter().fold(root.label.clone(), |name, part| format!("{name}/{part}"));
        Ok(SourceFile::new(file, name, len))
    }

    fn check_any(&self, path: &str) -> Result<(), Refusal> {
        if !self.all.is_empty() {
            return Ok(());
        }
        Err(refusal(path)
            .because("Files cannot be ingested: the operator has allowed no folder.")
            .valid("none until the setting `ingest_roots` of this server names a folder")
            .suggest("Ask the operator to add the folder to `r2r: {ingest_roots: [...]}`."))
    }

    /// Returns the innermost allowed folder that contains the file, and the names that lead to it, at least
    /// `least`.
    fn place<'a>(&self, path: &'a str, least: usize) -> Result<(&Root, Vec<&'a str>), Refusal> {
        let written = Path::new(path);
        let is_odd = path.len() > LONGEST_PATH || path.contains(char::is_control);
        let goes_up = written.components().any(|part| part == Component::ParentDir);
        if is_odd || goes_up || !written.is_absolute() {
            return Err(self.range(refusal(path).because(if goes_up {
                "A path with `..` in it is not followed."
            } else {
                "The path is not absolute, too long, or has a control character."
            })));
        }
        let below = |root: &Path| {
            let below = written.strip_prefix(root).ok()?;
            let names: Option<Vec<&str>> = below.components().map(|part| name(&part)).collect();
            names.filter(|names| names.len() >= least)
        };
        // The folder as it is written, or the target of its links.
        let found = self.all.iter().filter_map(|root| {
            let real = || below(&std::fs::canonicalize(&root.path).ok()?);
            Some((root, below(&root.path).or_else(real)?))
        });
        let innermost = found.min_by_key(|(_, names)| names.len());
        innermost.ok_or_else(|| self.range(refusal(path).because("The file is not in an allowed folder.")))
    }

    /// Returns the length of a regular file within the size limit.
    fn checked(&self, path: &str, file: &File) -> Result<u64, Refusal> {
        let metadata = file.metadata().map_err(|error| self.unopened(path, &error))?;
        if !metadata.is_file() {
            return Err(self.range(refusal(path).because("It is not a regular file.")));
        }
        let reason = match metadata.len() {
            0 => "The file is empty.".to_owned(),
            len if len > self.max_bytes => format!("The file has {len} bytes."),
            len => return Ok(len),
        };
        let range = format!("1 to {} bytes (`ingest_max_bytes`)", self.max_bytes);
        Err(refusal(path).because(&reason).valid(&range).suggest("Split the file, or leave it out."))
    }

    fn unopened(&self, path: &str, error: &io::Error) -> Refusal {
        let reason = match Errno::from_io_error(error) {
            Some(Errno::NOENT) => "There is no such file.".to_owned(),
            // A link in the place of a file or a folder.
            Some(Errno::LOOP | Errno::NOTDIR) => {
                "A part of the path is a link or no folder; links are not followed.".to_owned()
            }
            _ => format!("The file cannot be opened: {}.", error.kind()),
        };
        self.range(refusal(path).because(&reason))
    }

    /// Adds the valid values to a refusal.
    fn range(&self, refusal: Refusal) -> Refusal {
        let all: Vec<String> = self.all.iter().map(|root| root.path.display().to_string()).collect();
        refusal
            .valid(&format!("the absolute path of a regular file, without links, below {}", all.join(" or ")))
            .suggest("Name a file in one of these folders, or ask the operator to add one to `ingest_roots`.")
    }
}

fn refusal(path: &str) -> Refusal {
    Refusal::new("invalid_path", FIELD, path)
}

/// Returns a normal name; none for `..` and roots.
fn name<'a>(part: &Component<'a>) -> Option<&'a str> {
    match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    }
}

/// Returns the last names of `root`, as many as needed to distinguish it from the others. So the name of a
/// document reveals little of the machine, and files of one name in two folders stay distinct.
fn label(root: &Path, all: &[PathBuf]) -> String {
    let names = |path: &Path| -> Vec<String> {
        let normal = path.components().filter(|part| matches!(part, Component::Normal(_)));
        normal.map(|part| OsStr::to_string_lossy(part.as_os_str()).into_owned()).collect()
    };
    let own = names(root);
    let ending = |names: &[String], count: usize| names[names.len().saturating_sub(count)..].join("/");
    let is_alone = |count: &usize| {
        all.iter().filter(|other| ending(&names(other), *count) == ending(&own, *count)).count() <= 1
    };
    let count = (1..own.len()).find(is_alone).unwrap_or(own.len());
    if own.is_empty() { "root".to_owned() } else { ending(&own, count) }
}

#[cfg(test)]
#[path = "roots_tests.rs"]
mod tests;
