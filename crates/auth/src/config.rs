//! Configuration of authentication: `auth_mode`, `api_keys` and `jwt` under `server:`.
//!
//! Invariant: if keys are configured, clients need one. A file with keys but without `auth_mode` is
//! refused, because it would look protected and be open.
//!
//! Not here: the fields of `jwt` (`token_config`); key files, which [`super::Authenticator::new`] reads, so that this
//! module does no I/O.

use std::path::Path;
use std::time::{Duration, SystemTime};

use secrecy::ExposeSecret;

use super::api_key::{self, ApiKey, KeyHash};
use super::principal::Role;
use super::token_config::Jwt;
use crate::password_check;
use net::http::Network;
use settings::{Fields, Setting};

/// How clients are authenticated.
#[derive(Debug, Clone, Default)]
pub enum Config {
    /// Not authenticated; accepted on a loopback address only.
    #[default]
    None,
    /// With one of these keys.
    ApiKey(Vec<ApiKey>),
    /// With a token of one issuer.
    Jwt(Box<Jwt>),
    /// With a key or a token.
    Any(Vec<ApiKey>, Box<Jwt>),
    /// With a TLS certificate, which the listener checks, and nothing else.
    Certificate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ModeName {
    None,
    ApiKey,
    Jwt,
    Any,
    Certificate,
}

impl Config {
    /// Its keys in the file.
    pub const FIELDS: [&str; 3] = ["auth_mode", "api_keys", "jwt"];

    /// Sets the way to login services, which the file describes for all services.
    pub fn set_network(&mut self, network: &Network) {
        if let Self::Jwt(jwt) | Self::Any(_, jwt) = self {
            jwt.network = network.clone();
        }
    }

    /// Reads `auth_mode`, `api_keys` and `jwt` from `fields`. Paths of key files are relative to
    /// `folder`.
    pub fn from_fields(fields: &mut Fields<'_>, folder: &Path) -> Self {
        let mode = fields.take("auth_mode");
        let said = mode.is_some();
        let options = [
            ("none", ModeName::None),
            ("api_key", ModeName::ApiKey),
            ("jwt", ModeName::Jwt),
            ("any", ModeName::Any),
            ("certificate", ModeName::Certificate),
        ];
        let mode = mode.and_then(|mode| mode.choice(&options)).unwrap_or(ModeName::None);
        let (keys, jwt) = (fields.take("api_keys"), fields.take("jwt"));
        for (section, name) in [(&keys, "api_key"), (&jwt, "jwt")] {
            if let Some(section) = section.as_ref().filter(|_| !said) {
                let hint = format!("add `auth_mode: {name}` beside it");
                section.key_problem("it has no effect while `auth_mode` is not set", Some(hint));
            }
        }
        let missing = |name: &str| {
            let hint = "`switchyard help` names the commands that make keys and tokens".to_owned();
            fields
                .setting()
                .key_problem(format!("`{name}` is missing, and `auth_mode` asks for it"), Some(hint));
        };
        let keys = keys.map(|keys| read_keys(&keys));
        let jwt = jwt.map(|jwt| Jwt::from_settings(&jwt, folder));
        if matches!(mode, ModeName::ApiKey | ModeName::Any) && keys.is_none() {
            missing("api_keys");
        }
        if matches!(mode, ModeName::Jwt | ModeName::Any) && jwt.is_none() {
            missing("jwt");
        }
        // A missing or invalid part was already reported as a problem of the file, and such a
        // configuration is not used.
        let (keys, jwt) = (keys.unwrap_or_default(), jwt.flatten().map(Box::new));
        match (mode, jwt) {
            (ModeName::ApiKey, _) => Self::ApiKey(keys),
            (ModeName::Certificate, _) => Self::Certificate,
            (ModeName::Jwt, Some(jwt)) => Self::Jwt(jwt),
            (ModeName::Any, Some(jwt)) => Self::Any(keys, jwt),
            (ModeName::None | ModeName::Jwt | ModeName::Any, _) => Self::None,
        }
    }

    /// The accepted tokens, if any.
    pub const fn tokens(&self) -> Option<&Jwt> {
        match self {
            Self::Jwt(jwt) | Self::Any(_, jwt) => Some(jwt),
            Self::None | Self::ApiKey(_) | Self::Certificate => None,
        }
    }

    /// Whether clients need no credential.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::None)
    }
}

fn read_keys(setting: &Setting<'_>) -> Vec<ApiKey> {
    let items = setting.list().unwrap_or_default();
    if items.is_empty() {
        setting.problem(
            "no key is listed, so nobody could come in",
            Some("`switchyard key new` makes one".into()),
        );
    }
    let mut keys: Vec<ApiKey> = Vec::new();
    for item in &items {
        let Some(key) = read_key(item) else { continue };
        if keys.iter().any(|other| other.id == key.id) {
            item.key_problem("its id stands twice", None); // an id may come from the environment
        }
        keys.push(key);
    }
    if keys.iter().filter(|key| key.hash.slow().is_some()).count() > password_check::MOST_KEYS {
        let hint = "a new key of such a holder, by `switchyard key new`, costs nothing to check".to_owned();
        let message =
            format!("more than {} keys have a hash of bcrypt or Argon2id", password_check::MOST_KEYS);
        setting.key_problem(message, Some(hint));
    }
    keys
}

fn read_key(setting: &Setting<'_>) -> Option<ApiKey> {
    let mut fields = setting.fields()?;
    let id = fields.require("id", "the name that stands in the key: swy_<id>_…");
    let hash = fields.require("hash", "`switchyard key new` prints it");
    let role = read_roles(&mut fields);
    let expires = fields.parsed("expires", "a date such as 2027-06-30 or 2027-06-30T12:00:00Z", parse_time);
    fields.finish();
    let expected = "lower-case letters, digits and `-`, at most 64";
    Some(ApiKey {
        id: id?.parsed(expected, |id| api_key::is_id(id).then(|| id.to_owned()))?,
        hash: read_hash(&hash?)?,
        role: role?,
        expires,
    })
}

/// Reads a hash. The text is never shown, because the key itself may have been written here by
/// mistake.
fn read_hash(setting: &Setting<'_>) -> Option<KeyHash> {
    match KeyHash::parse(setting.secret()?.expose_secret()) {
        Some(Ok(hash)) => return Some(hash),
        Some(Err(why)) => setting.hidden_problem(format!("this hash cannot be taken: {why}"), None),
        None => {
            let hint = "the hash of a key, not the key; `switchyard key new` prints both".to_owned();
            let expected = "expected `sha256:` and 64 hexadecimal digits, or a hash of bcrypt or Argon2id";
            setting.hidden_problem(expected, Some(hint));
        }
    }
    None
}

/// Reads `role`, or `roles`, of which the strongest counts: it includes the rights of the weaker
/// ones.
fn read_roles(fields: &mut Fields<'_>) -> Option<Role> {
    let (one, many) = (fields.take("role"), fields.take("roles"));
    if one.is_some() && many.is_some() {
        fields.setting().key_problem("expected one of `role` and `roles`", None);
        return None;
    }
    if one.is_none() && many.is_none() {
        let hint =
            "write `role: reader`, `role: caller` or `role: superuser`, or several as `roles`".to_owned();
        fields.setting().key_problem("`role` is missing", Some(hint));
        return None;
    }
    let listed = many.as_ref().and_then(Setting::list).unwrap_or_default();
    if let Some(many) = many.as_ref().filter(|_| listed.is_empty()) {
        many.problem("no role is listed", None);
    }
    let options = Role::ALL.map(|role| (role.as_str(), role));
    let named: Vec<Role> = one.iter().chain(&listed).filter_map(|name| name.choice(&options)).collect();
    Role::ALL.into_iter().rev().find(|role| named.contains(role))
}

/// Parses a date (its first moment, UTC) or an RFC 3339 time with `Z`, in whole seconds.
fn parse_time(text: &str) -> Option<SystemTime> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day);
    if !fits || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    let days = years + (1..month).map(|month| days_in(year, month)).sum::<u64>() + day - 1;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

const fn days_in(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut read = [0; 3];
    for (number, digits) in read.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(read)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
