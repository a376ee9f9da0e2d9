//! A token in use: its header, when it is renewed, and when it ends.
//!
//! Invariant: a token is renewed before it expires, at a time with jitter, so that logins of one moment are not all
//! renewed at another.

use std::time::{Duration, SystemTime};

use http::HeaderValue;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use crate::Error;
use crate::saved::SavedLogin;
use runtime::worker::now;

/// The part of its lifetime that a token has left when it is renewed, at least and at most.
const LEFT: (f64, f64) = (0.1, 0.2);
/// The longest time before the end at which a token is renewed.
const MAX_LEAD: Duration = Duration::from_mins(5);
/// A server that refuses a token younger than this would refuse the next one too.
const FRESH: Duration = Duration::from_secs(2);
/// A token with less time than this may end before the request arrives.
const LEAST_LEFT: Duration = Duration::from_secs(2);

/// A login and its token as it is sent.
pub(crate) struct ActiveLogin {
    pub(crate) header: HeaderValue,
    pub(crate) login: SavedLogin,
    since: Instant,
    /// Whether the authorization server issued it to this process.
    is_received: bool,
    /// Whether the vault has it.
    pub(crate) is_saved: bool,
    renewal: Option<Instant>,
    end: Option<Instant>,
}

impl ActiveLogin {
    /// Holds a login of the vault. `None`: its token cannot be sent in a header.
    pub(crate) fn saved(login: SavedLogin) -> Option<Self> {
        Self::new(login, false)
    }

    /// Holds a login that was made or renewed just now.
    pub(crate) fn received(login: SavedLogin) -> Result<Self, Error> {
        Self::new(login, true).ok_or_else(|| Error::refused("the token cannot be sent in a header"))
    }

    fn new(login: SavedLogin, is_received: bool) -> Option<Self> {
        let text = Zeroizing::new(format!("Bearer {}", login.tokens.access_token.expose_secret()));
        let mut header = HeaderValue::from_str(&text).ok()?;
        header.set_sensitive(true);
        let since = now();
        let left = login.tokens.expires_at.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        let renewal = left.map(|left| since + left - lead(left));
        let (end, is_saved) = (left.map(|left| since + left), !is_received);
        Some(Self { header, login, since, is_received, is_saved, renewal, end })
    }

    /// Whether it is so new that a server which refuses it would refuse the next one too.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_received && now().saturating_duration_since(self.since) < FRESH
    }

    /// Whether it is time to renew the token.
    pub(crate) fn is_due(&self) -> bool {
        self.renewal.is_some_and(|renewal| now() >= renewal)
    }

    /// Whether the token may be sent.
    pub(crate) fn is_valid(&self) -> bool {
        self.end.is_none_or(|end| now() + LEAST_LEFT < end)
    }

    /// Its secrets.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let SavedLogin { tokens, registration, .. } = &self.login;
        let optional = [tokens.refresh_token.clone(), registration.client_secret.clone()];
        std::iter::once(tokens.access_token.clone()).chain(optional.into_iter().flatten())
    }
}

/// How long before its end a token that lives for `left` is renewed.
fn lead(left: Duration) -> Duration {
    let (least, most) = LEFT;
    let part = least + (most - least) * rand::random::<f64>();
    left.mul_f64(part).max(LEAST_LEFT).min(MAX_LEAD).min(left)
}
