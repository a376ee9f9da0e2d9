//! Locks among processes that share a vault: the lock of one write, and leases of an entry for work that takes longer.
//!
//! Each write takes the lock, reads the file, changes it and writes it. A running gateway and `switchyard secret` can
//! therefore both write, and neither loses a change of the other. Gateways with the same `state_dir`, such as several
//! `switchyard stdio`, have the same tokens, and a rotated refresh token works once. So of all processes one has the lease of
//! an entry. The system releases locks and leases when their process ends. There are at most [`SLOTS`] lock files for leases,
//! so two entries may share one and then wait for each other.
//!
//! Not here: replicas on other machines, which have vaults of their own.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::{Entry, Error, Vault};
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

/// Limit of lock files: one for each value of a byte.
const SLOTS: usize = 1 << u8::BITS;
/// Time between two attempts to take a lease.
const PAUSE: Duration = Duration::from_millis(20);
/// The folder of the lock files, beside the vault.
const FOLDER: &str = "leases";

/// The lease of one entry, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    _lock: File,
}

impl Vault {
    /// Waits until no other process has the lease of `entry`, at most for `patience`. Read the entry after that: another
    /// process may have changed it. Returns [`Error::Locked`] if the lease did not become free, and [`Error::File`] if
    /// the folder of the vault cannot be written.
    pub async fn lease(self: &Arc<Self>, entry: &Entry, patience: Duration) -> Result<Lease, Error> {
        let path = self.lease_path(entry);
        let failed = {
            let path = private_file::beside(&path, "lock");
            move |source| Error::File { path: path.clone(), action: "locked", source }
        };
        let opened = tokio::task::spawn_blocking(move || private_file::open_lock(&path));
        let lock = opened.await.map_err(|_| Error::Ending)?.map_err(&failed)?;
        let deadline = Instant::now() + patience;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Lease { _lock: lock }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(Error::Locked { path: self.path.clone(), process: None });
                }
                Err(TryLockError::WouldBlock) => sleep(PAUSE).await,
            }
        }
    }

    fn lease_path(&self, entry: &Entry) -> PathBuf {
        let slot = usize::from(Sha256::digest(entry.encoded())[0]) % SLOTS;
        self.path.with_file_name(FOLDER).join(format!("{slot:02x}"))
    }
}
