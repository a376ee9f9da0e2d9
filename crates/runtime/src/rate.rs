//! Limits of how often something happens: buckets of tokens that fill up with time.
//!
//! A bucket is one time: when it will be full (the generic cell rate algorithm). Invariants: a bucket never holds more than
//! its size, and a refused request takes nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Takes a token of the bucket that will be full at `full_at`. One comes back in `pause`, and all of them in `depth`. The
/// error is the time after which there is one.
pub fn take(full_at: &mut Instant, now: Instant, pause: Duration, depth: Duration) -> Result<(), Duration> {
    let next = (*full_at).max(now) + pause;
    let wait = next.saturating_duration_since(now).saturating_sub(depth);
    if !wait.is_zero() {
        return Err(wait);
    }
    *full_at = next;
    Ok(())
}

/// One bucket.
#[derive(Debug)]
pub struct Rate {
    pause: Duration,
    depth: Duration,
    full_at: Mutex<Instant>,
}

impl Rate {
    /// A full bucket of `most` tokens, one of which comes back in `pause`.
    pub fn new(most: u32, pause: Duration) -> Self {
        Self { pause, depth: pause * most, full_at: Mutex::new(Instant::now()) }
    }

    /// Takes a token. The error is the time after which there is one.
    pub fn take(&self) -> Result<(), Duration> {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        take(&mut full_at, Instant::now(), self.pause, self.depth)
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
