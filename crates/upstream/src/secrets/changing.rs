//! The secrets that are sent to one server and change while Switchyard runs.

use std::sync::Arc;

use secrecy::SecretString;

use crate::principal_secrets::PrincipalSecrets;
use crate::token_file::TokenFile;
use oauth::Logins;

/// The secrets that are sent to one server and change while Switchyard runs.
#[derive(Clone)]
pub(super) enum ChangingSecrets {
    File(TokenFile),
    Logins(Arc<Logins>),
    Principals(Arc<PrincipalSecrets>),
}

impl ChangingSecrets {
    /// The present secrets, and those that running requests may carry.
    pub(super) fn all(&self) -> Vec<SecretString> {
        match self {
            Self::File(file) => file.secrets(),
            Self::Logins(logins) => logins.secrets(),
            Self::Principals(secrets) => secrets.values(),
        }
    }

    /// A number that changes whenever the secrets do, if there is one. Read it before the secrets.
    pub(super) fn changes(&self) -> Option<u64> {
        match self {
            Self::File(_) => None,
            Self::Logins(logins) => Some(logins.changes()),
            Self::Principals(secrets) => Some(secrets.changes()),
        }
    }
}

impl std::fmt::Debug for ChangingSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChangingSecrets")
    }
}
