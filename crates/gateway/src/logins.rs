//! Logins to servers as the pages, the REST API and the command line see them.
//!
//! The parts that face people use [`LoginService`] and know nothing of OAuth. Invariant: no type here shows a token, a
//! code or a verifier. The state of an unfinished login (`pending`) is an opaque text that only the service reads; its
//! keeper seals it.
//!
//! Not here: the protocol and the tokens, the links to the pages (`login_links`), who may log in (`auth`).

use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use url::Url;

use auth::{Action, Principal};

/// The principals that use one login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// All principals.
    Shared,
    /// One principal.
    Principal,
}

impl Per {
    /// The name in the configuration file and in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Principal => "principal",
        }
    }

    /// The action of a principal that logs in.
    pub const fn log_in(self) -> Action {
        match self {
            Self::Shared => Action::LogInForAll,
            Self::Principal => Action::LogIn,
        }
    }

    /// The action of a principal that logs out.
    pub const fn log_out(self) -> Action {
        match self {
            Self::Shared => Action::LogOutForAll,
            Self::Principal => Action::LogOut,
        }
    }
}

/// The state of one login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginState {
    /// There is a token, and it is renewed when it expires.
    LoggedIn,
    /// A person must log in.
    LoginRequired,
    /// The server was not seen to demand a login.
    NotRequired,
    /// The token is being renewed.
    Refreshing,
}

impl LoginState {
    /// The name in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LoggedIn => "logged_in",
            Self::LoginRequired => "login_required",
            Self::NotRequired => "not_required",
            Self::Refreshing => "refreshing",
        }
    }
}

/// One login, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStatus {
    /// Its state.
    pub state: LoginState,
    /// The account at the login service, if the service named it.
    pub account: Option<String>,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// The end of the current access token, if known.
    pub expires_at: Option<SystemTime>,
    /// Why a login is required.
    pub reason: Option<String>,
    /// The principals that use it.
    pub per: Per,
}

/// Switchyard as an OAuth client of this login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnUrls {
    /// The URL to which the login service sends the browser back.
    pub redirect_uri: Url,
    /// The URL of Switchyard's client id metadata document, if `server.public_url` is https.
    pub client_metadata_url: Option<Url>,
}

/// The facts that a person agrees to before a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The page of the login service, with the sealed state.
    pub authorization_url: Url,
    /// The login service.
    pub issuer: String,
    /// The requested scopes.
    pub scopes: Vec<String>,
}

/// The successful answer of a login service, from the query of the callback.
#[derive(Debug, Clone, Copy)]
pub struct CodeResponse<'a> {
    /// The authorization code.
    pub code: &'a str,
    /// The issuer that the answer names (RFC 9207).
    pub iss: Option<&'a str>,
}

/// Why a login did not begin, end or change. No text holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The server has no login for people.
    #[error("the server has no login for people")]
    NotOffered,
    /// The login service or its metadata does not allow it, until somebody changes something.
    #[error("{0}")]
    Refused(String),
    /// It may work later.
    #[error("{reason}")]
    Later {
        /// Why not now.
        reason: String,
        /// The pause before the next attempt, if known.
        retry_after: Option<Duration>,
    },
}

/// Seals the state of an unfinished login into the `state` parameter of the authorization request.
pub type Seal<'a> = Box<dyn FnOnce(&str) -> String + Send + 'a>;

/// The logins to all servers.
pub trait LoginService: Send + Sync {
    /// Returns who uses one login to `server`; none if nobody can log in to it.
    fn per(&self, server: &str) -> Option<Per>;

    /// Finds the login service of `server`, and prepares the request to it.
    fn start<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        own: &'a OwnUrls,
        seal: Seal<'a>,
    ) -> BoxFuture<'a, Result<Consent, LoginError>>;

    /// Exchanges the code for tokens and stores them. `pending` is what was sealed by [`LoginService::start`].
    fn finish<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        pending: &'a str,
        response: CodeResponse<'a>,
    ) -> BoxFuture<'a, Result<LoginStatus, LoginError>>;

    /// Deletes the login that `principal` uses, and revokes it where the login service can.
    fn log_out<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
    ) -> BoxFuture<'a, Result<(), LoginError>>;

    /// Returns the login that `principal` uses; none if nobody can log in to `server`.
    fn status(&self, server: &str, principal: &Principal) -> Option<LoginStatus>;
}
