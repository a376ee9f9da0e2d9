//! Tokens of one issuer: strict checks (RFC 7519, RFC 8725), of signatures or by introspection, and their signer for tests and
//! for instances with the same configuration.
//!
//! Invariants: algorithms and keys come from the configuration, never from the token. All algorithms are of
//! one family. `kid` only chooses among the configured keys, and `jku`, `x5u`, `x5c` and `jwk` are ignored.
//! `exp`, `iss`, `aud` and `sub` are required (`iss` and `aud` unless `jwt.require` leaves them out), and `nbf`, if present, must
//! have passed. No key occurs twice in header or claims, so all readers of a token see the same role. A token that a login
//! service described passes the same checks, without a signature. A signed token was verified once.
//!
//! Not here: the question to the service (`introspection`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation};
use secrecy::{ExposeSecret, SecretString};
use serde_json::value::RawValue;

use super::introspection::Introspector;
use super::jwt_keys::{VerificationKey, VerificationKeys, encoding_key};
use super::key_set::KeySet;
use super::principal::{Principal, Role};
use super::role_words::{RoleWords, is_subject};
use super::token_config::{Jwt, KeySource, RequiredClaims};
use super::{Denied, Error, Reason};
use crate::revocation::RevocationState;
use crate::token_cache::{CachedTokens, LazyDigest, Now, TokenDigest};
use json::Raw;

/// Limit of the length of a token. Common issuers stay below 4 KiB.
pub(super) const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Header members that change the meaning of a token. Switchyard supports none of them.
const REFUSED_HEADERS: [&str; 4] = ["crit", "b64", "enc", "zip"];

/// Issuer, audience and scopes of accepted tokens, as published for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSource {
    /// Their `iss`, if it is checked.
    pub issuer: Option<String>,
    /// A value that their `aud` must contain, if it is checked.
    pub audience: Option<String>,
    /// The login services that clients are referred to: the issuer, unless the configuration names others.
    pub authorization_servers: Vec<String>,
    /// The scopes to request. They are known only if the role is read from the scopes.
    pub scopes: Vec<String>,
    /// The scope that lets a client call tools, if the role is read from the scopes.
    pub caller_scope: Option<String>,
}

impl TokenSource {
    fn of(config: &Jwt) -> Self {
        Self {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            authorization_servers: match config.authorization_servers.as_slice() {
                [] => config.issuer.iter().cloned().collect(),
                named => named.to_vec(),
            },
            scopes: config.roles.scopes(),
            caller_scope: config.roles.scope_for(Role::Caller),
        }
    }
}

/// Verifies tokens.
pub(super) struct Verifier {
    ring: ArcSwap<KeyRing>,
    /// The schedule of keys that a login service publishes.
    key_set: Option<Arc<KeySet>>,
    pub(super) source: Arc<TokenSource>,
    pub(super) validation: Validation,
    pub(super) required: RequiredClaims,
    pub(super) roles: RoleWords,
    parties: Vec<String>,
    /// Asks about opaque tokens, in the place of keys.
    pub(super) introspector: Option<Arc<Introspector>>,
}

/// The keys in use.
struct KeyRing {
    keys: VerificationKeys,
    /// Cache of tokens whose signature was verified with these keys.
    known: CachedTokens,
}

impl KeyRing {
    fn of(keys: VerificationKeys) -> ArcSwap<Self> {
        ArcSwap::from_pointee(Self { keys, known: CachedTokens::new() })
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verifier({:?}, {:?})", self.source.issuer, self.validation.algorithms)
    }
}

/// The members of a token's header that affect verification.
pub(super) struct Claimed {
    pub(super) algorithm: Algorithm,
    kid: Option<String>,
}

impl Verifier {
    pub(super) fn new(config: &Jwt) -> Result<Self, Error> {
        let key_set = match &config.key {
            KeySource::Published(location) => {
                let (location, network) = (location.clone(), config.network.clone());
                let issuer = config.issuer.clone().unwrap_or_default();
                Some(Arc::new(KeySet::new(location, issuer, network)))
            }
            _ => None,
        };
        Ok(Self {
            ring: KeyRing::of(VerificationKeys::new(config)?),
            key_set,
            source: Arc::new(TokenSource::of(config)),
            validation: validation(config)?,
            required: config.required,
            roles: config.roles.clone(),
            parties: config.parties.clone(),
            introspector: match &config.key {
                KeySource::Introspection(endpoint) => {
                    Some(Arc::new(Introspector::new(endpoint, &config.network)?))
                }
                _ => None,
            },
        })
    }

    /// Verifies a token and returns its principal, or [`Denied::Unchecked`] if its key may be in a newer key set.
    pub(super) fn check(&self, token: &str) -> Result<Principal, Denied> {
        self.judge(token, &LazyDigest::default())
    }

    /// Verifies a token like [`Verifier::check`], whose digest may be known already.
    pub(super) fn judge(&self, token: &str, digest: &LazyDigest) -> Result<Principal, Denied> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Denied::Credential(Reason::Oversized));
        }
        let name = digest.of(token);
        if let Some(introspector) = &self.introspector {
            return introspector.known(&name);
        }
        let (now, ring) = (Now::read(), self.ring.load());
        if let Some(principal) = ring.known.find(&name, now) {
            return Ok(principal);
        }
        let (claims, key) = match self.claims(&ring.keys, token) {
            Err(Reason::UnknownKid) if self.may_have_new_key(&ring.keys, token) => {
                return Err(Denied::Unchecked);
            }
            read => read.map_err(Denied::Credential)?,
        };
        let principal = self.principal(&claims, &key.revocation_state)?;
        if let Some(exp) = claims.get_as("exp") {
            ring.known.keep(name, &principal, now, exp);
        }
        Ok(principal)
    }

    /// Returns the result for the token with `digest`, if it was judged a moment ago.
    pub(super) fn known(&self, digest: &TokenDigest) -> Option<Result<Principal, Denied>> {
        match &self.introspector {
            Some(introspector) => {
                Some(introspector.known(digest)).filter(|judged| *judged != Err(Denied::Unchecked))
            }
            None => self.ring.load().known.find(digest, Now::read()).map(Ok),
        }
    }

    /// Waits until the key set was fetched for `token`, whose key is unknown.
    pub(super) async fn fetched_for(&self, token: &str) -> Result<(), Denied> {
        let unknown = Denied::Credential(Reason::UnknownKid);
        let key_set = self.key_set.as_ref().ok_or(unknown)?;
        let kid = read_header(token).map_err(Denied::Credential)?.kid;
        key_set.fetched_for(kid.as_deref()).await
    }

    /// Whether a key set that is newer than `keys` could verify `token`. Claims are read without a signature, so
    /// tokens of other issuers never cause a fetch.
    fn may_have_new_key(&self, keys: &VerificationKeys, token: &str) -> bool {
        let is_named = || read_header(token).is_ok_and(|header| header.kid.is_some());
        let exp = |claims: &Raw| claims.get_as::<f64>("exp").unwrap_or_default();
        self.key_set.is_some()
            && (keys.is_empty() || is_named())
            && unverified_claims(token).is_ok_and(|claims| {
                self.is_of_issuer(&claims)
                    && exp(&claims) > Duration::from_secs(jsonwebtoken::get_current_timestamp()).as_secs_f64()
            })
    }

    /// Returns the principal and role that the claims of a verified token name.
    pub(super) fn principal(
        &self,
        claims: &Raw,
        revocation_state: &RevocationState,
    ) -> Result<Principal, Denied> {
        let subject = claims.get_as::<String>("sub").filter(|subject| is_subject(subject));
        let subject = subject.ok_or(Denied::Credential(Reason::Claims))?;
        let role = self.roles.role_in(claims).ok_or(Denied::NoRole)?;
        let principal = Principal::of_token(&subject, role).under(revocation_state.clone());
        Ok(self.roles.bound(&principal, claims))
    }

    /// Replaces `before`. A principal stays authenticated if its token would be accepted again, with the same
    /// role. Published keys need not be fetched again.
    pub(super) fn after(mut self, before: &Self) -> Self {
        let algorithms = |of: &Self| of.validation.algorithms.iter().copied().collect::<HashSet<_>>();
        let has_same_algorithms = algorithms(&self) == algorithms(before);
        let ring = before.ring.load();
        let mut keys = self.ring.load().keys.anew();
        if let (Some(own), Some(known)) = (&self.key_set, &before.key_set)
            && own.is_of(known)
            && has_same_algorithms
        {
            keys = ring.keys.anew();
            self.key_set = Some(Arc::clone(known));
        }
        let asks_the_same = self.source.issuer == before.source.issuer
            && self.roles == before.roles
            && self.parties == before.parties
            && self.required == before.required
            && self.validation.aud == before.validation.aud;
        if asks_the_same && has_same_algorithms {
            keys.go_on(&ring.keys);
        }
        if let (Some(own), Some(known)) = (&self.introspector, &before.introspector)
            && asks_the_same
            && own.is_of(known)
        {
            self.introspector = Some(Arc::clone(known));
        }
        self.ring = KeyRing::of(keys);
        self
    }

    /// Reads a published key set.
    pub(super) fn read_published(&self, json: &[u8]) -> Result<VerificationKeys, Error> {
        VerificationKeys::published(json, &self.validation.algorithms)
    }

    /// Uses `keys` from now on. Principals whose key is not among them are notified. Returns whether there are any.
    pub(super) fn replace(&self, mut keys: VerificationKeys) -> bool {
        let before = self.ring.load_full();
        keys.go_on(&before.keys);
        let last = keys.revocation_states();
        // The new keys come first, so that a notified client cannot authenticate again with a revoked credential.
        self.ring.store(Arc::new(KeyRing { keys, known: CachedTokens::new() }));
        let gone = before
            .keys
            .revocation_states()
            .into_iter()
            .filter(|revocation_state| !last.contains(revocation_state));
        gone.map(|revocation_state| revocation_state.end()).count() > 0
    }

    /// The schedule of published keys.
    pub(super) const fn key_set(&self) -> Option<&Arc<KeySet>> {
        self.key_set.as_ref()
    }

    /// Issuer, audience and scopes of the tokens.
    pub(super) fn source(&self) -> Arc<TokenSource> {
        Arc::clone(&self.source)
    }

    /// The revocation states of all its keys.
    pub(super) fn revocation_states(&self) -> Vec<RevocationState> {
        let of_keys = self.ring.load().keys.revocation_states();
        let of_service = self.introspector.iter().map(|service| service.revocation_state().clone());
        of_keys.into_iter().chain(of_service).collect()
    }

    /// Verifies everything but subject and role. Returns the claims.
    pub(super) fn verified(&self, token: &str) -> Result<Raw, Reason> {
        Ok(self.claims(&self.ring.load().keys, token)?.0)
    }

    /// Verifies everything but subject and role. Returns the claims, and the key of the signature.
    fn claims<'k>(
        &self,
        keys: &'k VerificationKeys,
        token: &str,
    ) -> Result<(Raw, &'k VerificationKey), Reason> {
        let header = read_header(token)?;
        let key = keys.find(header.kid.as_deref(), header.algorithm)?;
        let decoded = jsonwebtoken::decode::<Box<RawValue>>(token, &key.material, &self.validation);
        let claims = decoded.map_err(|error| reason_of(error.kind()))?.claims;
        let claims = strict_object(claims.get().as_bytes())?;
        // The library would accept a list of issuers, but RFC 7519, section 4.1.1 does not allow one.
        if !self.is_of_issuer(&claims) {
            return Err(Reason::Issuer);
        }
        if self.is_for_known_party(&claims) { Ok((claims, key)) } else { Err(Reason::Party) }
    }

    /// Whether the token is of the configured issuer. A token without `iss` is, if the claim is not required.
    fn is_of_issuer(&self, claims: &Raw) -> bool {
        let Some(expected) = &self.source.issuer else { return true };
        match claims.get("iss") {
            Some(issuer) => issuer.read::<String>().is_ok_and(|issuer| issuer == *expected),
            None => !self.required.issuer,
        }
    }

    /// Whether the token was issued to an accepted client: `azp`, or `client_id` (RFC 9068) if there is none.
    fn is_for_known_party(&self, claims: &Raw) -> bool {
        let party = || claims.get("azp").or_else(|| claims.get("client_id"))?.read::<String>().ok();
        self.parties.is_empty() || party().is_some_and(|party| self.parties.contains(&party))
    }
}

/// The claims of a token whose signature was not verified.
fn unverified_claims(token: &str) -> Result<Raw, Reason> {
    let claims = token.split('.').nth(1).ok_or(Reason::Malformed)?;
    strict_object(&URL_SAFE_NO_PAD.decode(claims).map_err(|_| Reason::Malformed)?)
}

fn validation(config: &Jwt) -> Result<Validation, Error> {
    let introspected = [Algorithm::HS256]; // no signature is verified then
    let is_introspected = matches!(config.key, KeySource::Introspection(_));
    let algorithms = if is_introspected { &introspected[..] } else { &config.algorithms };
    let first = algorithms.first().ok_or(Error::Key("no algorithm is configured"))?;
    if config.algorithms.iter().any(|algorithm| algorithm.family() != first.family()) {
        return Err(Error::Key("the algorithms are of different families"));
    }
    let mut validation = Validation::new(*first);
    validation.algorithms.clone_from(&config.algorithms);
    validation.leeway = config.leeway.as_secs();
    validation.validate_nbf = true;
    let optional = [(config.required.issuer, "iss"), (config.required.audience, "aud")];
    let named = optional.iter().filter_map(|(is_required, name)| is_required.then_some(*name));
    validation.set_required_spec_claims(&["exp", "sub"].into_iter().chain(named).collect::<Vec<_>>());
    if let Some(issuer) = &config.issuer {
        validation.set_issuer(&[issuer]);
    }
    match &config.audience {
        Some(audience) => validation.set_audience(&[audience]),
        None => validation.validate_aud = false,
    }
    Ok(validation)
}

pub(super) fn read_header(token: &str) -> Result<Claimed, Reason> {
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

pub(super) const fn reason_of(kind: &ErrorKind) -> Reason {
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

impl Verifier {
    /// Whether a login service is asked about each token.
    pub(super) const fn is_introspecting(&self) -> bool {
        self.introspector.is_some()
    }

    /// Asks the login service about `token`; `None` if tokens are signed.
    pub(super) async fn introspect(&self, token: &str) -> Option<Result<Principal, Denied>> {
        let introspector = self.introspector.as_ref()?;
        Some(introspector.ask(token, |claims| self.active(claims, introspector)).await)
    }

    /// Returns the principal of a token that the login service described.
    fn active(&self, claims: &Raw, introspector: &Introspector) -> Result<Principal, Denied> {
        let refused = |reason| Err(Denied::Credential(reason));
        if claims.get_as::<bool>("active") != Some(true) {
            return refused(Reason::Inactive);
        }
        let (now, leeway) = (jsonwebtoken::get_current_timestamp(), self.validation.leeway);
        let time = |name| claims.get(name).map(|time| time.read::<f64>());
        let seconds = |time: u64| Duration::from_secs(time).as_secs_f64();
        match (time("exp"), time("nbf")) {
            (Some(Err(_)), _) | (_, Some(Err(_))) => return refused(Reason::Claims),
            (Some(Ok(exp)), _) if exp <= seconds(now) => return refused(Reason::Expired),
            (_, Some(Ok(nbf))) if nbf > seconds(now + leeway) => return refused(Reason::NotYet),
            _ => {}
        }
        if !self.is_of_issuer(claims) {
            return refused(Reason::Issuer);
        }
        if !self.is_for_audience(claims) {
            return refused(Reason::Audience);
        }
        if !self.is_for_known_party(claims) {
            return refused(Reason::Party);
        }
        self.principal(claims, introspector.revocation_state())
    }

    /// Whether `aud`, a text or a list, has the configured audience.
    fn is_for_audience(&self, claims: &Raw) -> bool {
        let Some(expected) = &self.source.audience else { return true };
        let Some(audience) = claims.get("aud") else { return !self.required.audience };
        audience.read::<String>().is_ok_and(|one| one == *expected)
            || audience.read::<Vec<String>>().is_ok_and(|all| all.contains(expected))
    }
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
pub(super) mod tests;
