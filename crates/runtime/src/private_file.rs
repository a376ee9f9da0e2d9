//! Files of Switchyard that only their owner can read.
//!
//! Invariants: a file is replaced as a whole or not at all. A new file beside it, with the mode 0600, is written and
//! synced, renamed over it, and the folder is synced. Links are never followed for writing, and a file of another user is
//! neither read nor replaced, so a folder that others can write to betrays no secret. The caller of [`replace`] must hold
//! a lock, so that nobody else writes a file of this name. All functions may block.

use std::fmt::Display;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::regular_file;

/// Only the owner may read and write.
const MODE: u32 = 0o600;
/// Time between two attempts to take a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Opens the lock file beside `path`, and makes its folder if it is missing. The file itself is no lock, because it is
/// replaced.
pub fn open_lock(path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder(path)).map_err(denied)?;
    append(&beside(path, "lock"))
}

/// Locks the lock file beside `path` until the returned file is dropped. Blocks for `patience` at most if another holds the
/// lock.
#[allow(clippy::disallowed_methods)] // the caller may block
pub fn lock(path: &Path, patience: Duration) -> Result<File, TryLockError> {
    let (file, started) = (open_lock(path).map_err(TryLockError::Error)?, Instant::now());
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if started.elapsed() < patience => sleep(LOCK_PAUSE),
            Err(error) => return Err(error),
        }
    }
}

/// Opens the file at `path` for reading. Fails if another user owns it. A link is followed, because Kubernetes mounts
/// its files as links.
pub fn open(path: &Path) -> io::Result<File> {
    let file = regular_file::open(path)?;
    check_owner(&file.metadata()?)?;
    Ok(file)
}

/// Reads the whole file at `path`. Fails if another user owns it, or if it has more than `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    regular_file::read_opened(open(path)?, max_bytes)
}

/// Replaces the file at `path` by `text`, durably.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    replace_with(path, |file| file.write_all(text))
}

/// Replaces the file at `path` by what `write` writes, durably. After an error, no part of it is left.
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) => check_owner(&found)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let new = beside(path, "new");
    let file = create(&new)?;
    let replaced = fill(file, write).and_then(|file| {
        fs::rename(&new, path)?;
        check_same(&file, path)
    });
    if replaced.is_err() {
        let _ = fs::remove_file(&new); // a partial file must not fill the disk
    }
    replaced?;
    // The new name is durable only after the folder was synced.
    File::open(folder(path))?.sync_all()
}

/// Returns Switchyard's folder for files that outlive the process: `switchyard` below `$XDG_STATE_HOME`, or below
/// `~/.local/state`.
pub fn default_state_folder() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = given.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?;
    Some(state.join("switchyard"))
}

/// Encodes `name` for use in a file name.
pub fn of(name: &str) -> impl Display {
    utf8_percent_encode(name, NON_ALPHANUMERIC)
}

/// Appends `ending` to `path`, after a dot.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Fails if a user owns the file that is neither the one of this process nor root.
pub fn check_owner(file: &Metadata) -> io::Result<()> {
    let (owner, own) = (file.uid(), geteuid().as_raw());
    if owner == own || owner == 0 {
        return Ok(());
    }
    let reason = format!(
        "it belongs to the user {owner}, and this process runs as {own}; change its owner or remove it"
    );
    Err(io::Error::new(ErrorKind::PermissionDenied, reason))
}

/// Makes a new file for its owner. Another file of this name, such as the rest of a killed process, is removed.
pub fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let made = options(OFlags::empty()).create_new(true).open(path);
    let file = made.map_err(denied)?;
    // The umask may have taken bits away.
    file.set_permissions(Permissions::from_mode(MODE))?;
    Ok(file)
}

/// Opens the file at `path` for reading and appending, or makes it. Fails if another user owns it, or if it has other
/// names.
pub fn append(path: &Path) -> io::Result<File> {
    open_or_make(path, true)
}

/// Opens the file at `path` for changes at any place, like [`append`].
pub fn open_to_change(path: &Path) -> io::Result<File> {
    open_or_make(path, false)
}

fn open_or_make(path: &Path, appends: bool) -> io::Result<File> {
    // A FIFO without a reader is an error.
    let mut options = options(OFlags::NONBLOCK);
    let file = options.read(true).append(appends).create(true).open(path).map_err(denied)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file with one name"));
    }
    check_owner(&found)?;
    file.set_permissions(Permissions::from_mode(MODE))?;
    Ok(file)
}

fn denied(error: io::Error) -> io::Error {
    regular_file::explained(error, "write to its folder")
}

fn options(more: OFlags) -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NOCTTY | more;
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE).custom_flags(flags.bits().cast_signed());
    options
}

fn fill(file: File, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<File> {
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(file)
}

/// Fails if `path` is not the name of `file`: a user who can write to the folder put another one there.
fn check_same(file: &File, path: &Path) -> io::Result<()> {
    let identity = |found: &Metadata| (found.dev(), found.ino());
    if identity(&file.metadata()?) == identity(&fs::symlink_metadata(path)?) {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, "another program replaced it while it was written"))
}

/// Returns the folder of `path`. A bare name has an empty parent, which cannot be opened.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
#[path = "private_file_tests.rs"]
mod tests;
