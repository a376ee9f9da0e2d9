//! When documents were really changed.
//!
//! The times of files say when they were written here: in a fresh clone, when it was cloned. So where the
//! folder is in a work tree of git, its history is asked: `git log`, one process for all files, in a
//! process group of its own, with a deadline, no input and an environment of a few variables. It reads
//! commits only: no hook, filter, pager or other program of the repository's configuration runs, and
//! nothing is fetched. Without git, or where it fails, the times of the files count.
//!
//! Not here: what its output means (`git_log`), when it is asked (`follow`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::document::Document;
use super::git_log::{Blob, FORMAT, Found, LogReader};

/// Longest time git has. What it said until then counts.
const LIMIT: Duration = Duration::from_secs(10);
/// The file that leads from a work tree to its repository is a line.
const LONGEST_LINK: u64 = 4 * 1024;
/// All that git gets of our environment: where programs are, and whose folders the operator trusts.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "XDG_CONFIG_HOME"];
const SETTINGS: [(&str, &str); 5] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Commits that were left behind in a partial clone stay there; the second says so to older versions.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];
const ARGUMENTS: [&str; 20] = [
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "log.showSignature=false",
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

/// When a document was changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Modified {
    /// The time.
    pub at: SystemTime,
    /// Whether it is that of a commit, and not that of the file.
    pub is_committed: bool,
}

/// What the history says of the documents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dates {
    found: Found,
    /// Set when not all of it was read: whatever was not found is not newer than this.
    cut_at: Option<SystemTime>,
}

impl Dates {
    /// When `document` was changed.
    pub(super) fn of(&self, document: &Document) -> Modified {
        match self.found.get(&document.file_path) {
            Some((blob, at)) if *blob == document.blob => Modified { at: *at, is_committed: true },
            _ => {
                let at = self.cut_at.map_or(document.modified, |cut| cut.min(document.modified));
                Modified { at, is_committed: false }
            }
        }
    }
}

/// A state of the repository that a folder is in: another one means other commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository {
    head: Option<Mark>,
    log: Option<Mark>,
}

type Mark = (SystemTime, u64);

impl Repository {
    /// The one whose work tree `folder` is in, if it is in one.
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
    let is_link = metadata.is_file() && metadata.len() <= LONGEST_LINK;
    let text = is_link.then(|| std::fs::read_to_string(&link).ok()).flatten()?;
    Some(folder.join(text.strip_prefix("gitdir:")?.trim()))
}

fn mark(file: &Path) -> Option<Mark> {
    let metadata = file.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Asks git for the dates of these files in `folder`. The error says why there are none.
pub(super) async fn read(folder: &Path, wanted: HashMap<String, Blob>) -> Result<Dates, String> {
    let mut command = Command::new("git");
    command.args(ARGUMENTS).current_dir(folder).env_clear().envs(SETTINGS);
    command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(|error| error.to_string())?;
    let Some(mut output) = child.stdout.take() else { return Err("git has no output".to_owned()) };
    let mut reader = LogReader::new(wanted);
    let ended = timeout(LIMIT, read_on(&mut output, &mut reader)).await;
    if let Ok(Ok(End::OfOutput)) = ended {
        let status = timeout(LIMIT, child.wait()).await;
        if !matches!(&status, Ok(Ok(status)) if status.success()) {
            return Err("git log failed; run it in the folder to see why".to_owned());
        }
    } else {
        // It may be gone already. Dropping the child reaps it.
        let _ = child.start_kill();
    }
    let (found, oldest) = reader.finish();
    match ended {
        Ok(Ok(_)) => Ok(Dates { found, cut_at: None }),
        Ok(Err(error)) => Err(format!("the output of git log can not be read: {error}")),
        Err(_) => Ok(Dates { found, cut_at: oldest }),
    }
}

enum End {
    OfOutput,
    OfSearch,
}

async fn read_on(output: &mut (impl AsyncRead + Unpin), reader: &mut LogReader) -> std::io::Result<End> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match output.read(&mut buffer).await? {
            0 => return Ok(End::OfOutput),
            read if !reader.take(&buffer[..read]) => return Ok(End::OfSearch),
            _ => {}
        }
    }
}
