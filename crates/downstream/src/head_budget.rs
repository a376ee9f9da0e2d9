//! Memory for the heads of requests, in sum over all connections of one listener.
//!
//! Invariants: the first [`FREE`] bytes of each head are not counted, so an ordinary request never touches the
//! counter that all connections share, and is never refused here. The rest of all heads takes at most [`IN_SUM`].
//! A [`Share`] that is dropped gives its bytes back.
//!
//! Not here: the size of one head (`listener`), when a head begins and ends (`activity`), bodies (`body_budget`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;

/// Bytes of each head that are not counted.
pub(super) const FREE: usize = 4 * 1024;
/// The largest sum of the bytes that are counted.
const IN_SUM: usize = 16 * 1024 * 1024;
/// Bytes that the header map takes for each entry, beside the name and the value.
const ENTRY: usize = 112;

/// The sum of one listener. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadBudget(Arc<AtomicUsize>);

/// The bytes of one head in a sum. Without any it belongs to none.
#[derive(Debug, Default)]
pub(super) struct Share {
    bytes: usize,
    budget: Option<HeadBudget>,
}

impl Share {
    /// Grows or shrinks to what a head of `bytes` takes of `budget`, which is that of its listener. False if there is no
    /// room; then nothing is taken.
    #[must_use]
    pub(super) fn resize(&mut self, bytes: usize, budget: &HeadBudget) -> bool {
        let (needed, taken) = (bytes.saturating_sub(FREE), &budget.0);
        if needed <= self.bytes {
            taken.fetch_sub(self.bytes - needed, Ordering::Relaxed);
            self.bytes = needed;
            return true;
        }
        let more = needed - self.bytes;
        if taken.fetch_add(more, Ordering::Relaxed) + more > IN_SUM {
            taken.fetch_sub(more + std::mem::take(&mut self.bytes), Ordering::Relaxed);
            return false;
        }
        self.bytes = needed;
        self.budget.get_or_insert_with(|| budget.clone());
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(HeadBudget(taken)) = &self.budget {
            taken.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// The memory that the head of `request` takes, in bytes.
pub(super) fn size_of<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let headers = request.headers().iter();
    target + headers.map(|(name, value)| name.as_str().len() + value.len() + ENTRY).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_one_listener_share_one_sum_and_small_ones_are_free() {
        let (budget, other, most) = (HeadBudget::default(), HeadBudget::default(), IN_SUM / 1_000);
        let mut shares: Vec<Share> = Vec::new();
        let full = loop {
            let mut share = Share::default();
            if !share.resize(most + FREE, &budget) {
                break share;
            }
            shares.push(share);
        };
        assert_eq!((shares.len(), full.bytes), (1_000, 0));
        let mut small = Share::default();
        assert!(small.resize(FREE, &budget), "a small head needs no room");
        assert!(!small.resize(2 * FREE + most, &budget));
        let mut elsewhere = Share::default();
        assert!(elsewhere.resize(FREE + IN_SUM, &other), "another listener has its own sum");
        assert!(
            shares[0].resize(FREE, &budget) && small.resize(FREE + most, &budget),
            "what one gives back another one takes"
        );
        drop((shares, small, full, elsewhere));
        assert_eq!([budget, other].map(|budget| budget.0.load(Ordering::Relaxed)), [0, 0]);
    }

    #[test]
    fn the_size_counts_target_names_values_and_entries() {
        let request = Request::get("/a?b").header("x", "12345").header("y", "").body(()).expect("a request");
        assert_eq!(size_of(&request), 4 + 6 + 1 + 2 * ENTRY);
    }
}
