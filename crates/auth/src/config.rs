//! Configuration of authentication: `auth_mode`, `api_keys` and `jwt` under `server:`.
//!
//! Invariant: if keys are configured, clients need one. A file with keys but without `auth_mode` is
//! refused, because it would look protected and be open.
//!
//! Not here: the fields of `jwt` (`token_config`); key files, which [`super::Authenticator::new`] reads, so that this
//! module does no I/O.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::ExposeSecret;

use super::Error;
use super::api_key::{self, ApiKey, KeyHash};
use super::key_file::KeyFile;
use super::principal::Role;
use super::role_words::EVERYTHING;
use super::token_config::Jwt;
use crate::password_check;
use net::http::Network;
use settings::{Fields, FromSetting, Setting, settings, words};

/// How clients are authenticated.
#[derive(Debug, Clone, Default)]
pub enum Config {
    /// Not authenticated; accepted on a loopback address only.
    #[default]
    None,
    /// With one of these keys.
    ApiKey(ApiKeyList),
    /// With a token of one issuer.
    Jwt(Box<Jwt>),
    /// With a key or a token.
    Any(ApiKeyList, Box<Jwt>),
    /// With a TLS certificate, which the listener checks, and nothing else.
    Certificate,
}

/// The keys of the configuration, and the file with further ones.
#[derive(Debug, Clone, Default)]
pub struct ApiKeyList {
    /// The keys in the configuration.
    pub listed: Vec<ApiKey>,
    /// The file that `switchyard key` changes.
    pub file: Option<KeyFile>,
}

impl From<Vec<ApiKey>> for ApiKeyList {
    fn from(listed: Vec<ApiKey>) -> Self {
        Self { listed, file: None }
    }
}

impl ApiKeyList {
    /// The settings that [`ApiKeyList::of_server`] reads.
    pub const FIELDS: [&str; 3] = ["auth_mode", "api_keys", "keys_file"];

    /// Reads only the keys of the settings `server`, whatever mistakes the others have; `None` if no key is accepted.
    pub fn of_server(server: &Setting<'_>) -> Option<Self> {
        let mode = server.member("auth_mode").and_then(|mode| ModeName::from_setting(&mode))?;
        let listed = server.member("api_keys").and_then(|keys| read_keys(&keys)).unwrap_or_default();
        let path = server.member("keys_file").and_then(|path| path.file_path());
        let keys = Self { listed, file: path.map(|path| KeyFile { path }) };
        matches!(mode, ModeName::ApiKey | ModeName::Any).then_some(keys)
    }

    /// All keys, each without a mistake. Reads the file, and blocks.
    pub fn all(&self) -> Result<Vec<ApiKey>, Error> {
        let (keys, mistakes) = self.usable()?;
        match (mistakes.into_iter().next(), &self.file) {
            (Some(reason), Some(file)) => Err(file.failed(reason)),
            _ => Ok(keys),
        }
    }

    /// The keys without a mistake, and what is wrong with the others. Reads the file, and blocks.
    pub(super) fn usable(&self) -> Result<(Vec<ApiKey>, Vec<String>), Error> {
        let mut keys = self.listed.clone();
        let Some(file) = &self.file else { return Ok((keys, Vec::new())) };
        let mut mistakes = Vec::new();
        for stored in file.list()? {
            match stored.read() {
                Err(reason) => mistakes.push(reason),
                Ok(key) => match keys.iter().position(|other| other.id == key.id) {
                    Some(at) if at < self.listed.len() => {
                        mistakes.push(format!("the key `{}` stands under `api_keys` too", key.id));
                    }
                    Some(_) => mistakes.push(format!("`{}` stands twice", key.id)),
                    None => keys.push(key),
                },
            }
        }
        Ok((keys, mistakes))
    }
}

words! {
    #[derive(Clone, Copy, Default, PartialEq, Eq)]
    enum ModeName {
        #[default]
        None = "none",
        ApiKey = "api_key",
        Jwt = "jwt",
        Any = "any",
        Certificate = "certificate",
    }
}

settings! {
    struct Own {
        /// how clients show who they are
        auth_mode: ModeName;
        /// the keys ([fields](security/keys.md#make-an-api-key)); `switchyard key new` makes an entry
        api_keys: Vec<ApiKey> => "required for `api_key` and `any`, or `keys_file`", with read_keys;
        /// the file with the keys of [`switchyard key add`](security/keys.md#make-an-api-key), which need not exist yet
        keys_file: Option<PathBuf>;
        /// which tokens are accepted ([fields](security/tokens.md#accept-json-web-tokens-jwt))
        jwt: Option<Jwt> => "required for `jwt` and `any`", with Jwt::from_settings;
    }
}

settings! {
    struct OwnKey {
        /// part of the key, and the name in logs: lower-case letters, digits and `-`
        id: String, required "the name that stands in the key: swy_<id>_…", with read_id;
        /// `sha256:` and 64 hexadecimal digits, or a
        /// [hash of another system](#keys-of-another-system-bcrypt-and-argon2id)
        hash: KeyHash, required "`switchyard key new` prints it", with read_hash;
        /// `reader`, `caller` or `superuser`
        role: Option<Role>;
        /// instead of `role`: a list of roles; the strongest counts, because each role includes the weaker ones
        roles: Option<Vec<Role>>;
        /// from when on the key is refused: a date (`2027-06-30`, from its first minute on, UTC) or a time
        /// (`2027-06-30T12:00:00Z`)
        expires: Option<SystemTime>, with read_time;
        /// the [view](../views.md) that the key is bound to: its holder sees nothing else, at any URL
        view: Option<String> => "everything";
    }
    check OwnKey::check;
}

impl Config {
    /// Its keys in the file.
    pub const FIELDS: [&str; 4] = ["auth_mode", "api_keys", "keys_file", "jwt"];

    /// Sets the way to login services, which the file describes for all services.
    pub fn set_network(&mut self, network: &Network) {
        if let Self::Jwt(jwt) | Self::Any(_, jwt) = self {
            jwt.network = network.clone();
        }
    }

    /// Reads `auth_mode`, `api_keys`, `keys_file` and `jwt` from `fields`.
    pub fn from_fields(fields: &mut Fields<'_>) -> Option<Self> {
        let Own { auth_mode: mode, api_keys: listed, keys_file, jwt } = Own::from_fields(fields)?;
        let keys = ApiKeyList { listed, file: keys_file.map(|path| KeyFile { path }) };
        let section = fields.setting();
        for (name, needs, mode_name) in [
            ("api_keys", keys.file.is_none() && matches!(mode, ModeName::ApiKey | ModeName::Any), "api_key"),
            ("keys_file", false, "api_key"),
            ("jwt", matches!(mode, ModeName::Jwt | ModeName::Any), "jwt"),
        ] {
            match section.member(name) {
                Some(unused) if section.member("auth_mode").is_none() => {
                    let hint = format!("add `auth_mode: {mode_name}` beside it");
                    unused.key_problem("it has no effect while `auth_mode` is not set", Some(hint));
                }
                None if needs => {
                    let hint = match name {
                        "jwt" => "it says which tokens are accepted".to_owned(),
                        _ => "add `keys_file: switchyard-keys.json`, and make a key with `switchyard key add NAME`".to_owned(),
                    };
                    let message = format!("`{name}` is missing, and `auth_mode` asks for it");
                    section.key_problem(message, Some(hint));
                }
                _ => {}
            }
        }
        // A missing or invalid part was already reported as a problem of the file, and such a
        // configuration is not used.
        Some(match (mode, jwt.map(Box::new)) {
            (ModeName::ApiKey, _) => Self::ApiKey(keys),
            (ModeName::Certificate, _) => Self::Certificate,
            (ModeName::Jwt, Some(jwt)) => Self::Jwt(jwt),
            (ModeName::Any, Some(jwt)) => Self::Any(keys, jwt),
            (ModeName::None | ModeName::Jwt | ModeName::Any, _) => Self::None,
        })
    }

    /// The API keys, if any is accepted.
    pub(super) const fn api_keys(&self) -> Option<&ApiKeyList> {
        match self {
            Self::ApiKey(keys) | Self::Any(keys, _) => Some(keys),
            Self::None | Self::Jwt(_) | Self::Certificate => None,
        }
    }

    /// Says that nobody can authenticate, if so. Reads the file of keys, and blocks.
    pub fn warning(&self) -> Option<String> {
        let Self::ApiKey(keys) = self else { return None };
        let file = keys.file.as_ref()?;
        let is_empty = keys.all().is_ok_and(|all| all.is_empty());
        let path = file.path.display();
        is_empty
            .then(|| format!("{path} has no key, so nobody can come in: `switchyard key add NAME` makes one"))
    }

    /// Warnings about keys and tokens that are bound to views which are none of `views`: their holders see nothing. Reads
    /// the file of keys, and blocks.
    pub fn without_view(&self, views: &[&str]) -> Vec<String> {
        let is_missing = |view: &str| !views.contains(&view);
        let (keys, jwt) = match self {
            Self::ApiKey(keys) => (Some(keys), None),
            Self::Any(keys, jwt) => (Some(keys), Some(jwt)),
            Self::Jwt(jwt) => (None, Some(jwt)),
            Self::None | Self::Certificate => (None, None),
        };
        let keys = keys.and_then(|keys| keys.all().ok()).unwrap_or_default().into_iter();
        let of_keys = keys.filter_map(|key| Some((format!("the key `{}`", key.id), key.view?.to_string())));
        let mapped = jwt.and_then(|jwt| jwt.roles.view_map.as_ref()).into_iter().flatten();
        let of_tokens = mapped.filter(|(_, view)| *view != EVERYTHING);
        let of_tokens = of_tokens.map(|(word, view)| (format!("`{word}` in `jwt.view_map`"), view.clone()));
        let bound = of_keys.chain(of_tokens).filter(|(_, view)| is_missing(view));
        bound.map(|(who, view)| format!("{who} sees nothing, because there is no view `{view}`")).collect()
    }

    /// The ids of the API keys; none if they cannot be read. Reads the file of keys, and blocks.
    pub fn key_ids(&self) -> Option<Vec<String>> {
        let keys = match self {
            Self::ApiKey(keys) | Self::Any(keys, _) => keys.all().ok()?,
            Self::None | Self::Jwt(_) | Self::Certificate => Vec::new(),
        };
        Some(keys.into_iter().map(|key| key.id).collect())
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

fn read_keys(setting: &Setting<'_>) -> Option<Vec<ApiKey>> {
    let items = setting.list()?;
    if items.is_empty() {
        let hint = "`switchyard key new` makes one".to_owned();
        setting.problem("no key is listed, so nobody could come in", Some(hint));
    }
    let mut keys: Vec<ApiKey> = Vec::new();
    for item in &items {
        let Some(key) = OwnKey::from_setting(item).and_then(OwnKey::complete) else { continue };
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
    Some(keys)
}

impl OwnKey {
    fn check(&mut self, setting: &Setting<'_>) {
        let is_superuser =
            self.role.iter().chain(self.roles.iter().flatten()).any(|role| *role == Role::Superuser);
        if let Some(view) = setting.member("view").filter(|_| is_superuser) {
            let hint = "a superuser operates everything: write `role: caller`, or remove `view`";
            view.key_problem("`view` does not go with the role superuser", Some(hint.into()));
        }
        match ["role", "roles"].map(|name| setting.member(name)) {
            [Some(_), Some(_)] => setting.key_problem("expected one of `role` and `roles`", None),
            [None, None] => setting.missing(
                "role",
                "write `role: reader`, `role: caller` or `role: superuser`, or several as `roles`",
            ),
            [None, Some(roles)] if roles.list().is_some_and(|roles| roles.is_empty()) => {
                roles.problem("no role is listed", None);
            }
            _ => {}
        }
    }

    /// The strongest role counts: it includes the rights of the weaker ones.
    fn complete(self) -> Option<ApiKey> {
        let Self { id, hash, role, roles, expires, view } = self;
        let role = role.into_iter().chain(roles.into_iter().flatten()).max()?;
        Some(ApiKey { id, hash, role, expires, view: view.map(Arc::from) })
    }
}

fn read_id(setting: &Setting<'_>) -> Option<String> {
    let expected = "lower-case letters, digits and `-`, at most 64";
    setting.parsed(expected, |id| api_key::is_id(id).then(|| id.to_owned()))
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

fn read_time(setting: &Setting<'_>) -> Option<SystemTime> {
    setting.parsed("a date such as 2027-06-30 or 2027-06-30T12:00:00Z", api_key::parse_time)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
