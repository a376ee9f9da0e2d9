//! Records of the store as values: sealed, and bound to their place.
//!
//! Invariants: a record opens only under the key of this gateway, in its table and under its id. Each seal has a nonce
//! of its own, so two writes of one value differ and a lost race is noticed. A record that does not open counts as
//! missing, and is logged.

use std::marker::PhantomData;
use std::sync::Arc;

use auth::vault::VaultKey;
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroizing;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::{Store, StoreError, Table};

/// The records of one table.
pub(crate) struct Records<T> {
    store: Arc<dyn Store>,
    key: Arc<VaultKey>,
    table: Table,
    kind: PhantomData<fn() -> T>,
}

/// A value as it was read.
pub(crate) struct Stored<T> {
    pub(crate) value: T,
    /// The record.
    sealed: Vec<u8>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    pub(crate) fn new(store: &Arc<dyn Store>, key: &Arc<VaultKey>, table: Table) -> Self {
        Self { store: Arc::clone(store), key: Arc::clone(key), table, kind: PhantomData }
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Option<Stored<T>>, StoreError> {
        let Some(sealed) = self.store.get(self.table, id).await? else { return Ok(None) };
        let text = std::str::from_utf8(&sealed).ok();
        let plain = text.and_then(|text| self.key.open(&self.context(id), text));
        let value = plain.and_then(|plain| serde_json::from_slice(&plain).ok());
        if value.is_none() {
            tracing::error!(table = self.table.as_str(), id, "a record cannot be opened and is ignored");
        }
        Ok(value.map(|value| Stored { value, sealed }))
    }

    /// Adds a record. Returns false if there is one.
    pub(crate) async fn insert(&self, id: &str, value: &T) -> Result<bool, StoreError> {
        let sealed = self.seal(id, value)?;
        self.store.swap(self.table, id, None, Some(&sealed)).await
    }

    /// Replaces `before`. Returns false if it was changed or removed meanwhile.
    pub(crate) async fn replace(&self, id: &str, before: &Stored<T>, value: &T) -> Result<bool, StoreError> {
        let sealed = self.seal(id, value)?;
        self.store.swap(self.table, id, Some(&before.sealed), Some(&sealed)).await
    }

    /// Removes the record `before`. Returns false if it was changed or removed meanwhile.
    pub(crate) async fn remove_unchanged(&self, id: &str, before: &Stored<T>) -> Result<bool, StoreError> {
        self.store.swap(self.table, id, Some(&before.sealed), None).await
    }

    /// Removes a record, whatever it is by now.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), StoreError> {
        while let Some(record) = self.store.get(self.table, id).await? {
            if self.store.swap(self.table, id, Some(&record), None).await? {
                break;
            }
        }
        Ok(())
    }

    /// Returns the records whose ids begin with `prefix`.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<(String, T)>, StoreError> {
        let mut all = Vec::new();
        for id in self.ids(prefix).await? {
            if let Some(stored) = self.get(&id).await? {
                all.push((id, stored.value));
            }
        }
        Ok(all)
    }

    /// Has `change` called with each record whose id begins with `prefix`, and returns how many it changed. All are tried; the
    /// error is the last one.
    pub(crate) async fn change_each<F: Future<Output = Result<bool, StoreError>>>(
        &self,
        prefix: &str,
        change: impl Fn(String, Stored<T>) -> F,
    ) -> Result<usize, StoreError> {
        let (mut count, mut failed) = (0, None);
        for id in self.ids(prefix).await? {
            let changed = match self.get(&id).await {
                Ok(Some(found)) => change(id, found).await,
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            match changed {
                Ok(changed) => count += usize::from(changed),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(count), Err)
    }

    /// Returns the ids that begin with `prefix`, in their order.
    pub(crate) async fn ids(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.ids(self.table, prefix).await
    }

    fn seal(&self, id: &str, value: &T) -> Result<Vec<u8>, StoreError> {
        let failed = |source| StoreError { action: "sealed", source };
        let plain = Zeroizing::new(serde_json::to_vec(value).map_err(|error| failed(error.into()))?);
        self.key.seal(&self.context(id), &plain).map(String::into_bytes).map_err(failed)
    }

    /// The place of a record, which is authenticated with it.
    fn context(&self, id: &str) -> Vec<u8> {
        [b"record:", self.table.as_str().as_bytes(), b"/", id.as_bytes()].concat()
    }
}

/// A part of an id, or a token, that nobody can guess: 16 random bytes as hexadecimal digits.
pub(crate) fn random() -> String {
    let mut random = [0; 16];
    SysRng.try_fill_bytes(&mut random).expect("the system gives random bytes");
    hex::encode(random)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::MemoryStore;

    #[tokio::test]
    async fn record_opens_in_its_place_only_and_under_its_key() {
        let memory = Arc::new(MemoryStore::default());
        let store: Arc<dyn Store> = memory.clone();
        let key = Arc::new(VaultKey::of(b"one secret of more than thirty-two bytes"));
        let records: Records<String> = Records::new(&store, &key, Table::Grants);
        let value = "canary".to_owned();
        assert!(records.insert("a", &value).await.expect("a write"));
        assert!(!records.insert("a", &value).await.expect("a write"), "there is one");
        let sealed = memory.get(Table::Grants, "a").await.expect("a read").expect("a record");
        assert!(!String::from_utf8_lossy(&sealed).contains("canary"));
        assert_eq!(records.get("a").await.expect("a read").expect("a value").value, value);

        for (table, id) in [(Table::Grants, "b"), (Table::Clients, "a")] {
            assert!(memory.swap(table, id, None, Some(&sealed)).await.expect("a write"));
            let moved: Records<String> = Records::new(&store, &key, table);
            assert!(moved.get(id).await.expect("a read").is_none(), "{id}");
        }
        let other = Arc::new(VaultKey::of(b"other secret of more than thirty-two bytes"));
        let foreign: Records<String> = Records::new(&store, &other, Table::Grants);
        assert!(foreign.get("a").await.expect("a read").is_none());
    }

    #[tokio::test]
    async fn writer_that_lost_a_race_changes_nothing_even_if_the_value_is_equal() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let key = Arc::new(VaultKey::of(b"one secret of more than thirty-two bytes"));
        let records: Records<u8> = Records::new(&store, &key, Table::Grants);
        assert!(records.insert("a", &1).await.expect("a write"));
        let first = records.get("a").await.expect("a read").expect("a value");
        let second = records.get("a").await.expect("a read").expect("a value");
        assert!(records.replace("a", &first, &1).await.expect("a write"));
        assert!(!records.replace("a", &second, &2).await.expect("a write"));
    }
}
