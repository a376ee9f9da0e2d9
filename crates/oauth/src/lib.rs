//! Switchyard as an OAuth client of the authorization servers of MCP servers.
//!
//! A server answers 401 with a [`Challenge`]. [`discover`] finds its authorization server, and [`register`] makes
//! Switchyard known there. A person then opens the URL of [`authorization_url`], or a machine asks for a token without
//! one ([`client_credentials`], [`jwt_bearer`]).
//!
//! Invariants: every URL that metadata names is requested through [`Services`], which refuses non-public addresses. No
//! text of an [`Error`] holds a secret. A registration belongs to one issuer and is sent to no other, and so do
//! credentials of the settings.
//!
//! Not here: connections to MCP servers, pages for browsers, and where tokens are stored.
//!
//! Source: MCP 2026-07-28 `basic/authorization`; RFC 6749, 6750, 7009, 7523, 7591, 7636, 8414, 8693, 8707, 9207, 9728.

mod account;
mod assertion;
mod authorization;
mod challenge;
mod config;
mod dial;
mod discovery;
mod error;
mod failed_logins;
#[cfg(test)]
mod fake_tests;
mod held;
mod issuer_binding;
mod limits;
mod logins;
mod metadata;
mod provider;
mod registration;
mod saved;
mod secret_json;
mod shared;
mod token;
mod token_response;

pub use account::Account;
pub use authorization::{AuthorizationRequest, AuthorizationResponse, Pkce, authorization_url};
pub use challenge::Challenge;
pub use config::{ClientAuthentication, Grant, IdentityProvider, Per, ResourceParameter, Settings};
pub use dial::Services;
pub use discovery::{Discovered, discover, union};
pub use error::Error;
pub use failed_logins::FailedLogin;
pub use issuer_binding::{IssuerBinding, KnownIssuers};
pub use logins::{Consent, LOGIN_TIME, LoginState, LoginStatus, Logins, Pending, Place};
pub use metadata::AuthorizationServer;
pub use provider::{Allow, LoginIssuer, Provider, ProviderSettings, SignInError};
pub use registration::{OwnClient, Registration, register};
pub use token::{
    TokenClient, client_credentials, exchange_code, jwt_bearer, refresh, revoke, token_exchange,
};
pub use token_response::Tokens;
