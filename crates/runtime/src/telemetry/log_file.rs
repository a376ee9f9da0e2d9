//! The log file (`server.log_file`).
//!
//! Invariants: only a regular file is opened, no link and no file of another user, and a new one has the mode 0640. Lines are appended. If the file is moved
//! or removed, a new one is made at its path within a second, so a program such as logrotate needs no signal.
//!
//! It does not limit the size of the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::private_file;

/// How often the path is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The mode of a new file: its owner and its group may read it.
const MODE: u32 = 0o640;

/// An open log file.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Device and number of the open file.
    identity: (u64, u64),
    checked: Instant,
}

impl LogFile {
    /// Opens the file at `path`, or makes it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Opening a FIFO must not wait for its other end.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(MODE).custom_flags(flags.bits().cast_signed());
        let file = options.open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        private_file::check_owner(&found)?;
        let identity = (found.dev(), found.ino());
        Ok(Self { path: path.to_owned(), file, identity, checked: Instant::now() })
    }

    /// Opens the file that is at the path now, if it is another one. If there is none, the log stays in the old file.
    fn follow(&mut self) {
        self.checked = Instant::now();
        let is_same =
            std::fs::metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if !is_same && let Ok(next) = Self::open(&self.path) {
            *self = next;
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.checked.elapsed() >= CHECK_INTERVAL {
            self.follow();
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_follow_the_path_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, moved] = ["log", "log.1"].map(|name| folder.path().join(name));
        fs::write(&path, "0\n").expect("written");
        let mut log = LogFile::open(&path).expect("opened");
        log.write_all(b"1\n").expect("written");
        fs::rename(&path, &moved).expect("moved");
        log.write_all(b"2\n").expect("written");
        log.checked -= CHECK_INTERVAL;
        log.write_all(b"3\n").expect("written");
        assert_eq!(fs::read_to_string(&moved).expect("read"), "0\n1\n2\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "3\n");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o027, 0, "others may not read it: {mode:o}");
    }

    #[test]
    fn path_that_is_no_regular_file_is_refused() {
        for path in ["/dev/null", "/", "/nowhere/at/all"] {
            assert!(LogFile::open(Path::new(path)).is_err(), "{path}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let [link, victim] = ["log", "victim"].map(|name| folder.path().join(name));
        fs::write(&victim, "theirs").expect("written");
        std::os::unix::fs::symlink(&victim, &link).expect("linked");
        assert!(LogFile::open(&link).is_err());
    }
}
