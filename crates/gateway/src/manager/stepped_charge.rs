//! A charge for records that come one by one, such as calls and events.
//!
//! Invariant: it changes in steps, so few records ask the memory budget.

use runtime::memory::{Account, Charge, ChargeKind};

/// The size of a step.
const STEP: usize = 64 * 1024;

/// A charge that changes in steps.
#[derive(Debug)]
pub(super) struct SteppedCharge {
    charge: Charge,
    charged: usize,
}

impl SteppedCharge {
    pub(super) fn new() -> Self {
        Self::of(Charge::open(Account::LiveEvents, ChargeKind::Notice))
    }

    /// Changes `charge`, which is empty.
    pub(super) const fn of(charge: Charge) -> Self {
        Self { charge, charged: 0 }
    }

    /// Whether the budget has room for so many bytes, which it then holds.
    pub(super) fn covers(&mut self, bytes: usize) -> bool {
        bytes <= self.charged || {
            let needed = bytes.next_multiple_of(STEP);
            let has_room = self.charge.resize(needed).is_ok();
            self.charged = if has_room { needed } else { self.charged };
            has_room
        }
    }

    pub(super) fn clear(&mut self) {
        self.charge.clear();
        self.charged = 0;
    }
}
