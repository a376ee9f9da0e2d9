//! The folder of documents: what is in it, and the text of one file.
//!
//! Invariants: nothing outside the folder is ever opened (cap-std, beneath the root); symbolic
//! links and whatever is not a regular file are left out; sizes, counts and depth are capped, and
//! what is left out is counted. Names that callers send never come here: they are looked up among
//! the documents that were found.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use super::git_log::Blob;

/// Largest file that is read, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// All files together, in bytes.
const MAX_TOTAL_BYTES: u64 = 128 * 1024 * 1024;
/// Files at most.
const MAX_FILES: usize = 20_000;
/// Directory entries looked at in one walk.
const MAX_ENTRIES: usize = 200_000;
/// Folders inside each other.
pub(super) const MAX_DEPTH: usize = 16;
/// How far into a file a zero byte is looked for, which no text has.
const PROBED_BYTES: usize = 8 * 1024;

/// Tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Last change of the content.
    pub modified: SystemTime,
    /// Bytes.
    pub len: u64,
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        Self {
            modified: UNIX_EPOCH + Duration::new(seconds, nanoseconds.min(999_999_999)),
            len: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What one walk found.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Path from the folder, with `/` → state of the file.
    pub files: BTreeMap<String, Stamp>,
    /// Markdown files and folders that were left out: links, too large, too many, too deep,
    /// unreadable, or with a name that is not UTF-8.
    pub left_out: usize,
    total_bytes: u64,
    entries: usize,
    /// Paths of files and folders that are not read.
    excluded: Arc<[String]>,
}

/// The folder, opened anew for each walk: its path may lead elsewhere by then.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: PathBuf,
    excluded: Arc<[String]>,
}

/// The text of a file.
#[derive(Debug)]
pub(super) struct Text {
    /// Without a byte order mark, and with replacement characters for what is not UTF-8.
    pub source: String,
    /// What git calls the bytes.
    pub blob: Blob,
}

/// One look at the folder.
pub(super) struct View {
    root: Dir,
    /// What is in it.
    pub listing: Listing,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), excluded: Arc::default() }
    }

    /// Leaves out these files and folders, given by their paths from the folder.
    pub(super) fn without(self, excluded: &[String]) -> Self {
        Self { excluded: excluded.into(), ..self }
    }

    /// Opens the folder; the error names it.
    pub(super) fn open(&self) -> Result<Dir, String> {
        let named =
            |error: io::Error| format!("the handbook folder {} can not be opened: {error}", self.shown());
        Dir::open_ambient_dir(&self.root, ambient_authority()).map_err(named)
    }

    /// Walks the folder; the error names it.
    pub(super) fn look(&self) -> Result<View, String> {
        let root = self.open()?;
        let mut listing = Listing { excluded: Arc::clone(&self.excluded), ..Listing::default() };
        walk(&root, "", MAX_DEPTH, &mut listing)
            .map_err(|error| format!("the handbook folder {} can not be read: {error}", self.shown()))?;
        Ok(View { root, listing })
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn shown(&self) -> String {
        format!("{:?}", self.root.display().to_string())
    }
}

impl View {
    /// The text of a listed file. `None` when it is not text. An error when it is not the file that was listed any more.
    pub(super) fn read(&self, path: &str, stamp: &Stamp) -> io::Result<Option<Text>> {
        let file = open(&self.root, OsStr::new(path), OFlags::NONBLOCK)?;
        let metadata = file.metadata()?;
        let same = (metadata.dev(), metadata.ino()) == (stamp.device, stamp.inode);
        if !metadata.is_file() || !same {
            return Err(io::Error::other("the file was replaced while it was read"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(text_of(&bytes).map(|source| Text { source, blob: Blob::of(&bytes) }))
    }
}

fn text_of(bytes: &[u8]) -> Option<String> {
    let probe = &bytes[..bytes.len().min(PROBED_BYTES)];
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    (!probe.contains(&0)).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Opens without following a link in the last place, and without waiting for a pipe's other end.
fn open(dir: &Dir, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::NOFOLLOW).bits().cast_signed();
    dir.open_with(name, OpenOptions::new().read(true).custom_flags(flags))
}

fn walk(dir: &Dir, prefix: &str, depth: usize, listing: &mut Listing) -> io::Result<()> {
    for entry in dir.entries()? {
        listing.entries += 1;
        if listing.entries > MAX_ENTRIES {
            listing.left_out += 1;
            return Ok(());
        }
        // One entry that can not be read does not hide the others.
        if !entry.and_then(|entry| visit(dir, &entry, prefix, depth, listing)).unwrap_or(false) {
            listing.left_out += 1;
        }
    }
    Ok(())
}

/// Whether the entry was taken, or is nothing that belongs to the documents.
fn visit(dir: &Dir, entry: &DirEntry, prefix: &str, depth: usize, listing: &mut Listing) -> io::Result<bool> {
    let os_name = entry.file_name();
    let Some(name) = os_name.to_str() else { return Ok(false) };
    if name.starts_with('.') {
        return Ok(true);
    }
    let metadata = entry.metadata()?;
    let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
    if listing.excluded.contains(&path) {
        return Ok(true);
    }
    if metadata.is_dir() {
        if depth == 0 {
            return Ok(false);
        }
        let inner = Dir::from_std_file(open(dir, &os_name, OFlags::DIRECTORY)?.into_std());
        walk(&inner, &path, depth - 1, listing)?;
        return Ok(true);
    }
    if !is_markdown(name) {
        return Ok(true);
    }
    Ok(metadata.is_file() && listing.take(path, Stamp::of(&metadata)))
}

fn is_markdown(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str).unwrap_or_default();
    extension.eq_ignore_ascii_case("md") || extension.eq_ignore_ascii_case("markdown")
}

impl Listing {
    fn take(&mut self, path: String, stamp: Stamp) -> bool {
        let fits = stamp.len <= MAX_FILE_BYTES
            && self.files.len() < MAX_FILES
            && self.total_bytes + stamp.len <= MAX_TOTAL_BYTES;
        if fits {
            self.total_bytes += stamp.len;
            self.files.insert(path, stamp);
        }
        fits
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
