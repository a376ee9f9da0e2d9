//! A notification of a client on its way to the server, on the connection that the calls of the client use.
//!
//! Invariants: it takes a slot and counts as a request, so a client that floods is limited like one that calls. It is never
//! sent twice. Nothing answers it, so it says nothing about the health of the server.
//!
//! Not here: notifications of servers (`transport::inbound`).

use std::pin::pin;

use tokio::time::Instant;

use super::Upstream;
use super::bulkhead::Lane;
use super::connection::{Call, EventSender};
use super::dialect::PoolRequest;
use super::error::Error;
use super::layers::AdmissionLayer;
use protocol::Notification;

impl Upstream {
    /// Sends `notification` on the connection that a call like `call` uses. Only legacy servers receive it.
    pub async fn notify(&self, call: &Call, notification: &Notification) -> Result<(), Error> {
        let (who, deadline) = (call.principal.as_ref(), Instant::now() + self.config.timeout);
        if let Some(secrets) = &self.principal_secrets {
            // A connection with a secret that changed ends first. Boxed: few servers have them.
            Box::pin(self.check_principal_secrets(secrets, who, deadline)).await?;
        }
        let (mut frame, _slot) =
            AdmissionLayer(self).call(Lane::of(&call.method), who, deadline.into()).await?;
        if let Some(rate) = &self.rate {
            rate.take(who, frame.now)?;
        }
        let event_sender = EventSender::none();
        let sent = pin!(async {
            let connection = self.pool.acquire(PoolRequest::Of(call)).await?;
            connection.connection().notify(notification).await;
            Ok(())
        });
        let late = Error::TimedOut { after: frame.whole(&event_sender) };
        frame.limit(&event_sender, sent).await.unwrap_or(Err(late))
    }
}
