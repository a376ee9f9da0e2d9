//! Locks that serialize the writers of one document.
//!
//! Documents share a fixed number of locks by their hash. Two documents with one lock wait for each other,
//! which costs time but no memory. A task holds at most one lock, so deadlocks are impossible.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

const MANY: usize = 256;

/// Locks for all documents.
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
    /// Waits until no other task writes the document, and locks it.
    pub(super) async fn lock(&self, collection: Uuid, document: &str) -> MutexGuard<'_, ()> {
        let hash = self.hash.hash_one((collection, document));
        #[allow(clippy::cast_possible_truncation)] // any part of a hash will do
        let at = hash as usize % self.all.len();
        self.all[at].lock().await
    }
}
