//! Which dialect is spoken for whom, and how long one that nobody uses is kept.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::group::{Group, IDLE_LIMIT};
use super::{Pool, State};
use crate::protocol::{Abilities, Era};
use crate::upstream::dialect::{Key, Wish};
use crate::upstream::error::Error;

/// Dialects beside the base one that may have connections at a time.
pub(super) const MAX_DIALECTS: usize = 16;
/// When it is worth coming again when there are too many.
const RETRY_IN: Duration = Duration::from_secs(5);

impl Pool {
    /// What is spoken for `wish`, as far as it is known what the server speaks; whether that is the
    /// base dialect.
    pub(super) fn key(&self, state: &State, wish: Wish<'_>) -> (Key, bool) {
        let speaks = |era| self.connector.speaks(era);
        let base = || {
            let era = if speaks(Era::Modern) == Some(false) { Era::Legacy } else { Era::Modern };
            let is_there = state.find(state.base).is_some_and(|group| !group.live.is_empty());
            if is_there { state.base } else { Key::BASE.in_era(era) }
        };
        let Wish::Of(call) = wish else { return (base(), true) };
        let era = match (call.era, speaks(Era::Modern), speaks(Era::Legacy)) {
            // Nothing is known yet: the base connection finds it out.
            (_, None, _) => return (base(), true),
            (Era::Modern, Some(true), _) | (Era::Legacy, _, Some(false)) => Era::Modern,
            (Era::Modern, Some(false), _) | (Era::Legacy, ..) => Era::Legacy,
        };
        let key = match era {
            Era::Modern => Key::BASE,
            Era::Legacy => {
                let abilities = self.connector.declares(Abilities::of(&call.sender.capabilities));
                Key { era, abilities }
            }
        };
        (key, false)
    }

    /// Stays with a dialect until nobody has used it for a while, and ends its connections.
    pub(super) async fn retire_when_idle(self: Arc<Self>, key: Key) {
        let mut due = Instant::now() + IDLE_LIMIT;
        loop {
            sleep_until(due).await;
            let mut state = self.lock();
            let base = state.base;
            let Some(at) = state.groups.iter().position(|group| group.key == key) else { return };
            let group = &state.groups[at];
            due = group.used() + IDLE_LIMIT;
            if due > Instant::now() {
                continue;
            }
            if key != base && !group.is_busy() && group.stamina.held_until().is_none() {
                state.groups.swap_remove(at).retire();
                return;
            }
            due = Instant::now() + IDLE_LIMIT;
        }
    }
}

impl State {
    /// The group of `key`, made if need be; another one ends if there are too many.
    pub(super) fn group(&mut self, key: Key) -> Result<usize, Error> {
        let base = self.base;
        if let Some(at) = self.groups.iter().position(|group| group.key == key) {
            if key != base {
                self.groups[at].touch();
            }
            return Ok(at);
        }
        if key != base && self.groups.len() > MAX_DIALECTS {
            let idle =
                self.groups.iter().enumerate().filter(|(_, group)| group.key != base && !group.is_busy());
            let oldest = idle.min_by_key(|(_, group)| group.used()).map(|(at, _)| at);
            let oldest = oldest.ok_or(Error::Overloaded { retry_in: RETRY_IN })?;
            self.groups.swap_remove(oldest).retire();
        }
        self.groups.push(Group::new(key));
        Ok(self.groups.len() - 1)
    }

    pub(super) fn find(&self, key: Key) -> Option<&Group> {
        self.groups.iter().find(|group| group.key == key)
    }

    /// The group of a connection that was wanted as `key` and turned out to speak `era`.
    pub(super) fn settled(&mut self, key: Key, era: Era) -> &mut Group {
        let actual = key.in_era(era);
        if key == self.base && key != actual {
            self.move_base(actual);
        }
        let at = self.groups.iter().position(|group| group.key == actual).unwrap_or_else(|| {
            self.groups.push(Group::new(actual));
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    /// The base dialect is another one: the server turned out to speak only that era.
    pub(super) fn move_base(&mut self, key: Key) {
        let before = std::mem::replace(&mut self.base, key);
        // Whoever waits for a connect in it holds its end.
        self.groups.retain(|group| group.key != before || !group.live.is_empty());
    }
}

#[cfg(test)]
#[path = "dialect_tests.rs"]
mod tests;
