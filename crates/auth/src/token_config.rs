//! Configuration of accepted tokens: `jwt` under `server:`.
//!
//! Invariants: the keys come from one source. Secrets are never shown in problems. A URL with a user or password in it
//! is refused, because URLs are logged.
//!
//! Not here: reading key files (`jwt_keys`), fetching key sets (`key_set_fetch`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use super::introspection::Introspection;
use super::role_words::{RoleWords, filled};
use net::http::Network;
use settings::{Fields, Setting};

/// Minimum length of HMAC secrets, as RFC 7518, section 3.2 requires for HS256.
pub(super) const MIN_SECRET_BYTES: usize = 32;
/// The fields that name the source of the keys.
const SOURCES: [&str; 4] = ["secret", "public_key", "jwks_file", "jwks_url"];
/// Describes a valid `jwks_url` in error texts.
const KEY_SET_URL: &str = "a URL such as https://login.example.org/keys, without user, password and fragment";
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

    pub(super) fn from_settings(setting: &Setting<'_>, folder: &Path) -> Option<Self> {
        let mut fields = setting.fields()?;
        let required = fields.take("require").map(|claims| read_required(&claims)).unwrap_or_default();
        let issuer_hint = "the `iss` of the tokens, such as https://login.example.org/";
        let issuer = named(&mut fields, "issuer", required.issuer, issuer_hint);
        let audience_hint = "the `aud` of the tokens, such as switchyard";
        let audience = named(&mut fields, "audience", required.audience, audience_hint);
        let introspection = fields.take("introspection");
        let algorithms = if introspection.is_some() { Vec::new() } else { read_algorithms(&mut fields) };
        let family = algorithms.first().map(|algorithm| algorithm.family());
        let published = issuer.as_deref().and_then(parse_issuer).map(KeySetLocation::Issuer);
        let key = match &introspection {
            Some(introspection) => read_introspection(introspection).map(KeySource::Introspection),
            None => read_key_source(&mut fields, (family, published), folder),
        };
        let authorization_servers =
            fields.take("authorization_servers").map(|servers| read_servers(&servers)).unwrap_or_default();
        let parties = fields.take("azp").map(|parties| read_parties(&parties)).unwrap_or_default();
        let leeway = fields.seconds("leeway", 0.0..=MAX_LEEWAY_SECONDS).unwrap_or(DEFAULT_LEEWAY);
        let roles = RoleWords::from_fields(&mut fields);
        fields.finish();
        if required.issuer && issuer.is_none() || required.audience && audience.is_none() {
            return None;
        }
        Some(Self {
            issuer,
            audience,
            required,
            algorithms,
            key: key?,
            leeway,
            roles,
            authorization_servers,
            parties,
            network: Network::default(),
        })
    }
}

/// Reads a text that is missing only if `is_required` is false.
fn named(fields: &mut Fields<'_>, name: &'static str, is_required: bool, hint: &str) -> Option<String> {
    let setting = if is_required { fields.require(name, hint) } else { fields.take(name) };
    setting.and_then(|setting| filled(&setting))
}

/// Reads `require`: the claims that tokens need. `exp` is among them, because a token without an end cannot be revoked.
fn read_required(setting: &Setting<'_>) -> RequiredClaims {
    let options = ["exp", "sub", "iss", "aud"].map(|name| (name, name));
    let items = setting.list().unwrap_or_default();
    let names: Vec<&str> = items.iter().filter_map(|item| item.choice(&options)).collect();
    if !names.contains(&"exp") {
        let hint = "such as `require: [exp]`, which leaves out `iss` and `aud`".to_owned();
        setting.key_problem("`exp` is not listed, and every token needs it", Some(hint));
    }
    RequiredClaims { issuer: names.contains(&"iss"), audience: names.contains(&"aud") }
}

/// Reads `introspection`, which replaces algorithms and keys. The token of each client and the secret are
/// sent there, so the URL needs HTTPS, unless it leads to this machine.
fn read_introspection(setting: &Setting<'_>) -> Option<Introspection> {
    let mut fields = setting.fields()?;
    let url = fields.require("url", "the introspection endpoint of the login service");
    let client_id = fields.require("client_id", "the id of Switchyard at the login service");
    let client_secret =
        fields.require("client_secret", "the secret of Switchyard at the login service, as `${NAME}`");
    fields.finish();
    let hint = "write it as https://…; http is accepted for a loopback address";
    let is_one = |url: &Url| {
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        parse_url(url.as_str()).is_some() && (url.scheme() == "https" || is_local)
    };
    Some(Introspection {
        url: url?.url_that("an https URL without user, password and fragment", hint, is_one)?,
        client_id: filled(&client_id?)?,
        client_secret: client_secret?.secret()?,
    })
}

/// Reads `authorization_servers`, the URLs of login services.
fn read_servers(setting: &Setting<'_>) -> Vec<String> {
    let items = setting.list().unwrap_or_default();
    let read = |text: &str| parse_issuer(text).map(|_| text.to_owned());
    items.iter().filter_map(|item| item.parsed("the URL of a login service", read)).collect()
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

/// Reads the source of the keys. Without one, it is `published`, unless the algorithms need a secret.
fn read_key_source(
    fields: &mut Fields<'_>,
    (family, published): (Option<AlgorithmFamily>, Option<KeySetLocation>),
    folder: &Path,
) -> Option<KeySource> {
    let [secret, public, file, url] = SOURCES.map(|name| fields.take(name));
    let mut given = [&secret, &public, &file, &url].into_iter().flatten();
    let is_shared = family == Some(AlgorithmFamily::Hmac);
    let (first, is_one) = (given.next(), given.next().is_none());
    let Some(first) = first.filter(|_| is_one) else {
        if first.is_none() && family.is_some() && !is_shared && published.is_some() {
            return published.map(KeySource::Published);
        }
        let hint = "`secret` for HS…, a public key for every other algorithm; if the issuer is a login service, its \
                    URL as `issuer` is enough";
        let message = "expected one of `secret`, `public_key`, `jwks_file` and `jwks_url`";
        fields.setting().key_problem(message, Some(hint.into()));
        return None;
    };
    if family.is_some() && is_shared != secret.is_some() {
        let message =
            if is_shared { "the algorithm needs a `secret`" } else { "the algorithm needs a public key" };
        first.key_problem(message, None);
        return None;
    }
    let file = || filled(file.as_ref()?).map(|path| KeySource::JwksFile(folder.join(path)));
    let url = || read_url(url.as_ref()?).map(|url| KeySource::Published(KeySetLocation::Url(url)));
    let public = || read_public_key(public.as_ref()?, folder).map(KeySource::PublicKey);
    let secret = || read_secret(secret.as_ref()?).map(KeySource::Secret);
    secret().or_else(public).or_else(file).or_else(url)
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
fn read_parties(setting: &Setting<'_>) -> Vec<String> {
    let items = setting.list().unwrap_or_default();
    if items.is_empty() {
        let hint = "such as `azp: [my-client]`, or remove it".to_owned();
        setting.key_problem("no client is listed, so no token would be accepted", Some(hint));
    }
    items.iter().filter_map(filled).collect()
}

/// Parses a URL of HTTP without a user, a password and a fragment.
fn parse_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (is_plain && url.has_host() && matches!(url.scheme(), "http" | "https")).then_some(url)
}

/// Parses the URL of an issuer, which has no query (RFC 8414, section 2).
fn parse_issuer(text: &str) -> Option<Url> {
    parse_url(text).filter(|url| url.query().is_none())
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
