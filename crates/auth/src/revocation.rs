//! Whether a credential is still one, for whoever acts on it longer than a request takes to be let in.
//!
//! Invariants: a standing ends once and for good, when a reload takes its credential back or changes it;
//! one that is the same after a reload goes on, so nobody notices who has it. That a credential expires
//! ends no standing: it opens nothing any more, and what it has opened goes on.
//!
//! Not here: what is the same credential (`api_key`, `jwt_keys`), what ends with it (`downstream`).

use tokio_util::sync::CancellationToken;

/// The standing of one credential. Clones are the same one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Standing(CancellationToken);

impl Standing {
    pub(super) fn end(&self) {
        self.0.cancel();
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Resolves when it is over.
    pub(super) async fn over(&self) {
        self.0.cancelled().await;
    }
}

#[cfg(test)]
#[path = "revocation_tests.rs"]
mod tests;
