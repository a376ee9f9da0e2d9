//! Authentication: turns the credentials of a request into a [`Principal`], and says what a principal may do.
//!
//! Invariants: an authentication gives a [`Principal`] or a [`Denied`], never a guess. A credential is read from
//! headers only, never from a URL. A request with two credentials is refused. A client does not learn why its
//! credential was refused; the [`Reason`] is for the log. Values that clients send back later are sealed with their
//! principal ([`Sealer`]), and values that Switchyard stores are sealed in the [`vault`]. If a reload revokes a
//! credential, its principals are notified ([`Principal::revoked`]).
//!
//! Not here: HTTP answers (`downstream`, `admin`), which callers apply [`Role::may`] to what.

mod api_key;
mod api_keys;
mod config;
mod id_token;
mod introspection;
mod jwt;
mod jwt_keys;
mod key_file;
mod key_set;
mod key_set_task;
mod own_tokens;
mod password_check;
mod password_hash;
mod principal;
mod revocation;
mod role_words;
mod seal;
mod token_cache;
mod token_config;
pub mod token_format;
pub mod vault;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use key_file::FollowedKeys;
use revocation::RevocationState;
use token_cache::LazyDigest;
use tokio::sync::watch;

pub use api_key::{ApiKey, KeyHash, generate, is_id, parse_time, time_text};
pub use config::{ApiKeyList, Config};
pub use id_token::IdTokens;
pub use introspection::Introspection;
pub use jwt::{Grant, Signer, TokenSource};
pub use key_file::{KeyFile, StoredKey};
pub use own_tokens::TokenIssuer;
pub use principal::{Action, Person, Principal, Role};
pub use role_words::{EVERYTHING, RoleWords, ViewWords, read_role_map};
pub use seal::{Sealer, read_seal_keys};
pub use token_config::{Jwt, KeySetLocation, KeySource, PublicKey, RequiredClaims};

/// Header that may carry an API key instead of `Authorization`.
pub const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// How many reloads of the keys may happen during one check before the request is refused as `Denied::Busy`.
const MOST_RENEWALS: usize = 4;

/// Why a request is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No credential was sent.
    #[error("no credential was sent")]
    Missing,
    /// The credential is not valid, or was sent in a form that is not accepted.
    #[error("the credential was refused: {0}")]
    Credential(Reason),
    /// Checking the credential takes long and was not done yet: call [`Authenticator::check`].
    #[error("the credential was not checked yet")]
    Unchecked,
    /// Too many keys are being checked; try again soon.
    #[error("too many keys are being checked")]
    Busy,
    /// The key of the token is not known, and the login service was asked a moment ago or cannot be reached.
    #[error("the keys of the login service are not known, or not current")]
    KeysUnavailable {
        /// Seconds until they may be.
        retry_after: u16,
    },
    /// The credential is valid, but gives no role that is configured.
    #[error("the token names no role that is known here")]
    NoRole,
}

/// Why a credential is refused. For the log only: the client does not learn it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// More than one `Authorization` or `X-API-Key` header, or both.
    #[error("more than one credential")]
    Ambiguous,
    /// `Authorization` with another scheme than `Bearer`, or not text.
    #[error("not a bearer credential")]
    NotBearer,
    /// No configured key matches.
    #[error("unknown key")]
    UnknownKey,
    /// The credential has expired.
    #[error("expired")]
    Expired,
    /// The credential was revoked or changed after the request arrived.
    #[error("revoked or changed while the request was answered")]
    Revoked,
    /// Longer than any token that is accepted.
    #[error("oversized token")]
    Oversized,
    /// Not three parts of Base64 around JSON, or JSON with a key twice.
    #[error("malformed token")]
    Malformed,
    /// An algorithm, type, extension or compression that is not accepted.
    #[error("token header not accepted")]
    Header,
    /// No key is known under its `kid`.
    #[error("unknown token key")]
    UnknownKid,
    /// The signature is wrong.
    #[error("bad signature")]
    Signature,
    /// `exp`, `iss`, `aud` or `sub` is missing or of the wrong type.
    #[error("missing or mistyped claim")]
    Claims,
    /// Another issuer.
    #[error("foreign issuer")]
    Issuer,
    /// For another audience.
    #[error("foreign audience")]
    Audience,
    /// Issued to a client that is not listed.
    #[error("issued to a client that is not listed in `azp`")]
    Party,
    /// Made for another login than the one that it came from.
    #[error("made for another login")]
    Nonce,
    /// The login service says that the token is not active.
    #[error("the login service says that the token is not active")]
    Inactive,
    /// `nbf` is in the future.
    #[error("not yet valid")]
    NotYet,
}

/// Why authentication cannot be set up as configured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The path of the file.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file of API keys cannot be used.
    #[error("{path}: {reason}")]
    KeyFile {
        /// The path of the file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The file of API keys has no key of this name.
    #[error("there is no key `{0}`")]
    NoSuchKey(String),
    /// A key is not valid for its algorithm. The text contains no part of the key.
    #[error("{0}")]
    Key(&'static str),
    /// A token could not be signed.
    #[error("cannot sign: {0}")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

/// Turns the credentials of a request into a principal, as currently configured.
pub struct Authenticator {
    mode: ArcSwap<Verification>,
    /// The API keys of the configuration, if any is accepted.
    followed: ArcSwapOption<FollowedKeys>,
    /// Held while keys are replaced, by a reload or after a fetch.
    replacing: Mutex<()>,
    /// Changes whenever the keys are replaced.
    renewed: watch::Sender<()>,
    /// Tokens of the authorization server of this gateway, which no reload of the keys replaces.
    own: ArcSwapOption<own_tokens::OwnTokens>,
    /// One for all keys of the process, so that a reload does not double the cost that wrong keys can cause.
    checks: password_check::CheckQueue,
    other_holder: OnceLock<OnOtherHolder>,
}

/// Is called with each principal whose key may have another holder.
type OnOtherHolder = Box<dyn Fn(&str) + Send + Sync>;

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// Keys that were read and checked.
#[derive(Debug)]
pub struct Keys {
    mode: Verification,
    followed: Option<FollowedKeys>,
}

#[derive(Debug)]
enum Verification {
    None(Principal),
    ApiKey(api_keys::ApiKeys),
    Jwt(Arc<jwt::Verifier>),
    Any(api_keys::ApiKeys, Arc<jwt::Verifier>),
}

impl Keys {
    /// Reads and checks the keys that `config` names. Blocks on files.
    pub fn read(config: &Config) -> Result<Self, Error> {
        let followed = FollowedKeys::of(config);
        let mode = match config {
            Config::None => Verification::None(Principal::anonymous().under(RevocationState::default())),
            Config::ApiKey(keys) => Verification::ApiKey(api_keys::ApiKeys::new(&keys.all()?)),
            // Without keys, no credential in headers is valid.
            Config::Certificate => Verification::ApiKey(api_keys::ApiKeys::new(&[])),
            Config::Jwt(jwt) => Verification::Jwt(Arc::new(jwt::Verifier::new(jwt)?)),
            Config::Any(keys, jwt) => {
                Verification::Any(api_keys::ApiKeys::new(&keys.all()?), Arc::new(jwt::Verifier::new(jwt)?))
            }
        };
        Ok(Self { mode, followed })
    }
}

impl Verification {
    fn keys(&self) -> Option<&api_keys::ApiKeys> {
        match self {
            Self::ApiKey(keys) | Self::Any(keys, _) => Some(keys),
            Self::None(_) | Self::Jwt(_) => None,
        }
    }

    fn tokens(&self) -> Option<&jwt::Verifier> {
        match self {
            Self::Jwt(verifier) | Self::Any(_, verifier) => Some(verifier),
            Self::None(_) | Self::ApiKey(_) => None,
        }
    }

    /// Returns the verifier of `text`, the only credential in `headers`, if it is a token.
    fn verifier_of(&self, headers: &HeaderMap, text: &str) -> Option<&jwt::Verifier> {
        match self {
            Self::Jwt(verifier) => Some(verifier),
            Self::Any(_, verifier) if is_token(verifier, headers, text) => Some(verifier),
            Self::Any(..) | Self::None(_) | Self::ApiKey(_) => None,
        }
    }

    /// Returns the sender of `headers`, or [`Denied::Unchecked`] if that takes a slow hash or new keys. `digest` is that of the
    /// token, if there is one.
    fn authenticate(&self, headers: &HeaderMap, digest: &LazyDigest) -> Result<Principal, Denied> {
        match self {
            Self::None(everybody) => Ok(everybody.clone()),
            Self::ApiKey(keys) => {
                let key = credential(headers, &[AUTHORIZATION, API_KEY_HEADER])?;
                keys.check(key, SystemTime::now())
            }
            Self::Jwt(verifier) => verifier.judge(credential(headers, &[AUTHORIZATION])?, digest),
            Self::Any(keys, verifier) => {
                let text = credential(headers, &[AUTHORIZATION, API_KEY_HEADER])?;
                if is_token(verifier, headers, text) {
                    verifier.judge(text, digest)
                } else {
                    keys.check(text, SystemTime::now())
                }
            }
        }
    }

    /// Replaces `before`. A principal whose credential is valid in both stays authenticated.
    fn after(self, before: &Self) -> Self {
        let keys_after = |keys: api_keys::ApiKeys| match before.keys() {
            Some(before) => keys.after(before, SystemTime::now()),
            None => keys,
        };
        // A verifier that `before` has too stays as it is.
        let tokens_after = |verifier: Arc<jwt::Verifier>| match (Arc::try_unwrap(verifier), before.tokens()) {
            (Ok(new), Some(before)) => Arc::new(new.after(before)),
            (Ok(new), None) => Arc::new(new),
            (Err(shared), _) => shared,
        };
        match (self, before) {
            (Self::None(_), Self::None(everybody)) => Self::None(everybody.clone()),
            (Self::None(everybody), _) => Self::None(everybody),
            (Self::ApiKey(keys), _) => Self::ApiKey(keys_after(keys)),
            (Self::Jwt(verifier), _) => Self::Jwt(tokens_after(verifier)),
            (Self::Any(keys, verifier), _) => Self::Any(keys_after(keys), tokens_after(verifier)),
        }
    }

    /// Returns the holder of the API key whose principal has the id `principal`; `None` if no key has such principals.
    fn holder_of(&self, principal: &str, now: SystemTime) -> Option<Result<own_tokens::Holder, Denied>> {
        let key = Principal::key_of_id(principal)?;
        let Some(entry) = self.keys().and_then(|keys| keys.get(key)) else {
            return Some(Err(Denied::Credential(Reason::Revoked)));
        };
        let expires = entry.key.expires.and_then(|end| end.duration_since(SystemTime::UNIX_EPOCH).ok());
        let expires = expires.map(|since| since.as_secs());
        Some(entry.principal(now).map(|principal| own_tokens::Holder { principal, expires }))
    }

    /// Returns the ids of the principals of API keys that were revoked or changed.
    fn revoked_holders(&self) -> HashSet<Arc<str>> {
        let entries = self.keys().map(api_keys::ApiKeys::entries).unwrap_or_default();
        let revoked = entries.iter().map(api_key::KeyEntry::holder).filter(|holder| holder.is_revoked());
        revoked.map(|holder| Arc::clone(holder.id())).collect()
    }

    /// Returns the revocation state of every credential that is valid here.
    fn revocation_states(&self) -> impl Iterator<Item = RevocationState> {
        let everybody = match self {
            Self::None(everybody) => Some(everybody.revocation_state().clone()),
            _ => None,
        };
        let of_keys = self.keys().into_iter().flat_map(api_keys::ApiKeys::revocation_states).cloned();
        let of_tokens = self.tokens().into_iter().flat_map(jwt::Verifier::revocation_states);
        everybody.into_iter().chain(of_keys).chain(of_tokens)
    }

    /// Returns the ids of the principals of all API keys, with the tags of the keys.
    fn key_tags(&self) -> BTreeMap<String, String> {
        let entries = self.keys().map(api_keys::ApiKeys::entries).unwrap_or_default();
        entries.iter().map(|entry| (entry.holder().id().to_string(), entry.key.hash.tag())).collect()
    }

    /// Returns the principals whose API key is another one under `next`, or exists in one of both only. The role, the view and
    /// the end of a key do not count: its holder is the same.
    fn other_holders(&self, next: &Self) -> Vec<String> {
        let (before, next) = (self.key_tags(), next.key_tags());
        let gone = before.iter().filter(|(id, tag)| next.get(*id) != Some(*tag));
        let new = next.iter().filter(|(id, _)| !before.contains_key(*id));
        gone.chain(new).map(|(id, _)| id.clone()).collect()
    }

    /// Notifies every principal whose credential is not valid under `next`.
    #[allow(clippy::mutable_key_type)] // compared by identity, which does not change
    fn revoke_others_than(&self, next: &Self) {
        let last: HashSet<RevocationState> = next.revocation_states().collect();
        self.revocation_states()
            .filter(|revocation_state| !last.contains(revocation_state))
            .for_each(|revocation_state| revocation_state.end());
    }
}

impl Authenticator {
    /// An authenticator with the keys that `config` names. It reads files and blocks: call it at start-up.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let Keys { mode, followed } = Keys::read(config)?;
        let (renewed, _) = watch::channel(());
        let (mode, checks) = (ArcSwap::from_pointee(mode), password_check::CheckQueue::default());
        let followed = ArcSwapOption::from_pointee(followed);
        let (own, other_holder) = (ArcSwapOption::empty(), OnceLock::new());
        Ok(Self { mode, followed, replacing: Mutex::new(()), renewed, own, checks, other_holder })
    }

    /// Replaces the keys: later requests are checked against these only. A principal whose credential is missing from
    /// them, or has another role there, is notified ([`Principal::revoked`]).
    pub fn renew(&self, Keys { mode, followed }: Keys) {
        let _turn = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        self.replace(mode, followed);
    }

    /// Replaces the keys like [`Authenticator::renew`], whose lock is held.
    fn replace(&self, mode: Verification, followed: Option<FollowedKeys>) {
        let before = self.mode.load_full();
        let next = Arc::new(mode.after(&before));
        // Before the new keys count, so that their holders find nothing of those who had the names before.
        if let Some(other_holder) = self.other_holder.get() {
            before.other_holders(&next).iter().for_each(|principal| other_holder(principal));
        }
        self.followed.store(followed.map(Arc::new));
        // The new keys come first, so that a notified client cannot authenticate again with a revoked credential.
        self.mode.store(Arc::clone(&next));
        before.revoke_others_than(&next);
        if let Some(own) = &*self.own.load() {
            own.end_of_owners(&before.revoked_holders());
        }
        self.renewed.send_replace(());
    }

    /// Has `hook` called with each principal whose API key is revoked, new or replaced, so that it may have another holder, before
    /// a new key is accepted. The first call of this function counts.
    pub fn on_other_holder(&self, hook: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.other_holder.set(Box::new(hook));
    }

    /// Changes after each renewal, and after the end of a grant, once all affected principals were notified.
    pub fn renewals(&self) -> watch::Receiver<()> {
        self.renewed.subscribe()
    }

    /// Issuer and scopes of the tokens that are accepted now; none if no tokens are accepted.
    pub fn token_source(&self) -> Option<Arc<TokenSource>> {
        self.mode.load().tokens().map(jwt::Verifier::source)
    }

    /// How tokens name their view; none if no tokens are accepted, or none is bound to a view.
    pub fn view_words(&self) -> Option<ViewWords> {
        self.mode.load().tokens()?.roles.view_words()
    }

    /// Accepts the tokens of `issuer`, the authorization server of this gateway, beside the other credentials.
    pub fn accept_tokens_of(&self, issuer: Arc<dyn TokenIssuer>) {
        self.own.store(Some(Arc::new(own_tokens::OwnTokens::new(issuer))));
    }

    /// The `iss` of the tokens of the authorization server of this gateway, if it has one.
    pub fn own_issuer(&self) -> Option<Arc<str>> {
        self.own.load().as_ref().map(|own| own.issuer())
    }

    /// Returns the holder of the API key whose principal has the id `principal`; none if there is no such key, or if it
    /// has expired.
    pub fn key_holder(&self, principal: &str) -> Option<Principal> {
        let holder = self.mode.load().holder_of(principal, SystemTime::now())?.ok()?;
        Some(holder.principal)
    }

    /// Returns a tag of the API key whose principal has the id `principal`. Another key of the same name has another tag.
    pub fn key_tag(&self, principal: &str) -> Option<String> {
        let mode = self.mode.load();
        Some(mode.keys()?.get(Principal::key_of_id(principal)?)?.key.hash.tag())
    }

    /// Returns the ids of the principals of all API keys, with the tags of the keys.
    pub fn key_tags(&self) -> BTreeMap<String, String> {
        self.mode.load().key_tags()
    }

    /// Whether the authorization server of this gateway gives tokens with `role` to clients of `owner`.
    pub fn may_grant(&self, owner: &str, role: Role) -> bool {
        self.own.load().as_ref().is_some_and(|own| own.may_grant(owner, role))
    }

    /// Notifies the principals of the grant `id` of the authorization server, which has ended.
    pub fn end_grant(&self, id: &str) {
        if self.own.load().as_ref().is_some_and(|own| own.end(id)) {
            self.renewed.send_replace(());
        }
    }

    /// Whether grants of the authorization server have principals here.
    pub fn uses_grants(&self) -> bool {
        self.own.load().as_ref().is_some_and(|own| own.uses_grants())
    }

    /// Returns the ids of the grants that may have principals here.
    pub fn used_grants(&self) -> Vec<String> {
        self.own.load().as_ref().map(|own| own.used_grants()).unwrap_or_default()
    }

    /// Returns the sender of `headers`, or [`Denied::Unchecked`] if that takes a slow hash or new keys.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Denied> {
        let (own, mode, digest) = (self.own.load(), self.mode.load(), LazyDigest::default());
        if let Some(own) = &*own
            && let Some(token) = own_token(headers).filter(|token| own_tokens::OwnTokens::has_form(token))
        {
            let digest = digest.of(token);
            // A token of another issuer that is known costs nothing more than without the authorization server.
            let of_others = || mode.verifier_of(headers, token)?.known(&digest);
            let judged = own
                .known(&digest)
                .map(Ok)
                .or_else(of_others)
                .or_else(|| own.check(token, digest, &self.mode));
            if let Some(judged) = judged {
                return judged;
            }
        }
        mode.authenticate(headers, &digest)
    }

    /// Returns the sender of `headers`. It also checks slow hashes, and waits for the keys of a login service.
    pub async fn check(&self, headers: &HeaderMap) -> Result<Principal, Denied> {
        // One time limit covers all repetitions that renewals of the keys cause.
        let judged =
            tokio::time::timeout(password_check::QUEUE_WAIT, self.check_with_renewals(headers)).await;
        judged.unwrap_or(Err(Denied::Busy))
    }

    async fn check_with_renewals(&self, headers: &HeaderMap) -> Result<Principal, Denied> {
        if let Some(own) = self.own.load_full()
            && let Some(token) = own_token(headers)
            && let Some(judged) = own.check_grant(token, &self.mode).await
        {
            return judged;
        }
        for _ in 0..MOST_RENEWALS {
            let mode = self.mode.load_full();
            let judged = mode.authenticate(headers, &LazyDigest::default());
            if judged != Err(Denied::Unchecked) {
                return judged;
            }
            let text = credential(headers, &[AUTHORIZATION, API_KEY_HEADER])?;
            if let Some(verifier) = mode.verifier_of(headers, text) {
                if let Some(answer) = verifier.introspect(text).await {
                    return answer;
                }
                verifier.fetched_for(text).await?;
                let unknown = Denied::Credential(Reason::UnknownKid);
                return self.authenticate(headers).map_err(|denied| match denied {
                    Denied::Unchecked => unknown,
                    denied => denied,
                });
            }
            let Some(keys) = mode.keys() else { return judged };
            let checked = keys.check_slowly(&self.checks, text, SystemTime::now()).await;
            // The keys were replaced during the check, so the result may be outdated: the key may be revoked. Check it
            // against the new ones.
            if Arc::ptr_eq(&mode, &self.mode.load()) {
                return checked;
            }
        }
        Err(Denied::Busy)
    }
}

/// Returns the only credential in the headers called `places`.
fn credential<'h>(headers: &'h HeaderMap, places: &[HeaderName]) -> Result<&'h str, Denied> {
    let mut found =
        places.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    let (name, value) = found.next().ok_or(Denied::Missing)?;
    if found.next().is_some() {
        return Err(Denied::Credential(Reason::Ambiguous));
    }
    let text = value.to_str().map_err(|_| Denied::Credential(Reason::NotBearer))?;
    if *name == AUTHORIZATION { bearer(text).ok_or(Denied::Credential(Reason::NotBearer)) } else { Ok(text) }
}

/// Returns the credential that may be a token of the authorization server of this gateway. A request with two credentials is
/// refused by the other checks.
fn own_token(headers: &HeaderMap) -> Option<&str> {
    if headers.contains_key(API_KEY_HEADER) { None } else { credential(headers, &[AUTHORIZATION]).ok() }
}

/// Reports whether `text`, the only credential in `headers`, has the form of a token. If tokens and API keys are both
/// accepted, the form alone decides: a bad token is never tried as a key. A token has three parts, and the first begins
/// a JSON object in Base64. An API key has no dot. A key of another system that looks like a token must be sent in
/// `X-API-Key`. With introspection a token may have any form but that of a key of Switchyard.
fn is_token(verifier: &jwt::Verifier, headers: &HeaderMap, text: &str) -> bool {
    let has_form = || {
        if verifier.is_introspecting() {
            return !text.starts_with(api_key::PREFIX);
        }
        text.starts_with("ey") && text.split('.').count() == 3
    };
    !headers.contains_key(API_KEY_HEADER) && has_form()
}

fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
