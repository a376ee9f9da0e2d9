//! The deadline of a call: a fixed time, or some time after the last message of its server.
//!
//! Invariants: a message only extends a deadline, and never beyond its fixed end. A deadline that the caller chose is
//! fixed.
//!
//! Not here: when messages arrived, and pauses while a server request is open (`call_events`).

use std::time::Duration;

use tokio::time::Instant;

/// The deadline of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// The end, unless the server sends a message before.
    pub at: Instant,
    /// How messages extend it; `None` if they do not.
    pub(super) moves: Option<Moves>,
}

/// How far messages extend a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moves {
    /// The time from one message of the server to the next.
    pub idle: Duration,
    /// The latest end, whatever messages arrive.
    pub last: Instant,
}

impl Deadline {
    /// A deadline `idle` after `started` or after the last message of the call, but at most `most` after `started`.
    pub fn moving(started: Instant, idle: Duration, most: Duration) -> Self {
        Self { at: started + idle, moves: Some(Moves { idle, last: started + most }) }
    }

    /// The end after a message at `heard`.
    pub(super) fn after(self, heard: Option<Instant>) -> Instant {
        match (self.moves, heard) {
            (Some(Moves { idle, last }), Some(heard)) => self.at.max(last.min(heard + idle)),
            _ => self.at,
        }
    }

    /// Returns the deadline with `margin` added.
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
        let (started, second) = (Instant::now(), Duration::from_secs(1));
        let moving = Deadline::moving(started, 30 * second, 100 * second);
        let seconds = |deadline: Deadline, heard: Option<u32>| {
            (deadline.after(heard.map(|heard| started + heard * second)) - started).as_secs()
        };
        assert_eq!(
            [None, Some(0), Some(20), Some(80)].map(|heard| seconds(moving, heard)),
            [30, 30, 50, 100]
        );
        assert_eq!(seconds(moving.plus(second), Some(20)), 51);
        assert_eq!(seconds((started + 30 * second).into(), Some(20)), 30, "a fixed one does not move");
    }
}
