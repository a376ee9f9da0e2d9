//! Memory for the heads of requests, in sum over all connections of the program.
//!
//! Invariants: the first [`FREE`] bytes of each head are not counted, so an ordinary request never touches the
//! counter that all connections share, and is never refused here. The rest of all heads takes at most [`IN_SUM`].
//! A [`Share`] that is dropped gives its bytes back.
//!
//! Not here: the size of one head (`listener`), when a head begins and ends (`activity`), bodies (`body_budget`).

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;

/// Bytes of each head that are not counted.
pub(super) const FREE: usize = 4 * 1024;
/// The largest sum of the bytes that are counted.
const IN_SUM: usize = 16 * 1024 * 1024;
/// Bytes that the header map takes for each entry, beside the name and the value.
const ENTRY: usize = 112;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The bytes of one head in the sum.
#[derive(Debug, Default)]
pub(super) struct Share(usize);

impl Share {
    /// Grows or shrinks to what a head of `bytes` takes. False if there is no room; then nothing is taken.
    #[must_use]
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let needed = bytes.saturating_sub(FREE);
        if needed <= self.0 {
            TAKEN.fetch_sub(self.0 - needed, Ordering::Relaxed);
            self.0 = needed;
            return true;
        }
        let more = needed - self.0;
        if TAKEN.fetch_add(more, Ordering::Relaxed) + more > IN_SUM {
            TAKEN.fetch_sub(more + std::mem::take(&mut self.0), Ordering::Relaxed);
            return false;
        }
        self.0 = needed;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.0 > 0 {
            TAKEN.fetch_sub(self.0, Ordering::Relaxed);
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

    // One test, because the counter belongs to the process.
    #[test]
    fn heads_share_one_sum_and_small_ones_are_free() {
        let most = IN_SUM / 1_000;
        let mut shares: Vec<Share> = Vec::new();
        let full = loop {
            let mut share = Share::default();
            if !share.resize(most + FREE) {
                break share;
            }
            shares.push(share);
        };
        assert_eq!((shares.len(), full.0), (1_000, 0));
        let mut small = Share::default();
        assert!(small.resize(FREE), "a small head needs no room");
        assert!(!small.resize(2 * FREE + most));
        assert!(shares[0].resize(FREE) && small.resize(FREE + most), "what one gives back another one takes");
        drop((shares, small, full));
        assert_eq!(TAKEN.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_size_counts_target_names_values_and_entries() {
        let request = Request::get("/a?b").header("x", "12345").header("y", "").body(()).expect("a request");
        assert_eq!(size_of(&request), 4 + 6 + 1 + 2 * ENTRY);
    }
}
