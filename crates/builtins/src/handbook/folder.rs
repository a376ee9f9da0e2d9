//! The folder of documents: its listing, and the text of one file. It is on disk, or part of the program.
//!
//! Invariants: nothing outside the folder is ever opened (cap-std, beneath the root). Symbolic links and
//! everything else that is not a regular file are skipped. Sizes, counts and depth are limited, and skipped
//! entries are counted.
//!
//! Not here: names that clients send. They are looked up among the listed documents (`lookup`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use flate2::read::GzDecoder;
use rustix::fs::OFlags;

use super::config::{Documents, EmbeddedFiles};
use super::git::Blob;

/// Largest file that is read, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Limit for all files together, in bytes.
const MAX_TOTAL_BYTES: u64 = 128 * 1024 * 1024;
/// Most files.
const MAX_FILES: usize = 20_000;
/// Most directory entries in one walk.
const MAX_ENTRIES: usize = 200_000;
/// Deepest nesting of folders.
pub(super) const MAX_DEPTH: usize = 16;
/// Bytes at the start of a file that are searched for a zero byte, which no text has.
const PROBED_BYTES: usize = 8 * 1024;

/// Identifies a state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Last change of the content.
    pub modified: SystemTime,
    /// Size in bytes.
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

    /// The state of a file that is part of the program, which never changes.
    fn embedded(compressed: &[u8], modified: SystemTime) -> Self {
        Self { modified, len: compressed.len() as u64, device: 0, inode: 0, changed: (0, 0) }
    }
}

/// Result of one walk.
#[derive(Debug, Default)]
pub(super) struct FolderWalk {
    /// Path from the folder, with `/`, and state of each file.
    pub files: BTreeMap<String, Stamp>,
    /// Number of skipped Markdown files and folders: links, too large, too many, too deep, unreadable, or
    /// with a name that is not UTF-8.
    pub left_out: usize,
    total_bytes: u64,
    entries: usize,
    /// Paths of files and folders that are excluded.
    excluded: Arc<[String]>,
}

/// The folder. It is opened again for each walk, because its path may lead elsewhere by then.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    documents: Documents,
    excluded: Arc<[String]>,
}

/// The text of a file.
#[derive(Debug)]
pub(super) struct FileText {
    /// Text without a byte order mark, and with replacement characters for invalid UTF-8.
    pub source: String,
    /// Content id in git.
    pub blob: Blob,
}

/// A folder that can be read.
#[derive(Debug)]
pub(super) enum Opened {
    /// A folder on disk.
    Dir(Dir),
    /// Files of the program.
    Embedded(EmbeddedFiles),
}

/// An opened folder with its listing.
pub(super) struct View {
    root: Opened,
    /// The listing.
    pub listing: FolderWalk,
}

impl Folder {
    pub(super) fn of(documents: &Documents) -> Self {
        Self { documents: documents.clone(), excluded: Arc::default() }
    }

    #[cfg(test)]
    pub(super) fn new(root: &Path) -> Self {
        Self::of(&Documents::Folder(root.to_owned()))
    }

    /// Excludes these files and folders, given by their paths from the folder.
    pub(super) fn without(self, excluded: &[String]) -> Self {
        Self { excluded: excluded.into(), ..self }
    }

    /// Opens the folder. The error names it.
    pub(super) fn open(&self) -> Result<Opened, String> {
        let named =
            |error: io::Error| format!("the handbook folder {} cannot be opened: {error}", self.shown());
        match &self.documents {
            Documents::Folder(root) => {
                Dir::open_ambient_dir(root, ambient_authority()).map(Opened::Dir).map_err(named)
            }
            Documents::Embedded(files) => Ok(Opened::Embedded(files)),
        }
    }

    /// Walks the folder. The error names it.
    pub(super) fn look(&self) -> Result<View, String> {
        let root = self.open()?;
        let mut listing = FolderWalk { excluded: Arc::clone(&self.excluded), ..FolderWalk::default() };
        match &root {
            Opened::Dir(dir) => walk(dir, "", MAX_DEPTH, &mut listing)
                .map_err(|error| format!("the handbook folder {} cannot be read: {error}", self.shown()))?,
            Opened::Embedded(files) => {
                let modified = date_of_program();
                let stamp =
                    |(path, text): &(&str, &[u8])| ((*path).to_owned(), Stamp::embedded(text, modified));
                listing.files = files.iter().map(stamp).collect();
            }
        }
        Ok(View { root, listing })
    }

    /// Returns the path of a folder on disk.
    pub(super) fn root(&self) -> Option<&Path> {
        match &self.documents {
            Documents::Folder(root) => Some(root),
            Documents::Embedded(_) => None,
        }
    }

    fn shown(&self) -> String {
        format!("{:?}", self.root().unwrap_or(Path::new("")).display().to_string())
    }
}

impl View {
    /// Returns the text of a listed file, or `None` if it is not a text. Fails if the path now leads to
    /// another file.
    pub(super) fn read(&self, path: &str, stamp: &Stamp) -> io::Result<Option<FileText>> {
        let dir = match &self.root {
            Opened::Dir(dir) => dir,
            Opened::Embedded(files) => {
                let found = files.iter().find(|(name, _)| *name == path).ok_or(io::ErrorKind::NotFound)?;
                let mut source = String::new();
                GzDecoder::new(found.1).read_to_string(&mut source)?;
                let blob = Blob::of(source.as_bytes());
                return Ok(Some(FileText { source, blob }));
            }
        };
        let file = open(dir, OsStr::new(path), OFlags::NONBLOCK)?;
        let metadata = file.metadata()?;
        let same = (metadata.dev(), metadata.ino()) == (stamp.device, stamp.inode);
        if !metadata.is_file() || !same {
            return Err(io::Error::other("the file was replaced while it was read"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(text_of(&bytes).map(|source| FileText { source, blob: Blob::of(&bytes) }))
    }
}

/// The time of the program's file, which is the age of the documents in it.
fn date_of_program() -> SystemTime {
    let date = std::env::current_exe().and_then(|program| program.metadata()?.modified());
    date.unwrap_or(UNIX_EPOCH)
}

fn text_of(bytes: &[u8]) -> Option<String> {
    let probe = &bytes[..bytes.len().min(PROBED_BYTES)];
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    (!probe.contains(&0)).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Opens a file without following a link in the last path component, and without waiting for the writer of a
/// pipe.
fn open(dir: &Dir, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::NOFOLLOW).bits().cast_signed();
    dir.open_with(name, OpenOptions::new().read(true).custom_flags(flags))
}

fn walk(dir: &Dir, prefix: &str, depth: usize, listing: &mut FolderWalk) -> io::Result<()> {
    for entry in dir.entries()? {
        listing.entries += 1;
        if listing.entries > MAX_ENTRIES {
            listing.left_out += 1;
            return Ok(());
        }
        // An unreadable entry does not hide the others.
        if !entry.and_then(|entry| visit(dir, &entry, prefix, depth, listing)).unwrap_or(false) {
            listing.left_out += 1;
        }
    }
    Ok(())
}

/// Adds the entry if it is a document. Returns false if a document or folder had to be skipped.
fn visit(
    dir: &Dir,
    entry: &DirEntry,
    prefix: &str,
    depth: usize,
    listing: &mut FolderWalk,
) -> io::Result<bool> {
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

impl FolderWalk {
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
