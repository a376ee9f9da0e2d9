//! `${secret:NAME}` in the configuration file, and the settings of the vault that has these secrets.
//!
//! Invariants: the vault is opened only if the file refers to a secret. Its own settings are read before the rest of the
//! file, so they can refer to the environment only.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use auth::vault::{Entry, SECRET_NAME, Settings, Vault, is_secret_name};
use secrecy::SecretString;
use settings::expand::{self, Lookup, NoSecret, SecretLookup, Sources};
use settings::{Node, Problems, Setting};

/// Paths of the settings of the vault.
pub(super) const SETTINGS: [&str; 2] = ["server.state_dir", "server.vault_key"];

/// Returns the values of references in the file.
pub(super) fn sources<'e>(environment: &'e Lookup<'e>, secrets: &'e SecretLookup<'e>) -> Sources<'e> {
    Sources { environment, secrets, without_secrets: &SETTINGS, takes_caller_values }
}

/// Whether the setting at `path` is a header of a server, `mcp_servers.NAME.headers.HEADER`.
fn takes_caller_values(path: &str) -> bool {
    let Some(server) = path.strip_prefix("mcp_servers.") else { return false };
    let setting = match server.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\".").map(|(_, rest)| rest),
        None => server.split_once('.').map(|(_, rest)| rest),
    };
    setting.is_some_and(|setting| setting.starts_with("headers."))
}

/// Reads only the settings of the vault. `root` is not expanded.
pub(super) fn read(root: &Node, environment: &Lookup<'_>, folder: &Path, problems: &Problems) -> Settings {
    let mut part = part_of(root);
    let sources = sources(environment, &|_| Err(NoSecret::Unset));
    expand::expand(&mut part, &sources, problems);
    let fields = Setting::root(&part, problems).in_folder(folder).fields();
    let server = fields.and_then(|mut fields| {
        let server = fields.part("server", Setting::fields);
        fields.finish();
        server
    });
    let settings = server.and_then(|mut server| {
        let settings = Settings::from_fields(&mut server);
        server.finish();
        settings
    });
    settings.unwrap_or_default()
}

/// Returns the lookup of secrets. `part` is the [`part_of`] the document.
pub(super) fn secrets(
    part: Node,
    environment: &Lookup<'_>,
    folder: &Path,
) -> impl Fn(&str) -> Result<SecretString, NoSecret> {
    let vault = OnceCell::new();
    move |name| {
        if !is_secret_name(name) {
            return Err(NoSecret::Refused(format!("the name of a secret has {SECRET_NAME}")));
        }
        let vault = vault.get_or_init(|| open(&part, environment, folder)).as_ref();
        let vault = vault.map_err(|reason: &String| NoSecret::Refused(reason.clone()))?;
        match vault.get(&Entry::secret(name)) {
            Ok(Some(value)) => std::str::from_utf8(&value)
                .map(SecretString::from)
                .map_err(|_| NoSecret::Refused("its value is not UTF-8".into())),
            Ok(None) => Err(NoSecret::Unset),
            Err(error) => Err(NoSecret::Refused(error.to_string())),
        }
    }
}

fn open(part: &Node, environment: &Lookup<'_>, folder: &Path) -> Result<Arc<Vault>, String> {
    let problems = Problems::default();
    let settings = read(part, environment, folder, &problems);
    if !problems.is_empty() {
        return Err("correct `state_dir` and `vault_key` under `server:` first".into());
    }
    settings.vault().and_then(Vault::open).map_err(|error| error.to_string())
}

/// Returns `root`, which is not expanded yet, with the settings of the vault only.
pub(super) fn part_of(root: &Node) -> Node {
    super::server_part(root, &Settings::FIELDS)
}
