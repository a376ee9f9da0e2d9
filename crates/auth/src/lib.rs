//! Who is asking: credentials to principals, and what a principal may do.
//!
//! Invariants: an authentication gives a [`Principal`] or a [`Denied`], never a guess; a credential
//! is read from a header only, never from a URL; two credentials in one request are none. What the
//! client learns of a refusal is the same whatever the reason; the [`Reason`] is for our log. What we
//! hand out to be given back is sealed with its principal ([`Sealer`]). Who was let in is told when a reload
//! takes the credential back ([`Principal::taken_back`]).
//!
//! Not here: HTTP answers (`downstream`, `admin`), which callers apply [`Role::may`] to what.

mod api_key;
mod config;
mod jwt;
mod jwt_keys;
mod password_hash;
mod principal;
mod revocation;
mod role_words;
mod seal;
mod token_cache;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use revocation::Standing;
use tokio::sync::watch;

pub use api_key::{ApiKey, Hash, is_id, mint};
pub use config::{Config, Jwt, KeySource, PublicKey};
pub use jwt::{Grant, Signer, TokenSource};
pub use principal::{Action, Principal, Role};
pub use role_words::RoleWords;
pub use seal::{Sealer, read_seal_keys};

/// Where an API key may stand instead of in `Authorization`.
pub const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// How often the keys may be others while one request's is checked, before it is asked to come again.
const MOST_RENEWALS: usize = 4;

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No credential was sent.
    #[error("no credential was sent")]
    Missing,
    /// The credential, or the way it was sent, is not good.
    #[error("the credential was refused: {0}")]
    Credential(Reason),
    /// Whether the key is good is not known yet, and finding out takes long: ask [`Authenticator::check`].
    #[error("the key was not checked yet")]
    Unchecked,
    /// Too many keys are being checked; try again soon.
    #[error("too many keys are being checked")]
    Busy,
    /// The credential is good and gives no role here.
    #[error("the token names no role that is known here")]
    NoRole,
}

/// What is wrong with a credential. For our own log: a client is told nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// More than one `Authorization` or `X-API-Key` header, or both.
    #[error("more than one credential")]
    Ambiguous,
    /// `Authorization` with another scheme than `Bearer`, or not text.
    #[error("not a bearer credential")]
    NotBearer,
    /// No entry has this key.
    #[error("unknown key")]
    UnknownKey,
    /// It was good once.
    #[error("expired")]
    Expired,
    /// It was good when the request came.
    #[error("taken back or changed while the request was answered")]
    TakenBack,
    /// Larger than any token we accept.
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
    /// The signature does not fit.
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
    /// `nbf` lies ahead.
    #[error("not yet valid")]
    NotYet,
}

/// Why authentication can not be set up as configured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key file can not be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A key is not what the algorithms need. No part of the key is in the text.
    #[error("{0}")]
    Key(&'static str),
    /// A token could not be signed.
    #[error("cannot sign: {0}")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

/// Turns the credentials of a request into a principal, in the one way that is configured now.
#[derive(Debug)]
pub struct Authenticator {
    mode: ArcSwap<Mode>,
    /// Changes when others are asked for.
    renewed: watch::Sender<()>,
    /// One for all keys there ever are: a reload must not double what wrong ones can cost.
    desk: password_hash::Desk,
}

/// Keys that were read and checked.
#[derive(Debug)]
pub struct Keys(Mode);

#[derive(Debug)]
enum Mode {
    None(Principal),
    ApiKey(api_key::Keys),
    Jwt(Box<jwt::Verifier>),
    Any(api_key::Keys, Box<jwt::Verifier>),
}

impl Keys {
    /// Reads and checks the keys that `config` names. Blocks on files.
    pub fn read(config: &Config) -> Result<Self, Error> {
        Ok(Self(match config {
            Config::None => Mode::None(Principal::anonymous().under(Standing::default())),
            Config::ApiKey(keys) => Mode::ApiKey(api_key::Keys::new(keys)),
            Config::Jwt(jwt) => Mode::Jwt(Box::new(jwt::Verifier::new(jwt)?)),
            Config::Any(keys, jwt) => Mode::Any(api_key::Keys::new(keys), Box::new(jwt::Verifier::new(jwt)?)),
        }))
    }
}

impl Mode {
    fn keys(&self) -> Option<&api_key::Keys> {
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

    /// Who sent `headers`, as far as that can be said at once.
    fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Denied> {
        match self {
            Self::None(everybody) => Ok(everybody.clone()),
            Self::ApiKey(keys) => {
                let key = credential(headers, &[AUTHORIZATION, API_KEY_HEADER])?;
                keys.check(key, SystemTime::now())
            }
            Self::Jwt(verifier) => verifier.check(credential(headers, &[AUTHORIZATION])?),
            Self::Any(keys, verifier) => {
                let text = credential(headers, &[AUTHORIZATION, API_KEY_HEADER])?;
                if is_token(headers, text) {
                    verifier.check(text)
                } else {
                    keys.check(text, SystemTime::now())
                }
            }
        }
    }

    /// The same in the place of the one `before`: who came in with what is good in both goes on.
    fn after(self, before: &Self) -> Self {
        let keys_after = |keys: api_key::Keys| match before.keys() {
            Some(before) => keys.after(before, SystemTime::now()),
            None => keys,
        };
        let tokens_after = |verifier: Box<jwt::Verifier>| match before.tokens() {
            Some(before) => Box::new(verifier.after(before)),
            None => verifier,
        };
        match (self, before) {
            (Self::None(_), Self::None(everybody)) => Self::None(everybody.clone()),
            (Self::None(everybody), _) => Self::None(everybody),
            (Self::ApiKey(keys), _) => Self::ApiKey(keys_after(keys)),
            (Self::Jwt(verifier), _) => Self::Jwt(tokens_after(verifier)),
            (Self::Any(keys, verifier), _) => Self::Any(keys_after(keys), tokens_after(verifier)),
        }
    }

    /// What lasts as long as each credential that is good here.
    fn standings(&self) -> impl Iterator<Item = &Standing> {
        let everybody = match self {
            Self::None(everybody) => Some(everybody.standing()),
            _ => None,
        };
        let of_keys = self.keys().into_iter().flat_map(api_key::Keys::standings);
        let of_tokens = self.tokens().into_iter().flat_map(jwt::Verifier::standings);
        everybody.into_iter().chain(of_keys).chain(of_tokens)
    }

    /// Tells everybody who came in with what is not good under `next`.
    #[allow(clippy::mutable_key_type)] // which one it is, is all that is compared, and that stays
    fn end_but(&self, next: &Self) {
        let last: HashSet<&Standing> = next.standings().collect();
        self.standings().filter(|standing| !last.contains(standing)).for_each(Standing::end);
    }
}

impl Authenticator {
    /// With the keys that `config` names. Blocks on files: for the start of the program.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let Keys(mode) = Keys::read(config)?;
        let (renewed, _) = watch::channel(());
        Ok(Self { mode: ArcSwap::from_pointee(mode), renewed, desk: password_hash::Desk::default() })
    }

    /// Asks every later request for these keys, and takes no other any more. Who came in with one that is
    /// none of them, or not for the same role, is told ([`Principal::taken_back`]). One renewal at a time.
    pub fn renew(&self, keys: Keys) {
        let before = self.mode.load_full();
        let next = Arc::new(keys.0.after(&before));
        // First, so that nobody who is told comes in again with what was taken back.
        self.mode.store(Arc::clone(&next));
        before.end_but(&next);
        self.renewed.send_replace(());
    }

    /// Changes after each renewal, when everybody was told.
    pub fn renewals(&self) -> watch::Receiver<()> {
        self.renewed.subscribe()
    }

    /// Where tokens that are accepted now come from; none where none are.
    pub fn token_source(&self) -> Option<Arc<TokenSource>> {
        self.mode.load().tokens().map(jwt::Verifier::source)
    }

    /// Who sent `headers`, or [`Denied::Unchecked`] where that can not be said at once.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Denied> {
        self.mode.load().authenticate(headers)
    }

    /// Who sent `headers`, whose key has to be held against slow hashes.
    pub async fn check(&self, headers: &HeaderMap) -> Result<Principal, Denied> {
        // One time limit, however often the keys are renewed meanwhile.
        let judged = tokio::time::timeout(password_hash::PATIENCE, self.check_with_renewals(headers)).await;
        judged.unwrap_or(Err(Denied::Busy))
    }

    async fn check_with_renewals(&self, headers: &HeaderMap) -> Result<Principal, Denied> {
        for _ in 0..MOST_RENEWALS {
            let mode = self.mode.load_full();
            let keys = match (mode.authenticate(headers), mode.keys()) {
                (Err(Denied::Unchecked), Some(keys)) => keys,
                (known, _) => return known,
            };
            let text = credential(headers, &[AUTHORIZATION, API_KEY_HEADER])?;
            let checked = keys.check_slowly(&self.desk, text, SystemTime::now()).await;
            // A key that was taken back while it was checked is none any more, and one that was not is held
            // against the new ones.
            if Arc::ptr_eq(&mode, &self.mode.load()) {
                return checked;
            }
        }
        Err(Denied::Busy)
    }
}

/// The one credential in the headers called `places`.
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

/// Whether `text`, the one credential in `headers`, is meant to be a token: where both are accepted its form alone
/// says so, and what is no good as one is never tried as the other. A token has three parts, the first of which begins
/// an object in Base64; an API key has no dot, and one of another system that looks like a token stands in its own header.
fn is_token(headers: &HeaderMap, text: &str) -> bool {
    !headers.contains_key(API_KEY_HEADER) && text.starts_with("ey") && text.split('.').count() == 3
}

fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
