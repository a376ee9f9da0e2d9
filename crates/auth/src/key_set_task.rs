//! The task that keeps the keys of a login service current.
//!
//! Invariants: keys are replaced as a whole, and only by a set that has a usable key. A fetch that fails changes
//! nothing, until the keys have become too old. A principal whose key is gone is notified as after a reload.
//!
//! Not here: when and how to fetch (`key_set`).

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::jwt::Verifier;
use super::jwt_keys::VerificationKeys;
use super::key_set::{KeySet, Outcome};
use super::{Authenticator, key_set};
use runtime::shutdown::Shutdown;

impl Authenticator {
    /// Keeps the keys of the login service and those of `keys_file` current. Returns only when it is dropped. One task must
    /// run this; without it, no published key becomes known.
    pub async fn keep_keys_current(&self, tasks: &Shutdown) {
        let tasks = tasks.clone();
        let fetch = move |key_set: Arc<KeySet>| {
            let tasks = tasks.clone();
            Box::pin(async move { key_set::fetch(&key_set, &tasks).await })
                as BoxFuture<'static, Result<Bytes, String>>
        };
        tokio::join!(self.keep_keys_by(&fetch), self.follow_key_file());
    }

    pub(super) async fn keep_keys_by(&self, fetch: &Fetch) {
        let mut renewals = self.renewals();
        loop {
            renewals.mark_unchanged();
            let key_set = self.mode.load().tokens().and_then(Verifier::key_set).cloned();
            let due = async {
                match &key_set {
                    Some(key_set) => key_set.due().await,
                    None => std::future::pending().await,
                }
            };
            let is_due = tokio::select! {
                () = due => true,
                _ = renewals.changed() => false, // the sender is in `self`
            };
            if let Some(key_set) = key_set.filter(|_| is_due) {
                self.refresh(&key_set, fetch).await;
            }
        }
    }

    async fn refresh(&self, key_set: &Arc<KeySet>, fetch: &Fetch) {
        if key_set.expires() {
            self.replace_keys(key_set, |_| Ok(VerificationKeys::none())).unwrap_or_default();
            tracing::error!(
                issuer = key_set.issuer,
                "the keys of the login service could not be fetched for 24 h: its tokens are refused from now on"
            );
        }
        key_set.begin();
        let fetched = fetch(Arc::clone(key_set)).await;
        let replaced = fetched.and_then(|json| {
            let read = |verifier: &Verifier| verifier.read_published(&json);
            self.replace_keys(key_set, read).map_err(|error| error.to_string())
        });
        let outcome = key_set.end(replaced.is_ok());
        log(key_set, outcome, replaced.err().as_deref().unwrap_or_default());
    }

    /// Replaces the keys of `key_set` by those that `read` returns, unless a reload has removed it meanwhile.
    fn replace_keys(
        &self,
        key_set: &Arc<KeySet>,
        read: impl FnOnce(&Verifier) -> Result<VerificationKeys, super::Error>,
    ) -> Result<(), super::Error> {
        let _turn = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = self.mode.load();
        let is_same =
            |verifier: &&Verifier| verifier.key_set().is_some_and(|other| Arc::ptr_eq(other, key_set));
        if let Some(verifier) = mode.tokens().filter(is_same)
            && verifier.replace(read(verifier)?)
        {
            self.renewed.send_replace(());
        }
        Ok(())
    }
}

/// Fetches a key set.
pub(super) type Fetch = dyn Fn(Arc<KeySet>) -> BoxFuture<'static, Result<Bytes, String>> + Send + Sync;

/// Logs the outcome of a fetch. An outage is logged at its start, at its end, and after 2, 4, 8 failures and so on.
fn log(key_set: &KeySet, outcome: Outcome, reason: &str) {
    let issuer = &key_set.issuer;
    match outcome {
        Outcome::Recovered => tracing::info!(issuer, "the keys of the login service were fetched"),
        Outcome::Usual => tracing::debug!(issuer, "the keys of the login service were fetched"),
        Outcome::Failed(failures) if failures.is_power_of_two() => tracing::warn!(
            issuer,
            failures,
            reason,
            "the keys of the login service cannot be fetched: keys that were fetched before are used for 24 h, and \
             tokens with other keys are refused"
        ),
        Outcome::Failed(failures) => tracing::debug!(issuer, failures, reason, "no keys were fetched"),
    }
}
