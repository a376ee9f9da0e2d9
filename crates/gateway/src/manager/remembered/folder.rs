//! The folder with the files of one configuration file.
//!
//! Invariants: a file has at most [`MAX_FILE_BYTES`], and all files of all configurations have at most
//! [`MAX_ALL_BYTES`]. An offer beyond that is left out, while digests and names, which protect clients, are kept.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use super::file::{self, Content};
use crate::manager::known::Known;
use runtime::private_file;
use settings::Fingerprint;

/// The folder below the state folder.
const NAME: &str = "offers";
/// The file that names the configuration file, for people who look into the folder.
const LABEL: &str = "configuration";
/// The most bytes of one file.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The most bytes of all files.
const MAX_ALL_BYTES: u64 = 64 << 20;

/// Where the offers of the servers of one configuration file are kept.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    configuration: PathBuf,
    /// Whether a failed write was logged. The next ones say nothing new.
    has_failed: AtomicBool,
}

/// Returns the folder in `state` for what is called `kind` and belongs to the file `configuration`, and the whole path of
/// that file.
pub(in crate::manager) fn folder_of(state: &Path, kind: &str, configuration: &Path) -> (PathBuf, PathBuf) {
    let whole = fs::canonicalize(configuration).or_else(|_| std::path::absolute(configuration));
    let configuration = whole.unwrap_or_else(|_| configuration.to_owned());
    let hash = hex::encode(Sha256::digest(configuration.as_os_str().as_encoded_bytes()));
    (state.join(kind).join(&hash[..16]), configuration)
}

impl Folder {
    /// The folder in `state` for the servers of the file `configuration`. Nothing is read or made yet.
    pub fn new(state: &Path, configuration: &Path) -> Self {
        let (path, configuration) = folder_of(state, NAME, configuration);
        Self { path, configuration, has_failed: AtomicBool::new(false) }
    }

    fn file(&self, server: &str) -> PathBuf {
        self.path.join(format!("{}.json", private_file::of(server)))
    }

    /// Returns what is remembered of a server that is reached with the settings of `identity`.
    pub(in crate::manager) fn read(&self, server: &str, identity: &Fingerprint) -> Known {
        let path = self.file(server);
        let read = match private_file::read(&path, MAX_FILE_BYTES) {
            Ok(text) => file::read(text, server, identity).map_err(str::to_owned),
            Err(error) if error.kind() == ErrorKind::NotFound => return Known::default(),
            Err(error) => Err(error.to_string()),
        };
        read.unwrap_or_else(|reason| {
            let path = path.display();
            tracing::warn!(server, %path, reason, "the remembered offer is ignored");
            Known::default()
        })
    }

    /// Writes the file of a server. A failure is logged once.
    pub(in crate::manager) fn write(&self, content: Content) -> bool {
        let server = content.server.clone();
        let written = self.replace(content);
        if let Err(error) = &written
            && error.kind() != ErrorKind::WouldBlock
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            let path = self.path.display();
            tracing::warn!(server, %path, %error, "offers cannot be remembered for the next start");
        }
        written.is_ok()
    }

    fn replace(&self, content: Content) -> io::Result<()> {
        let path = self.file(&content.server);
        let lock = private_file::open_lock(&path)?;
        // If another process writes the same file, this one tries again later.
        lock.try_lock().map_err(io::Error::from)?;
        self.label()?;
        let mut text = content.print();
        let own = fs::metadata(&path).map_or(0, |file| file.len());
        let length = text.len() as u64;
        if length > MAX_FILE_BYTES || self.size_of_all().saturating_sub(own) + length > MAX_ALL_BYTES {
            tracing::warn!(
                server = content.server,
                bytes = length,
                "the offer is too large to be remembered"
            );
            text = Content { offer: None, principals: None, ..content }.print();
        }
        private_file::replace(&path, &text)
    }

    fn label(&self) -> io::Result<()> {
        let path = self.path.join(LABEL);
        if path.exists() {
            return Ok(());
        }
        private_file::replace(&path, self.configuration.as_os_str().as_encoded_bytes())
    }

    /// The bytes of the files of all configurations.
    fn size_of_all(&self) -> u64 {
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        let folders = self.path.parent().into_iter().flat_map(entries);
        let files = folders.flat_map(|folder| entries(&folder.path()));
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Removes the files of servers that `is_there` does not know.
    pub(in crate::manager) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(server) = name.strip_suffix(".json") else { continue };
            if !is_there(server) {
                let _ = fs::remove_file(entry.path()); // it is ignored anyway
                let _ = fs::remove_file(private_file::beside(&entry.path(), "lock"));
            }
        }
    }

    /// Removes the file of a server. Returns whether there was one.
    pub fn forget(&self, server: &str) -> io::Result<bool> {
        match fs::remove_file(self.file(server)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
