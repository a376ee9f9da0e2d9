//! A document of the login service that is fetched when it is needed, and kept for a while.
//!
//! Invariants: one fetch runs at a time. After a failure none is made for some seconds, so visitors cannot cause many.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Error;

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// The last version of a document.
pub(super) struct Latest<T> {
    lifetime: Duration,
    state: Mutex<Fetched<T>>,
}

struct Fetched<T> {
    document: Option<(Arc<T>, Instant)>,
    failure: Option<(Error, Instant)>,
}

impl<T> Latest<T> {
    /// A document that is fetched again after `lifetime`.
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { lifetime, state: Mutex::new(Fetched { document: None, failure: None }) }
    }

    /// Returns the document, which `fetch` reads if there is none that is new enough.
    pub(super) async fn get(&self, fetch: impl Future<Output = Result<T, Error>>) -> Result<Arc<T>, Error> {
        let mut state = self.state.lock().await;
        if let Some((document, since)) = &state.document
            && since.elapsed() < self.lifetime
        {
            return Ok(Arc::clone(document));
        }
        state.renewed(fetch).await
    }

    /// Returns a newer document than `known`.
    pub(super) async fn after(
        &self,
        known: &Arc<T>,
        fetch: impl Future<Output = Result<T, Error>>,
    ) -> Result<Arc<T>, Error> {
        let mut state = self.state.lock().await;
        match &state.document {
            Some((document, _)) if !Arc::ptr_eq(document, known) => Ok(Arc::clone(document)),
            _ => state.renewed(fetch).await,
        }
    }
}

impl<T> Fetched<T> {
    async fn renewed(&mut self, fetch: impl Future<Output = Result<T, Error>>) -> Result<Arc<T>, Error> {
        if let Some((error, since)) = &self.failure
            && since.elapsed() < PAUSE
        {
            return Err(error.clone());
        }
        match fetch.await {
            Ok(document) => {
                let document = Arc::new(document);
                self.document = Some((Arc::clone(&document), Instant::now()));
                self.failure = None;
                Ok(document)
            }
            Err(error) => {
                self.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}
