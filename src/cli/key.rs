//! `switchyard key`: makes, lists and revokes API keys.
//!
//! Invariant: a key is printed once, and only its hash is stored: by `add` in `keys_file`, and by the operator in the lines
//! that `new` prints. Those are YAML, with the key in a comment.

use std::io::{self, Write};

use secrecy::ExposeSecret;
use settings::expand::Lookup;
use settings::nearest;

use super::config_file::LoadedFile;
use super::confirm::CommandStreams;
use super::error::CommandError;
use super::{ConfigFile, Key};
use crate::config::Config;
use auth::vault::Vault;
use auth::{ApiKey, ApiKeyList, KeyFile, Principal, Role};

pub(super) const HELP: &str = "\
Examples:
  switchyard key add laptop --role caller
  SWITCHYARD_KEY=$(switchyard key add ops --role superuser) switchyard reload
  switchyard key list
  switchyard key revoke laptop
  switchyard key new --id ci                print lines for `api_keys` instead

The keys are in the file that `keys_file` names, as hashes.";

/// Runs the command.
pub(super) fn run(
    command: &Key,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    match command {
        Key::New { id, role } => Ok(new(id.as_deref(), *role, streams.out)?),
        Key::Add { name, role, expires, view, file } => {
            let (keys, store) = keys_of(file, environment)?;
            refuse_listed(&keys, name, file)?;
            let key = store.add(name, *role, expires.as_deref(), view.as_deref())?;
            writeln!(streams.out, "{}", key.expose_secret())?;
            streams.out.flush()?;
            if let Some(missing) = view.as_deref().and_then(|view| no_view(view, file, environment)) {
                writeln!(streams.err, "{name}: {missing}")?;
            }
            Ok(writeln!(
                streams.err,
                "{name}: this key has the role {role}, and is shown this once. Send it as `Authorization: Bearer <key>` or \
                 `X-API-Key: <key>`. A running gateway accepts it in about a second."
            )?)
        }
        Key::List { file } => list(file, environment, streams),
        Key::Revoke { name, file } => {
            let (keys, store) = keys_of(file, environment)?;
            refuse_listed(&keys, name, file)?;
            store.revoke(name)?;
            forget_principal(name, file, environment, streams.err)?;
            Ok(writeln!(
                streams.err,
                "{name}: revoked. A running gateway refuses it in about a second, and ends its sessions and streams."
            )?)
        }
    }
}

/// Removes the logins and the secrets for servers of the holder of the key `name`, because a later key of this name has
/// another holder.
fn forget_principal(
    name: &str,
    file: &ConfigFile,
    environment: &Lookup<'_>,
    err: &mut dyn Write,
) -> io::Result<()> {
    let principal = Principal::id_of_key(name);
    let vault = Config::load_vault(&file.config, environment).ok().and_then(|settings| settings.vault().ok());
    let removed = vault.map(|vault| Vault::open(vault)?.remove_all_of_blocking(&principal));
    if let Some(Err(error)) = removed {
        writeln!(
            err,
            "warning: the logins and secrets of {principal} for servers were not removed: {error}"
        )?;
    }
    Ok(())
}

/// The keys of the configuration, and the file with further ones.
fn keys_of(file: &ConfigFile, environment: &Lookup<'_>) -> Result<(ApiKeyList, KeyFile), CommandError> {
    let keys = Config::load_keys(&file.config, environment)?;
    let path = file.config.display();
    match keys {
        Some(keys) => match keys.file.clone() {
            Some(store) => Ok((keys, store)),
            None => Err(CommandError::Usage(format!(
                "{path} names no file of keys: add the line `keys_file: switchyard-keys.json` below `server:`, then run \
                 `switchyard reload`"
            ))),
        },
        None => Err(CommandError::Usage(format!(
            "{path} does not accept API keys: add these lines below `server:`, then run `switchyard reload`. From then on, \
             each client needs a key.\n  auth_mode: api_key\n  keys_file: switchyard-keys.json"
        ))),
    }
}

/// Says that the file has no view of this name, if it can be read.
fn no_view(view: &str, file: &ConfigFile, environment: &Lookup<'_>) -> Option<String> {
    let config = LoadedFile::of(&file.config, environment).ok()?.config;
    let views = config.views();
    if views.contains(&view) {
        return None;
    }
    let near = nearest(view, views.into_iter()).map(|near| format!("; did you mean `{near}`?"));
    let path = file.config.display();
    Some(format!("there is no view `{view}` in {path}, so this key sees nothing{}", near.unwrap_or_default()))
}

/// Fails if the key `name` is one of the configuration file.
fn refuse_listed(keys: &ApiKeyList, name: &str, file: &ConfigFile) -> Result<(), CommandError> {
    if keys.listed.iter().any(|key| key.id == name) {
        let path = file.config.display();
        let reason = "is one of `api_keys`: change it there, then run `switchyard reload`";
        return Err(CommandError::Refused(format!("{path}: the key `{name}` {reason}")));
    }
    Ok(())
}

fn list(
    file: &ConfigFile,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    let (keys, store) = keys_of(file, environment)?;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (path, own) = (file.config.display().to_string(), store.path.display().to_string());
    let listed = keys.listed.into_iter().map(|ApiKey { id, role, expires, view, .. }| {
        let expires = expires.map(auth::time_text);
        let view = or_dash(view.map(|view| view.to_string()));
        [id, role.to_string(), view, or_dash(None), or_dash(expires), path.clone()]
    });
    let stored = store.list()?.into_iter();
    let stored = stored.map(|key| {
        let [view, added, expires] = [key.view, key.added, key.expires].map(or_dash);
        [key.id, key.role, view, added, expires, own.clone()]
    });
    Ok(streams.table(&["NAME", "ROLE", "VIEW", "ADDED", "EXPIRES", "FILE"], listed.chain(stored))?)
}

/// Makes a key with the name `id`, or with a random name.
pub(crate) fn new(id: Option<&str>, role: Role, out: &mut dyn Write) -> io::Result<()> {
    let id = id.map_or_else(random_id, str::to_owned);
    let (key, hash) = auth::generate(&id);
    write!(
        out,
        "# The key, shown this once. Send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`:\n\
         #   {}\n\
         # Lines for the configuration file; a second key is a second item of `api_keys`:\n\
         server:\n\
         \x20 auth_mode: api_key\n\
         \x20 api_keys:\n\
         \x20   - id: \"{id}\"\n\
         \x20     hash: {hash}\n\
         \x20     role: {role}\n",
        key.expose_secret(),
    )
}

fn random_id() -> String {
    format!("key-{:06x}", rand::random::<u32>() & 0x00ff_ffff)
}

/// Parses `--id`; the error describes a valid id.
pub(crate) fn parse_id(text: &str) -> Result<String, String> {
    let fits = auth::is_id(text);
    fits.then(|| text.to_owned()).ok_or_else(|| "lower-case letters, digits and `-`, at most 64".into())
}

/// Parses `--expires`; the error describes a valid date.
pub(crate) fn parse_date(text: &str) -> Result<String, String> {
    let is_date = auth::parse_time(text).is_some();
    is_date.then(|| text.to_owned()).ok_or_else(|| "a date such as 2027-06-30 or 2027-06-30T12:00:00Z".into())
}

/// Parses `--role`; the error lists the roles.
pub(crate) fn parse_role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "expected `reader`, `caller` or `superuser`".into())
}
