//! Running actions that will write an audit line at their end, counted by principal.
//!
//! Invariants: the sum is bounded, and with it the number of lines to come. Each principal has a fair share
//! ([`FairShares`]), so none takes the room of another one. A part is reserved for operations. A principal without a
//! running action costs nothing.
//!
//! It does not count lines that wait to be written (`log_queue`).

use crate::fair_shares::FairShares;

/// Audited actions that may run at a time.
pub(super) const RUNNING: usize = 16_384;

/// The running actions of each principal.
#[derive(Debug)]
pub(super) struct Running(FairShares<String, 3>);

impl Running {
    pub(super) const fn new() -> Self {
        Self(FairShares::new())
    }

    /// Counts one more action of `principal`, if it has room within `room`.
    pub(super) fn add(&mut self, principal: &str, room: usize) -> bool {
        let free = room.saturating_sub(self.0.sum() + 1);
        self.0.take(principal, 1, free).is_ok()
    }

    /// An action that was added has ended.
    pub(super) fn remove(&mut self, principal: &str) {
        self.0.give_back(principal, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(running: &mut Running, principal: &str) -> usize {
        std::iter::repeat_with(|| running.add(principal, 1_600)).take_while(|added| *added).count()
    }

    #[test]
    fn no_principal_takes_the_room_of_another_one() {
        let mut running = Running::new();
        assert_eq!((fill(&mut running, "a"), fill(&mut running, "b")), (1_200, 300));
        let late: Vec<usize> = ["c", "d"].map(|principal| fill(&mut running, principal)).into();
        assert_eq!(late, [75, 18]);
        (0..1_200).for_each(|_| running.remove("a"));
        assert_eq!((running.0.len(), running.0.sum()), (3, 393), "`a` costs nothing");
        running.remove("a");
        assert_eq!(running.0.sum(), 393, "an unknown principal changes nothing");
    }
}
