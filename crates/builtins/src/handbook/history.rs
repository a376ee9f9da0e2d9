//! Finds out from git when documents were changed.
//!
//! The modification time of a file tells when it was written on this machine, such as at the time of a clone.
//! So if the folder is in a work tree, two git commands are run for all files together. `git ls-tree` tells
//! which files equal their committed version, and `git log` tells when that was committed. Each runs in its
//! own process group, with a deadline, no input and few environment variables. Both only read commits: no
//! hook, filter, pager or other configured program runs, and nothing is fetched. If git is missing or fails,
//! the modification times of the files count.
//!
//! Invariant: a file that differs from its committed version has its modification time, whatever git reports.
//! So has every file that git does not report in time.
//!
//! Not here: the format of the output (`git_log`), and when git runs (`follow`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::document::Document;
use super::git_log::{Blob, CommitTimes, FORMAT, GitOutput, LogReader};
use super::git_tree::TreeReader;
use runtime::regular_file;

/// Time limit of one git command. Output until then counts.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest `.git` file of a work tree, in bytes. It has one line.
const LONGEST_LINK: u64 = 4 * 1024;
/// Environment variables that git gets: the path of programs, and where the operator's list of safe folders
/// is.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "XDG_CONFIG_HOME"];
const SETTINGS: [(&str, &str); 5] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Missing objects of a partial clone are not fetched. Older versions of git need the second variable for
    // that.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];
const ALWAYS: [&str; 5] = ["--no-pager", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false"];
/// Lists the last committed state of the current folder.
const TREE: [&str; 4] = ["ls-tree", "-r", "-z", "HEAD"];
const LOG: [&str; 15] = [
    "log",
    "-z",
    "-c",
    "--raw",
    "--no-abbrev",
    "--no-renames",
    "--relative",
    "--no-ext-diff",
    "--no-textconv",
    "--no-notes",
    "--no-color",
    FORMAT,
    "HEAD",
    "--",
    ".",
];

/// The time of a document's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Modified {
    /// The time.
    pub at: SystemTime,
    /// Whether the time is that of a commit, and not that of the file.
    pub is_committed: bool,
}

/// Dates of the documents from git.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dates {
    found: CommitTimes,
    /// Files whose commit is older than everything that was read of the log.
    unreached: HashMap<String, Blob>,
    /// The oldest time that was read, if the log was not read completely.
    cut_at: Option<SystemTime>,
}

impl Dates {
    /// Takes the dates from `log`, which has read the whole log (`is_all`) or its newest part.
    fn of_log(log: LogReader, is_all: bool) -> Self {
        let (found, unreached, oldest) = log.finish();
        if is_all {
            return Self { found, ..Self::default() };
        }
        Self { found, unreached, cut_at: oldest }
    }

    /// Returns when `document` was changed.
    pub(super) fn of(&self, document: &Document) -> Modified {
        match self.found.get(&document.file_path) {
            Some((blob, at)) if *blob == document.blob => Modified { at: *at, is_committed: true },
            _ => {
                let is_older = self.unreached.get(&document.file_path) == Some(&document.blob);
                let cut = self.cut_at.filter(|_| is_older);
                let at = cut.map_or(document.modified, |cut| cut.min(document.modified));
                Modified { at, is_committed: false }
            }
        }
    }
}

/// Marks a state of the repository. A different value may mean new commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository {
    head: Option<FileMark>,
    log: Option<FileMark>,
}

type FileMark = (SystemTime, u64);

impl Repository {
    /// Returns the repository whose work tree contains `folder`, if there is one.
    pub(super) fn around(folder: &Path) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let git = folder.ancestors().find_map(repository_of)?;
        Some(Self { head: mark(&git.join("HEAD")), log: mark(&git.join("logs/HEAD")) })
    }
}

fn repository_of(folder: &Path) -> Option<PathBuf> {
    let link = folder.join(".git");
    let metadata = link.metadata().ok()?;
    if metadata.is_dir() {
        return Some(link);
    }
    let text = String::from_utf8(regular_file::read(&link, LONGEST_LINK).ok()?).ok()?;
    Some(folder.join(text.strip_prefix("gitdir:")?.trim()))
}

fn mark(file: &Path) -> Option<FileMark> {
    let metadata = file.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Asks git for the dates of these files in `folder`. The error says why there are none.
pub(super) async fn read(folder: &Path, wanted: HashMap<String, Blob>) -> Result<Dates, String> {
    let committed = committed(folder, wanted).await?;
    if committed.is_empty() {
        return Ok(Dates::default());
    }
    let mut log = LogReader::new(committed);
    let is_all = ask(folder, &LOG, &mut log).await?;
    Ok(Dates::of_log(log, is_all))
}

/// Returns those of `wanted` that equal their committed version.
async fn committed(folder: &Path, wanted: HashMap<String, Blob>) -> Result<HashMap<String, Blob>, String> {
    let mut tree = TreeReader::new(wanted);
    ask(folder, &TREE, &mut tree).await?;
    Ok(tree.finish())
}

/// Runs git in `folder` and passes its output to `reader`. Returns false if the time limit cut the output
/// off.
async fn ask(folder: &Path, arguments: &[&str], reader: &mut impl GitOutput) -> Result<bool, String> {
    let what = arguments.first().copied().unwrap_or_default();
    let mut command = Command::new("git");
    command.args(ALWAYS).args(arguments).current_dir(folder).env_clear().envs(SETTINGS);
    command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(|error| error.to_string())?;
    let Some(mut output) = child.stdout.take() else { return Err("git has no output".to_owned()) };
    let ended = timeout(LIMIT, read_on(&mut output, reader)).await;
    if let Ok(Ok(ReadEnd::OfOutput)) = ended {
        let status = timeout(LIMIT, child.wait()).await;
        if !matches!(&status, Ok(Ok(status)) if status.success()) {
            return Err(format!("git {what} failed; run it in the folder to see why"));
        }
    } else {
        // The process may have ended already. Dropping the child reaps it.
        let _ = child.start_kill();
    }
    match ended {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) => Err(format!("the output of git {what} cannot be read: {error}")),
        Err(_) => Ok(false),
    }
}

enum ReadEnd {
    OfOutput,
    OfSearch,
}

async fn read_on(
    output: &mut (impl AsyncRead + Unpin),
    reader: &mut impl GitOutput,
) -> std::io::Result<ReadEnd> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match output.read(&mut buffer).await? {
            0 => return Ok(ReadEnd::OfOutput),
            read if !reader.take(&buffer[..read]) => return Ok(ReadEnd::OfSearch),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "history_unit_tests.rs"]
mod tests;
