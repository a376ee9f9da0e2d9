//! Files that an operator names, opened without waiting for another process, and the facts that show a change of one.
//!
//! Invariants: opening never blocks on the other end of a FIFO. Only a regular file is accepted, and the opened
//! file is the one that is checked. At most the given number of bytes is read. Links are followed, because
//! Kubernetes mounts its files as links. Files are looked at again and again: notifications of the kernel would miss changes on
//! network file systems.
//!
//! Not here: paths that a client chooses, which need more (`builtins`).

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::{fs, io};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Opens the file at `path` for reading. Fails if it is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| explained(error, "read it, and enter its folders"))?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Adds to a refusal of the system which user must be able to do what.
pub fn explained(error: io::Error, needed: &str) -> io::Error {
    if error.kind() != ErrorKind::PermissionDenied {
        return error;
    }
    let user = geteuid().as_raw();
    let reason = format!(
        "permission denied: the user with id {user}, which this process runs as, must be able to {needed}"
    );
    io::Error::new(ErrorKind::PermissionDenied, reason)
}

/// Reads the whole file at `path`. Fails if it is not a regular file or has more than `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_opened(open(path)?, max_bytes)
}

/// Reads the whole of `file`. Fails if it has more than `max_bytes`.
pub(crate) fn read_opened(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let too_large = || {
        let reason = format!("it is larger than {max_bytes} bytes");
        io::Error::new(ErrorKind::FileTooLarge, reason)
    };
    if length > max_bytes {
        return Err(too_large());
    }
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // The file may grow meanwhile.
    let read = file.take(max_bytes + 1).read_to_end(&mut content)?;
    if read as u64 > max_bytes { Err(too_large()) } else { Ok(content) }
}

/// A file as it was at one moment. Links are followed, so the exchange of a link is a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl From<Metadata> for FileStamp {
    fn from(file: Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl FileStamp {
    /// The file at `path` as it is now; none if it cannot be looked at. Blocks.
    pub fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(Self::from)
    }

    /// Whether the file has no content.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn refusal_of_the_system_says_who_needs_what() {
        let denied = io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error());
        let explained = explained(denied, "read it");
        assert_eq!(explained.kind(), ErrorKind::PermissionDenied);
        let user = geteuid().as_raw();
        assert!(explained.to_string().ends_with("must be able to read it"), "{explained}");
        assert!(explained.to_string().contains(&format!("id {user}")), "{explained}");
        let absent = super::explained(io::Error::from(ErrorKind::NotFound), "read it");
        assert_eq!(absent.to_string(), "entity not found");
    }

    #[test]
    fn only_regular_files_of_an_accepted_size_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| folder.path().join(name));
        fs::write(&file, "12345").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        assert_eq!(read(&link, 5).expect("read"), b"12345");
        let reason = |path: &Path, max_bytes| read(path, max_bytes).expect_err("refused").to_string();
        assert_eq!(reason(&file, 4), "it is larger than 4 bytes");
        for other in [&*fifo, folder.path(), Path::new("/dev/null")] {
            assert_eq!(reason(other, 5), "it is not a regular file", "{}", other.display());
        }
        // The system says that this file is empty.
        assert_eq!(reason(Path::new("/proc/self/maps"), 5), "it is larger than 5 bytes");
    }
}
