//! Writers of one document go one after another.
//!
//! A fixed number of locks that documents share by their hash: two that share one wait for each other,
//! which costs time and never more memory. Nobody holds two.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

const MANY: usize = 256;

/// See the head of this file.
pub(super) struct Locks {
    all: Vec<Mutex<()>>,
    hash: RandomState,
}

impl Default for Locks {
    fn default() -> Self {
        Self { all: (0..MANY).map(|_| Mutex::default()).collect(), hash: RandomState::new() }
    }
}

impl Locks {
    /// Waits until nobody else writes the document, and keeps others off.
    pub(super) async fn lock(&self, collection: Uuid, document: &str) -> MutexGuard<'_, ()> {
        let hash = self.hash.hash_one((collection, document));
        #[allow(clippy::cast_possible_truncation)] // any part of a hash does
        let at = hash as usize % self.all.len();
        self.all[at].lock().await
    }
}
