//! Settings of the vault: `state_dir` and `vault_key` under `server:`.

use std::path::PathBuf;

use super::{Error, FILE_NAME, VaultConfig};
use crate::sealing_keys;
use runtime::private_file;
use runtime::secret::SecretString;
use settings::{Setting, settings};

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
    sealing_keys::read(setting, &setting.one_or_more(), hint)
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
