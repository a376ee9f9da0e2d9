//! Replaces a connection on which a cancelled call was left unanswered, for stdio and HTTP+SSE. There requests of the
//! server do not say which call they belong to, so one of the cancelled call could be taken for another client's.
//!
//! Invariants: a connection is replaced when a client that can be asked wants it and the cancelled call of another
//! client had no answer in time. Until its successor is there, it takes the calls of all others. A replaced
//! connection takes no new calls and ends with those on it. It waits at most 30 s for answers of cancelled calls.
//! At most four replaced connections of a dialect are there at a time. Without a successor it is kept for 30 s.
//!
//! Not here: requests that come meanwhile (`transport/questions`), and connecting (`lifetime`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Pool;
use super::group::{Group, Live, Sitter};
use crate::connection::{Owner, Unanswered};
use protocol::Abilities;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;

/// How long a replaced connection waits for the answers of cancelled calls.
const UNANSWERED_LIMIT: Duration = Duration::from_secs(30);
/// Replaced connections of one dialect that may still be there.
const MAX_OUTGOING: usize = 4;
/// How often it is looked whether the calls on a replaced connection are over.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long connections are kept when too many were replaced.
const PAUSE: Duration = Duration::from_secs(5);

/// Which connections of a dialect are being replaced, and which were.
#[derive(Default)]
pub(super) struct Replacement {
    /// To be replaced by the connection that is being made.
    due: Vec<Arc<Live>>,
    outgoing: Vec<Weak<Live>>,
    /// Until when connections are kept, because there is no successor.
    kept_until: Option<Instant>,
}

impl Replacement {
    /// Those that were replaced and are still there.
    pub(super) fn outgoing(&mut self) -> Vec<Arc<Live>> {
        std::mem::take(&mut self.outgoing).iter().filter_map(Weak::upgrade).collect()
    }

    /// Keeps the connections for a while.
    pub(super) fn keep_for(&mut self, pause: Duration) {
        self.due.clear();
        self.kept_until = Some(Instant::now() + pause);
    }

    /// Whether connections wait to be replaced.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    fn keeps(&self) -> bool {
        self.kept_until.is_some_and(|until| Instant::now() < until)
    }

    fn has_room(&mut self) -> bool {
        self.outgoing.retain(|live| live.strong_count() > 0);
        self.outgoing.len() < MAX_OUTGOING
    }
}

impl Sitter<'_> {
    /// Whether its client can be asked something that a connection with `abilities` declares.
    fn can_be_asked(self, abilities: Abilities) -> bool {
        self.capabilities.is_some_and(|capabilities| Abilities::of(capabilities).meets(abilities))
    }
}

impl Group {
    /// Whether `sitter` must not have a call on `live`, because of a cancelled call of somebody else.
    pub(super) fn holds_up(&self, live: &Live, sitter: Sitter<'_>) -> bool {
        self.unanswered(live, sitter).is_some()
    }

    fn unanswered(&self, live: &Live, sitter: Sitter<'_>) -> Option<Unanswered> {
        let unanswered = live.connection.unanswered(sitter.owner?)?;
        let may_ask = self.is_known_to_ask() || !unanswered.is_quiet;
        let counts = may_ask && !self.replacement.keeps() && sitter.can_be_asked(live.key.abilities);
        counts.then_some(unanswered)
    }

    /// The cancelled calls that keep `sitter` off a connection, those that are waited for no longer first.
    pub(super) fn held_up_by(&self, sitter: Sitter<'_>) -> Option<Unanswered> {
        let all = self.live.iter().filter_map(|live| self.unanswered(live, sitter));
        all.min_by_key(|unanswered| unanswered.until)
    }

    /// Moves the connections that have a successor now out of the way; whether there were any.
    pub(super) fn replace(&mut self) -> bool {
        let due = std::mem::take(&mut self.replacement.due);
        for old in &due {
            self.live.retain(|live| !Arc::ptr_eq(live, old));
            self.replacement.outgoing.push(Arc::downgrade(old));
            old.replaced.cancel();
        }
        !due.is_empty()
    }
}

impl Pool {
    /// Connects anew for `sitter`, which cancelled calls keep off the connections; without room for another
    /// one they are kept.
    pub(super) fn begin_replacement(
        self: &Arc<Self>,
        group: &mut Group,
        sitter: Sitter<'_>,
        tasks: &Shutdown,
    ) {
        if group.connecting.is_some() {
            return; // whoever waits for it looks again then
        }
        if !group.replacement.has_room() {
            group.replacement.keep_for(PAUSE);
            return Limit::ReplacedConnections.met(());
        }
        if group.no_extra_before.is_some_and(|before| Instant::now() < before) {
            return group.replacement.keep_for(PAUSE);
        }
        let is_over = |live: &&Arc<Live>| group.unanswered(live, sitter).is_some_and(|calls| calls.is_over());
        group.replacement.due = group.live.iter().filter(is_over).cloned().collect();
        self.begin_connect(group, tasks);
    }
}

/// Resolves when the calls on a connection that was replaced are over, or waited for no longer.
pub(super) async fn runs_out(live: &Live) {
    let until = Instant::now() + UNANSWERED_LIMIT;
    loop {
        let is_unanswered = live.connection.unanswered(Owner::GATEWAY).is_some() && Instant::now() < until;
        if !is_unanswered && live.requests.load(Ordering::Relaxed) == 0 {
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
#[path = "replace_tests.rs"]
mod tests;
