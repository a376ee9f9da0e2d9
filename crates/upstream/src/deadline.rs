//! When the time of a call is over: at a fixed time, or some time after the last message of its server.
//!
//! Invariants: a message only ever moves a deadline away, and never beyond the last moment that it has; a
//! deadline that its caller chose does not move.
//!
//! Not here: when messages arrived, and pauses while a person is asked (`call_events`).

use std::time::Duration;

use tokio::time::Instant;

/// When the time of a call is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// When it is over unless the server sends a message before.
    pub at: Instant,
    /// How messages move it; none: they do not.
    pub(super) moves: Option<Moves>,
}

/// How far messages move a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moves {
    /// Time that the server has from one message to the next.
    pub idle: Duration,
    /// The end, whatever arrives.
    pub last: Instant,
}

impl Deadline {
    /// `idle` after `begun`, or after the last message of the call, but `most` after `begun` at the latest.
    pub fn moving(begun: Instant, idle: Duration, most: Duration) -> Self {
        Self { at: begun + idle, moves: Some(Moves { idle, last: begun + most }) }
    }

    /// Where it is after a message at `heard`.
    pub(super) fn after(self, heard: Option<Instant>) -> Instant {
        match (self.moves, heard) {
            (Some(Moves { idle, last }), Some(heard)) => self.at.max(last.min(heard + idle)),
            _ => self.at,
        }
    }

    /// It with `margin` more.
    #[must_use]
    pub fn plus(self, margin: Duration) -> Self {
        let moves = self.moves.map(|Moves { idle, last }| Moves { idle: idle + margin, last: last + margin });
        Self { at: self.at + margin, moves }
    }
}

/// A deadline that does not move.
impl From<Instant> for Deadline {
    fn from(at: Instant) -> Self {
        Self { at, moves: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_move_it_away_up_to_the_last_moment() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let moving = Deadline::moving(begun, 30 * second, 100 * second);
        let seconds = |deadline: Deadline, heard: Option<u32>| {
            (deadline.after(heard.map(|heard| begun + heard * second)) - begun).as_secs()
        };
        assert_eq!(
            [None, Some(0), Some(20), Some(80)].map(|heard| seconds(moving, heard)),
            [30, 30, 50, 100]
        );
        assert_eq!(seconds(moving.plus(second), Some(20)), 51);
        assert_eq!(seconds((begun + 30 * second).into(), Some(20)), 30, "a fixed one does not move");
    }
}
