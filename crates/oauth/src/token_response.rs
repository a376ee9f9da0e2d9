//! The answers of a token endpoint: how services spell them, and what they mean: tokens, or an error and its consequence.
//! Registration endpoints spell theirs in the same ways.
//!
//! Answers are JSON or a form, with numbers as text, lists of scopes, and errors of their own. Invariants: a member of a type
//! that it should not have counts as absent, as `null` does. Nothing is read from the status: some services answer errors with
//! 200. Only `invalid_grant` ends a login. A server that is busy or broken never does, because then the tokens are still
//! good. An answer is never quoted apart from its error code and a few words.
//!
//! Source: RFC 6749, sections 5.1 and 5.2. GitHub answers as a form unless JSON is asked for, with status 200 for errors, and
//! separates scopes with commas. Slack calls bearer tokens `bot` and `user`, and has that of a person in an object.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::dial::later;
use crate::error::{Error, foreign_text};
use crate::limits::{self, MAX_ACCESS_TOKEN, MAX_ID_TOKEN, MAX_REFRESH_TOKEN, bounded_scopes};
use crate::secret_json;
use net::http::{WholeResponse, retry_after};
use settings::one_line;

/// A longer life of a token counts as this.
const MAX_LIFE_SECONDS: f64 = 10.0 * 365.0 * 86_400.0;
/// A larger number counts as this: the last second of the year 9999.
const MAX_NUMBER: f64 = 253_402_300_799.0;
/// Most members of an answer that is a form.
const MAX_FIELDS: usize = 64;

/// The types of tokens that are sent together with a proof, or not to a server at all (RFC 9449, RFC 6749, section 7.1;
/// RFC 8693, section 2.2.1).
const BOUND_TYPES: [&str; 4] = ["DPoP", "PoP", "MAC", "N_A"];

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
pub(crate) struct Granted {
    pub(crate) access_token: String,
    pub(crate) token_type: Option<String>,
    pub(crate) issued_token_type: Option<String>,
    expires_in: Option<Duration>,
    refresh_token: Option<String>,
    scopes: Option<Vec<String>>,
    pub(crate) id_token: Option<String>,
}

impl Granted {
    /// Reads the tokens, which Slack has in `authed_user` if a person agreed to them for itself alone.
    fn of(members: &Members) -> Option<Self> {
        Self::of_members(members).or_else(|| Self::of_members(&members.object("authed_user")?))
    }

    fn of_members(members: &Members) -> Option<Self> {
        let text = |name| members.text(name);
        Some(Self {
            access_token: text("access_token")?,
            token_type: text("token_type"),
            issued_token_type: text("issued_token_type"),
            expires_in: members.seconds("expires_in"),
            refresh_token: text("refresh_token"),
            scopes: members.words("scope"),
            id_token: text("id_token"),
        })
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Granted")
    }
}

impl Granted {
    /// Returns the tokens. `requested` are the scopes of the request, which are granted if the answer names none.
    pub(crate) fn into_tokens(self, requested: &[String]) -> Result<Tokens, Error> {
        // Services that leave the type out, or have words of their own for it, give bearer tokens.
        let is_bound = |kind: &&str| BOUND_TYPES.iter().any(|bound| bound.eq_ignore_ascii_case(kind));
        if let Some(kind) = self.token_type.as_deref().filter(is_bound) {
            let kind = foreign_text(kind, &[]);
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
        Ok(Tokens {
            access_token: self.access_token.into(),
            refresh_token: self.refresh_token.map(SecretString::from),
            expires_at: self.expires_in.and_then(|life| SystemTime::now().checked_add(life)),
            scopes: bounded_scopes(
                self.scopes.map_or_else(|| requested.to_vec(), |scopes| separated(scopes, requested)),
            ),
            account: self.id_token.as_deref().and_then(account),
        })
    }
}

/// Separates scopes that a service joined with commas, unless `requested` has one with a comma in it.
fn separated(scopes: Vec<String>, requested: &[String]) -> Vec<String> {
    let parts = |scope: String| -> Vec<String> {
        if requested.contains(&scope) {
            return vec![scope];
        }
        scope.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    scopes.into_iter().flat_map(parts).collect()
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

/// Reads the answer of a token endpoint. `secrets` are those of the request.
pub(crate) fn read(
    response: &WholeResponse,
    login: Login,
    secrets: &[SecretString],
) -> Result<Granted, Error> {
    if let Some(later) = later(response) {
        return Err(later);
    }
    let members = Members::of(response);
    // Some services answer errors with status 200.
    let failure = members.as_ref().and_then(Members::failure);
    if response.status.is_success() && failure.is_none() {
        let unreadable = || Error::refused("the authorization server gave an answer without an access token");
        return members.as_ref().and_then(Granted::of).ok_or_else(unreadable);
    }
    let Some(failure) = failure else {
        let status = response.status.as_u16();
        let reason =
            format!("the authorization server refused the request with status {status} and no OAuth error");
        return Err(Error::refused(reason));
    };
    Err(refusal(&failure, login, secrets, response))
}

/// Whether the authorization server may have refused the parameter `resource`, which it does not know.
pub(crate) fn may_refuse_resource(response: &WholeResponse) -> bool {
    if later(response).is_some() {
        return false;
    }
    let failure = Members::of(response).and_then(|members| members.failure());
    match failure {
        Some(failure) => matches!(failure.code(), "invalid_request" | "invalid_target"),
        None => response.status == StatusCode::BAD_REQUEST,
    }
}

/// Returns the error for a request that was refused.
fn refusal(failure: &Failure, login: Login, secrets: &[SecretString], response: &WholeResponse) -> Error {
    let description = foreign_text(&failure.description, secrets);
    let code = foreign_text(&failure.error, secrets);
    let text = format!("{code} {description}").trim_end().to_owned();
    let refused = |check: &str| {
        Error::refused(format!("the authorization server refused the request; {check} ({text})"))
    };
    match (failure.code(), login) {
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
        ("invalid_target", _) => refused("check `resource`, and try `resource: none`"),
        ("unauthorized_client" | "unsupported_grant_type", _) => {
            refused("check `grant`, and what the client was registered for")
        }
        _ => refused("check `client_id`, `resource` and `scopes`"),
    }
}

/// The members of one answer.
pub(crate) struct Members(Map<String, Value>);

/// A refusal.
pub(crate) struct Failure {
    /// The error as the service spells it.
    pub(crate) error: String,
    /// Its words for people.
    pub(crate) description: String,
}

impl Failure {
    /// Returns the code of RFC 6749 for the error.
    fn code(&self) -> &str {
        match self.error.as_str() {
            "bad_verification_code" | "bad_refresh_token" | "invalid_code" | "invalid_refresh_token" => {
                "invalid_grant"
            }
            "incorrect_client_credentials" | "bad_client_id" | "bad_client_secret" | "invalid_client_id" => {
                "invalid_client"
            }
            other => other,
        }
    }
}

impl Members {
    /// Reads the answer; `None` if it is neither an object nor a form.
    pub(crate) fn of(response: &WholeResponse) -> Option<Self> {
        let body = response.body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&response.body);
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            return if let Value::Object(members) = value { Some(Self(members)) } else { None };
        }
        let is_form = std::str::from_utf8(body).is_ok_and(|text| {
            let is_text = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | '{' | '}' | '"');
            text.contains('=') && text.trim().chars().all(is_text)
        });
        if !is_form {
            return None;
        }
        let pairs = form_urlencoded::parse(body.trim_ascii()).take(MAX_FIELDS);
        Some(Self(
            pairs.map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect(),
        ))
    }

    /// Returns a text that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Returns an id, which some services write as a number.
    pub(crate) fn id(&self, name: &str) -> Option<String> {
        self.text(name).or_else(|| Some(self.0.get(name)?.as_number()?.to_string()))
    }

    /// Returns the object `name`.
    fn object(&self, name: &str) -> Option<Self> {
        self.0.get(name)?.as_object().cloned().map(Self)
    }

    /// Reads a positive number, which may be a text.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        let value = self.0.get(name)?;
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
        (number > 0.0 && number.is_finite()).then_some(number.min(MAX_NUMBER))
    }

    /// Reads the time for which a token lives.
    fn seconds(&self, name: &str) -> Option<Duration> {
        self.number(name).map(|seconds| Duration::from_secs_f64(seconds.min(MAX_LIFE_SECONDS)))
    }

    /// Reads words: a text with spaces between them, or a list.
    fn words(&self, name: &str) -> Option<Vec<String>> {
        let texts: Vec<&str> = match self.0.get(name)? {
            Value::String(text) => vec![text],
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => return None,
        };
        let words: Vec<String> =
            texts.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
        (!words.is_empty()).then_some(words)
    }

    /// Returns the refusal, if it is one. An error may be a text, or an object with its parts.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let part = |error: &Value, names: [&str; 3]| {
            let text = names.iter().find_map(|name| error.get(*name)?.as_str());
            text.unwrap_or_default().to_owned()
        };
        match self.0.get("error")? {
            Value::String(error) if !error.is_empty() => Some(Failure {
                error: error.clone(),
                description: self.text("error_description").unwrap_or_default(),
            }),
            error @ Value::Object(_) => Some(Failure {
                error: part(error, ["error", "code", "status"]),
                description: part(error, ["error_description", "message", "description"]),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "token_response_tests.rs"]
mod tests;
