//! JSON Web Tokens of one issuer: strict checks (RFC 7519, RFC 8725), and signing.
//!
//! Invariants: algorithms and keys come from the configuration, never from the token. All algorithms are of
//! one family. `kid` only chooses among the configured keys, and `jku`, `x5u`, `x5c` and `jwk` are ignored.
//! `exp`, `iss`, `aud` and `sub` are required, and `nbf`, if present, must have passed. No key occurs twice
//! in header or claims, so all readers of a token see the same role.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation};
use secrecy::{ExposeSecret, SecretString};
use serde_json::value::RawValue;

use super::config::{Jwt, KeySource};
use super::jwt_keys::{Key, Keys, encoding_key};
use super::principal::{Principal, Role};
use super::role_words::RoleWords;
use super::{Denied, Error, Reason};
use crate::revocation::Standing;
use crate::token_cache::{Known, Name, Now};
use json::Raw;

/// Limit of the length of a token. Common issuers stay below 4 KiB.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// The longest subject, in bytes: it is a key of maps and is logged.
const MAX_SUBJECT_BYTES: usize = 256;
/// Header members that change the meaning of a token. Switchyard supports none of them.
const REFUSED_HEADERS: [&str; 4] = ["crit", "b64", "enc", "zip"];

/// Issuer, audience and scopes of accepted tokens, as published for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSource {
    /// Their `iss`.
    pub issuer: String,
    /// A value that their `aud` must contain.
    pub audience: String,
    /// The scopes to request. They are known only if the role is read from the scopes.
    pub scopes: Vec<String>,
}

impl TokenSource {
    fn of(config: &Jwt) -> Self {
        Self {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            scopes: config.roles.scopes(),
        }
    }
}

/// Verifies tokens.
pub(super) struct Verifier {
    keys: Keys,
    source: Arc<TokenSource>,
    validation: Validation,
    roles: RoleWords,
    /// Cache of tokens whose signature was verified.
    known: Known,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verifier({:?}, {:?})", self.source.issuer, self.validation.algorithms)
    }
}

/// The members of a token's header that affect verification.
struct Claimed {
    algorithm: Algorithm,
    kid: Option<String>,
}

impl Verifier {
    pub(super) fn new(config: &Jwt) -> Result<Self, Error> {
        Ok(Self {
            keys: Keys::new(config)?,
            source: Arc::new(TokenSource::of(config)),
            validation: validation(config)?,
            roles: config.roles.clone(),
            known: Known::new(),
        })
    }

    /// Verifies a token and returns its principal.
    pub(super) fn check(&self, token: &str) -> Result<Principal, Denied> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Denied::Credential(Reason::Oversized));
        }
        let (name, now) = (Name::of(token), Now::read());
        if let Some(principal) = self.known.find(&name, now) {
            return Ok(principal);
        }
        let (claims, key) = self.claims(token).map_err(Denied::Credential)?;
        let principal = self.principal(&claims, key)?;
        if let Some(exp) = claims.get_as("exp") {
            self.known.keep(name, &principal, now, exp);
        }
        Ok(principal)
    }

    /// Returns the principal and role that the claims of a verified token name.
    fn principal(&self, claims: &Raw, key: &Key) -> Result<Principal, Denied> {
        let subject = claims.get_as::<String>("sub").filter(|subject| is_subject(subject));
        let subject = subject.ok_or(Denied::Credential(Reason::Claims))?;
        let role = self.roles.role_in(claims).ok_or(Denied::NoRole)?;
        Ok(Principal::of_token(&subject, role).under(key.standing.clone()))
    }

    /// Replaces `before`. A principal stays authenticated if its token would be accepted again, with the same
    /// role.
    pub(super) fn after(mut self, before: &Self) -> Self {
        let algorithms = |of: &Self| of.validation.algorithms.iter().copied().collect::<HashSet<_>>();
        let asks_the_same = self.source.issuer == before.source.issuer && self.roles == before.roles;
        if asks_the_same
            && self.validation.aud == before.validation.aud
            && algorithms(&self) == algorithms(before)
        {
            self.keys.go_on(&before.keys);
        }
        self
    }

    /// Issuer, audience and scopes of the tokens.
    pub(super) fn source(&self) -> Arc<TokenSource> {
        Arc::clone(&self.source)
    }

    /// The revocation states of all its keys.
    pub(super) fn standings(&self) -> Vec<&Standing> {
        self.keys.standings()
    }

    /// Verifies everything but subject and role. Returns the claims, and the key of the signature.
    fn claims(&self, token: &str) -> Result<(Raw, &Key), Reason> {
        let header = read_header(token)?;
        let key = self.keys.find(header.kid.as_deref(), header.algorithm)?;
        let decoded = jsonwebtoken::decode::<Box<RawValue>>(token, &key.material, &self.validation);
        let claims = decoded.map_err(|error| reason_of(error.kind()))?.claims;
        let claims = strict_object(claims.get().as_bytes())?;
        // The library would accept a list of issuers, but RFC 7519, section 4.1.1 does not allow one.
        match claims.get_as::<String>("iss") {
            Some(issuer) if issuer == self.source.issuer => Ok((claims, key)),
            _ => Err(Reason::Issuer),
        }
    }
}

fn is_subject(text: &str) -> bool {
    (1..=MAX_SUBJECT_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn validation(config: &Jwt) -> Result<Validation, Error> {
    let first = config.algorithms.first().ok_or(Error::Key("no algorithm is configured"))?;
    if config.algorithms.iter().any(|algorithm| algorithm.family() != first.family()) {
        return Err(Error::Key("the algorithms are of different families"));
    }
    let mut validation = Validation::new(*first);
    validation.algorithms.clone_from(&config.algorithms);
    validation.leeway = config.leeway.as_secs();
    validation.validate_nbf = true;
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.set_issuer(&[&config.issuer]);
    validation.set_audience(&[&config.audience]);
    Ok(validation)
}

fn read_header(token: &str) -> Result<Claimed, Reason> {
    let (header, _) = token.split_once('.').ok_or(Reason::Malformed)?;
    let header = strict_object(&URL_SAFE_NO_PAD.decode(header).map_err(|_| Reason::Malformed)?)?;
    if REFUSED_HEADERS.iter().any(|name| header.get(name).is_some()) {
        return Err(Reason::Header);
    }
    // Tokens for other uses, such as `logout+jwt` or `dpop+jwt`, are not access tokens.
    let media_type =
        header.get("typ").map(|text| text.read::<String>().map(|text| text.to_ascii_lowercase()));
    match media_type {
        None => {}
        Some(Ok(text)) if matches!(text.trim_start_matches("application/"), "jwt" | "at+jwt") => {}
        Some(_) => return Err(Reason::Header),
    }
    let kid = header.get("kid").map(|kid| kid.read::<String>()).transpose().map_err(|_| Reason::Header)?;
    // `none` is not the name of an algorithm here.
    let algorithm = header.get_as::<Algorithm>("alg").ok_or(Reason::Header)?;
    Ok(Claimed { algorithm, kid })
}

fn strict_object(json: &[u8]) -> Result<Raw, Reason> {
    let raw = Raw::parse(&Bytes::copy_from_slice(json)).map_err(|_| Reason::Malformed)?;
    if raw.is_object() && raw.duplicate_key().is_none() { Ok(raw) } else { Err(Reason::Malformed) }
}

const fn reason_of(kind: &ErrorKind) -> Reason {
    match kind {
        ErrorKind::InvalidSignature => Reason::Signature,
        ErrorKind::ExpiredSignature => Reason::Expired,
        ErrorKind::ImmatureSignature => Reason::NotYet,
        ErrorKind::InvalidIssuer => Reason::Issuer,
        ErrorKind::InvalidAudience => Reason::Audience,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => Reason::Claims,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidKeyFormat => Reason::Header,
        _ => Reason::Malformed,
    }
}

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
        let claims = serde_json::json!({
            "iss": self.config.issuer, "aud": self.config.audience, "sub": grant.subject,
            "iat": since(now), "exp": since(now).saturating_add(grant.lifetime.as_secs()),
            "jti": uuid::Uuid::new_v4().to_string(), role_claim: word,
        });
        let token = jsonwebtoken::encode(&self.header, &claims, &self.key)?;
        match self.verifier.check(&token) {
            Ok(_) => Ok(token.into()),
            Err(_) => Err(Error::Key(
                "a token signed with this key would not be accepted: wrong key, `kid` or subject",
            )),
        }
    }
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
pub(super) mod tests;
