//! How the endpoints answered requests, and how often the store failed, for metrics.
//!
//! Invariant: what is counted has a fixed number of names, whatever clients send.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::error::Code;
use crate::store::{Store, StoreError, Table};

/// The endpoints, by the last part of their paths.
const ENDPOINTS: [&str; 4] = ["authorize", "token", "register", "revoke"];

/// An answer that is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A person was asked.
    Shown,
    /// The person agreed, and the client got a code.
    Granted,
    /// A code was exchanged for tokens.
    Issued,
    /// A refresh token was exchanged for tokens.
    Refreshed,
    /// A client registered itself.
    Registered,
    /// A token was revoked.
    Revoked,
}

impl Answer {
    const ALL: [Self; 6] =
        [Self::Shown, Self::Granted, Self::Issued, Self::Refreshed, Self::Registered, Self::Revoked];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Granted => "granted",
            Self::Issued => "issued",
            Self::Refreshed => "refreshed",
            Self::Registered => "registered",
            Self::Revoked => "revoked",
        }
    }

    const fn endpoint(self) -> CountedEndpoint {
        match self {
            Self::Shown | Self::Granted => CountedEndpoint::Authorize,
            Self::Issued | Self::Refreshed => CountedEndpoint::Token,
            Self::Registered => CountedEndpoint::Register,
            Self::Revoked => CountedEndpoint::Revoke,
        }
    }
}

/// An endpoint whose errors are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CountedEndpoint {
    Authorize,
    Token,
    Register,
    Revoke,
}

/// The counts since the start.
#[derive(Debug)]
pub struct RequestCounts {
    answers: [AtomicU64; Answer::ALL.len()],
    errors: [[AtomicU64; Code::ALL.len()]; ENDPOINTS.len()],
    reuses: AtomicU64,
    store_failures: AtomicU64,
}

impl Default for RequestCounts {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            answers: array::from_fn(zero),
            errors: array::from_fn(|_| array::from_fn(zero)),
            reuses: AtomicU64::new(0),
            store_failures: AtomicU64::new(0),
        }
    }
}

impl RequestCounts {
    pub(crate) fn answered(&self, answer: Answer) {
        self.answers[answer as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, endpoint: CountedEndpoint, code: Code) {
        self.errors[endpoint as usize][code as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Every endpoint with each of its outcomes, and how often it was that.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let answers = Answer::ALL
            .iter()
            .zip(&self.answers)
            .map(move |(answer, count)| (ENDPOINTS[answer.endpoint() as usize], answer.as_str(), of(count)));
        let errors = ENDPOINTS.iter().zip(&self.errors).flat_map(move |(endpoint, counts)| {
            Code::ALL.iter().zip(counts).map(move |(code, count)| (*endpoint, code.as_str(), of(count)))
        });
        answers.chain(errors)
    }

    pub(crate) fn reused(&self) {
        self.reuses.fetch_add(1, Ordering::Relaxed);
    }

    /// How many grants ended because a code or a refresh token was used twice.
    pub fn reuses(&self) -> u64 {
        self.reuses.load(Ordering::Relaxed)
    }

    /// Counts a failure of the store.
    pub fn store_failed(&self) {
        self.store_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the store could not be read or written.
    pub fn store_failures(&self) -> u64 {
        self.store_failures.load(Ordering::Relaxed)
    }
}

/// A store whose failures are counted.
pub(crate) struct CountedStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) counts: Arc<RequestCounts>,
}

impl CountedStore {
    fn counted<'a, T: 'a>(
        &'a self,
        work: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let note = |done: &Result<T, StoreError>| {
            if done.is_err() {
                self.counts.store_failed();
            }
        };
        work.inspect(note).boxed()
    }
}

impl Store for CountedStore {
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        self.counted(self.store.get(table, id))
    }

    fn get_all<'a>(
        &'a self,
        table: Table,
        ids: &'a [String],
    ) -> BoxFuture<'a, Vec<Result<Option<Vec<u8>>, StoreError>>> {
        let note = |done: &Vec<Result<_, _>>| {
            let failures = done.iter().filter(|done| done.is_err()).count() as u64;
            self.counts.store_failures.fetch_add(failures, Ordering::Relaxed);
        };
        self.store.get_all(table, ids).inspect(note).boxed()
    }

    fn swap<'a>(
        &'a self,
        table: Table,
        id: &'a str,
        before: Option<&'a [u8]>,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.counted(self.store.swap(table, id, before, after))
    }

    fn ids<'a>(&'a self, table: Table, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.counted(self.store.ids(table, prefix))
    }

    fn removed_grants(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.counted(self.store.removed_grants())
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_and_error_has_a_count_of_its_own() {
        let counts = RequestCounts::default();
        for (at, answer) in Answer::ALL.into_iter().enumerate() {
            assert_eq!(answer as usize, at);
            counts.answered(answer);
        }
        for (at, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, at);
            counts.refused(CountedEndpoint::Token, code);
        }
        counts.refused(CountedEndpoint::Revoke, Code::InvalidClient);
        let all: Vec<_> = counts.all().collect();
        assert_eq!(all.len(), Answer::ALL.len() + ENDPOINTS.len() * Code::ALL.len());
        let counted: Vec<_> = all.iter().filter(|(_, _, count)| *count > 0).collect();
        assert_eq!(counted.len(), Answer::ALL.len() + Code::ALL.len() + 1);
        for expected in [
            ("authorize", "shown", 1),
            ("token", "refreshed", 1),
            ("token", "invalid_grant", 1),
            ("revoke", "invalid_client", 1),
            ("revoke", "invalid_grant", 0),
        ] {
            assert!(all.contains(&expected), "{expected:?}");
        }
    }
}
