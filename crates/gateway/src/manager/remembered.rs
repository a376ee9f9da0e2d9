//! The last offers of servers, kept in files so that their tools are known when Switchyard starts.
//!
//! There is one file for each server of a configuration file. It has its last offer, its signs of state, the digests of the definitions
//! that are trusted, and the names and URIs that belong to it. Invariants: an offer is used only for a server that is
//! reached in the same way, with the same credential. Trust and names stay with the name of the server, as they do while
//! Switchyard runs, until the server leaves the configuration file or an operator forgets it. A file is replaced as a
//! whole. A file or folder that cannot be used costs one log line and nothing else. Files are bounded, each and in sum.
//!
//! Not here: when files are written (`offer_writer`), and what a remembered offer means for the
//! start of its server (`upstream`).

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::known::{Known, KnownServers, OwnedNames};
use super::owners::OwnerHash;
use super::trust::Trust;
use json::Raw;
use runtime::private_file;
use settings::Fingerprint;
use upstream::{PrincipalOffers, Remembered, StateSign};

/// Reads what is remembered of servers, each by its name and the settings that it is reached with, and removes the files of
/// other servers.
pub(super) fn of_all(folder: Option<&Folder>, servers: &[(&Arc<str>, Fingerprint)]) -> KnownServers {
    let Some(folder) = folder else { return KnownServers::default() };
    let names: HashSet<String> = servers.iter().map(|(name, _)| private_file::of(name).to_string()).collect();
    folder.retain(|name| names.contains(name));
    servers.iter().map(|(name, identity)| (Arc::clone(name), folder.read(name, identity))).collect()
}

/// The name of the format.
const FORMAT: &str = "switchyard-remembered-server";
/// The version of the format. Another one may mean other things.
const VERSION: u64 = 1;

/// The content of the file of one server.
///
/// Invariants: the fingerprint of the settings is salted, so equal credentials of two servers are not seen to be
/// equal, and no credential can be looked up in a table. A file of another version of the format is not read.
pub(super) struct Content {
    /// The name of the server.
    pub server: String,
    /// The fingerprint of the settings that it was reached with.
    pub identity: Fingerprint,
    /// The offer; `None` if it is too large.
    pub offer: Option<Raw>,
    /// The offers to single principals; `None` if there are none, or if they are too large.
    pub principals: Option<Raw>,
    /// When the offer was read.
    pub read_at: SystemTime,
    /// Its signs of state.
    pub signs: Vec<StateSign>,
    /// The trusted digests, as [`Trust::to_bytes`] has them.
    pub trusted: Vec<u8>,
    /// The new tools, as [`Trust::new_to_bytes`] has them.
    pub new: Vec<u8>,
    /// Its names.
    pub names: OwnedNames,
}

impl Content {
    /// Returns the text of the file.
    fn print(&self) -> Bytes {
        let salt = hex::encode(Uuid::new_v4().as_bytes());
        let seconds = self.read_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signs: Vec<&str> = self.signs.iter().map(|sign| sign.as_str()).collect();
        let names = |hashes: &[OwnerHash]| Raw::of(&STANDARD.encode(hashes.concat()));
        let OwnedNames { tools, prompts, uris } = &self.names;
        let names =
            Raw::object(&[("tools", &names(tools)), ("prompts", &names(prompts)), ("uris", &names(uris))]);
        let fingerprint = salted(&salt, &self.identity);
        let object = Raw::object(&[
            ("format", &Raw::of(FORMAT)),
            ("version", &Raw::of(&VERSION)),
            ("server", &Raw::of(&self.server)),
            ("salt", &Raw::of(&salt)),
            ("fingerprint", &Raw::of(&fingerprint)),
            ("readAt", &Raw::of(&seconds)),
            ("stateSigns", &Raw::of(&signs)),
            ("trusted", &Raw::of(&STANDARD.encode(&self.trusted))),
            ("new", &Raw::of(&STANDARD.encode(&self.new))),
            ("names", &names),
            ("principals", &or_null(self.principals.as_ref())),
            ("offer", &or_null(self.offer.as_ref())),
        ]);
        object.bytes().clone()
    }
}

fn or_null(value: Option<&Raw>) -> Raw {
    value.cloned().unwrap_or_else(|| Raw::of(&()))
}

/// Reads the file of `server`, which is reached with the settings of `identity`. The error says why it is not used.
fn read(text: Vec<u8>, server: &str, identity: &Fingerprint) -> Result<Known, &'static str> {
    let file = Raw::parse(&text.into()).map_err(|_| "it is cut or damaged")?;
    if file.get_as::<String>("format").as_deref() != Some(FORMAT) {
        return Err("it is not a file of Switchyard");
    }
    if file.get_as::<u64>("version") != Some(VERSION) {
        return Err("it was written by another version of Switchyard");
    }
    if file.get_as::<String>("server").as_deref() != Some(server) {
        return Err("it is the file of another server");
    }
    parts(&file, &server.into(), identity).ok_or("it is damaged")
}

fn parts(file: &Raw, server: &Arc<str>, identity: &Fingerprint) -> Option<Known> {
    let decoded = |of: &Raw, member: &str| STANDARD.decode(of.get_as::<String>(member)?).ok();
    let names = file.get("names")?;
    let hashes = |member: &str| {
        let bytes = decoded(&names, member)?;
        let (hashes, rest) = bytes.as_chunks();
        rest.is_empty().then(|| hashes.to_vec())
    };
    let names = OwnedNames { tools: hashes("tools")?, prompts: hashes("prompts")?, uris: hashes("uris")? };
    // Older files have none.
    let new = if file.get("new").is_some() { decoded(file, "new")? } else { Vec::new() };
    let trust = Trust::from_bytes(&decoded(file, "trusted")?, &new)?.into();
    let read_at = UNIX_EPOCH.checked_add(Duration::from_secs(file.get_as("readAt")?))?;
    let (salt, fingerprint): (String, String) = (file.get_as("salt")?, file.get_as("fingerprint")?);
    let signs: Vec<String> = file.get_as("stateSigns")?;
    let signs = signs.iter().filter_map(|sign| StateSign::from_word(sign)).collect();
    let is_same = fingerprint == salted(&salt, identity);
    let offer = Some(file.get("offer")?).filter(|offer| !offer.is_null());
    // Older files have none.
    let principals = file.get("principals").filter(|stored| is_same && !stored.is_null());
    // Without them, or without memory for them, they are read again. The trusted digests and the names must not be lost.
    let principals =
        principals.and_then(|stored| PrincipalOffers::from_stored(&stored, server)).map(Arc::new);
    let has_offer = is_same && (offer.is_some() || principals.is_some());
    let remembered = has_offer.then(|| {
        let principals = principals.unwrap_or_default();
        Remembered { offer, principals, read_at, signs }
    });
    Some(Known { remembered, trust, names })
}

fn salted(salt: &str, identity: &Fingerprint) -> String {
    hex::encode(Sha256::new_with_prefix(salt).chain_update(identity.bytes()).finalize())
}

/// The folder below the state folder.
const NAME: &str = "offers";
/// The file that names the configuration file, for people who look into the folder.
const LABEL: &str = "configuration";
/// The most bytes of one file.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The most bytes of all files.
const MAX_ALL_BYTES: u64 = 64 << 20;

/// Where the offers of the servers of one configuration file are kept.
///
/// Invariants: a file has at most [`MAX_FILE_BYTES`], and all files of all configurations have at most
/// [`MAX_ALL_BYTES`]. An offer beyond that is left out, while digests and names, which protect clients, are kept.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    configuration: PathBuf,
    /// Whether a failed write was logged. The next ones say nothing new.
    has_failed: AtomicBool,
}

/// Returns the folder in `state` for what is called `kind` and belongs to the file `configuration`, and the whole path of
/// that file.
pub(super) fn folder_of(state: &Path, kind: &str, configuration: &Path) -> (PathBuf, PathBuf) {
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
    pub(super) fn read(&self, server: &str, identity: &Fingerprint) -> Known {
        let path = self.file(server);
        let read = match private_file::read(&path, MAX_FILE_BYTES) {
            Ok(text) => read(text, server, identity).map_err(str::to_owned),
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
    pub(super) fn write(&self, content: Content) -> bool {
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
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
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

#[cfg(test)]
mod file_tests {
    use serde_json::json;

    use super::*;

    fn content() -> Content {
        Content {
            server: "one".into(),
            identity: Fingerprint::ABSENT,
            offer: Some(Raw::of(&json!({"revision": "2025-11-25"}))),
            principals: None,
            read_at: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            signs: vec![StateSign::AsksForRoots],
            trusted: Vec::new(),
            new: Vec::new(),
            names: OwnedNames { tools: vec![[1; 16], [2; 16]], prompts: Vec::new(), uris: vec![[3; 16]] },
        }
    }

    #[test]
    fn file_is_read_as_it_was_written() {
        let written = content();
        let known = read(written.print().to_vec(), "one", &Fingerprint::ABSENT).expect("readable");
        let remembered = known.remembered.expect("the same settings");
        assert_eq!(remembered.offer, written.offer);
        assert_eq!((remembered.read_at, remembered.signs), (written.read_at, written.signs));
        assert_eq!(known.names, written.names);
    }

    #[test]
    fn offer_of_other_settings_is_not_used_and_names_stay() {
        let known = read(content().print().to_vec(), "one", &Fingerprint::default()).expect("readable");
        assert!(known.remembered.is_none());
        assert_eq!(known.names, content().names);
    }

    #[test]
    fn unreadable_offers_to_principals_are_left_out_and_the_rest_stays() {
        let written = Content { principals: Some(Raw::of(&json!({"salt": 1}))), ..content() };
        let known = read(written.print().to_vec(), "one", &Fingerprint::ABSENT).expect("readable");
        let remembered = known.remembered.expect("the same settings");
        assert_eq!(remembered.offer, written.offer);
        assert!(remembered.principals.is_empty());
        assert_eq!(known.names, written.names);
    }

    #[test]
    fn foreign_cut_and_newer_files_are_refused_with_a_reason() {
        let text = content().print();
        let whole = String::from_utf8(text.to_vec()).expect("text");
        let read = |text: &[u8], server| read(text.to_vec(), server, &Fingerprint::ABSENT).map(drop);
        for cut in [0, 1, 20, text.len() / 2, text.len() - 1] {
            assert_eq!(read(&text[..cut], "one"), Err("it is cut or damaged"), "{cut}");
        }
        assert_eq!(read(&text, "two"), Err("it is the file of another server"));
        assert_eq!(read(b"{}", "one"), Err("it is not a file of Switchyard"));
        let newer = whole.replace(r#""version":1"#, r#""version":2"#);
        assert_eq!(read(newer.as_bytes(), "one"), Err("it was written by another version of Switchyard"));
        let damaged = whole.replace(r#""trusted":"""#, r#""trusted":"AAAA""#);
        assert_eq!(read(damaged.as_bytes(), "one"), Err("it is damaged"));
    }

    #[test]
    fn same_settings_have_another_fingerprint_in_each_file() {
        let fingerprint = || {
            let file = Raw::parse(&content().print()).expect("JSON");
            file.get_as::<String>("fingerprint").expect("text")
        };
        assert_ne!(fingerprint(), fingerprint());
    }
}
