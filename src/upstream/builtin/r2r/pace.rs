//! The limit for requests to R2R within a minute.
//!
//! Invariant: within any 60 s at most as many requests are admitted as the settings allow, for all callers
//! together. A refused request was not sent and says when to come again.
//!
//! Not here: logins and health checks, which are few and are not counted.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::telemetry::limit::Limit;
use crate::upstream::error::Error;

const MINUTE: Duration = Duration::from_mins(1);

/// The times of the last requests.
#[derive(Debug)]
pub(super) struct Pace {
    most: usize,
    sent: Mutex<VecDeque<Instant>>,
}

impl Pace {
    /// Admits `most` requests within a minute.
    pub(super) const fn new(most: usize) -> Self {
        Self { most, sent: Mutex::new(VecDeque::new()) }
    }

    /// Counts a request, or refuses it.
    pub(super) fn admit(&self) -> Result<(), Error> {
        let now = Instant::now();
        // Nothing panics while it is held.
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        while sent.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
            sent.pop_front();
        }
        match sent.front() {
            Some(first) if sent.len() >= self.most => {
                let retry_in = MINUTE.saturating_sub(now.duration_since(*first));
                drop(sent);
                Err(Limit::R2rRequests.met(self.refusal(retry_in)))
            }
            _ => {
                sent.push_back(now);
                Ok(())
            }
        }
    }

    fn refusal(&self, retry_in: Duration) -> Error {
        let most = self.most;
        let detail =
            format!("the limit of {most} requests to R2R within a minute is reached (`requests_per_minute`)");
        Error::Backend { status: 429, detail, retry_after: Some(retry_in), facts: None }
    }
}

#[cfg(test)]
mod tests {
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
