//! `switchyard secret`: static secrets in the vault, for `${secret:NAME}` in the configuration file.
//!
//! Invariants: a value comes from the terminal or from standard input, never from an argument, which other users of the
//! machine could read. No command prints a value.

use std::io::{self, Read, Write};
use std::sync::Arc;

use secrecy::zeroize::Zeroizing;

use super::confirm::CommandStreams;
use super::error::CommandError;
use super::{ConfigFile, Secret, terminal};
use crate::config::Config;
use auth::Principal;
use auth::vault::{
    Entry, EntryCounts, EntryKind, MAX_OWNER_BYTES, MAX_VALUE_BYTES, SECRET_NAME, Vault, is_secret_name,
};
use settings::expand::Lookup;
use upstream::config::is_sendable;

/// Examples in the help of the command.
pub(super) const HELP: &str = "\
Examples:
  switchyard secret set GITHUB_TOKEN                    asks for the value, without showing it
  pass show github | switchyard secret set GITHUB_TOKEN
  switchyard secret set SIGNING_KEY < key.pem
  switchyard secret list
  switchyard secret remove GITHUB_TOKEN
  switchyard secret set CRM_KEY --for key:laptop        a value of this principal, for `${principal:CRM_KEY}`
  switchyard secret remove --for key:laptop             all secrets and logins of this principal

In the configuration file, `${secret:GITHUB_TOKEN}` is the value. A running gateway uses a new value after a reload. The
value of a principal is used by its next call.";

/// Runs the command.
pub(super) fn run(
    command: &Secret,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    match command {
        Secret::Set { name, principal, file } => {
            set(&entry(name, principal.as_deref()), file, environment, streams)
        }
        Secret::List { principal, file } => list(principal.as_deref(), file, environment, streams),
        Secret::Remove { name, principal, file } => {
            remove((name.as_deref(), principal.as_deref()), file, environment, streams.out)
        }
    }
}

/// Parses NAME; the error describes a valid name.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    is_secret_name(text).then(|| text.to_owned()).ok_or_else(|| format!("expected {SECRET_NAME}"))
}

/// Parses PRINCIPAL; the error describes a valid one.
pub(crate) fn parse_principal(text: &str) -> Result<String, String> {
    let is_one = !text.is_empty() && text.len() <= MAX_OWNER_BYTES && !Principal::is_anonymous_id(text);
    is_one.then(|| text.to_owned()).ok_or_else(|| {
        "expected the id of a principal, such as `key:laptop` or `jwt:SUBJECT`; a caller without a credential has no secrets"
            .into()
    })
}

/// The secret `name`, of all or of `principal`.
fn entry(name: &str, principal: Option<&str>) -> Entry {
    principal.map_or_else(|| Entry::secret(name), |principal| Entry::secret_of(principal, name))
}

fn set(
    entry: &Entry,
    file: &ConfigFile,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    // Before the value is asked for, so that nobody types it for nothing.
    let vault = open(file, environment)?;
    let read = match &mut streams.input {
        Some(terminal) => terminal::read_hidden(*terminal, "Value (not shown): "),
        None => read_all(&mut io::stdin().lock()),
    };
    let failed = |error| CommandError::Refused(format!("the value cannot be read: {error}"));
    let mut value = read.map_err(failed)?;
    without_line_end(&mut value);
    let text = std::str::from_utf8(&value);
    let mistake = match text {
        Ok("") => Some("is empty"),
        Err(_) => Some("is not UTF-8"),
        Ok(text) if entry.is_secret_of_principal() && !is_sendable(text) => {
            Some("is not one line of ASCII characters, so no header can have it")
        }
        Ok(_) => None,
    };
    if let Some(mistake) = mistake {
        return Err(CommandError::Refused(format!("the value {mistake}; nothing was changed")));
    }
    vault.put_blocking(entry, &value)?;
    let used = if entry.is_secret_of_principal() {
        "the next call uses it"
    } else {
        "a running gateway uses it after a reload"
    };
    Ok(writeln!(streams.out, "{} is set in {}; {used}", named(entry), vault.path().display())?)
}

/// The name of `entry`, and whose it is.
fn named(entry: &Entry) -> String {
    match &entry.principal {
        Some(principal) => format!("{} of {principal}", entry.name),
        None => entry.name.clone(),
    }
}

fn list(
    principal: Option<&str>,
    file: &ConfigFile,
    environment: &Lookup<'_>,
    streams: &mut CommandStreams<'_>,
) -> Result<(), CommandError> {
    let vault = open(file, environment)?;
    let (entries, damaged) = vault.list()?;
    let is_listed = |entry: &Entry| {
        entry.kind == EntryKind::Secret && (principal.is_none() || entry.principal.as_deref() == principal)
    };
    let secrets = entries.into_iter().filter(|(entry, _)| is_listed(entry));
    let row = |(entry, set_at): (Entry, _)| {
        [entry.name, entry.principal.unwrap_or_else(|| "-".to_owned()), auth::time_text(set_at)]
    };
    let mut rows: Vec<_> = secrets.map(row).collect();
    rows.sort();
    // Whole principals, because a user types them after `--for`.
    streams.width = None;
    streams.table(&["NAME", "FOR", "SET"], rows.into_iter())?;
    if damaged > 0 {
        let path = vault.path().display();
        writeln!(streams.err, "warning: {damaged} entries of the vault {path} are damaged; set them again")?;
    }
    Ok(())
}

fn remove(
    (name, principal): (Option<&str>, Option<&str>),
    file: &ConfigFile,
    environment: &Lookup<'_>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let vault = open(file, environment)?;
    let path = vault.path().display().to_string();
    if let (None, Some(principal)) = (name, principal) {
        let removed = vault.remove_all_of_blocking(principal)?;
        if removed == EntryCounts::default() {
            return Err(unknown(&path, &format!("of {principal}")));
        }
        return Ok(writeln!(out, "{removed} of {principal} removed from {path}")?);
    }
    let entry = entry(name.unwrap_or_default(), principal);
    if !vault.remove_blocking(&entry)? {
        return Err(unknown(&path, &format!("`{}`", named(&entry))));
    }
    Ok(writeln!(out, "{} is removed from {path}", named(&entry))?)
}

/// Says that the vault at `path` has no secret `name`.
fn unknown(path: &str, name: &str) -> CommandError {
    CommandError::Refused(format!(
        "the vault {path} has no secret {name}; `switchyard secret list` prints all names"
    ))
}

fn open(file: &ConfigFile, environment: &Lookup<'_>) -> Result<Arc<Vault>, CommandError> {
    let settings = Config::load_vault(&file.config, environment)?;
    Ok(Vault::open(settings.vault()?)?)
}

/// Reads a value from `input`, and a little more than is allowed if it is too long.
fn read_all(input: &mut dyn Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let most = MAX_VALUE_BYTES + "\r\n".len() + 1;
    // With room for all of it, so that no copy stays behind.
    let mut value = Zeroizing::new(Vec::with_capacity(most + 1));
    input.take(most as u64).read_to_end(&mut value)?;
    Ok(value)
}

/// Removes the end of the last line, which `echo` and editors add.
fn without_line_end(value: &mut Vec<u8>) {
    if value.last() == Some(&b'\n') {
        value.pop();
        if value.last() == Some(&b'\r') {
            value.pop();
        }
    }
}
