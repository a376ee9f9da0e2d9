//! The lock that a process holds while it writes the vault.
//!
//! Each write takes the lock, reads the file, changes it and writes it. A running gateway and `switchyard secret` can
//! therefore both write, and neither loses a change of the other. The system releases the lock when the process ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::Error;
use runtime::private_file;

/// Locks the vault at `path` until the returned file is dropped. Blocks for `patience` at most.
pub(super) fn take(path: &Path, patience: Duration) -> Result<File, Error> {
    let lock_path = private_file::beside(path, "lock");
    let failed = |source| Error::File { path: lock_path.clone(), action: "locked", source };
    let lock = private_file::lock(path, patience).map_err(|error| match error {
        TryLockError::Error(error) => failed(error),
        TryLockError::WouldBlock => Error::Locked { process: holder(&lock_path), path: lock_path.clone() },
    })?;
    name_this_process(&lock).map_err(failed)?;
    Ok(lock)
}

/// The process that last took the lock.
fn holder(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn name_this_process(mut lock: &File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.write_all(std::process::id().to_string().as_bytes())
}
