//! The revocation state of a credential, for sessions, streams and long requests.
//!
//! Invariants: the state changes once and forever, when a reload revokes or changes the credential. A
//! credential that a reload leaves unchanged keeps its state, so its holders notice nothing. Expiry of a
//! credential does not change the state: no new request is accepted with it, but running work continues.
//!
//! Not here: which credentials count as unchanged (`api_key`, `jwt_keys`), and the work that ends
//! (`downstream`).

use tokio_util::sync::CancellationToken;

/// The revocation state of one credential. Clones share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct RevocationState(CancellationToken);

impl RevocationState {
    pub(super) fn end(&self) {
        self.0.cancel();
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Resolves when the credential was revoked.
    pub(super) async fn over(&self) {
        self.0.cancelled().await;
    }
}

#[cfg(test)]
#[path = "revocation_tests.rs"]
mod tests;
