//! Opens files and folders below a folder, never through a link.
//!
//! Invariants: a path is walked one name at a time, and each part is opened below the folder before it. So no
//! race can lead outside. Opening never waits, not even for the writer of a pipe.
//!
//! Not here: which folders may be opened, and whether a file is a regular one (`roots`).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Opens the file that `names` lead to from `root`. The root itself may be reached through links, because the
/// operator wrote it.
pub(super) fn open_file(root: &Path, names: &[&str]) -> io::Result<File> {
    let (last, folders) = names.split_last().ok_or(io::ErrorKind::NotFound)?;
    let folder = open_folder(root, folders)?;
    // Does not wait for the writer of a pipe.
    Ok(File::from(step(&folder, last, OFlags::NONBLOCK | OFlags::NOCTTY)?))
}

/// Opens the folder that `names` lead to from `root`, refusing links.
pub(super) fn open_folder(root: &Path, names: &[&str]) -> io::Result<OwnedFd> {
    let root = openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    names.iter().try_fold(root, |folder, name| step_into(&folder, name))
}

/// Opens the folder `name` in `folder`, refusing a link.
pub(super) fn step_into(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    step(folder, name, OFlags::DIRECTORY)
}

fn step(folder: &OwnedFd, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::empty())?)
}
