//! Whether the log file can be written here, for `check` and `doctor`.
//!
//! Nothing is opened or created.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::config::Config;
use runtime::regular_file::explained;

/// Why the log file cannot be written, and what to type.
pub(super) struct Unwritable {
    pub(super) found: String,
    pub(super) fix: String,
}

/// Returns the problem of the log file that `config` names, if there is one.
pub(super) fn unwritable(config: &Config) -> Option<Unwritable> {
    let path = config.server.log.file.as_ref()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (reason, fix) = if path.is_file() {
        (refusal(path)?, format!("`chmod u+w {}` as its owner", path.display()))
    } else if path.exists() {
        ("it is not a file".to_owned(), "another path for `log_file` under `server:`".to_owned())
    } else if folder.is_dir() {
        (refusal(folder)?, format!("`ls -ld {}`: Switchyard must be able to write there", folder.display()))
    } else {
        (format!("there is no folder {}", folder.display()), format!("`mkdir -p {}`", folder.display()))
    };
    Some(Unwritable { found: format!("the log file {} cannot be written: {reason}", path.display()), fix })
}

/// Why the system does not let this user write `path`.
pub(super) fn refusal(path: &Path) -> Option<String> {
    let reason = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).err()?;
    let reason = explained(std::io::Error::from(reason), "write there");
    Some(format!("{}: {reason}", path.display()))
}
