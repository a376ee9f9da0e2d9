//! Opens files and lists folders below a folder, never through a link.
//!
//! Invariants: a path is walked one name at a time, and each part is opened below the folder before it. So no
//! race can lead outside. Opening never waits, not even for the writer of a pipe. The number of listed entries,
//! files and levels is limited. The files are sorted by name.
//!
//! Not here: which folders may be opened, and whether a file is a regular one (`roots`).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

/// Most files in a folder and its subfolders.
pub(super) const MAX_FILES: usize = 1_000;
/// Most directory entries that are read.
const MAX_ENTRIES: usize = 20_000;
/// Deepest level of subfolders.
const MAX_DEPTH: usize = 32;

/// Files below a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileList {
    /// The paths of the files, relative to the folder.
    pub(super) files: Vec<String>,
    /// Number of entries that are neither files nor folders, such as links, or have a name that is not UTF-8.
    pub(super) ignored: usize,
}

/// Why a folder was not listed.
#[derive(Debug)]
pub(super) enum Unlisted {
    Unreadable(io::Error),
    TooMany,
}

impl From<io::Error> for Unlisted {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// Lists the files below the folder that `names` lead to from `root`. Hidden files, whose names begin with a
/// dot, are skipped. Blocks.
pub(super) fn files(root: &Path, names: &[&str]) -> Result<FileList, Unlisted> {
    let (mut listing, mut seen) = (FileList::default(), 0);
    let mut folders = vec![(open_folder(root, names)?, String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        for entry in Dir::read_from(&folder).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(Unlisted::TooMany);
            }
            let Ok(name) = entry.file_name().to_str() else {
                listing.ignored += 1;
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{prefix}{name}");
            match kind(&folder, name, entry.file_type())? {
                FileType::RegularFile => listing.files.push(path),
                FileType::Directory if depth < MAX_DEPTH => {
                    folders.push((step_into(&folder, name)?, format!("{path}/"), depth + 1));
                }
                _ => listing.ignored += 1,
            }
        }
        if listing.files.len() > MAX_FILES {
            return Err(Unlisted::TooMany);
        }
    }
    listing.files.sort_unstable();
    Ok(listing)
}

/// Returns the type of an entry. Some file systems do not include it in their listings.
fn kind(folder: &OwnedFd, name: &str, listed: FileType) -> io::Result<FileType> {
    match listed {
        FileType::Unknown => {
            Ok(FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
        }
        known => Ok(known),
    }
}

/// Opens the file that `names` lead to from `root`. The root itself may be reached through links, because the
/// operator wrote it.
pub(super) fn open_file(root: &Path, names: &[&str]) -> io::Result<File> {
    let (last, folders) = names.split_last().ok_or(io::ErrorKind::NotFound)?;
    let folder = open_folder(root, folders)?;
    // Does not wait for the writer of a pipe.
    Ok(File::from(step(&folder, last, OFlags::NONBLOCK | OFlags::NOCTTY)?))
}

/// Opens the folder that `names` lead to from `root`, refusing links.
fn open_folder(root: &Path, names: &[&str]) -> io::Result<OwnedFd> {
    let root = openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    names.iter().try_fold(root, |folder, name| step_into(&folder, name))
}

/// Opens the folder `name` in `folder`, refusing a link.
fn step_into(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    step(folder, name, OFlags::DIRECTORY)
}

fn step(folder: &OwnedFd, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_listed_in_order_and_links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("in/deep/er")).expect("made");
        fs::create_dir_all(at("in/.git")).expect("made");
        fs::create_dir_all(at("out")).expect("made");
        for path in ["in/b.md", "in/a.md", "in/deep/er/c.md", "in/.git/config", "in/.env", "out/secret.md"] {
            fs::write(at(path), "text").expect("written");
        }
        std::os::unix::fs::symlink(at("out"), at("in/link")).expect("linked");
        std::os::unix::fs::symlink(at("out/secret.md"), at("in/link.md")).expect("linked");
        let files = |names: &[&str]| files(folder.path(), names).expect("listed");
        let all = ["a.md", "b.md", "deep/er/c.md"].map(str::to_owned).to_vec();
        assert_eq!(files(&["in"]), FileList { files: all, ignored: 2 });
        assert_eq!(files(&["in", "deep"]).files, ["er/c.md"]);
        assert!(matches!(super::files(folder.path(), &["in", "link"]), Err(Unlisted::Unreadable(_))));
        fs::create_dir_all(at("many")).expect("made");
        for number in 0..=MAX_FILES {
            fs::write(at(&format!("many/{number}")), "").expect("written");
        }
        assert!(matches!(super::files(folder.path(), &["many"]), Err(Unlisted::TooMany)));
    }
}
