//! The sessions by id and by principal, and which session gives up its slot when all slots are taken.
//!
//! Invariants: a session with an open stream or a running request is never taken out. The principal that needs the
//! slot gives up its own unused session first. Next comes a principal that has at least two sessions more, then
//! whichever session was unused for longest. The search finds an unused session whenever there is one. Its
//! cost does not grow with the table: a session found in use is set aside until it is unused again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Session;

/// Principals among those with the most sessions that are searched for an unused session.
const LARGEST: usize = 4;

/// The sessions.
pub(super) struct SessionTable {
    max: usize,
    by_id: HashMap<Arc<str>, SessionEntry>,
    by_owner: HashMap<Arc<str>, Owned>,
    /// All sessions that are not set aside.
    ages: Ages,
    /// How many sessions each principal has, fewest first.
    ranking: BTreeSet<(usize, Arc<str>)>,
    returned: Returned,
}

/// Session ids by the last use noted here. The real last use is then or later.
type Ages = BTreeSet<(Instant, Arc<str>)>;

/// The sessions of one principal.
#[derive(Default)]
struct Owned {
    count: usize,
    ages: Ages,
}

struct SessionEntry {
    session: Arc<Session>,
    /// Its time in [`Ages`]; `None` while it is set aside because it is in use.
    noted: Option<Instant>,
}

/// Ids of sessions that were set aside and are unused again. Clones share one list.
#[derive(Debug, Clone, Default)]
pub(super) struct Returned(Arc<Mutex<Vec<Arc<str>>>>);

impl Returned {
    pub(super) fn push(&self, id: &Arc<str>) {
        self.lock().push(Arc::clone(id));
    }

    fn take(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<str>>> {
        // Nothing panics while it is held, and every write leaves a valid list.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionTable {
    /// An empty table; sessions report to `returned` that they are unused again.
    pub(super) fn new(max: usize, returned: Returned) -> Self {
        Self {
            max,
            by_id: HashMap::new(),
            by_owner: HashMap::new(),
            ages: Ages::new(),
            ranking: BTreeSet::new(),
            returned,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Session>> {
        self.by_id.get(id).map(|entry| &entry.session)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.by_id.values().map(|entry| &entry.session)
    }

    pub(super) fn insert(&mut self, session: Arc<Session>) {
        let (id, owner) = (Arc::clone(&session.id), Arc::clone(session.owner()));
        self.by_id.insert(Arc::clone(&id), SessionEntry { session, noted: None });
        self.count(&owner, |count| count + 1);
        self.record(&id, Instant::now());
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        self.set_aside(id);
        let session = self.by_id.remove(id)?.session;
        self.count(&Arc::clone(session.owner()), |count| count - 1);
        Some(session)
    }

    /// Takes out the session that gives up its slot for one more session of `owner`. `None` if all are in use.
    pub(super) fn displaced_by(&mut self, owner: &str) -> Option<Arc<Session>> {
        self.note_returned();
        let fair = self.by_owner.get(owner).map_or(0, |owned| owned.count) + 2;
        let larger = self.ranking.iter().rev().take_while(|(count, _)| *count >= fair).take(LARGEST);
        let larger: Vec<_> = larger.map(|(_, owner)| Arc::clone(owner)).collect();
        let id = self.longest_unused(Some(owner));
        let id = id.or_else(|| larger.iter().find_map(|owner| self.longest_unused(Some(owner))));
        let id = id.or_else(|| self.longest_unused(None))?;
        self.remove(&id)
    }

    /// Takes out the session of `owner` that was unused for longest. `None` if all of them are in use.
    pub(super) fn displaced_of(&mut self, owner: &str) -> Option<Arc<Session>> {
        self.note_returned();
        let id = self.longest_unused(Some(owner))?;
        self.remove(&id)
    }

    /// Notes the sessions that reported that they are unused again.
    fn note_returned(&mut self) {
        for id in self.returned.take() {
            if let Some(since) = self.get(&id).and_then(|session| session.unused_or_set_aside()) {
                self.record(&id, since);
            }
        }
    }

    /// The session that was unused for longest: of `owner`, or of all.
    fn longest_unused(&mut self, owner: Option<&str>) -> Option<Arc<str>> {
        loop {
            let ages = match owner {
                Some(owner) => &self.by_owner.get(owner)?.ages,
                None => &self.ages,
            };
            let (noted, id) = ages.first()?.clone();
            let unused_since = self.get(&id)?.unused_or_set_aside();
            if unused_since == Some(noted) {
                return Some(id); // all others were used then or later
            }
            match unused_since {
                Some(since) => self.record(&id, since),
                None => self.set_aside(&id),
            }
        }
    }

    /// Notes that the session `id` was last used at `since`.
    fn record(&mut self, id: &str, since: Instant) {
        self.set_aside(id);
        let Some((id, entry)) = self.by_id.get_key_value(id) else { return };
        let (id, owner) = (Arc::clone(id), Arc::clone(entry.session.owner()));
        self.ages.insert((since, Arc::clone(&id)));
        self.by_owner.entry(owner).or_default().ages.insert((since, Arc::clone(&id)));
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.noted = Some(since);
        }
    }

    /// Takes the session `id` out of the ages.
    fn set_aside(&mut self, id: &str) {
        let Some((id, _)) = self.by_id.get_key_value(id) else { return };
        let id = Arc::clone(id);
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        let Some(noted) = entry.noted.take() else { return };
        if let Some(owned) = self.by_owner.get_mut(entry.session.owner()) {
            owned.ages.remove(&(noted, Arc::clone(&id)));
        }
        self.ages.remove(&(noted, id));
    }

    /// Changes how many sessions `owner` has, in the ranking too.
    fn count(&mut self, owner: &Arc<str>, change: impl FnOnce(usize) -> usize) {
        let its = self.by_owner.entry(Arc::clone(owner)).or_default();
        self.ranking.remove(&(its.count, Arc::clone(owner)));
        its.count = change(its.count);
        if its.count == 0 {
            self.by_owner.remove(owner);
        } else {
            self.ranking.insert((its.count, Arc::clone(owner)));
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
