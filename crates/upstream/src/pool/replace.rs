//! Replaces a connection with an unanswered cancelled call, for stdio and HTTP+SSE. There a server request does not say
//! which call it belongs to. A request of the cancelled call could therefore reach another client.
//!
//! Invariants: a connection is replaced when a client that can be asked wants it and the cancelled call of another
//! client had no answer in time. Until its successor is there, it takes the calls of all others. A replaced
//! connection takes no new calls and ends with those on it. It waits at most 30 s for answers of cancelled calls.
//! At most four replaced connections of a dialect are there at a time. Without a successor it is kept for 30 s.
//!
//! Not here: server requests on a replaced connection (`transport/questions`), and connecting (`lifetime`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Pool;
use super::group::Group;
use super::live::{ConnectionClaim, Live};
use crate::connection::{Owner, Unanswered};
use protocol::Abilities;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;

/// How long a replaced connection waits for the answers of cancelled calls.
const UNANSWERED_LIMIT: Duration = Duration::from_secs(30);
/// How often a replaced connection is checked for the end of its calls.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long connections stay in use when too many were replaced.
const PAUSE: Duration = Duration::from_secs(5);

impl ConnectionClaim<'_> {
    /// Whether its client can answer a server request that a connection with `abilities` declares.
    fn can_be_asked(self, abilities: Abilities) -> bool {
        self.capabilities.is_some_and(|capabilities| Abilities::of(capabilities).meets(abilities))
    }
}

impl Group {
    /// Whether `claim` must not have a call on `live`, because of another client's cancelled call.
    pub(super) fn blocks(&self, live: &Live, claim: ConnectionClaim<'_>) -> bool {
        self.unanswered(live, claim).is_some()
    }

    fn unanswered(&self, live: &Live, claim: ConnectionClaim<'_>) -> Option<Unanswered> {
        let unanswered = live.connection.unanswered(claim.owner?)?;
        let may_ask = self.is_known_to_ask() || !unanswered.is_quiet;
        let counts = may_ask && !self.replacement.keeps() && claim.can_be_asked(live.key.abilities);
        counts.then_some(unanswered)
    }

    /// The cancelled calls that keep `claim` off a connection, those with the earliest end first.
    pub(super) fn blocking_calls(&self, claim: ConnectionClaim<'_>) -> Option<Unanswered> {
        let all = self.live.iter().filter_map(|live| self.unanswered(live, claim));
        all.min_by_key(|unanswered| unanswered.until)
    }

    /// Removes the connections that now have a successor. Returns whether there were any.
    pub(super) fn replace(&mut self) -> bool {
        let due = std::mem::take(&mut self.replacement.due);
        for old in &due {
            self.live.retain(|live| !Arc::ptr_eq(live, old));
            self.replacement.add_outgoing(old);
        }
        !due.is_empty()
    }
}

impl Pool {
    /// Connects for `claim`, which cancelled calls keep off all connections. Without room for another connection, the
    /// present ones stay in use.
    pub(super) fn begin_replacement(
        self: &Arc<Self>,
        group: &mut Group,
        claim: ConnectionClaim<'_>,
        tasks: &Shutdown,
    ) {
        if group.connecting.is_some() {
            return; // the callers that wait for it check again then
        }
        if !group.replacement.has_room() {
            group.replacement.keep_for(PAUSE);
            return Limit::ReplacedConnections.met(());
        }
        if group.no_extra_before.is_some_and(|before| Instant::now() < before) {
            return group.replacement.keep_for(PAUSE);
        }
        let is_over = |live: &&Arc<Live>| group.unanswered(live, claim).is_some_and(|calls| calls.is_over());
        group.replacement.due = group.live.iter().filter(is_over).cloned().collect();
        self.begin_connect(group, tasks);
    }
}

/// Resolves when the calls on a replaced connection have ended, or their time is over.
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
