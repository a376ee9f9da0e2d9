//! Messages of our own that nobody waits for: answers to what a server asks, cancellations.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::Semaphore;
use url::Url;

use super::http::Client;
use crate::shutdown::Shutdown;

/// How many may be on their way at a time; more are dropped. A server that takes none of them is
/// not helped by more.
const AT_A_TIME: usize = 32;
/// How long one may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Posts messages beside the calls of one connection.
#[derive(Clone)]
pub(super) struct Aside {
    client: Arc<Client>,
    url: Url,
    headers: HeaderMap,
    shutdown: Shutdown,
    permits: Arc<Semaphore>,
}

impl Aside {
    pub(super) fn new(client: &Arc<Client>, url: &Url, headers: &HeaderMap, shutdown: &Shutdown) -> Self {
        Self {
            client: Arc::clone(client),
            url: url.clone(),
            headers: headers.clone(),
            shutdown: shutdown.clone(),
            permits: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Posts `message` in the background.
    pub(super) fn post(&self, message: Bytes) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            tracing::debug!("too many messages are on their way beside the calls; one was dropped");
            return;
        };
        let aside = self.clone();
        self.shutdown.spawn_until_end(async move {
            let sent = aside.client.post(&aside.url, aside.headers, message, true);
            if let Ok(Err(error)) = tokio::time::timeout(LIMIT, sent).await {
                tracing::debug!(%error, "a message beside the calls was not delivered");
            }
            drop(permit);
        });
    }
}
