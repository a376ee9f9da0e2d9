//! Finds out from git when documents were changed.
//!
//! The modification time of a file tells when it was written on this machine, such as at the time of a clone.
//! So if the folder is in a work tree, one `git log` is run for all files together. It runs in its own process
//! group, with a deadline, no input and few environment variables. It only reads commits: no hook, filter,
//! pager or other configured program runs, and nothing is fetched.
//!
//! Invariant: a file has the time of the newest commit that changed it, if that commit gave it its current
//! content. Every other file has its modification time, also if git is missing, fails or has no more time.
//!
//! Not here: when git runs (`follow`).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use runtime::regular_file;

/// Time limit of git. Output until then counts.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest part of the output: a path, or a commit with its first change.
const LONGEST_PART: u64 = 64 * 1024;
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
/// Prints parts that end with a zero byte. A commit is the byte 1 and its time in seconds since 1970. A change is
/// `:MODE MODE BLOB BLOB STATUS`, in a part with its commit or of its own. Its path is the next part. A merge
/// prints only what differs from all parents, with one more mode and blob for each.
const LOG: [&str; 21] = [
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "log.showRoot=true",
    "log",
    "-z",
    "-c",
    "--raw",
    "--no-abbrev",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-notes",
    "--no-color",
    "--format=format:%x01%ct",
    "HEAD",
    "--",
    ".",
];

/// Id of a content in git, in repositories of both kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blob {
    sha1: String,
    sha256: String,
}

impl Blob {
    /// Computes the id of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let digest = |algorithm| {
            let mut digest = digest::Context::new(algorithm);
            digest.update(format!("blob {}\0", bytes.len()).as_bytes());
            digest.update(bytes);
            hex::encode(digest.finish().as_ref())
        };
        Self { sha1: digest(&digest::SHA1_FOR_LEGACY_USE_ONLY), sha256: digest(&digest::SHA256) }
    }
}

/// The newest change of each file: the blob that it made, and its time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dates(HashMap<String, (String, SystemTime)>);

impl Dates {
    /// Returns the time of the newest commit that changed the file `path`, if that gave it the content `blob`.
    pub(super) fn of(&self, path: &str, blob: &Blob) -> Option<SystemTime> {
        let (committed, at) = self.0.get(path)?;
        (*committed == blob.sha1 || *committed == blob.sha256).then_some(*at)
    }

    /// Asks git for the dates of the files `paths` in `folder`. The error says why there are none.
    pub(super) async fn read(folder: &Path, paths: HashSet<String>) -> Result<Self, String> {
        let mut command = Command::new("git");
        command.args(LOG).current_dir(folder).env_clear().envs(SETTINGS);
        command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.process_group(0).kill_on_drop(true).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("git has no output")?;
        let mut log = LogReader { missing: paths, prefix: prefix_of(folder), ..LogReader::default() };
        let ended = timeout(LIMIT, log.read(BufReader::new(output))).await;
        match ended {
            Ok(Err(error)) => return Err(format!("the output of git log cannot be read: {error}")),
            // At the end of the output, git says whether it is whole.
            Ok(Ok(())) if !log.missing.is_empty() => {
                let status = timeout(LIMIT, child.wait()).await;
                if !matches!(&status, Ok(Ok(status)) if status.success()) {
                    return Err("git log failed; run it in the folder to see why".to_owned());
                }
            }
            // The process may have ended already. Dropping the child reaps it.
            _ => drop(child.start_kill()),
        }
        Ok(Self(log.found))
    }
}

/// Reads the output of git, newest commit first.
#[derive(Default)]
struct LogReader {
    /// Files without a date.
    missing: HashSet<String>,
    /// The folder of the files as git names it.
    prefix: String,
    found: HashMap<String, (String, SystemTime)>,
    /// Time of the commit whose changes are being read.
    time: Option<SystemTime>,
}

impl LogReader {
    /// Reads until the output ends, or until every file has its date.
    async fn read(&mut self, mut output: impl AsyncBufRead + Unpin) -> std::io::Result<()> {
        let mut blob: Option<String> = None;
        let mut part = Vec::new();
        while !self.missing.is_empty() {
            part.clear();
            (&mut output).take(LONGEST_PART).read_until(0, &mut part).await?;
            if part.pop() != Some(0) {
                break;
            }
            blob = match blob {
                Some(blob) => {
                    self.changed(&part, blob);
                    None
                }
                None => self.change(&part),
            };
        }
        Ok(())
    }

    /// Reads a commit, a change, or both. Returns the blob of the change.
    fn change(&mut self, part: &[u8]) -> Option<String> {
        let part = std::str::from_utf8(part).ok()?;
        let change = match part.strip_prefix('\x01') {
            Some(commit) => {
                let (seconds, change) = commit.split_once('\n').unwrap_or((commit, ""));
                let since = seconds.trim().parse().ok().map(Duration::from_secs);
                self.time = since.and_then(|since| UNIX_EPOCH.checked_add(since));
                change
            }
            None => part,
        };
        change.strip_prefix(':')?.rsplit(' ').nth(1).map(str::to_owned)
    }

    /// Notes the newest change of a file.
    fn changed(&mut self, path: &[u8], blob: String) {
        let (Ok(path), Some(time)) = (std::str::from_utf8(path), self.time) else { return };
        if let Some(path) = path.strip_prefix(&*self.prefix).and_then(|path| self.missing.take(path)) {
            self.found.insert(path, (blob, time));
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

/// Returns how git names `folder`: relative to its work tree, with a slash at the end. With `--relative` git names most
/// files from the folder, and those of a merge from the work tree.
fn prefix_of(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_default();
    let tree = folder.ancestors().find(|ancestor| repository_of(ancestor).is_some());
    let below = tree.and_then(|tree| folder.strip_prefix(tree).ok()).and_then(Path::to_str);
    below.filter(|below| !below.is_empty()).map(|below| format!("{below}/")).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "0000000000000000000000000000000000000000";
    /// Output of `git hash-object` for `a\n`.
    const A: &str = "78981922613b2afb6025042ff6bd878ac1994e85";

    fn read(log: &[u8], paths: &[&str]) -> LogReader {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let missing = paths.iter().map(|path| (*path).to_owned()).collect();
        let mut reader = LogReader { missing, ..LogReader::default() };
        runtime.block_on(reader.read(log)).expect("read");
        reader
    }

    #[test]
    fn blob_has_the_ids_of_git() {
        let blob = Blob::of(b"a\n");
        assert_eq!(blob.sha1, A);
        assert_eq!(blob.sha256, "f8625e43f9e04f24291f77cdbe4c71b3c2a3b0003f60419b3ed06a058d766c8b");
    }

    #[test]
    fn files_are_named_from_the_work_tree() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("docs/a")).expect("made");
        assert_eq!(prefix_of(&root.path().join("docs")), "", "no repository");
        std::fs::create_dir(root.path().join(".git")).expect("made");
        assert_eq!(prefix_of(root.path()), "");
        assert_eq!(prefix_of(&root.path().join("docs/a")), "docs/a/");
        let log = format!("\x01300\n:000000 100644 {OLD} {A} A\0docs/a.md\0");
        let mut reader =
            LogReader { missing: ["a.md".to_owned()].into(), prefix: "docs/".into(), ..LogReader::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(reader.read(log.as_bytes())).expect("read");
        assert!(reader.found.contains_key("a.md"));
    }

    #[test]
    fn newest_change_of_a_file_counts() {
        let log = format!(
            "\x01300\n:100644 100644 {A} {OLD} M\0edited.md\0\
             ::100644 100644 100644 {OLD} {OLD} {A} MM\0sub/merged ü.md\0\0\
             \x01200\n:000000 100644 {OLD} {A} A\0a.md\0:000000 100644 {OLD} {A} A\0other.txt\0\0\
             \x01100\n:000000 100644 {OLD} {A} A\0a.md\0:000000 100644 {OLD} {A} A\0edited.md\0"
        );
        let reader = read(log.as_bytes(), &["a.md", "sub/merged ü.md", "edited.md", "new.md"]);
        let at = |seconds, blob: &str| (blob.to_owned(), UNIX_EPOCH + Duration::from_secs(seconds));
        let expected = [("a.md", at(200, A)), ("sub/merged ü.md", at(300, A)), ("edited.md", at(300, OLD))];
        assert_eq!(reader.found, expected.map(|(path, change)| (path.to_owned(), change)).into());
        assert_eq!(reader.missing, ["new.md".to_owned()].into());
    }

    proptest! {
        #[test]
        fn no_output_is_too_odd(log in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(b':'), Just(b'\n'), any::<u8>()], 0..300)) {
            prop_assert!(read(&log, &["a.md"]).found.is_empty());
        }
    }
}
