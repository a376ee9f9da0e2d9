//! Messages beside the calls of a connection: cancellations, which nobody waits for, and answers to
//! what a server asks, which are never dropped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::http::{Client, Head};
use crate::close_reason::Closing;
use crate::error::Error;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;
use runtime::telemetry::pace::Pace;

/// How many may be on their way at a time; more are dropped. A server that takes none of them is
/// not helped by more.
const AT_A_TIME: usize = 32;
/// How long one may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long an answer may take, and how often it is sent while nothing of it was.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const ANSWER_ATTEMPTS: u32 = 3;
/// Pause before an answer is sent again.
const ANSWER_PAUSE: Duration = Duration::from_millis(500);

/// Posts messages beside the calls of one connection.
#[derive(Clone)]
pub(super) struct Aside {
    client: Arc<Client>,
    head: Head,
    shutdown: Shutdown,
    permits: Arc<Semaphore>,
    pace: Arc<Pace>,
}

impl Aside {
    /// `head` is the one of the messages.
    pub(super) fn new(client: &Arc<Client>, head: &Head, shutdown: &Shutdown) -> Self {
        Self {
            client: Arc::clone(client),
            head: head.clone(),
            shutdown: shutdown.clone(),
            permits: Arc::new(Semaphore::new(AT_A_TIME)),
            pace: Arc::default(),
        }
    }

    /// Posts `message` in the background.
    pub(super) fn post(&self, message: Bytes) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            Limit::Cancellations.met(());
            tracing::debug!("too many messages are on their way beside the calls; one was dropped");
            return;
        };
        let aside = self.clone();
        self.shutdown.spawn_until_end(async move {
            let sent = aside.client.send(aside.head, message, true);
            if let Ok(Err(error)) = tokio::time::timeout(LIMIT, sent).await {
                tracing::debug!(%error, "a message beside the calls was not delivered");
            }
            drop(permit);
        });
    }

    /// Delivers answers for as long as the connection is open.
    pub(super) fn answers(
        &self,
        closing: &Closing,
    ) -> impl Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync + use<> {
        let (aside, closing) = (self.clone(), closing.clone());
        move |answer| {
            let (aside, closing) = (aside.clone(), closing.clone());
            async move {
                if !closing.is_closed() {
                    aside.deliver(answer).await;
                }
            }
            .boxed()
        }
    }

    /// Posts the answer to a question, and waits until the server has it or cannot be reached. Who
    /// asked bounds how many are on their way.
    async fn deliver(&self, answer: Bytes) {
        let sent = async {
            for attempt in 1.. {
                match self.client.send(self.head.clone(), answer.clone(), true).await {
                    Err(Error::Connect { .. } | Error::NotSent { .. }) if attempt < ANSWER_ATTEMPTS => {
                        tokio::time::sleep(ANSWER_PAUSE).await;
                    }
                    Ok(response) if !response.status().is_success() => {
                        return self.complain(&Error::Status {
                            status: response.status().as_u16(),
                            retry_after: None,
                        });
                    }
                    Ok(_) => return,
                    Err(error) => return self.complain(&error),
                }
            }
        };
        if tokio::time::timeout(ANSWER_LIMIT, sent).await.is_err() {
            self.complain(&Error::TimedOut { after: ANSWER_LIMIT });
        }
    }

    /// The server decides how often this happens.
    fn complain(&self, error: &Error) {
        if let Some(suppressed) = self.pace.admit() {
            tracing::warn!(%error, suppressed, "the answer to a server's question was not delivered");
        }
    }
}
