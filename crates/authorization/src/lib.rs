//! The authorization server of Switchyard: remote clients such as claude.ai get tokens for this gateway here.
//!
//! ```text
//! client id ──► Client ── authorize ──► Consent ── approve ──► Grant: code ──► tokens, refreshed until it ends
//! ```
//!
//! Invariants: a token is for one owner, one client and one endpoint of this gateway, and never allows more than its
//! owner may do. The grant is the unit of what is stored, listed and revoked: one record, which one write changes.
//! Nothing that a stranger sends makes this server contact another one. No text of an [`Error`] holds a secret.
//!
//! Not here: HTTP and pages (`downstream`), who is signed in, and the check of tokens in requests (`auth`).
//!
//! Source: MCP 2026-07-28 `basic/authorization`; RFC 6749, 7009, 7523, 7591, 7592, 7636, 8252, 8414, 8707, 9068, 9207,
//! 9700; draft-ietf-oauth-client-id-metadata-document-02. Decision 10 has the reasons.

mod access;
mod access_token;
mod administration;
mod authorization_request;
mod client;
mod clients;
mod error;
mod fetch;
#[cfg(test)]
mod fixture;
mod folder_store;
mod grant;
mod grant_ends;
mod grants;
mod keys;
mod metadata;
mod records;
mod redirect_uri;
mod redis_store;
mod registration;
mod request_counts;
mod resource;
mod server;
mod store;
mod token_request;

use std::time::{Duration, SystemTime};

pub use access::{Access, Endpoint, Host, role_scopes};
pub use administration::{ClientSummary, GrantPage};
pub use authorization_request::{AuthorizationError, AuthorizationRequest};
pub use client::{Client, ClientAuthentication, ClientMetadata, ClientSource};
pub use clients::client_host;
pub use error::{Code, Error};
pub use folder_store::FolderStore;
pub use grants::{GrantFilter, GrantSummary};
pub use keys::KeyError;
pub use metadata::{AUTHORIZE, KEY_SET, REGISTER, REVOKE, TOKEN};
pub use redirect_uri::{Receiver, RedirectUri};
pub use redis_store::RedisStore;
pub use request_counts::RequestCounts;
pub use server::{AuthorizationServer, Config, Consent, Parts};
pub use store::{Store, StoreError, Table};
pub use token_request::TokenResponse;

/// Returns `time` in seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the moment of `seconds` since 1970.
pub(crate) fn moment(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}
