//! Records of the store as values: sealed, and bound to their place.
//!
//! Invariants: a record opens only under the key of this gateway, in its table and under its id. Each seal has a nonce
//! of its own, so two writes of one value differ and a lost race is noticed. A record that does not open counts as
//! missing, and is logged.

use std::marker::PhantomData;
use std::sync::Arc;

use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroizing;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::keys::Keys;
use crate::store::{Store, StoreError, Table};
use auth::vault::VaultKey;

/// How many records are read at once.
const CHUNK: usize = 256;

/// The records of one table.
pub(crate) struct Records<T> {
    store: Arc<dyn Store>,
    keys: Arc<Keys>,
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
    pub(crate) fn new(store: &Arc<dyn Store>, keys: &Arc<Keys>, table: Table) -> Self {
        Self { store: Arc::clone(store), keys: Arc::clone(keys), table, kind: PhantomData }
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Option<Stored<T>>, StoreError> {
        let key = self.key().await?;
        Ok(self.store.get(self.table, id).await?.and_then(|sealed| self.opened(&key, id, sealed)))
    }

    /// Returns those of the records `ids` that exist, with their ids and in their order. Calls for at most [`CHUNK`] of them.
    async fn get_all(&self, ids: &[String]) -> Vec<Result<(String, Stored<T>), StoreError>> {
        let key = match self.key().await {
            Ok(key) => key,
            Err(error) => return vec![Err(error)],
        };
        let found = self.store.get_all(self.table, ids).await.into_iter().zip(ids);
        let opened = found.filter_map(|(found, id)| match found {
            Ok(sealed) => self.opened(&key, id, sealed?).map(|stored| Ok((id.clone(), stored))),
            Err(error) => Some(Err(error)),
        });
        opened.collect()
    }

    /// The key of this gateway.
    pub(crate) async fn key(&self) -> Result<Arc<VaultKey>, StoreError> {
        Ok(self.keys.of_records().await?)
    }

    fn opened(&self, key: &VaultKey, id: &str, sealed: Vec<u8>) -> Option<Stored<T>> {
        let text = std::str::from_utf8(&sealed).ok();
        let plain = text.and_then(|text| key.open(&self.context(id), text));
        let value = plain.and_then(|plain| serde_json::from_slice(&plain).ok());
        if value.is_none() {
            tracing::error!(table = self.table.as_str(), id, "a record cannot be opened and is ignored");
        }
        Some(Stored { value: value?, sealed })
    }

    /// Adds a record. Returns false if there is one.
    pub(crate) async fn insert(&self, id: &str, value: &T) -> Result<bool, StoreError> {
        let sealed = self.seal(id, value).await?;
        self.store.swap(self.table, id, None, Some(&sealed)).await
    }

    /// Replaces `before`. Returns false if it was changed or removed meanwhile.
    pub(crate) async fn replace(&self, id: &str, before: &Stored<T>, value: &T) -> Result<bool, StoreError> {
        let sealed = self.seal(id, value).await?;
        self.store.swap(self.table, id, Some(&before.sealed), Some(&sealed)).await
    }

    /// Removes the record `before`. Returns false if it was changed or removed meanwhile.
    pub(crate) async fn remove_unchanged(&self, id: &str, before: &Stored<T>) -> Result<bool, StoreError> {
        self.store.swap(self.table, id, Some(&before.sealed), None).await
    }

    /// Removes a record, whatever it is by now. Returns false if there was none.
    pub(crate) async fn remove(&self, id: &str) -> Result<bool, StoreError> {
        while let Some(record) = self.store.get(self.table, id).await? {
            if self.store.swap(self.table, id, Some(&record), None).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the records whose ids begin with `prefix`.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<(String, T)>, StoreError> {
        let mut all = Vec::new();
        for ids in self.ids(prefix).await?.chunks(CHUNK) {
            for found in self.get_all(ids).await {
                let (id, stored) = found?;
                all.push((id, stored.value));
            }
        }
        Ok(all)
    }

    /// Returns the first `limit` records after the id `after` that begin with `prefix` and that `is_chosen` selects, and whether
    /// there are more. Few others behind these are read.
    pub(crate) async fn page(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
        is_chosen: impl Fn(&T) -> bool,
    ) -> Result<(Vec<(String, T)>, bool), StoreError> {
        let mut ids = self.ids(prefix).await?;
        ids.retain(|id| **id > *after);
        let mut chosen = Vec::new();
        for ids in ids.chunks(CHUNK.min(limit + 1)) {
            for found in self.get_all(ids).await {
                let (id, Stored { value, .. }) = found?;
                if !is_chosen(&value) {
                    continue;
                }
                if chosen.len() == limit {
                    return Ok((chosen, true));
                }
                chosen.push((id, value));
            }
        }
        Ok((chosen, false))
    }

    /// Has `change` called with each record whose id begins with `prefix`, and returns how many it changed. All are tried; the
    /// error is the last one.
    pub(crate) async fn change_each<F: Future<Output = Result<bool, StoreError>>>(
        &self,
        prefix: &str,
        change: impl Fn(String, Stored<T>) -> F,
    ) -> Result<usize, StoreError> {
        let (mut count, mut failed) = (0, None);
        for ids in self.ids(prefix).await?.chunks(CHUNK) {
            for found in self.get_all(ids).await {
                let changed = match found {
                    Ok((id, found)) => change(id, found).await,
                    Err(error) => Err(error),
                };
                match changed {
                    Ok(changed) => count += usize::from(changed),
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.map_or(Ok(count), Err)
    }

    /// Returns the ids that begin with `prefix`, in their order.
    pub(crate) async fn ids(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.ids(self.table, prefix).await
    }

    /// Returns a number that is another one after a grant was removed, by any process.
    pub(crate) async fn removed_grants(&self) -> Result<u64, StoreError> {
        self.store.removed_grants().await
    }

    async fn seal(&self, id: &str, value: &T) -> Result<Vec<u8>, StoreError> {
        let failed = |source| StoreError { action: "sealed", source };
        let plain = Zeroizing::new(serde_json::to_vec(value).map_err(|error| failed(error.into()))?);
        self.key().await?.seal(&self.context(id), &plain).map(String::into_bytes).map_err(failed)
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
        let key = Keys::of_secret(b"one secret of more than thirty-two bytes");
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
        let other = Keys::of_secret(b"other secret of more than thirty-two bytes");
        let foreign: Records<String> = Records::new(&store, &other, Table::Grants);
        assert!(foreign.get("a").await.expect("a read").is_none());
        assert!(!foreign.insert("a", &"other".to_owned()).await.expect("a write"), "nor is it replaced");
    }

    #[tokio::test]
    async fn records_are_read_many_at_a_time_and_a_page_has_the_chosen_ones() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let key = Keys::of_secret(b"one secret of more than thirty-two bytes");
        let records: Records<usize> = Records::new(&store, &key, Table::Grants);
        let id = |at: usize| format!("{at:04}");
        for at in 0..=2 * CHUNK {
            assert!(records.insert(&id(at), &at).await.expect("a write"));
        }
        let all = records.list("").await.expect("records");
        assert!(all.iter().enumerate().all(|(at, (found, value))| (id(at), at) == (found.clone(), *value)));
        assert_eq!(all.len(), 2 * CHUNK + 1);
        let page = async |after: &str, limit| {
            let (page, has_more) =
                records.page("0", after, limit, |value| value % 2 == 0).await.expect("a page");
            (page.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), has_more)
        };
        assert_eq!(page("", 2).await, (vec![0, 2], true));
        assert_eq!(page(&id(2 * CHUNK - 3), 2).await, (vec![2 * CHUNK - 2, 2 * CHUNK], false));
        assert_eq!(page(&id(2 * CHUNK), 2).await, (Vec::new(), false));
    }

    #[tokio::test]
    async fn writer_that_lost_a_race_changes_nothing_even_if_the_value_is_equal() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let key = Keys::of_secret(b"one secret of more than thirty-two bytes");
        let records: Records<u8> = Records::new(&store, &key, Table::Grants);
        assert!(records.insert("a", &1).await.expect("a write"));
        let first = records.get("a").await.expect("a read").expect("a value");
        let second = records.get("a").await.expect("a read").expect("a value");
        assert!(records.replace("a", &first, &1).await.expect("a write"));
        assert!(!records.replace("a", &second, &2).await.expect("a write"));
    }
}
