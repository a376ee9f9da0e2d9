//! Tokens of the authorization server of this gateway.
//!
//! Invariants: a token is accepted while its grant exists. If the grant ends in this process, its principals are
//! notified at once. If another process ends it, they are as soon as the issuer knows, and its tokens are refused within a
//! minute. While grants cannot be looked up, a token is accepted until it expires if its grant was seen here and has not
//! ended since. A token of another grant is refused then. The principal of a token is
//! the one that agreed to the grant, and not another one of the same name. A token for one endpoint is accepted there only.
//! A token of the holder of an API key never allows more than the key does now. If the key is revoked or changed, the
//! principals of its tokens are notified with those of the key.
//!
//! Not here: how tokens come about (`authorization`), and the comparison of endpoint and path (`downstream`).
//!
//! Source: RFC 9068, section 4.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use lru::LruCache;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::jwt::MAX_TOKEN_BYTES;
use super::principal::{Principal, Role};
use super::revocation::RevocationState;
use super::role_words::EVERYTHING;
use super::token_cache::{CachedTokens, Now, TokenDigest};
use super::token_format::{self, SEPARATOR};
use super::{Denied, Reason, Verification};

/// Limit of grants whose state is known: as many as there may be.
const MAX_GRANTS: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");
/// The time after which a grant is looked up again.
const LOOKUP_AGAIN: Duration = Duration::from_mins(1);
/// How often a lookup is repeated because grants ended meanwhile.
const MAX_LOOKUPS: usize = 8;
/// Time limit of looking a grant up. Then it cannot be known now, so that known tokens still work with a disk that hangs.
const LOOKUP_LIMIT: Duration = Duration::from_secs(4);
/// Seconds after which a request may be repeated if no grant can be looked up.
const RETRY: u16 = 1;

/// The authorization server of this gateway.
pub trait TokenIssuer: Send + Sync {
    /// The `iss` of its tokens: the public URL of the gateway, without a trailing slash.
    fn issuer(&self) -> &str;

    /// Returns the key that verifies tokens with `kid`, if it is one of its own.
    fn key(&self, kid: &str) -> Option<DecodingKey>;

    /// Whether its keys are known. They are in a store, which may not have been reachable yet.
    fn knows_keys(&self) -> bool {
        true
    }

    /// Whether `owner`, the id of a principal, may have tokens with `role`.
    fn may_grant(&self, owner: &str, role: Role) -> bool;

    /// Whether the grant `id` exists; none if that cannot be known now.
    fn has_grant<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<bool>>;
}

/// Verifies these tokens.
pub(super) struct OwnTokens {
    issuer: Arc<dyn TokenIssuer>,
    validation: Validation,
    /// The tokens that passed every check.
    known: CachedTokens,
    grants: Mutex<SeenGrants>,
}

/// The grants that existed a moment ago.
struct SeenGrants {
    seen: LruCache<String, SeenGrant>,
    /// How often grants have ended, or may have. A lookup that one of them overtook is repeated.
    ended: u64,
}

/// One of them.
struct SeenGrant {
    owner: String,
    revocation_state: RevocationState,
    /// When it was looked up.
    looked_up: Now,
}

#[derive(Deserialize)]
struct OwnClaims {
    sub: String,
    aud: String,
    exp: u64,
    jti: String,
    scope: String,
    view: String,
}

/// The issuer that a token names.
#[derive(Deserialize)]
struct Unverified {
    iss: String,
}

impl OwnTokens {
    /// The `iss` of its tokens.
    pub(super) fn issuer(&self) -> Arc<str> {
        self.issuer.issuer().into()
    }

    pub(super) fn new(issuer: Arc<dyn TokenIssuer>) -> Self {
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[issuer.issuer()]);
        validation.leeway = 0; // its own clock
        validation.validate_aud = false; // compared below
        let grants = Mutex::new(SeenGrants { seen: LruCache::new(MAX_GRANTS), ended: 0 });
        Self { issuer, validation, known: CachedTokens::new(), grants }
    }

    /// Whether `token` has the form of one of these.
    pub(super) fn has_form(token: &str) -> bool {
        token.starts_with("ey") && token.len() <= MAX_TOKEN_BYTES
    }

    /// Returns the principal of the token with `digest`, if it was verified a moment ago.
    pub(super) fn known(&self, digest: &TokenDigest) -> Option<Principal> {
        // The grant of a revoked one may exist, with fewer rights.
        self.known.find(digest, Now::read()).filter(|principal| !principal.is_revoked())
    }

    /// Verifies `token`, which has the form and the digest `digest`, and is not [`known`](Self::known). `None` says that another
    /// issuer made it. [`Denied::Unchecked`] says that its grant has to be looked up.
    pub(super) fn check(
        &self,
        token: &str,
        digest: TokenDigest,
        keys: &ArcSwap<Verification>,
    ) -> Option<Result<Principal, Denied>> {
        let judged = self.verified(token)?.and_then(|claims| self.principal(&claims, keys));
        Some(judged.and_then(|Sender { principal, until, looked_up }| {
            // Since its lookup, so that the grant is looked up again in time.
            self.known.keep(digest, &principal, looked_up, until);
            let is_revoked = principal.is_revoked();
            if is_revoked { Err(Denied::Credential(Reason::Revoked)) } else { Ok(principal) }
        }))
    }

    /// Returns the principal of `token`, and looks its grant up. `None` says that another issuer made it.
    pub(super) async fn check_grant(
        &self,
        token: &str,
        keys: &ArcSwap<Verification>,
    ) -> Option<Result<Principal, Denied>> {
        if !Self::has_form(token) {
            return None;
        }
        let digest = TokenDigest::of(token);
        if let Some(known) = self.known(&digest) {
            return Some(Ok(known));
        }
        match self.check(token, digest, keys)? {
            Err(Denied::Unchecked) => {}
            judged => return Some(judged),
        }
        let claims = match self.verified(token)? {
            Ok(claims) => claims,
            Err(denied) => return Some(Err(denied)),
        };
        let (grant, until) = (claims.grant(), Instant::now() + LOOKUP_LIMIT);
        for _ in 0..MAX_LOOKUPS {
            let (ended, now) = (self.grants().ended, Now::read());
            match timeout_at(until, self.issuer.has_grant(grant)).await.unwrap_or(None) {
                Some(true) if self.seen(&claims, ended, now) => return self.check(token, digest, keys),
                // Another grant ended meanwhile, or this one.
                Some(true) => {}
                Some(false) => {
                    self.end(grant);
                    return Some(Err(Denied::Credential(Reason::Revoked)));
                }
                None if self.is_seen(grant, now) => return self.check(token, digest, keys),
                None => break,
            }
        }
        Some(Err(Denied::KeysUnavailable { retry_after: RETRY }))
    }

    /// Whether grants have principals here.
    pub(super) fn uses_grants(&self) -> bool {
        !self.grants().seen.is_empty()
    }

    /// Returns the ids of the grants that may have principals here.
    pub(super) fn used_grants(&self) -> Vec<String> {
        let mut grants = self.grants();
        // The caller compares them with the store. A lookup that has found its grant there before, and records it here after,
        // would be missed by the comparison, and the next one may be far away.
        grants.ended += 1;
        grants.seen.iter().map(|(id, _)| id.clone()).collect()
    }

    /// Whether `owner` may have tokens with `role`.
    pub(super) fn may_grant(&self, owner: &str, role: Role) -> bool {
        self.issuer.may_grant(owner, role)
    }

    /// Notifies all principals of the grant `id`, which has ended. Returns whether there may be any.
    pub(super) fn end(&self, id: &str) -> bool {
        let mut grants = self.grants();
        grants.ended += 1;
        let seen = grants.seen.pop(id);
        seen.inspect(|seen| seen.revocation_state.end()).is_some()
    }

    /// Notifies the principals of all grants of `owners`, whose keys were revoked or changed. The grants are looked up
    /// again.
    pub(super) fn end_of_owners(&self, owners: &HashSet<Arc<str>>) {
        if owners.is_empty() {
            return;
        }
        let mut grants = self.grants();
        grants.ended += 1;
        let of_owners = grants.seen.iter().filter(|(_, seen)| owners.contains(&*seen.owner));
        let ids: Vec<String> = of_owners.map(|(id, _)| id.clone()).collect();
        for seen in ids.iter().filter_map(|id| grants.seen.pop(id)).collect::<Vec<_>>() {
            seen.revocation_state.end();
        }
    }

    /// Records that the grant of `claims` existed at `looked_up`. Returns false if a grant ended after `ended` of them had.
    fn seen(&self, claims: &OwnClaims, ended: u64, looked_up: Now) -> bool {
        let mut grants = self.grants();
        if grants.ended != ended {
            return false;
        }
        if let Some(seen) = grants.seen.get_mut(claims.grant()) {
            seen.looked_up = looked_up;
            return true;
        }
        let owner = claims.sub.clone();
        let seen = SeenGrant { owner, revocation_state: RevocationState::default(), looked_up };
        if let Some((_, displaced)) = grants.seen.push(claims.grant().to_owned(), seen) {
            // Its principals could not be notified later.
            displaced.revocation_state.end();
        }
        true
    }

    /// Whether the grant `id` was seen and has not ended. It then counts as looked up at `now`.
    fn is_seen(&self, id: &str, now: Now) -> bool {
        let mut grants = self.grants();
        grants.seen.get_mut(id).map(|seen| seen.looked_up = now).is_some()
    }

    fn grants(&self) -> MutexGuard<'_, SeenGrants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verified(&self, token: &str) -> Option<Result<OwnClaims, Denied>> {
        let header = decode_header(token).ok()?;
        let Some(key) = self.issuer.key(header.kid.as_deref()?) else {
            let may_be_own = !self.issuer.knows_keys() && issuer_of(token)? == self.issuer.issuer();
            return may_be_own.then_some(Err(Denied::KeysUnavailable { retry_after: RETRY }));
        };
        if header.typ.as_deref() != Some(token_format::TYPE) || header.alg != Algorithm::EdDSA {
            return Some(Err(Denied::Credential(Reason::Header)));
        }
        let decoded = decode::<OwnClaims>(token, &key, &self.validation);
        let refused =
            |error: jsonwebtoken::errors::Error| Denied::Credential(super::jwt::reason_of(error.kind()));
        Some(decoded.map(|decoded| decoded.claims).map_err(refused))
    }

    fn principal(&self, claims: &OwnClaims, keys: &ArcSwap<Verification>) -> Result<Sender, Denied> {
        let path = claims.aud.strip_prefix(self.issuer.issuer());
        let path = path.ok_or(Denied::Credential(Reason::Audience))?;
        let role = claims.scope.split(' ').filter_map(token_format::role_of).max().ok_or(Denied::NoRole)?;
        let view: Option<Arc<str>> = (claims.view != EVERYTHING).then(|| claims.view.as_str().into());
        let is_of_view = || token_format::name_in(path).is_some_and(|name| view.as_deref() == Some(&*name));
        let is_for_one = !token_format::is_whole(path) && !is_of_view();
        let endpoint = is_for_one.then(|| path.into());
        let (state, looked_up) = {
            let (mut grants, now) = (self.grants(), Now::read());
            let seen = grants.seen.get(claims.grant());
            let seen = seen.filter(|seen| now.since(seen.looked_up) < LOOKUP_AGAIN);
            let seen = seen.ok_or(Denied::Unchecked)?;
            (seen.revocation_state.clone(), seen.looked_up)
        };
        let named = Principal::new(claims.sub.as_str(), role).of_grant().bound_to(view);
        // After the state was read, so that keys which change meanwhile end it.
        let (allowed, until) = match keys.load().holder_of(&claims.sub, SystemTime::now()) {
            None => (Some(named), claims.exp),
            Some(holder) => {
                let Holder { principal, expires } = holder?;
                (named.within(&principal), expires.map_or(claims.exp, |end| end.min(claims.exp)))
            }
        };
        let allowed = allowed.ok_or(Denied::Credential(Reason::Revoked))?;
        Ok(Sender { principal: allowed.at_endpoint(endpoint).under(state), until, looked_up })
    }
}

/// The sender of a token.
struct Sender {
    principal: Principal,
    /// The second since 1970 at which the token or the key of its owner expires.
    until: u64,
    /// When its grant was looked up.
    looked_up: Now,
}

/// The holder of the API key of a token.
pub(super) struct Holder {
    pub(super) principal: Principal,
    /// When the key expires, in seconds since 1970.
    pub(super) expires: Option<u64>,
}

impl OwnClaims {
    /// The grant, which `jti` names before the number of the refresh.
    fn grant(&self) -> &str {
        self.jti.split(SEPARATOR).next().unwrap_or_default()
    }
}

/// The `iss` of `token`, which nothing has verified.
fn issuer_of(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    Some(serde_json::from_slice::<Unverified>(&claims).ok()?.iss)
}

impl fmt::Debug for OwnTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnTokens({:?})", self.issuer.issuer())
    }
}
