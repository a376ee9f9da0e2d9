//! Failures of the vault, with the file and the action that ends them.
//!
//! Invariant: no text contains a value or a key.

use std::io;
use std::path::{Path, PathBuf};

use super::shares::MAX_OWN_SECRETS;
use super::{Entry, MAX_ENTRIES, MAX_FILE_BYTES, MAX_NAME_BYTES, Share};

/// Why the vault cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither `state_dir`, `XDG_STATE_HOME` nor a home folder is known.
    #[error("no folder for the vault is known: set `state_dir` under `server:` in the configuration file")]
    NoFolder,
    /// The system refused an operation.
    #[error("the vault cannot be used: {} cannot be {action}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operation, such as `read`.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Other users can read the key file.
    #[error(
        "the vault cannot be used: other users can read its key file {0} (mode {mode:o}). Run `chmod 600 {0}`, and \
         replace the key if somebody may have read it",
        path.display()
    )]
    Readable {
        /// The key file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The key file does not hold a key.
    #[error(
        "the vault cannot be used: {} holds no key, {reason}. Restore this file from a backup",
        path.display()
    )]
    KeyFile {
        /// The key file.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// There is a vault and no key for it.
    #[error(
        "the vault {} cannot be opened: its key file {} is missing. Restore the key file, or set `vault_key` under \
         `server:`. To begin with an empty vault, move the old one away",
        path.display(),
        key_file.display()
    )]
    KeyMissing {
        /// The vault.
        path: PathBuf,
        /// Its key file.
        key_file: PathBuf,
    },
    /// No configured key opens the vault.
    #[error(
        "the vault {} was sealed with another key. Add that key at the end of the list `vault_key` under `server:`. \
         To begin with an empty vault, move the old one away",
        path.display()
    )]
    WrongKey {
        /// The vault.
        path: PathBuf,
    },
    /// The file is not a vault.
    #[error(
        "{} is not a vault, or it is damaged: {reason}. Restore it from a backup. To begin with an empty vault, move it \
         away",
        path.display()
    )]
    Damaged {
        /// The vault.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// One entry was changed outside of Switchyard.
    #[error("{entry} in the vault {} is damaged. Remove it, or set it again", path.display())]
    DamagedEntry {
        /// The vault.
        path: PathBuf,
        /// The entry.
        entry: Box<Entry>,
    },
    /// Another process writes the vault and does not finish.
    #[error(
        "{} is in use by {}: try again when that process has finished",
        path.display(),
        process.map_or_else(|| "another process".to_owned(), |id| format!("the process {id}"))
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds the lock, if it is known.
        process: Option<u32>,
    },
    /// The name of the entry is too long.
    #[error("the name of an entry of the vault has at most {MAX_NAME_BYTES} bytes")]
    LongName,
    /// The value is too long.
    #[error("the value has at most {most} bytes")]
    LongValue {
        /// The limit.
        most: usize,
    },
    /// The vault has no room.
    #[error(
        "the vault {} is full: it has at most {MAX_ENTRIES} entries and {MAX_FILE_BYTES} bytes. Remove entries that \
         are not used",
        path.display()
    )]
    Full {
        /// The vault.
        path: PathBuf,
    },
    /// The logins to one server, those of one principal, or secrets of principals take their share.
    #[error("{}", share_text(path, name, *share))]
    Share {
        /// The vault.
        path: PathBuf,
        /// The server, or the name of the secret.
        name: String,
        /// The share that is used up.
        share: Share,
    },
    /// The task that writes the vault was cancelled, because the program ends.
    #[error("the vault was not written, because Switchyard shuts down")]
    Ending,
}

fn share_text(path: &Path, name: &str, share: Share) -> String {
    let (path, server) = (path.display(), settings::one_line(name));
    let limit = match share {
        Share::Server => "those to one server take at most half of what all others leave",
        Share::Principal => "those of one principal take at most an eighth of it",
        Share::Secrets => {
            return format!(
                "the vault {path} has no room for the secret `{server}` of a further principal: those of all principals \
                 take at most half of what other entries leave. `switchyard secret remove` removes secrets that are not used"
            );
        }
        Share::OwnSecrets => {
            return format!(
                "the vault {path} has no room for the secret `{server}`: one principal has at most {MAX_OWN_SECRETS} \
                 secrets. Remove one that is not used"
            );
        }
    };
    format!(
        "the vault {path} has no room for a further login to `{server}`: {limit}. `switchyard logout` removes logins that \
         are not used"
    )
}
