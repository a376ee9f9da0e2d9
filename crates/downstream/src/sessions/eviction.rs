//! Slots for clients: if all are taken, an unused session gives up its slot (`table`).
//!
//! Invariants: a client is refused only if every slot belongs to a session in use or to a running request. A
//! refused client costs no more than an accepted one.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Session, Sessions};
use crate::admission::{Full, Slot};
use auth::Principal;
use gateway::era;
use protocol::Notification;
use runtime::telemetry::limit::Limit;
use upstream::ClientSession;

/// The shortest interval between two sweeps.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Sessions {
    /// Takes a slot for a client of the principal `owner`. If all are taken, an unused session gives up its
    /// slot. If only the share of the principal is taken, it has to be a session of its own.
    pub fn place_for(&self, owner: &str) -> Result<Slot, Full> {
        let named = Some(owner).filter(|owner| !Principal::is_anonymous_id(owner) && !owner.is_empty());
        let place = self.places.take(named).or_else(|full| {
            let mut table = self.write();
            let displaced = if full.is_share { table.displaced_of(owner) } else { table.displaced_by(owner) };
            drop(table);
            let place = displaced.and_then(|session| session.give_way());
            place.map(|place| place.moved_to(named)).ok_or(full)
        });
        place.map_err(|full| Limit::Connections.met(full))
    }

    /// Adds a session to the table; none if there is no room.
    pub(super) fn add(&self, session: Session) -> Option<Arc<Session>> {
        let session = Arc::new(session);
        session.caller.affinity.belongs_to(&session);
        if self.count() >= self.max && self.may_look() {
            self.sweep();
        }
        let mut table = self.write();
        let displaced = if table.is_full() { Some(table.displaced_by(session.owner())?) } else { None };
        table.insert(Arc::clone(&session));
        drop(table);
        if let Some(displaced) = displaced {
            displaced.give_way();
        }
        // A sweep for revoked credentials may have run before the session was added.
        if session.is_revoked() {
            self.close(&session);
        }
        Some(session)
    }

    /// Whether the last sweep was long enough ago.
    fn may_look(&self) -> bool {
        let swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.is_none_or(|swept| swept.elapsed() >= LOOK_EVERY)
    }
}

impl Session {
    /// Ends an unused session and returns its slot for another client.
    fn give_way(&self) -> Option<Slot> {
        tracing::debug!(owner = %self.owner(), "ended the session that was unused for longest: all slots are taken");
        let place = self.state().place.take();
        self.end();
        place
    }

    /// Since when the session is unused, for the table. A session in use notifies the table later.
    pub(super) fn unused_or_set_aside(&self) -> Option<Instant> {
        let mut state = self.state();
        state.is_set_aside = state.open > 0;
        (state.open == 0).then_some(state.last_used)
    }
}

impl ClientSession for Session {
    fn unused_since(&self) -> Option<Instant> {
        // A channel is in use as long as its session lasts.
        if self.is_channel { None } else { Self::unused_since(self) }
    }

    fn notice(&self, notice: Notification) {
        if let Some(mailbox) = &self.caller.mailbox
            && let Some(notice) = era::notice(&self.caller, notice, None)
        {
            mailbox.put(notice, None);
        }
    }

    fn displace(&self) {
        drop(self.give_way());
    }
}
