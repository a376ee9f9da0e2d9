//! Files of other programs: read, replaced with a backup beside them, and restored.
//!
//! Invariants: a file is replaced as a whole or not at all, and keeps its mode and owner. The old file becomes the
//! backup, so that nothing is lost even if another program writes to it at that moment. A file that changed since it was
//! read is not replaced. Links are followed and stay.
//!
//! The name of a backup has the hash of what was written. A file is restored only if it still has that hash. At most
//! two backups of a file are kept.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Gid, RenameFlags, Uid, accessat, fchown, renameat_with};
use sha2::{Digest, Sha256};

use runtime::{private_file, regular_file};

/// Largest file that is edited, in bytes.
const MAX_BYTES: u64 = crate::config::import::MAX_JSON as u64;
/// Mode of a file that did not exist: it may hold a key.
const NEW_MODE: u32 = 0o600;
/// Attempts to put the edit of another program back, while it writes more of them.
const MAX_EXCHANGES: usize = 1_000;
/// The ending of a backup, before the hash.
const BACKUP: &str = "switchyard-before-";
/// The ending of the mark that there was no file, before the hash.
const ABSENT: &str = "switchyard-absent-";
/// The ending of a file that is being written.
const NEW: &str = "switchyard-new-";

/// Why a file was not read or not written. It is unchanged then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// It is not UTF-8.
    #[error("it is not UTF-8, so it is not edited")]
    NotText,
    /// Its permissions do not allow writing.
    #[error("it is read-only: make it writable first, with `chmod u+w`")]
    ReadOnly,
    /// The link leads nowhere.
    #[error("it is a link to a file that does not exist")]
    BrokenLink,
    /// Another program wrote it after it was read.
    #[error("another program changed it meanwhile, so it was not written: run the command again")]
    Changed,
    /// It cannot be written.
    #[error("it cannot be written: {0}")]
    Unwritable(io::Error),
    /// There is no backup.
    #[error("there is nothing to undo: no backup is beside it")]
    NoBackup,
    /// It was changed since `connect` wrote it.
    #[error("it was changed since `connect` wrote it, so it is not restored: its earlier content is in {}", .0.display())]
    ChangedSince(PathBuf),
}

fn unwritable(error: io::Error) -> Error {
    Error::Unwritable(regular_file::explained(error, "write to its folder"))
}

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The file, without links.
    pub path: PathBuf,
    content: Option<Vec<u8>>,
    mode: u32,
    owner: Option<(u32, u32)>,
}

impl Snapshot {
    /// Reads the file at `path`, which need not exist.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let absent = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        match fs::symlink_metadata(path) {
            Err(error) if absent(&error) => return Ok(Self::absent(path)),
            Err(error) => return Err(Error::Unreadable(error)),
            Ok(_) => {}
        }
        let path = path
            .canonicalize()
            .map_err(|error| if absent(&error) { Error::BrokenLink } else { Error::Unreadable(error) })?;
        let content = regular_file::read(&path, MAX_BYTES).map_err(Error::Unreadable)?;
        let metadata = fs::metadata(&path).map_err(Error::Unreadable)?;
        let (mode, owner) = (metadata.mode() & 0o7777, Some((metadata.uid(), metadata.gid())));
        Ok(Self { path, content: Some(content), mode, owner })
    }

    fn absent(path: &Path) -> Self {
        Self { path: path.to_owned(), content: None, mode: NEW_MODE, owner: None }
    }

    /// The text of the file; empty if it does not exist.
    pub(crate) fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(self.content.as_deref().unwrap_or_default()).map_err(|_| Error::NotText)
    }

    /// Whether the file exists.
    pub(crate) fn exists(&self) -> bool {
        self.content.is_some()
    }

    /// Fails if the file may not be written.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        let is_read_only = || {
            self.mode & 0o222 == 0 || accessat(CWD, &self.path, Access::WRITE_OK, AtFlags::EACCESS).is_err()
        };
        if self.exists() && is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Replaces the file by `text` and returns the path of the backup, if there was a file.
    pub(crate) fn replace(&self, text: &str) -> Result<Option<PathBuf>, Error> {
        self.check_writable()?;
        let hash = hash(text.as_bytes());
        let new = self.prepare(text.as_bytes(), &hash).map_err(unwritable)?;
        let result =
            if self.exists() { self.exchange(&new, &hash).map(Some) } else { self.place(&new, &hash) };
        // After a success it is a backup by now, or has a second name.
        let _ = fs::remove_file(&new);
        if result.is_ok() {
            self.remove_old_backups(&hash);
            let _ = File::open(folder(&self.path)).and_then(|folder| folder.sync_all());
        }
        result
    }

    /// Removes the mark that [`Snapshot::replace`] leaves where there was no file, so that nothing can be undone.
    pub(crate) fn forget_absence(&self, text: &str) {
        let _ = fs::remove_file(beside(&self.path, &format!("{ABSENT}{}", hash(text.as_bytes()))));
    }

    /// Writes `bytes` beside the file, with its mode and owner.
    fn prepare(&self, bytes: &[u8], hash: &str) -> io::Result<PathBuf> {
        fs::create_dir_all(folder(&self.path))?;
        let new = beside(&self.path, &format!("{NEW}{hash}-{}", std::process::id()));
        let mut file = private_file::create(&new)?;
        let written = self.fill(&mut file, bytes);
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written.map(|()| new)
    }

    fn fill(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)?;
        let metadata = file.metadata()?;
        if let Some((user, group)) = self.owner.filter(|owner| *owner != (metadata.uid(), metadata.gid())) {
            fchown(&*file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        file.set_permissions(Permissions::from_mode(self.mode))?;
        file.sync_all()
    }

    /// Puts `new` in the place of the file, and the file in the place of the backup.
    fn exchange(&self, new: &Path, hash: &str) -> Result<PathBuf, Error> {
        let backup = beside(&self.path, &format!("{BACKUP}{hash}"));
        match swap(new, &self.path) {
            Ok(()) => {}
            Err(error) if is_unsupported(&error) => return self.copy_and_rename(new, backup),
            Err(error) => return Err(changed_if_absent(error)),
        }
        // The file that was at the path is at `new` now, and no other program knows that name.
        if self.is_content_of(new) {
            fs::rename(new, &backup).map_err(Error::Unwritable)?;
            return Ok(backup);
        }
        // An edit of another program, which belongs at the path.
        match settle(new, &self.path, hash) {
            Ok(()) => Err(Error::Changed),
            Err(_) => {
                Err(fs::rename(new, &backup).map_or_else(Error::Unwritable, |()| Error::ChangedSince(backup)))
            }
        }
    }

    /// Replaces the file on a file system that cannot exchange two names.
    fn copy_and_rename(&self, new: &Path, backup: PathBuf) -> Result<PathBuf, Error> {
        let _ = fs::remove_file(&backup);
        fs::hard_link(&self.path, &backup).or_else(|_| self.copy_to(&backup)).map_err(Error::Unwritable)?;
        if !self.is_content_of(&self.path) {
            let _ = fs::remove_file(&backup);
            return Err(Error::Changed);
        }
        fs::rename(new, &self.path).map_err(Error::Unwritable)?;
        Ok(backup)
    }

    fn copy_to(&self, backup: &Path) -> io::Result<()> {
        let content = regular_file::read(&self.path, MAX_BYTES)?;
        self.fill(&mut private_file::create(backup)?, &content)
    }

    /// Gives `new` the name of a file that did not exist.
    fn place(&self, new: &Path, hash: &str) -> Result<Option<PathBuf>, Error> {
        fs::hard_link(new, &self.path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::Changed,
            _ => Error::Unwritable(error),
        })?;
        private_file::create(&beside(&self.path, &format!("{ABSENT}{hash}"))).map_err(Error::Unwritable)?;
        Ok(None)
    }

    fn is_content_of(&self, path: &Path) -> bool {
        regular_file::read(path, MAX_BYTES)
            .is_ok_and(|bytes| Some(bytes.as_slice()) == self.content.as_deref())
    }

    /// Removes all backups but the new one and the one before it.
    fn remove_old_backups(&self, new: &str) {
        let before = self.content.as_deref().map(hash).unwrap_or_default();
        for (path, of) in backups(&self.path) {
            if of != new && of != before {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Restores what was there before the last `connect`, and says whether there was a file.
    pub(crate) fn restore(&self) -> Result<bool, Error> {
        let Some(content) = &self.content else { return Err(Error::NoBackup) };
        self.check_writable()?;
        let (now, all) = (hash(content), backups(&self.path));
        let Some((backup, _)) = all.iter().find(|(_, of)| *of == now) else {
            let other = all.into_iter().map(|(path, _)| path).find(|path| !is_mark(path));
            return Err(other.map_or(Error::NoBackup, Error::ChangedSince));
        };
        if is_mark(backup) {
            self.remove(backup).map(|()| false)
        } else {
            self.put_back(backup).map(|()| true)
        }
    }

    fn put_back(&self, backup: &Path) -> Result<(), Error> {
        let restored = hash(&fs::read(backup).map_err(Error::Unwritable)?);
        match swap(backup, &self.path) {
            Err(error) if !is_unsupported(&error) => return Err(changed_if_absent(error)),
            Err(_) if !self.is_content_of(&self.path) => return Err(Error::Changed),
            Err(_) => return fs::rename(backup, &self.path).map_err(Error::Unwritable),
            Ok(()) => {}
        }
        if self.is_content_of(backup) {
            return fs::remove_file(backup).map_err(Error::Unwritable);
        }
        settle(backup, &self.path, &restored).map_err(Error::Unwritable)?;
        Err(Error::Changed)
    }

    /// Removes a file that did not exist before.
    fn remove(&self, mark: &Path) -> Result<(), Error> {
        let moved = beside(&self.path, &format!("{NEW}{}", std::process::id()));
        fs::rename(&self.path, &moved).map_err(changed_if_absent)?;
        if !self.is_content_of(&moved) {
            // If a newer file has the name already, both stay.
            let _ = fs::hard_link(&moved, &self.path).and_then(|()| fs::remove_file(&moved));
            return Err(Error::Changed);
        }
        fs::remove_file(mark).and_then(|()| fs::remove_file(&moved)).map_err(Error::Unwritable)
    }
}

fn swap(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Puts the file at `held` back to `path`, where a file with the hash `placed` was put by mistake.
///
/// If `path` has another content by then, that is a later edit. It is at `held` after the exchange, so that the same
/// step puts it back too. At the end, `held` has only what this put there itself.
fn settle(held: &Path, path: &Path, placed: &str) -> io::Result<()> {
    let mut placed = placed.to_owned();
    for _ in 0..MAX_EXCHANGES {
        let expected = hash(&fs::read(held)?);
        swap(held, path)?;
        if hash(&fs::read(held)?) == placed {
            return Ok(());
        }
        placed = expected;
    }
    Err(io::Error::other("another program writes it all the time"))
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput)
}

fn changed_if_absent(error: io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound { Error::Changed } else { Error::Unwritable(error) }
}

/// Returns the backups and marks beside the file at `path`, each with its hash. Links, and files that another user put
/// there, are none.
fn backups(path: &Path) -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(folder(path)) else { return Vec::new() };
    let hash_of = |found: &Path| {
        let rest =
            found.file_name()?.to_str()?.strip_prefix(path.file_name()?.to_str()?)?.strip_prefix('.')?;
        rest.strip_prefix(BACKUP).or_else(|| rest.strip_prefix(ABSENT)).map(str::to_owned)
    };
    let own = fs::metadata(path).map(|file| file.uid()).ok();
    let is_backup = |found: &Path| {
        fs::symlink_metadata(found).is_ok_and(|file| {
            file.is_file() && (own == Some(file.uid()) || private_file::check_owner(&file).is_ok())
        })
    };
    let all = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|found| is_backup(found));
    all.filter_map(|found| hash_of(&found).map(|hash| (found, hash))).collect()
}

fn is_mark(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(ABSENT))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    private_file::beside(path, ending)
}

/// Returns the folder of `path`. A bare name has an empty parent, which cannot be opened.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
