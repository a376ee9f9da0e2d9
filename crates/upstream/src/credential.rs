//! The credential of requests to one server, where it changes while Switchyard runs: a token file, or the token of a
//! login.
//!
//! Invariants: a request that was refused for its token is repeated at most once, and only with another token. A server
//! did not run a request that it refused for its token (RFC 9110, 15.5.2; RFC 6750, 3.1).
//!
//! Not here: constant headers (`transport/http`), the token file (`token_file`), logging in (crate `oauth`).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::error::Error;
use crate::token_file::TokenFile;
use oauth::Account;

/// The configured source of a token.
#[derive(Debug, Clone)]
pub enum TokenSource {
    /// A file that another program renews.
    File(TokenFile),
    /// A login (`auth: oauth`).
    OAuth(Arc<oauth::Settings>),
}

/// The credential of one client of the server.
#[derive(Clone)]
pub(crate) enum Credential {
    File(TokenFile),
    Login(Arc<Account>),
}

impl Credential {
    /// The value of `Authorization` for a request that is sent now. `None`: the server was not seen to demand one.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, Error> {
        match self {
            Self::File(file) => file.header().await.map(Some),
            Self::Login(account) => Ok(account.header().await?),
        }
    }

    /// Whether to repeat a request that the server refused with `status`. `sent` is the header that it had.
    pub(crate) async fn is_replaced(
        &self,
        sent: Option<&HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, Error> {
        match self {
            Self::File(file) => {
                let is_other = match sent {
                    Some(sent) => file.has_another_than(sent).await,
                    None => false,
                };
                Ok(is_other && status == StatusCode::UNAUTHORIZED)
            }
            Self::Login(account) => Ok(account.refused(sent, status, headers).await?),
        }
    }

    /// Resolves when there is a credential that the server has not refused.
    pub(crate) fn renewed(&self) -> BoxFuture<'_, ()> {
        match self {
            Self::File(file) => Box::pin(file.renewed()),
            Self::Login(account) => Box::pin(account.renewed()),
        }
    }
}

impl From<oauth::Error> for Error {
    fn from(error: oauth::Error) -> Self {
        let reason = error.to_string();
        match error {
            oauth::Error::LoginRequired { reason } => Self::LoginRequired { reason, only_this_call: false },
            oauth::Error::ScopeRequired { reason } => Self::LoginRequired { reason, only_this_call: true },
            oauth::Error::Later { .. } => Self::Connect { reason },
            _ => Self::AuthFailed { reason },
        }
    }
}
