//! The limit for requests to R2R within a minute, for all callers together, and the error beyond it.
//!
//! Invariant: it belongs to the settings of the server and not to a connection, so a new connection does not begin a
//! new minute.
//!
//! Not here: the count itself (`upstream::rate_limit`); logins and health checks, which are few and are not counted.

use std::sync::Arc;

use tokio::time::Instant;

use runtime::telemetry::limit::Limit;
use upstream::api::{Error, RateLimit};

/// The requests of the last minute. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    most: usize,
    sent: Arc<RateLimit>,
}

impl Pace {
    /// Admits `most` requests within a minute.
    pub(super) fn new(most: usize) -> Self {
        Self { most, sent: Arc::new(RateLimit::new(most)) }
    }

    /// Counts a request, or refuses it with the time to come again.
    pub(super) fn admit(&self) -> Result<(), Error> {
        let most = self.most;
        self.sent.admit(None, Instant::now()).map_err(|retry_in| {
            let detail = format!(
                "the limit of {most} requests to R2R within a minute is reached (`requests_per_minute`)"
            );
            Limit::R2rRequests.met(Error::Backend {
                status: 429,
                detail,
                retry_after: Some(retry_in),
                facts: None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_requests_than_allowed() {
        let pace = Pace::new(3);
        for _ in 0..3 {
            pace.admit().expect("there is room");
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        let refused = pace.admit().expect_err("it is full");
        assert!(
            matches!(&refused, Error::Backend { status: 429, retry_after: Some(after), .. } if *after == Duration::from_secs(30)),
            "{refused:?}"
        );
        tokio::time::advance(Duration::from_secs(30)).await;
        pace.admit().expect("the first one is a minute old");
        pace.admit().expect_err("the second one is not");
    }
}
