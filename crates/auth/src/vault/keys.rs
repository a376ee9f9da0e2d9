//! Settings and keys of the vault: `state_dir` and `vault_key` under `server:`, sealing, and the key file.
//!
//! Invariants: sealed bytes open only under their key and for what they were sealed for. Nonces are random, and
//! AES-256-GCM-SIV (RFC 8452) stays safe if one repeats. A key file that other users can read is refused. A key file is
//! written once and never replaced.

use std::io;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroizing;

use super::{Error, FILE_NAME, VaultConfig};
use crate::seal;
use crate::seal::Secret;
use runtime::private_file;
use runtime::secret::SecretString;
use settings::{Setting, settings};

/// Separates these keys from others that are derived from the same secret.
const LABEL: &[u8] = b"switchyard vault 1";

/// Bytes of a key in a key file.
const KEY_BYTES: usize = 32;
/// Limit of the size of a key file.
const MAX_KEY_FILE_BYTES: u64 = 1_024;
/// Permissions of users other than the owner.
const OTHERS: u32 = 0o077;

/// The keys derived from one secret: for the entries of a vault, and for records of a store beside it.
pub struct VaultKey {
    sealing: LessSafeKey,
    /// Hides the names of entries.
    names: hmac::Key,
    mark: String,
}

impl VaultKey {
    /// Derives the keys from `secret`, which must be hard to guess.
    ///
    /// # Panics
    /// Never: the derived key has the length of the algorithm.
    pub fn of(secret: &[u8]) -> Self {
        let secret = Secret::new(LABEL, secret);
        let sealing = UnboundKey::new(&AES_256_GCM_SIV, &*secret.key(b"entry")).expect("a key has 32 bytes");
        Self {
            sealing: LessSafeKey::new(sealing),
            names: hmac::Key::new(hmac::HMAC_SHA256, &*secret.key(b"name")),
            mark: URL_SAFE_NO_PAD.encode(&secret.key(b"mark")[..16]),
        }
    }

    /// A text that tells keys apart and tells nothing about them.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// The text that replaces the name of an entry in the file.
    pub fn id(&self, name: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.names, name))
    }

    /// Seals `plain`, to be opened with equal `context` only.
    pub fn seal(&self, context: &[u8], plain: &[u8]) -> io::Result<String> {
        let mut nonce = [0; NONCE_LEN];
        SysRng.try_fill_bytes(&mut nonce).map_err(io::Error::other)?;
        // With room for nonce and tag, so that no copy of the plain text stays behind.
        let mut sealed = Zeroizing::new(Vec::with_capacity(plain.len() + 64));
        sealed.extend_from_slice(plain);
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.sealing
            .seal_in_place_append_tag(sealing, Aad::from(context), &mut *sealed)
            .map_err(io::Error::other)?;
        sealed.splice(..0, nonce);
        Ok(URL_SAFE_NO_PAD.encode(&*sealed))
    }

    /// Opens what [`VaultKey::seal`] returned for an equal `context`.
    pub fn open(&self, context: &[u8], sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        let mut sealed = Zeroizing::new(URL_SAFE_NO_PAD.decode(sealed).ok()?);
        let (nonce, sealed) = sealed.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.sealing.open_in_place(nonce, Aad::from(context), sealed).ok()?;
        Some(Zeroizing::new(plain.to_vec()))
    }
}

/// Reads the key file at `path`; `None` if there is no such file.
pub(super) fn read_file(path: &Path) -> Result<Option<VaultKey>, Error> {
    let failed = |source| Error::File { path: path.to_owned(), action: "read", source };
    let file = match private_file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(Error::Readable { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(KEY_BYTES * 2));
    file.take(MAX_KEY_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    let refused = |reason| Error::KeyFile { path: path.to_owned(), reason };
    let key = STANDARD.decode(text.trim()).map(Zeroizing::new).map_err(|_| refused("it is not Base64"))?;
    if key.len() < KEY_BYTES {
        return Err(refused("it is too short"));
    }
    Ok(Some(VaultKey::of(&key)))
}

/// Writes a random key to `path`. The caller holds the lock of the vault, and has seen that there is no file.
pub(super) fn write_file(path: &Path) -> Result<VaultKey, Error> {
    let failed = |source| Error::File { path: path.to_owned(), action: "written", source };
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    SysRng.try_fill_bytes(&mut *key).map_err(|error| failed(io::Error::other(error)))?;
    let text = Zeroizing::new(STANDARD.encode(*key) + "\n");
    private_file::replace(path, text.as_bytes()).map_err(failed)?;
    Ok(VaultKey::of(&*key))
}

settings! {
    /// Where the vault is, and its keys.
    #[derive(Debug, Clone)]
    pub struct Settings {
        /// folder of the [vault](security/secrets.md#secrets-in-the-vault), made when the first value is set; built-in servers
        /// have settings of their own
        pub state_dir: Option<PathBuf> => "`switchyard` in `$XDG_STATE_HOME`, else in `~/.local/state`";
        /// keys that encrypt the [vault](security/secrets.md#secrets-in-the-vault), each a reference such as `${VAULT_KEY}` to at
        /// least 32 bytes: the first key seals, all keys open. One, or a list of 1 to 8
        pub keys as "vault_key": Vec<SecretString>
            => "the file `vault.key` in `state_dir`, made when the first value is set", with read_keys;
    }
}

fn read_keys(setting: &Setting<'_>) -> Option<Vec<SecretString>> {
    let hint = "remove the setting for a key file in `state_dir`";
    seal::read(setting, &setting.one_or_more(), hint)
}

impl Settings {
    /// Its keys in the file. They cannot use values of the vault.
    pub const FIELDS: [&str; 2] = ["state_dir", "vault_key"];

    /// The folder for everything that outlives the process, if one is known.
    pub fn folder(&self) -> Option<PathBuf> {
        self.state_dir.clone().or_else(private_file::default_state_folder)
    }

    /// The file and the keys.
    pub fn vault(&self) -> Result<VaultConfig, Error> {
        let path = self.folder().ok_or(Error::NoFolder)?.join(FILE_NAME);
        Ok(VaultConfig { path, keys: self.keys.clone() })
    }
}
