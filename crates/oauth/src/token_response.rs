//! The answers of a token endpoint: tokens, or an error and its consequence.
//!
//! Invariants: only `invalid_grant` ends a login. A server that is busy or broken never does, because then the tokens
//! are still good. An answer is never quoted apart from its error code and a few words.
//!
//! Source: RFC 6749, sections 5.1 and 5.2.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use net::http::{WholeResponse, retry_after};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settings::one_line;

use crate::dial::later;
use crate::error::{Error, foreign_text};
use crate::limits::{self, MAX_ACCESS_TOKEN, MAX_ID_TOKEN, MAX_REFRESH_TOKEN, bounded_scopes};
use crate::secret_json;

/// A longer life of a token counts as this.
const MAX_LIFE_SECONDS: f64 = 10.0 * 365.0 * 86_400.0;

/// The tokens of one login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tokens {
    /// The token for the MCP server.
    #[serde(with = "secret_json")]
    pub access_token: SecretString,
    /// The token for the next access token.
    #[serde(with = "secret_json::option", default)]
    pub refresh_token: Option<SecretString>,
    /// When the access token ends; `None` if the server does not say.
    #[serde(with = "secret_json::seconds", default)]
    pub expires_at: Option<SystemTime>,
    /// The scopes that were granted.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The name of the account. It is for display only: nothing was verified.
    #[serde(default)]
    pub account: Option<String>,
}

/// The names of members that hold tokens are as RFC 6749 has them.
#[derive(Deserialize)]
pub(crate) struct Granted {
    pub(crate) access_token: String,
    pub(crate) token_type: Option<String>,
    pub(crate) issued_token_type: Option<String>,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
    id_token: Option<String>,
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Granted")
    }
}

impl Granted {
    /// Returns the tokens. `asked` are the scopes of the request, which are granted if the answer names none.
    pub(crate) fn into_tokens(self, asked: &[String]) -> Result<Tokens, Error> {
        if !self.token_type.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            let kind = foreign_text(self.token_type.as_deref().unwrap_or("none"), &[]);
            return Err(Error::refused(format!(
                "the authorization server gave a token of the type `{kind}`, and Switchyard sends bearer tokens only"
            )));
        }
        // It is sent in a header.
        if self.access_token.is_empty() || !self.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::refused("the authorization server gave an access token that cannot be sent"));
        }
        limits::check("an access token", &self.access_token, MAX_ACCESS_TOKEN)?;
        limits::check(
            "a refresh token",
            self.refresh_token.as_deref().unwrap_or_default(),
            MAX_REFRESH_TOKEN,
        )?;
        let scopes = self.scope.map(|scope| scope.split_whitespace().map(str::to_owned).collect());
        Ok(Tokens {
            access_token: self.access_token.into(),
            refresh_token: self.refresh_token.filter(|token| !token.is_empty()).map(SecretString::from),
            expires_at: self
                .expires_in
                .as_ref()
                .and_then(life)
                .and_then(|life| SystemTime::now().checked_add(life)),
            scopes: bounded_scopes(scopes.unwrap_or_else(|| asked.to_vec())),
            account: self.id_token.as_deref().and_then(account),
        })
    }
}

/// Reads a life in seconds, as a number or as a text with a number.
fn life(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    let is_positive = seconds > 0.0 && seconds.is_finite();
    is_positive.then(|| Duration::from_secs_f64(seconds.min(MAX_LIFE_SECONDS)))
}

/// Returns the name of the account in an ID token.
fn account(id_token: &str) -> Option<String> {
    if id_token.len() > MAX_ID_TOKEN {
        return None;
    }
    let claims = URL_SAFE_NO_PAD.decode(id_token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let named = ["email", "preferred_username", "sub"].iter().find_map(|name| claims[*name].as_str());
    named.filter(|name| !name.is_empty()).map(one_line)
}

/// The kind of account behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// A person, who can log in again.
    Person,
    /// A machine. If it is refused, its settings are wrong.
    Machine,
}

#[derive(Deserialize)]
struct Failed {
    error: String,
    error_description: Option<String>,
}

/// Reads the answer of a token endpoint. `secrets` are those of the request.
pub(crate) fn read(
    response: &WholeResponse,
    login: Login,
    secrets: &[SecretString],
) -> Result<Granted, Error> {
    if response.status.is_success() {
        return Ok(response.json()?);
    }
    if let Some(later) = later(response) {
        return Err(later);
    }
    let status = response.status.as_u16();
    let Ok(failed) = response.json::<Failed>() else {
        let reason =
            format!("the authorization server refused the request with status {status} and no OAuth error");
        return Err(Error::refused(reason));
    };
    let description = foreign_text(failed.error_description.as_deref().unwrap_or_default(), secrets);
    let code = foreign_text(&failed.error, secrets);
    let text = format!("{code} {description}").trim_end().to_owned();
    let refused = |check: &str| {
        Error::refused(format!("the authorization server refused the request; {check} ({text})"))
    };
    Err(match (failed.error.as_str(), login) {
        ("invalid_grant", Login::Person) => {
            Error::login_required(format!("the authorization server ended the login ({text})"))
        }
        ("invalid_grant", Login::Machine) => refused("check `assertion`, `private_key` and `subject`"),
        ("slow_down" | "temporarily_unavailable" | "server_error", _) => {
            Error::Later { reason: text, retry_after: retry_after(&response.headers) }
        }
        ("invalid_client", _) => Error::UnknownClient {
            reason: format!(
                "the authorization server does not accept the client; check `client_id`, `client_secret` and \
                 `token_endpoint_auth` ({text})"
            ),
        },
        ("invalid_scope", _) => refused("check `scopes`"),
        ("invalid_target", _) => refused("check `resource`"),
        ("unauthorized_client" | "unsupported_grant_type", _) => {
            refused("check `grant`, and what the client was registered for")
        }
        _ => refused("check `client_id`, `resource` and `scopes`"),
    })
}
