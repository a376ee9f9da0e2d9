//! Where grants and registrations are kept: records that are compared and replaced one at a time.
//!
//! Invariants: a change is durable when it is reported as done. A record is replaced only if it is still the one that
//! its writer has read. Records are opaque: they were sealed before.
//!
//! Not here: what records mean, and how many there may be.

use std::io;

use futures_util::future::BoxFuture;

/// A kind of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// The grants of owners to clients.
    Grants,
    /// Clients that registered themselves.
    Clients,
}

impl Table {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grants => "grants",
            Self::Clients => "clients",
        }
    }
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the store of the authorization server cannot be {action}: {source}")]
pub struct StoreError {
    /// The action that failed, as a participle.
    pub action: &'static str,
    /// The reason.
    pub source: io::Error,
}

/// Records by kind and id. An id has letters, digits, `-` and `_`, and at most 64 of them.
pub trait Store: Send + Sync {
    /// Returns the record `id`.
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>>;

    /// Replaces the record `id` by `after` if it is `before`; none means that there is no record. Returns whether it was.
    fn swap<'a>(
        &'a self,
        table: Table,
        id: &'a str,
        before: Option<&'a [u8]>,
        after: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Returns the ids that begin with `prefix`, in their order.
    fn ids<'a>(&'a self, table: Table, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;
}
