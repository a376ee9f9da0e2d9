//! The pair of tokens that R2R issues for an account, and its lifetime.
//!
//! Invariant: the expiry is read from the token, in fractional seconds, without verification. R2R judges the
//! token, and Switchyard only renews it in time. A token without an expiry is used until R2R refuses it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde::Deserialize;
use tokio::time::Instant;

use super::model::{Results, VERSION};
use crate::rest::Rest;
use runtime::secret::SecretString;
use upstream::api::Error;

/// How long before its expiry a token is renewed.
const AHEAD: Duration = Duration::from_mins(5);
/// Longest lifetime. A longer one is shortened to this.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// A pair of tokens of R2R.
pub(super) struct TokenPair {
    /// Sent with every call.
    pub access: SecretString,
    /// Exchanged for the next pair, once. R2R also accepts it as an access token.
    refresh: SecretString,
    life: Option<TokenLifetime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TokenLifetime {
    due: Instant,
    end: Instant,
}

impl TokenPair {
    /// Whether the token should be renewed.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.life.is_some_and(|life| now >= life.due)
    }

    /// Whether the token has expired.
    pub(super) fn has_ended(&self, now: Instant) -> bool {
        self.life.is_some_and(|life| now >= life.end)
    }

    fn new(pair: TokenResponse, requested: Instant) -> Self {
        let life = lifetime(&pair.access_token.token)
            .map(|long| TokenLifetime { due: requested + usable(long), end: requested + long });
        Self { access: pair.access_token.token.into(), refresh: pair.refresh_token.token.into(), life }
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: One,
    refresh_token: One,
}

#[derive(Deserialize)]
struct One {
    token: String,
}

/// Logs in. Returns [`Error::AuthFailed`] if R2R refuses the account.
pub(super) async fn log_in(
    rest: &Rest,
    email: &SecretString,
    password: &SecretString,
) -> Result<TokenPair, Error> {
    let requested = Instant::now();
    let request = rest.request(Method::POST, &[VERSION, "users", "login"]);
    let answer = request.form(&[("username", email), ("password", password)]).send().await;
    let answer = answer.map_err(|error| match error {
        // An unknown account is 404.
        Error::Backend { status: 400 | 401 | 403 | 404 | 422, detail, .. } => Error::AuthFailed {
            reason: format!(
                "R2R does not let the account in ({detail}); check `email`, `password` and `url`"
            ),
        },
        other => other,
    })?;
    Ok(TokenPair::new(answer.json::<Results<TokenResponse>>().await?.results, requested))
}

/// Renews `token`. Its refresh token is invalid afterwards.
pub(super) async fn refresh(rest: &Rest, token: &TokenPair) -> Result<TokenPair, Error> {
    let requested = Instant::now();
    let request = rest.request(Method::POST, &[VERSION, "users", "refresh-token"]);
    let answer = request.secret_json(&token.refresh).send().await?;
    Ok(TokenPair::new(answer.json::<Results<TokenResponse>>().await?.results, requested))
}

/// Returns how much of a lifetime of `long` is used before the renewal.
fn usable(long: Duration) -> Duration {
    if long < 2 * AHEAD { long * 4 / 5 } else { long.saturating_sub(AHEAD) }
}

/// Returns the lifetime of `token`, by the clock of its issuer.
fn lifetime(token: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
        iat: Option<f64>,
    }
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    let from = match claims.iat {
        Some(made) => made,
        None => SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64(),
    };
    let seconds = (claims.exp - from).min(LONGEST.as_secs_f64());
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_life_of_a_token_is_read_from_fractional_seconds() {
        let life = lifetime(&token(r#"{"sub":"a@b","exp":1795172506.5,"iat":1795168906.25}"#));
        assert_eq!(life, Some(Duration::from_secs_f64(3600.25)));
        assert_eq!(lifetime(&token(r#"{"exp":1e300,"iat":0}"#)), Some(LONGEST));
        for odd in [r#"{"exp":5,"iat":9}"#, r#"{"iat":9}"#, r#"{"exp":"soon"}"#, r#"{"exp":1}"#, "x"] {
            assert_eq!(lifetime(&token(odd)), None, "{odd}");
        }
        assert_eq!(lifetime("no token at all"), None);
    }

    #[test]
    fn a_token_is_renewed_five_minutes_ahead_or_at_four_fifths_of_a_short_life() {
        let minutes = Duration::from_mins;
        assert_eq!(usable(minutes(60)), minutes(55));
        assert_eq!(usable(minutes(10)), minutes(5));
        assert_eq!(usable(minutes(5)), minutes(4));
        assert_eq!(usable(Duration::from_secs(6)), Duration::from_millis(4800));
    }
}
