//! Running actions that will write an audit line at their end, counted by principal.
//!
//! Invariants: the sum is bounded, and with it the number of lines to come. A principal may run at most [`ALPHA`] times
//! what is free (the rule of `memory`), so none takes the room of another one. A part is reserved for operations. A
//! principal without a running action costs nothing.
//!
//! It does not count lines that wait to be written (`log_queue`).

use std::collections::BTreeMap;

/// Audited actions that may run at a time.
pub(super) const RUNNING: usize = 16_384;
/// How many times the free part a principal may run.
const ALPHA: usize = 3;

#[derive(Debug)]
pub(super) struct Running {
    sum: usize,
    by_principal: BTreeMap<String, usize>,
}

impl Running {
    pub(super) const fn new() -> Self {
        Self { sum: 0, by_principal: BTreeMap::new() }
    }

    /// Counts one more action of `principal`, if it has room within `room`.
    pub(super) fn add(&mut self, principal: &str, room: usize) -> bool {
        let own = self.by_principal.get_mut(principal);
        let free = room.saturating_sub(self.sum + 1);
        if own.as_deref().map_or(0, |own| *own) + 1 > free.saturating_mul(ALPHA) {
            return false;
        }
        match own {
            Some(own) => *own += 1,
            None => drop(self.by_principal.insert(principal.to_owned(), 1)),
        }
        self.sum += 1;
        true
    }

    /// An action that was added has ended.
    pub(super) fn remove(&mut self, principal: &str) {
        let Some(own) = self.by_principal.get_mut(principal) else { return };
        *own -= 1;
        self.sum -= 1;
        if *own == 0 {
            self.by_principal.remove(principal);
        }
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
        assert!(!running.by_principal.contains_key("a") && running.sum == 393);
        running.remove("a");
        assert_eq!(running.sum, 393, "an unknown principal changes nothing");
    }
}
