//! Messages beside the calls of a connection: cancellations, which no caller waits for, other notifications, which arrive in
//! order, and responses to server requests, which are never dropped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::Semaphore;

use super::http::{Head, HttpClient};
use crate::connection::Closing;
use crate::error::Error;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;
use runtime::telemetry::pace::Pace;

/// The most messages that are sent in the background at a time.
const AT_A_TIME: u32 = 32;
/// The most messages that are sent or wait for that. Further ones are dropped, because they would not help a server that
/// accepts none.
const MOST_POSTED: u32 = 1_024;
/// The time limit of one message.
const LIMIT: Duration = Duration::from_secs(5);
/// How long the server may take for the last messages of a connection, its end included.
pub(super) const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// The time limit of a response, and the most attempts while nothing of it was sent.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const ANSWER_ATTEMPTS: u32 = 3;
/// The pause before a response is sent again.
const ANSWER_PAUSE: Duration = Duration::from_millis(500);

/// Sends messages beside the calls of one connection.
#[derive(Clone)]
pub(super) struct BackgroundSender {
    client: Arc<HttpClient>,
    head: Head,
    shutdown: Shutdown,
    permits: Arc<Semaphore>,
    places: Arc<Semaphore>,
    pace: Arc<Pace>,
    refused: Arc<dyn Fn(u16) + Send + Sync>,
}

impl BackgroundSender {
    /// Makes a sender. `head` is the head of its messages.
    pub(super) fn new(client: &Arc<HttpClient>, head: &Head, shutdown: &Shutdown) -> Self {
        Self {
            client: Arc::clone(client),
            head: head.clone(),
            shutdown: shutdown.clone(),
            permits: Arc::new(Semaphore::new(AT_A_TIME as usize)),
            places: Arc::new(Semaphore::new(MOST_POSTED as usize)),
            pace: Arc::default(),
            refused: Arc::new(|_| {}),
        }
    }

    /// Calls `refused` with the HTTP status of each message that the server refuses.
    pub(super) fn refused(self, refused: impl Fn(u16) + Send + Sync + 'static) -> Self {
        Self { refused: Arc::new(refused), ..self }
    }

    /// Sends `message`, and waits until the server has it or the time for it is over.
    pub(super) async fn notify(&self, message: Bytes) {
        let sent = self.client.send(|| Ok((self.head.clone(), message.clone().into())), true);
        match tokio::time::timeout(LIMIT, sent).await {
            Ok(Ok(response)) if !response.status().is_success() => (self.refused)(response.status().as_u16()),
            Ok(Err(error)) => tracing::debug!(%error, "a message beside the calls was not delivered"),
            Ok(Ok(_)) | Err(_) => {}
        }
    }

    /// Sends `message` in the background.
    pub(super) fn post(&self, message: Bytes) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            Limit::Cancellations.met(());
            tracing::debug!("too many messages are on their way beside the calls; one was dropped");
            return;
        };
        let background = self.clone();
        self.shutdown.spawn(async move {
            let sent = async {
                let _permit = background.permits.acquire().await;
                background.notify(message).await;
            };
            let over = async {
                background.shutdown.requested().await;
                tokio::time::sleep(FAREWELL_LIMIT).await;
            };
            tokio::select! {
                () = sent => {}
                () = over => {}
            }
            drop(place);
        });
    }

    /// Sends `messages`, the last ones of the connection, after those that were posted. Takes at most
    /// [`FAREWELL_LIMIT`].
    pub(super) async fn send_last(&self, messages: impl Iterator<Item = Bytes>) {
        let sent = async {
            drop(self.places.acquire_many(MOST_POSTED).await);
            let send = |message| self.notify(message);
            stream::iter(messages).for_each_concurrent(AT_A_TIME as usize, send).await;
        };
        let _ = tokio::time::timeout(FAREWELL_LIMIT, sent).await;
    }

    /// Returns a function that sends responses while the connection is open.
    pub(super) fn answers(
        &self,
        closing: &Closing,
    ) -> impl Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync + use<> {
        let (background, closing) = (self.clone(), closing.clone());
        move |answer| {
            let (background, closing) = (background.clone(), closing.clone());
            async move {
                if !closing.is_closed() {
                    background.deliver(answer).await;
                }
            }
            .boxed()
        }
    }

    /// Sends the response to a server request, and waits until the server has it or cannot be reached. The caller
    /// limits the number of responses.
    async fn deliver(&self, answer: Bytes) {
        let sent = async {
            for attempt in 1.. {
                match self.client.send(|| Ok((self.head.clone(), answer.clone().into())), true).await {
                    Err(Error::Connect { .. } | Error::NotSent { .. }) if attempt < ANSWER_ATTEMPTS => {
                        tokio::time::sleep(ANSWER_PAUSE).await;
                    }
                    Ok(response) if !response.status().is_success() => {
                        (self.refused)(response.status().as_u16());
                        return self.complain(&self.client.refusal(response).await);
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

    /// Logs an undelivered response. The server decides how often this happens, so the lines are limited.
    fn complain(&self, error: &Error) {
        if let Some(suppressed) = self.pace.admit() {
            tracing::warn!(%error, suppressed, "the answer to a server's question was not delivered");
        }
    }
}
