//! The facts that show a change of a file, for files that are looked at again and again.
//!
//! Notifications of the kernel would miss changes on network file systems and in folders that another machine mounts.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
