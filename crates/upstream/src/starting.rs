//! The start of a child process, as operators and waiting callers see it.
//!
//! Invariants: a caller that waits gets at most one message a second, and only when there is something new. Messages extend
//! the deadline of its call like those of a running server. Their progress values are below zero and grow, so that they
//! never exceed those that the server sends later.
//!
//! Not here: the limits of a start (`transport::stdio`).

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::Upstream;
use super::connection::{EventSender, Starting};
use json::Raw;
use protocol::{Notification, method};

/// The shortest time between two messages to a caller.
const PACE: Duration = Duration::from_secs(1);

impl Upstream {
    /// The start that is under way, if the server is a child process.
    pub(super) fn starting(&self) -> Option<Starting> {
        self.pool.connector.starting()?.borrow().clone()
    }

    /// Reports the start of the process as progress of a call, without end.
    pub(super) async fn report_start(&self, event_sender: &EventSender) -> Infallible {
        let Some(mut starting) = self.pool.connector.starting() else { return pending().await };
        let mut count = 0_i32;
        loop {
            let now = starting.borrow_and_update().clone();
            if let Some(now) = now {
                count += 1;
                event_sender.offer(self.progress(count, &now));
                sleep(PACE).await;
            }
            if starting.changed().await.is_err() {
                return pending().await;
            }
        }
    }

    fn progress(&self, count: i32, starting: &Starting) -> Notification {
        let server = &self.config.name;
        let line = starting.last_line.as_ref().map_or(String::new(), |line| format!(": {line}"));
        let message = format!("starting {server}{line}");
        // The token is replaced by that of the client.
        let params = json!({"progressToken": 0, "progress": -1.0 / f64::from(count), "message": message});
        Notification { method: method::PROGRESS.into(), params: Some(Raw::of(&params)) }
    }
}
