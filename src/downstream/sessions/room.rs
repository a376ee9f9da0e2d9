//! How clients get in where there is little room: sessions that are to be forgotten go first, and then the
//! unused ones of whoever has most (`table`).
//!
//! Invariant: who finds no room costs no more than who does.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::super::places::{Full, Place};
use super::{Session, Sessions};
use crate::telemetry::limit::Limit;

/// The shortest time between two looks for what is to be forgotten.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Sessions {
    /// A place for a client of the principal `owner`; when all are taken, that of the session which goes for it.
    pub fn place_for(&self, owner: &str) -> Result<Place, Full> {
        let place = self.places.take().or_else(|full| {
            let displaced = self.write().displaced_by(owner);
            displaced.ok_or(full)?.give_way();
            self.places.take()
        });
        place.map_err(|full| Limit::Connections.met(full))
    }

    /// Puts it into the table; none where it has no room.
    pub(super) fn add(&self, session: Session) -> Option<Arc<Session>> {
        let session = Arc::new(session);
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
        // Whoever looks through the table when a credential is taken back may have done so by now.
        if session.is_taken_back() {
            self.close(&session);
        }
        Some(session)
    }

    /// Whether it is long enough ago that somebody looked for sessions to be forgotten.
    fn may_look(&self) -> bool {
        let swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        swept.is_none_or(|swept| swept.elapsed() >= LOOK_EVERY)
    }
}
