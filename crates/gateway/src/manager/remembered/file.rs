//! The content of one file: a JSON object.
//!
//! Invariants: the fingerprint of the settings is salted, so equal credentials of two servers are not seen to be equal, and
//! no credential can be looked up in a table. A file of another version of the format is not read.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::manager::known::{Known, OwnedNames};
use crate::manager::owners::OwnerHash;
use crate::manager::trust::Trust;
use json::Raw;
use settings::Fingerprint;
use upstream::{PrincipalOffers, Remembered, StateSign};

/// The name of the format.
const FORMAT: &str = "switchyard-remembered-server";
/// The version of the format. Another one may mean other things.
const VERSION: u64 = 1;

/// The content of the file of one server.
pub(in crate::manager) struct Content {
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
    pub(super) fn print(&self) -> Bytes {
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
pub(super) fn read(text: Vec<u8>, server: &str, identity: &Fingerprint) -> Result<Known, &'static str> {
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

#[cfg(test)]
mod tests {
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
