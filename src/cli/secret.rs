//! `switchyard secret`: static secrets in the vault, for `${secret:NAME}` in the configuration file.
//!
//! Invariants: a value comes from the terminal or from standard input, never from an argument, which other users of the
//! machine could read. No command prints a value.

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use secrecy::zeroize::Zeroizing;

use super::operate::table::{Cell, Table};
use super::{ConfigFile, EXIT_USAGE, Secret, environment, terminal};
use crate::config::{self, Config};
use auth::Principal;
use auth::vault::{
    self, Entry, EntryCounts, EntryKind, MAX_OWNER_BYTES, MAX_VALUE_BYTES, SECRET_NAME, Vault, is_secret_name,
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

/// Why the command did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The configuration file is not valid.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The vault cannot be used.
    #[error(transparent)]
    Vault(#[from] vault::Error),
    /// The value cannot be read.
    #[error("the value cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The value cannot be a secret.
    #[error("{0}; nothing was changed")]
    Value(&'static str),
    /// There is no such secret.
    #[error("the vault {path} has no secret {name}; `switchyard secret list` prints all names")]
    Unknown {
        /// The vault.
        path: String,
        /// The name, and whose it is.
        name: String,
    },
    /// Standard output is closed.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// The outside of the command.
pub(crate) struct SecretStreams<'s> {
    /// Reads the value of `set`.
    pub value: &'s mut dyn FnMut() -> io::Result<Zeroizing<Vec<u8>>>,
    /// The result.
    pub out: &'s mut dyn Write,
    /// Problems.
    pub err: &'s mut dyn Write,
}

/// Runs the command with the streams of this process.
pub(super) fn run_here(command: &Secret) -> ExitCode {
    let input = io::stdin();
    let mut value = || {
        if input.is_terminal() {
            terminal::read_hidden(&input, "Value (not shown): ")
        } else {
            read_all(&mut input.lock())
        }
    };
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut streams = SecretStreams { value: &mut value, out: &mut out, err: &mut err };
    run(command, &environment, &mut streams)
}

/// Runs the command and returns its exit code.
pub(crate) fn run(command: &Secret, environment: &Lookup<'_>, streams: &mut SecretStreams<'_>) -> ExitCode {
    let done = match command {
        Secret::Set { name, principal, file } => {
            set(&entry(name, principal.as_deref()), file, environment, streams)
        }
        Secret::List { principal, file } => list(principal.as_deref(), file, environment, streams),
        Secret::Remove { name, principal, file } => {
            remove((name.as_deref(), principal.as_deref()), file, environment, streams.out)
        }
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    // If standard error is closed, the exit code alone reports the failure.
    let _ = writeln!(streams.err, "{error}");
    match error {
        Error::Config(_) => ExitCode::from(EXIT_USAGE),
        _ => ExitCode::FAILURE,
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
    streams: &mut SecretStreams<'_>,
) -> Result<(), Error> {
    // Before the value is asked for, so that nobody types it for nothing.
    let vault = open(file, environment)?;
    let mut value = (streams.value)().map_err(Error::Read)?;
    without_line_end(&mut value);
    if value.is_empty() {
        return Err(Error::Value("the value is empty"));
    }
    if std::str::from_utf8(&value).is_err() {
        return Err(Error::Value("the value is not UTF-8"));
    }
    if entry.is_secret_of_principal() && !std::str::from_utf8(&value).is_ok_and(is_sendable) {
        return Err(Error::Value("the value is not one line of ASCII characters, so no header can have it"));
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
    streams: &mut SecretStreams<'_>,
) -> Result<(), Error> {
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
    let mut table = Table::new(&["NAME", "FOR", "SET"]);
    table.rows.extend(rows.iter().map(|row| row.iter().map(|cell| Cell::new(cell)).collect()));
    table.write(None, false, streams.out)?;
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
) -> Result<(), Error> {
    let vault = open(file, environment)?;
    let path = vault.path().display().to_string();
    if let (None, Some(principal)) = (name, principal) {
        let removed = vault.remove_all_of_blocking(principal)?;
        if removed == EntryCounts::default() {
            return Err(Error::Unknown { path, name: format!("of {principal}") });
        }
        return Ok(writeln!(out, "{removed} of {principal} removed from {path}")?);
    }
    let entry = entry(name.unwrap_or_default(), principal);
    if !vault.remove_blocking(&entry)? {
        return Err(Error::Unknown { path, name: format!("`{}`", named(&entry)) });
    }
    Ok(writeln!(out, "{} is removed from {path}", named(&entry))?)
}

fn open(file: &ConfigFile, environment: &Lookup<'_>) -> Result<Arc<Vault>, Error> {
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
