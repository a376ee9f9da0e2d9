//! Configuration of accepted tokens: `jwt` under `server:`.
//!
//! Invariants: the keys come from one source. Secrets are never shown in problems. A URL with a user or password in it
//! is refused, because URLs are logged.
//!
//! Not here: reading key files (`jwt_keys`), fetching key sets (`key_set`).

use std::path::PathBuf;
use std::time::Duration;

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::introspection::{Introspection, parse_issuer, parse_url};
use super::role_words::{RoleWords, filled};
use net::http::Network;
use settings::{FromSetting, Setting, settings};

/// Minimum length of HMAC secrets, as RFC 7518, section 3.2 requires for HS256.
pub(super) const MIN_SECRET_BYTES: usize = 32;
/// The fields that name the source of the keys.
const SOURCES: [&str; 4] = ["secret", "public_key", "jwks_file", "jwks_url"];
/// Describes a valid `jwks_url` in error texts.
const KEY_SET_URL: &str = "a URL such as https://login.example.org/keys, without user, password and fragment";
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

/// Which tokens are accepted.
#[derive(Debug, Clone)]
pub struct Jwt {
    /// The only accepted `iss`. Without one, tokens of every issuer that the key verifies are accepted.
    pub issuer: Option<String>,
    /// A value that `aud` must contain. Without one, tokens for every audience are accepted.
    pub audience: Option<String>,
    /// Whether tokens need `iss` and `aud`.
    pub required: RequiredClaims,
    /// The accepted algorithms, at least one and all of one family.
    pub algorithms: Vec<Algorithm>,
    /// The keys that verify signatures.
    pub key: KeySource,
    /// Tolerated difference of the clocks.
    pub leeway: Duration,
    /// The claim that names the role, and its values.
    pub roles: RoleWords,
    /// The login services that clients get tokens from. None: the issuer.
    pub authorization_servers: Vec<String>,
    /// The clients that tokens may be issued to (`azp`, else `client_id`); none: every client.
    pub parties: Vec<String>,
    /// The way to the login service.
    pub network: Network,
}

settings! {
    struct Own {
        /// exact value of `iss`
        issuer: Option<String> => "required", with filled;
        /// value that `aud` must equal or contain
        audience: Option<String> => "required", with filled;
        /// the signature algorithm of the tokens
        algorithm: Option<Algorithm> => "required, or `algorithms`", with algorithm;
        /// several algorithms of one family
        algorithms: Option<Vec<Algorithm>>, with algorithms;
        /// for HS256, HS384, HS512: shared with the issuer, at least 32 bytes
        secret: Option<SecretString>, with read_secret;
        /// for all others: a public key in PEM, or the path of a file with one
        public_key: Option<PublicKey>, with read_public_key;
        /// for all others: a file with a JSON Web Key Set; a token chooses its key by `kid`
        jwks_file: Option<PathBuf>;
        /// for all others: the URL of a JSON Web Key Set ([how it is fetched](#keys-of-a-login-service))
        jwks_url: Option<Url> => "from the metadata of `issuer`", with read_url;
        /// the claims that tokens need ([below](#tokens-without-iss-and-aud))
        require: RequiredClaims => "`[exp, sub, iss, aud]`", with read_required;
        /// asks the login service about each token ([below](#opaque-tokens-introspection))
        introspection: Option<Introspection>;
        /// the login services that the metadata names to clients
        authorization_servers: Vec<String> => "the `issuer`", with read_servers;
        /// the clients that tokens may be issued to: `azp` of the token, or `client_id` if it has no `azp`
        azp: Vec<String> => "every client", with read_parties;
        /// seconds by which the clocks may differ
        leeway: Duration = Duration::from_secs(30), in 0.0..=60.0;
    }
    flat {
        roles: RoleWords;
    }
}

/// The claims that tokens need beside `exp` and `sub`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequiredClaims {
    /// `iss`, as the configuration names it.
    pub issuer: bool,
    /// `aud`, as the configuration names it.
    pub audience: bool,
}

impl Default for RequiredClaims {
    fn default() -> Self {
        Self { issuer: true, audience: true }
    }
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
    /// A JSON Web Key Set that a login service publishes.
    Published(KeySetLocation),
    /// None: a login service is asked about each token, which may be opaque.
    Introspection(Introspection),
}

/// Where a login service publishes its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySetLocation {
    /// The URL of the key set.
    Url(Url),
    /// The URL of the issuer, whose metadata names the key set.
    Issuer(Url),
}

/// A public key in PEM.
#[derive(Debug, Clone)]
pub enum PublicKey {
    /// The text itself.
    Text(String),
    /// A file that holds it.
    File(PathBuf),
}

impl Jwt {
    /// Describes which checks `require` lifts, for `check` and the log of each start.
    pub fn exception(&self) -> Option<String> {
        let RequiredClaims { issuer, audience } = self.required;
        let lifted = match (issuer, audience) {
            (true, true) => return None,
            (false, true) => "without `iss`",
            (true, false) => "without `aud`",
            (false, false) => "without `iss` and `aud`",
        };
        Some(format!(
            "`jwt.require`: tokens {lifted} are accepted, also those that were made for other programs"
        ))
    }

    pub(super) fn from_settings(setting: &Setting<'_>) -> Option<Self> {
        let mut fields = setting.fields()?;
        let mut own = Own::from_fields(&mut fields)?;
        own.roles.read_other_name(&mut fields);
        fields.finish();
        own.check(setting);
        let algorithms = own.algorithms(setting);
        let key = own.key(setting, algorithms.first().map(|algorithm| algorithm.family()));
        let RequiredClaims { issuer, audience } = own.require;
        if issuer && own.issuer.is_none() || audience && own.audience.is_none() {
            return None;
        }
        Some(Self {
            issuer: own.issuer,
            audience: own.audience,
            required: own.require,
            algorithms,
            key: key?,
            leeway: own.leeway,
            roles: own.roles,
            authorization_servers: own.authorization_servers,
            parties: own.azp,
            network: Network::default(),
        })
    }
}

impl Own {
    fn check(&self, setting: &Setting<'_>) {
        if self.require.issuer {
            setting.require("issuer", "the `iss` of the tokens, such as https://login.example.org/");
        }
        if self.require.audience {
            setting.require("audience", "the `aud` of the tokens, such as switchyard");
        }
        if setting.member("introspection").is_some() {
            let hint = "the login service is asked about each token; remove one of the two";
            for name in ["algorithm", "algorithms"].iter().chain(&SOURCES) {
                setting.refuse_member(name, "`introspection`", hint);
            }
        }
    }

    /// Returns the algorithms: none with `introspection`, else `algorithm`, or several `algorithms` of one family.
    fn algorithms(&self, setting: &Setting<'_>) -> Vec<Algorithm> {
        if setting.member("introspection").is_some() {
            return Vec::new();
        }
        let many = setting.member("algorithms");
        if setting.member("algorithm").is_some() == many.is_some() {
            let hint = "such as `algorithm: RS256`".to_owned();
            setting.key_problem("expected one of `algorithm` and `algorithms`", Some(hint));
        }
        self.algorithm.into_iter().chain(self.algorithms.iter().flatten().copied()).collect()
    }

    /// Returns the source of the keys. Without one, it is what the issuer publishes, unless the algorithms need a
    /// secret.
    fn key(&mut self, setting: &Setting<'_>, family: Option<AlgorithmFamily>) -> Option<KeySource> {
        if setting.member("introspection").is_some() {
            return self.introspection.take().map(KeySource::Introspection);
        }
        let given: Vec<_> = SOURCES.iter().filter_map(|name| setting.member(name)).collect();
        let is_shared = family == Some(AlgorithmFamily::Hmac);
        let [first] = given.as_slice() else {
            let published = self.issuer.as_deref().and_then(parse_issuer).map(KeySetLocation::Issuer);
            if given.is_empty() && family.is_some() && !is_shared && published.is_some() {
                return published.map(KeySource::Published);
            }
            let hint = "`secret` for HS…, a public key for every other algorithm; if the issuer is a login service, \
                        its URL as `issuer` is enough";
            let message = "expected one of `secret`, `public_key`, `jwks_file` and `jwks_url`";
            setting.key_problem(message, Some(hint.into()));
            return None;
        };
        if family.is_some() && is_shared != setting.member("secret").is_some() {
            let message =
                if is_shared { "the algorithm needs a `secret`" } else { "the algorithm needs a public key" };
            first.key_problem(message, None);
            return None;
        }
        let url = self.jwks_url.take().map(|url| KeySource::Published(KeySetLocation::Url(url)));
        let file = self.jwks_file.take().map(KeySource::JwksFile);
        let public = self.public_key.take().map(KeySource::PublicKey);
        self.secret.take().map(KeySource::Secret).or(public).or(file).or(url)
    }
}

/// Reads `require`: the claims that tokens need. `exp` is among them, because a token without an end cannot be revoked.
fn read_required(setting: &Setting<'_>) -> Option<RequiredClaims> {
    let options = ["exp", "sub", "iss", "aud"].map(|name| (name, name));
    let names: Vec<&str> = setting.list()?.iter().filter_map(|item| item.choice(&options)).collect();
    if !names.contains(&"exp") {
        let hint = "such as `require: [exp]`, which leaves out `iss` and `aud`".to_owned();
        setting.key_problem("`exp` is not listed, and every token needs it", Some(hint));
    }
    Some(RequiredClaims { issuer: names.contains(&"iss"), audience: names.contains(&"aud") })
}

/// Reads `authorization_servers`, the URLs of login services.
fn read_servers(setting: &Setting<'_>) -> Option<Vec<String>> {
    let parse = |text: &str| parse_issuer(text).map(|_| text.to_owned());
    Some(setting.list()?.iter().filter_map(|item| item.parsed("the URL of a login service", parse)).collect())
}

fn algorithm(setting: &Setting<'_>) -> Option<Algorithm> {
    setting.choice(&ALGORITHMS)
}

fn algorithms(setting: &Setting<'_>) -> Option<Vec<Algorithm>> {
    let read: Vec<Algorithm> = setting.list()?.iter().filter_map(algorithm).collect();
    if setting.list()?.is_empty() {
        setting.problem("no algorithm is listed", None);
    }
    if read.iter().any(|algorithm| algorithm.family() != read[0].family()) {
        let hint = "one issuer signs with one kind of key: HS…, RS… and PS…, ES…, or EdDSA".to_owned();
        setting.problem("the algorithms are of different families", Some(hint));
    }
    Some(read)
}

/// Reads the URL of a key set. It is not shown, because it may hold a password.
fn read_url(setting: &Setting<'_>) -> Option<Url> {
    let url = parse_url(setting.secret()?.expose_secret());
    if url.is_none() {
        setting.hidden_problem(format!("expected {KEY_SET_URL}"), None);
    }
    url
}

/// Reads `azp`: one client or a list of them.
fn read_parties(setting: &Setting<'_>) -> Option<Vec<String>> {
    let items = setting.list()?;
    if items.is_empty() {
        let hint = "such as `azp: [my-client]`, or remove it".to_owned();
        setting.key_problem("no client is listed, so no token would be accepted", Some(hint));
    }
    Some(items.iter().filter_map(filled).collect())
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

fn read_public_key(setting: &Setting<'_>) -> Option<PublicKey> {
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
        PathBuf::from_setting(setting).map(PublicKey::File)
    }
}
