//! A limit of how often something happens: a bucket of tokens that fills up with time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A bucket.
pub(crate) struct Rate {
    most: u32,
    /// The time in which one token comes back.
    pause: Duration,
    /// When the bucket will be full.
    full_at: Mutex<Instant>,
}

impl Rate {
    /// A full bucket of `most` tokens.
    pub(crate) fn new(most: u32, pause: Duration) -> Self {
        Self { most, pause, full_at: Mutex::new(Instant::now()) }
    }

    /// Takes a token. The error is the time after which there is one.
    pub(crate) fn take(&self) -> Result<(), Duration> {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let next = (*full_at).max(now) + self.pause;
        let limit = now + self.pause * self.most;
        if next > limit {
            return Err(next - limit);
        }
        *full_at = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokens_come_back_one_at_a_time() {
        let rate = Rate::new(3, Duration::from_secs(2));
        assert_eq!((0..5).filter(|_| rate.take().is_ok()).count(), 3);
        assert_eq!(rate.take(), Err(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!((0..5).filter(|_| rate.take().is_ok()).count(), 1);
        tokio::time::advance(Duration::from_mins(10)).await;
        assert_eq!((0..5).filter(|_| rate.take().is_ok()).count(), 3, "never more than the bucket holds");
    }
}
