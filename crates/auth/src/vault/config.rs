//! Settings of the vault: `state_dir` and `vault_key` under `server:`.

use std::path::{Path, PathBuf};

use super::{Error, FILE_NAME, VaultConfig};
use crate::sealing_keys;
use runtime::private_file;
use runtime::secret::SecretString;
use settings::Fields;

/// Where the vault is, and its keys.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The folder of the vault; `None` for [`private_file::default_state_folder`].
    pub state_dir: Option<PathBuf>,
    /// See [`VaultConfig::keys`].
    pub keys: Vec<SecretString>,
}

impl Settings {
    /// Its keys in the file. They cannot use values of the vault.
    pub const FIELDS: [&str; 2] = ["state_dir", "vault_key"];

    /// Reads both settings from `fields`. The folder is relative to `folder`.
    pub fn from_fields(fields: &mut Fields<'_>, folder: &Path) -> Self {
        let state_dir = fields.take("state_dir").and_then(|setting| setting.file_path(folder));
        let keys = fields.take("vault_key").map(|setting| {
            let hint = "remove the setting for a key file in `state_dir`";
            sealing_keys::read(&setting, &setting.one_or_more(), hint)
        });
        Self { state_dir, keys: keys.unwrap_or_default() }
    }

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
