//! Background work for Redis: reconnecting, and removing forgotten values.
//!
//! Invariants: there is one attempt to connect at a time, with growing pauses. Redis is used again only after it
//! answered and received every pending invalidation. Removing only frees memory, because forgotten values are already
//! invalid. It runs in steps, spares valid values, and stops at a fault.

use std::time::Duration;

use tokio::time::sleep;

use super::{EPOCH, Redis};
use crate::redis_link::{CommandError, Link};
use crate::store::Group;

/// The pause between two attempts to connect, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Names that are scanned in one step.
const STEP: usize = 500;
/// Steps for one group.
const STEPS: usize = 10_000;

impl Redis {
    pub(super) async fn maintain_forever(&self) {
        let (first, most) = PAUSE;
        let mut pause = first;
        loop {
            let Some((id, link)) = self.link() else {
                if let Err(fault) = self.reconnect().await {
                    self.away(&fault);
                    sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
                    pause = most.min(pause * 2);
                } else {
                    pause = first;
                }
                continue;
            };
            let Some(group) = self.next_sweep() else {
                self.work.notified().await;
                continue;
            };
            let swept = self.sweep(&link, &group).await;
            self.heard(id, swept);
        }
    }

    fn away(&self, fault: &CommandError) {
        self.state().leave(fault);
    }

    fn next_sweep(&self) -> Option<Group> {
        self.state().sweeps.pop_front()
    }

    /// Connects, sends the pending invalidations, and makes the link available to callers.
    async fn reconnect(&self) -> Result<(), CommandError> {
        let link = Link::open(&self.options.address, self.options.command_timeout).await?;
        while let Some(group) = self.take_pending_or_open(&link) {
            self.renew(&link, &group).await?;
            self.paid(&group);
        }
        tracing::info!("redis is there");
        Ok(())
    }

    /// Returns one pending group. If there is none, makes `link` available to callers.
    fn take_pending_or_open(&self, link: &Link) -> Option<Group> {
        let mut state = self.state();
        if let Some(group) = state.pending.first() {
            return Some(group.clone());
        }
        state.links += 1;
        state.link = Some((state.links, link.clone()));
        (state.faults, state.is_told) = (0, false);
        None
    }

    fn paid(&self, group: &Group) {
        self.state().pending.retain(|owed| owed != group);
        self.sweep_later(group);
    }

    /// Removes the invalid values of `group`.
    async fn sweep(&self, link: &Link, group: &Group) -> Result<(), CommandError> {
        let epoch = link.get(&[self.epoch_name(group.prefix())]).await?.pop().flatten();
        let Some(epoch) = epoch else { return Ok(()) };
        let level = group.depth() * EPOCH;
        let (prefix, mut cursor) = (self.value_name(group.prefix()), 0);
        for _ in 0..STEPS {
            let (next, names) = link.scan(cursor, &prefix, STEP).await?;
            if !names.is_empty() {
                link.unlink_unless(&names, level..=level + EPOCH - 1, &epoch).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
        tracing::debug!("there is too much in redis to clear up all of it");
        Ok(())
    }
}
