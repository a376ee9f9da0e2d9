//! Files of Switchyard that only their owner can read.
//!
//! Invariant: a file is replaced as a whole or not at all. A new file beside it is written and synced,
//! renamed over it, and the folder is synced. The caller of [`replace`] must hold a lock, so that nobody else
//! writes a file of this name. All functions may block.

use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::fs::OFlags;

/// Opens the lock file beside `path`, and makes its folder if it is missing. The file itself is no lock, because it is
/// replaced.
pub fn open_lock(path: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder(path))?;
    open(&beside(path, "lock"), false)
}

/// Replaces the file at `path` by `text`, durably.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    replace_with(path, |file| file.write_all(text))
}

/// Replaces the file at `path` by what `write` writes, durably.
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let new = beside(path, "new");
    let mut file = BufWriter::new(open(&new, true)?);
    write(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(new, path)?;
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

fn open(path: &Path, truncate: bool) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed(); // a FIFO without a reader is an error
    OpenOptions::new().write(true).create(true).truncate(truncate).mode(0o600).custom_flags(flags).open(path)
}

/// Returns the folder of `path`. A bare name has an empty parent, which cannot be opened.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_replaced_for_its_owner_and_nothing_stays_beside_it() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("state/deeper/x.json");
        let lock = open_lock(&path).expect("its folder is made");
        lock.try_lock().expect("free");
        for text in ["one, which is longer", "two"] {
            replace(&path, text.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&beside(&path, "lock")), mode(folder(&path))), (0o600, 0o600, 0o700));
        assert!(!beside(&path, "new").exists());
    }

    #[test]
    fn a_bare_name_stands_in_the_folder_that_we_are_in() {
        assert_eq!(folder(Path::new("x.json")), Path::new("."));
        assert_eq!(folder(Path::new("a/x.json")), Path::new("a"));
        assert_eq!(folder(Path::new("/x.json")), Path::new("/"));
    }
}
