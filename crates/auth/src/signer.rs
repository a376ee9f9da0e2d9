//! Signs tokens that an instance with the same configuration accepts.
//!
//! Invariant: a signed token was verified once. Not here: the checks (`jwt`).

use std::time::{Duration, SystemTime};

use jsonwebtoken::{EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};

use super::Error;
use super::jwt::Verifier;
use super::jwt_keys::encoding_key;
use super::principal::Role;
use super::token_config::{Jwt, KeySource};

/// The claims of a token that Switchyard signs.
#[derive(Debug, Clone, Copy)]
pub struct Grant<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The role of the subject.
    pub role: Role,
    /// How long the token is valid, from `now` on.
    pub lifetime: Duration,
}

/// Signs tokens that an instance with the same configuration accepts.
pub struct Signer {
    verifier: Verifier,
    config: Jwt,
    key: EncodingKey,
    header: Header,
}

impl Signer {
    /// A signer with the configured secret. If the configuration has only the public key, it signs with
    /// `private_key` (PEM). `kid` names the key in a key set.
    pub fn new(config: &Jwt, private_key: Option<&[u8]>, kid: Option<&str>) -> Result<Self, Error> {
        if matches!(config.key, KeySource::Published(_) | KeySource::Introspection(_)) {
            return Err(Error::Key("tokens come from the login service, which alone has the private key"));
        }
        let verifier = Verifier::new(config)?;
        let algorithm = verifier.validation.algorithms[0];
        let key = match (&config.key, private_key) {
            (KeySource::Secret(secret), None) => EncodingKey::from_secret(secret.expose_secret().as_bytes()),
            (KeySource::Secret(_), Some(_)) => {
                return Err(Error::Key(
                    "tokens are signed with the configured secret, not with a private key",
                ));
            }
            (_, Some(pem)) => encoding_key(algorithm, pem)?,
            (_, None) => return Err(Error::Key("only the public key is configured; give the private key")),
        };
        let mut header = Header::new(algorithm);
        header.kid = kid.map(str::to_owned);
        Ok(Self { verifier, config: config.clone(), key, header })
    }

    /// Signs a token and verifies it once. A private key that does not match the configured public key is
    /// therefore an error here, not a puzzle later.
    pub fn sign(&self, grant: &Grant<'_>, now: SystemTime) -> Result<SecretString, Error> {
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let (role_claim, word) = self
            .config
            .roles
            .words_for(grant.role)
            .ok_or(Error::Key("no word in `role_map` stands for this role"))?;
        let mut claims = serde_json::json!({
            "sub": grant.subject,
            "iat": since(now), "exp": since(now).saturating_add(grant.lifetime.as_secs()),
            "jti": uuid::Uuid::new_v4().to_string(), role_claim: word,
        });
        for (name, value) in [("iss", &self.config.issuer), ("aud", &self.config.audience)] {
            if let Some(value) = value {
                claims[name] = value.as_str().into();
            }
        }
        let token = jsonwebtoken::encode(&self.header, &claims, &self.key)?;
        match self.verifier.check(&token) {
            Ok(_) => Ok(token.into()),
            Err(_) => Err(Error::Key(
                "a token signed with this key would not be accepted: wrong key, `kid` or subject",
            )),
        }
    }
}
