//! The lock that a process holds while it writes the vault.
//!
//! Each write takes the lock, reads the file, changes it and writes it. A running gateway and `switchyard secret` can
//! therefore both write, and neither loses a change of the other. The system releases the lock when the process ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Error;
use runtime::private_file;

/// Time between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks the vault at `path` until the returned file is dropped. Blocks for `patience` at most.
#[allow(clippy::disallowed_methods)] // the caller may block
pub(super) fn take(path: &Path, patience: Duration) -> Result<File, Error> {
    let lock_path = private_file::beside(path, "lock");
    let failed = |source| Error::File { path: lock_path.clone(), action: "locked", source };
    let lock = private_file::open_lock(path).map_err(failed)?;
    let started = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if started.elapsed() >= patience => {
                return Err(Error::Locked { process: holder(&lock_path), path: lock_path });
            }
            Err(TryLockError::WouldBlock) => sleep(PAUSE),
        }
    }
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
