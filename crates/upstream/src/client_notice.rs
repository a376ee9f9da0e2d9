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
use super::connection::{Call, Outlet};
use super::dialect::PoolRequest;
use super::error::Error;
use super::frame::Frame;
use protocol::Notification;

impl Upstream {
    /// Sends `notification` on the connection that a call like `call` uses. Only legacy servers receive it.
    pub async fn tell(&self, call: &Call, notification: &Notification) -> Result<(), Error> {
        self.pool.check_open()?;
        let who = call.principal.as_ref();
        if let Some(retry_in) = self.breaker.refuses_for(who) {
            return Err(Error::CircuitOpen { retry_in });
        }
        let mut frame = Frame::until(Instant::now() + self.config.timeout);
        if let Some(rate) = &self.rate {
            rate.take(who, frame.now)?;
        }
        let make_way = || self.pool.end_unanswered();
        let _slot = self.bulkhead.enter(Lane::of(&call.method), who, &mut frame, make_way).await?;
        let outlet = Outlet::none();
        let sent = pin!(async {
            let connection = self.pool.seat(PoolRequest::Of(call)).await?;
            connection.connection().tell(notification).await;
            Ok(())
        });
        let late = Error::TimedOut { after: frame.whole(&outlet) };
        frame.limit(&outlet, sent).await.unwrap_or(Err(late))
    }
}
