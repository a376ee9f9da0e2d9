//! Configuration of authentication: `auth_mode`, `api_keys` and `jwt` under `server:`.
//!
//! Invariant: if keys are configured, clients need one. A file with keys but without `auth_mode` is
//! refused, because it would look protected and be open.
//!
//! Not here: key files, which [`super::Authenticator::new`] reads, so that this module does no I/O.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use secrecy::{ExposeSecret, SecretString};

use super::api_key::{self, ApiKey, Hash};
use super::principal::Role;
use super::role_words::{RoleWords, filled};
use crate::password_hash;
use settings::{Fields, Setting};

/// Minimum length of HMAC secrets, as RFC 7518, section 3.2 requires for HS256.
pub(super) const MIN_SECRET_BYTES: usize = 32;
const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
const MAX_LEEWAY_SECONDS: f64 = 60.0;
const ALGORITHMS: [(&str, Algorithm); 12] = [
    ("HS256", Algorithm::HS256),
    ("HS384", Algorithm::HS384),
    ("HS512", Algorithm::HS512),
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

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
}

/// Which tokens are accepted.
#[derive(Debug, Clone)]
pub struct Jwt {
    /// The only accepted `iss`.
    pub issuer: String,
    /// A value that `aud` must contain.
    pub audience: String,
    /// The accepted algorithms, at least one and all of one family.
    pub algorithms: Vec<Algorithm>,
    /// The keys that verify signatures.
    pub key: KeySource,
    /// Tolerated difference of the clocks.
    pub leeway: Duration,
    /// The claim that names the role, and its values.
    pub roles: RoleWords,
}

/// The keys that verify signatures.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A secret shared with the issuer.
    Secret(SecretString),
    /// One public key.
    PublicKey(PublicKey),
    /// A file with a JSON Web Key Set.
    JwksFile(PathBuf),
}

/// A public key in PEM.
#[derive(Debug, Clone)]
pub enum PublicKey {
    /// The text itself.
    Text(String),
    /// A file that holds it.
    File(PathBuf),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    ApiKey,
    Jwt,
    Any,
}

impl Config {
    /// Its keys in the file.
    pub const FIELDS: [&str; 3] = ["auth_mode", "api_keys", "jwt"];

    /// Reads `auth_mode`, `api_keys` and `jwt` from `fields`. Paths of key files are relative to
    /// `folder`.
    pub fn from_fields(fields: &mut Fields<'_>, folder: &Path) -> Self {
        let mode = fields.take("auth_mode");
        let said = mode.is_some();
        let options =
            [("none", Mode::None), ("api_key", Mode::ApiKey), ("jwt", Mode::Jwt), ("any", Mode::Any)];
        let mode = mode.and_then(|mode| mode.choice(&options)).unwrap_or(Mode::None);
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
        if matches!(mode, Mode::ApiKey | Mode::Any) && keys.is_none() {
            missing("api_keys");
        }
        if matches!(mode, Mode::Jwt | Mode::Any) && jwt.is_none() {
            missing("jwt");
        }
        // A missing or invalid part was already reported as a problem of the file, and such a
        // configuration is not used.
        let (keys, jwt) = (keys.unwrap_or_default(), jwt.flatten().map(Box::new));
        match (mode, jwt) {
            (Mode::ApiKey, _) => Self::ApiKey(keys),
            (Mode::Jwt, Some(jwt)) => Self::Jwt(jwt),
            (Mode::Any, Some(jwt)) => Self::Any(keys, jwt),
            (Mode::None | Mode::Jwt | Mode::Any, _) => Self::None,
        }
    }

    /// The accepted tokens, if any.
    pub const fn tokens(&self) -> Option<&Jwt> {
        match self {
            Self::Jwt(jwt) | Self::Any(_, jwt) => Some(jwt),
            Self::None | Self::ApiKey(_) => None,
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
    if keys.iter().filter(|key| key.hash.slow().is_some()).count() > password_hash::MOST_KEYS {
        let hint = "a new key of such a holder, by `switchyard key new`, costs nothing to check".to_owned();
        let message =
            format!("more than {} keys have a hash of bcrypt or Argon2id", password_hash::MOST_KEYS);
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
fn read_hash(setting: &Setting<'_>) -> Option<Hash> {
    match Hash::parse(setting.secret()?.expose_secret()) {
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

impl Jwt {
    fn from_settings(setting: &Setting<'_>, folder: &Path) -> Option<Self> {
        let mut fields = setting.fields()?;
        let issuer = fields.require("issuer", "the `iss` of the tokens, such as https://login.example.org/");
        let audience = fields.require("audience", "the `aud` of the tokens, such as switchyard");
        let algorithms = read_algorithms(&mut fields);
        let family = algorithms.first().map(|algorithm| algorithm.family());
        let key = read_key_source(&mut fields, family, folder);
        let leeway = fields.seconds("leeway", 0.0..=MAX_LEEWAY_SECONDS).unwrap_or(DEFAULT_LEEWAY);
        let roles = RoleWords::from_fields(&mut fields);
        fields.finish();
        Some(Self {
            issuer: filled(&issuer?)?,
            audience: filled(&audience?)?,
            algorithms,
            key: key?,
            leeway,
            roles,
        })
    }
}

/// Reads `algorithm`, or several `algorithms` of one family.
fn read_algorithms(fields: &mut Fields<'_>) -> Vec<Algorithm> {
    let one = fields.take("algorithm");
    let many = fields.take("algorithms");
    if one.is_some() == many.is_some() {
        let hint = "such as `algorithm: RS256`".to_owned();
        fields.setting().key_problem("expected one of `algorithm` and `algorithms`", Some(hint));
    }
    let listed = many.as_ref().and_then(Setting::list).unwrap_or_default();
    let read: Vec<Algorithm> =
        one.iter().chain(&listed).filter_map(|name| name.choice(&ALGORITHMS)).collect();
    if let Some(many) = &many {
        if listed.is_empty() {
            many.problem("no algorithm is listed", None);
        }
        if read.iter().any(|algorithm| algorithm.family() != read[0].family()) {
            let hint = "one issuer signs with one kind of key: HS…, RS… and PS…, ES…, or EdDSA".to_owned();
            many.problem("the algorithms are of different families", Some(hint));
        }
    }
    read
}

fn read_key_source(
    fields: &mut Fields<'_>,
    family: Option<AlgorithmFamily>,
    folder: &Path,
) -> Option<KeySource> {
    let secret = fields.take("secret");
    let public = fields.take("public_key");
    let jwks = fields.take("jwks_file");
    let given = [&secret, &public, &jwks].into_iter().flatten().count();
    if given != 1 {
        let hint = "`secret` for HS…, a public key for every other algorithm".to_owned();
        fields.setting().key_problem("expected one of `secret`, `public_key` and `jwks_file`", Some(hint));
        return None;
    }
    let shared = family == Some(AlgorithmFamily::Hmac);
    if let Some(setting) = [&secret, &public, &jwks].into_iter().flatten().next()
        && family.is_some()
        && shared != secret.is_some()
    {
        let message =
            if shared { "the algorithm needs a `secret`" } else { "the algorithm needs a public key" };
        setting.key_problem(message, None);
        return None;
    }
    let public = public.and_then(|setting| read_public_key(&setting, folder)).map(KeySource::PublicKey);
    let secret = secret.and_then(|setting| read_secret(&setting)).map(KeySource::Secret);
    secret
        .or(public)
        .or(jwks.and_then(|file| filled(&file)).map(|path| KeySource::JwksFile(folder.join(path))))
}

/// Reads a secret of at least [`MIN_SECRET_BYTES`].
pub(super) fn read_secret(setting: &Setting<'_>) -> Option<SecretString> {
    let secret = setting.secret()?;
    if secret.expose_secret().len() < MIN_SECRET_BYTES {
        let hint = "`openssl rand -base64 48` makes one; refer to it as ${NAME}".to_owned();
        setting.hidden_problem(format!("the secret is shorter than {MIN_SECRET_BYTES} bytes"), Some(hint));
    } else if secret.expose_secret().contains("-----BEGIN") {
        // A public key is known to everybody, so it must not be used as a secret.
        setting.hidden_problem("this is a key in PEM, not a secret", Some("use `public_key`".into()));
    }
    Some(secret)
}

fn read_public_key(setting: &Setting<'_>, folder: &Path) -> Option<PublicKey> {
    let text = setting.secret()?; // the private key may have been written here by mistake
    let text = text.expose_secret();
    if text.contains("PRIVATE KEY") {
        let hint = "only who makes tokens needs the private key".to_owned();
        setting.hidden_problem("this is a private key", Some(hint));
        return None;
    }
    if text.contains("-----BEGIN") {
        Some(PublicKey::Text(text.into()))
    } else {
        filled(setting).map(|path| PublicKey::File(folder.join(path)))
    }
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
