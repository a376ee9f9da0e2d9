//! Settings with keys for sealed values: `seal_keys` and `vault_key`.
//!
//! Invariant: a key is a reference such as `${NAME}`, so that no key is in the configuration file itself.

use super::token_config::read_secret;
use runtime::secret::SecretString;
use settings::Setting;

/// Limit of keys that open one kind of sealed values, because each one may be tried.
const MAX_KEYS: usize = 8;

/// Reads `items`, the keys of `setting`. `hint` says what happens without the setting.
pub(super) fn read(setting: &Setting<'_>, items: &[Setting<'_>], hint: &str) -> Option<Vec<SecretString>> {
    if items.is_empty() || items.len() > MAX_KEYS {
        let message = format!("expected 1 to {MAX_KEYS} keys, found {}", items.len());
        setting.key_problem(message, Some(hint.into()));
        return None;
    }
    Some(items.iter().filter_map(read_one).collect())
}

fn read_one(setting: &Setting<'_>) -> Option<SecretString> {
    if setting.is_literal() {
        let hint = "set a variable of the environment to it, and write `${NAME}`".to_owned();
        setting.hidden_problem("a key stands in the file itself", Some(hint));
        return None;
    }
    read_secret(setting)
}
