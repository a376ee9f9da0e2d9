//! Logins to servers as the pages, the REST API and the command line see them.
//!
//! The parts that face people use [`LoginService`], and of the crate `oauth` only the facts about a login. Invariant: no type here shows a token, a
//! code or a verifier. The state of an unfinished login (`pending`) is an opaque text that only the service reads; its
//! keeper seals it.
//!
//! Not here: the protocol and the tokens, the links to the pages (`login_links`), who may log in (`auth`).

use std::time::Duration;

use futures_util::future::BoxFuture;

use auth::Principal;
pub use oauth::{Consent, FailedLogin, LoginState, LoginStatus, OwnClient, Per};

/// The successful answer of a login service, from the query of the callback.
#[derive(Debug, Clone, Copy)]
pub struct CodeResponse<'a> {
    /// The authorization code.
    pub code: &'a str,
    /// The issuer that the answer names (RFC 9207).
    pub iss: Option<&'a str>,
}

/// The error with which a login service answered, from the query of the callback.
#[derive(Debug, Clone, Copy)]
pub struct ErrorResponse<'a> {
    /// The code of the error.
    pub error: &'a str,
    /// Its words for people.
    pub description: Option<&'a str>,
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
pub type SealState<'a> = Box<dyn FnOnce(&str) -> String + Send + 'a>;

/// The logins to all servers.
pub trait LoginService: Send + Sync {
    /// Returns who uses one login to `server`; none if nobody can log in to it.
    fn per(&self, server: &str) -> Option<Per>;

    /// Finds the login service of `server`, and prepares the request to it.
    fn start<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        own: &'a OwnClient,
        seal: SealState<'a>,
    ) -> BoxFuture<'a, Result<Consent, LoginError>>;

    /// Exchanges the code for tokens and stores them. `pending` is what was sealed by [`LoginService::start`].
    fn finish<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        pending: &'a str,
        response: CodeResponse<'a>,
    ) -> BoxFuture<'a, Result<LoginStatus, LoginError>>;

    /// Ends a login that the login service answered with an error. Returns an error if that answer is not from the login
    /// service that was asked (RFC 9207).
    fn abandon(
        &self,
        server: &str,
        principal: &Principal,
        pending: &str,
        response: ErrorResponse<'_>,
    ) -> Result<(), LoginError>;

    /// Deletes the login that `principal` uses, and revokes it where the login service can.
    fn log_out<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
    ) -> BoxFuture<'a, Result<(), LoginError>>;

    /// Returns the login that `principal` uses; none if nobody can log in to `server`.
    fn status(&self, server: &str, principal: &Principal) -> Option<LoginStatus>;
}
