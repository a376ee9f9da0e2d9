//! Where grants and registrations are kept: records that are compared and replaced one at a time.
//!
//! Invariants: a change is durable when it is reported as done, as far as the store is. A record is replaced only if it is
//! still the one that its writer has read. Records are opaque: they were sealed before.
//!
//! Not here: what records mean, and how many there may be.

use std::io;

use aws_lc_rs::digest::{SHA256, digest};
use futures_util::future::BoxFuture;

/// Limit of the bytes of a record.
pub(crate) const MAX_RECORD: usize = 64 << 10;
/// Limit of the length of an id.
pub(crate) const MAX_ID: usize = 64;
/// Bytes of the hash of an issuer that separates its records from others.
const NAME_BYTES: usize = 8;

/// A kind of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// The grants of owners to clients.
    Grants,
    /// Clients that registered themselves.
    Clients,
    /// The keys, in a store that several machines share.
    Keys,
}

impl Table {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grants => "grants",
            Self::Clients => "clients",
            Self::Keys => "keys",
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

impl StoreError {
    pub(crate) fn new(action: &'static str, kind: io::ErrorKind, reason: &'static str) -> Self {
        Self { action, source: io::Error::new(kind, reason) }
    }
}

/// Records by kind and id. An id has letters, digits, `-` and `_`, and at most 64 of them.
pub trait Store: Send + Sync {
    /// Returns the record `id`.
    fn get<'a>(&'a self, table: Table, id: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>>;

    /// Returns each of the records `ids`, in their order.
    fn get_all<'a>(
        &'a self,
        table: Table,
        ids: &'a [String],
    ) -> BoxFuture<'a, Vec<Result<Option<Vec<u8>>, StoreError>>>;

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

    /// Returns a number that is another one after a grant was removed, by any process. It is also after a shared store has
    /// lost its records, or has new keys.
    fn removed_grants(&self) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Whether several machines use it, so that the keys have to be in it.
    fn is_shared(&self) -> bool {
        false
    }
}

/// Whether `id` is one that a record may have. Other names in a store have a dot.
pub(crate) fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_plain)
}

/// Checks that there may be a record `record` under `id`.
pub(crate) fn check(id: &str, record: Option<&[u8]>) -> Result<(), StoreError> {
    if !is_id(id) {
        return Err(StoreError::new("read", io::ErrorKind::InvalidInput, "an id is malformed"));
    }
    if record.is_some_and(|record| record.len() > MAX_RECORD) {
        return Err(StoreError::new(
            "written",
            io::ErrorKind::FileTooLarge,
            "a record is larger than 64 KiB",
        ));
    }
    Ok(())
}

/// The name of the records of `issuer` among those of others.
pub(crate) fn name_of(issuer: &str) -> String {
    hex::encode(&digest(&SHA256, issuer.as_bytes()).as_ref()[..NAME_BYTES])
}
