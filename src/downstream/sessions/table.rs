//! The sessions by their ids and by whose they are, and which one goes when there is no room.
//!
//! Invariants: when it is full, a principal that has at least two sessions fewer than another one still
//! gets one: the other's that was unused for longest goes, and never one in use. So nobody can lock others
//! out, a principal's only session is never taken, and no two take from each other in turn. What it costs
//! to make room, or to find none, does not grow with the table.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

use super::Session;

/// So many sessions of one principal are looked at for one that is not in use, or was not used lately.
const LOOKS: usize = 64;
/// Of so many principals, those that have most.
const LARGEST: usize = 4;

/// The sessions.
pub(super) struct Table {
    max: usize,
    by_id: HashMap<Arc<str>, Entry>,
    by_owner: HashMap<Arc<str>, Ages>,
    /// How many sessions each principal has, fewest first.
    ranking: BTreeSet<(usize, Arc<str>)>,
}

/// The ids of one principal's sessions, by when each was last used as far as was noted here: it was used
/// then or later.
type Ages = BTreeSet<(Instant, Arc<str>)>;

struct Entry {
    session: Arc<Session>,
    noted: Instant,
}

impl Table {
    pub(super) fn new(max: usize) -> Self {
        Self { max, by_id: HashMap::new(), by_owner: HashMap::new(), ranking: BTreeSet::new() }
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
        let (id, noted) = (Arc::clone(&session.id), Instant::now());
        self.change(session.owner(), |ages| ages.insert((noted, Arc::clone(&id))));
        self.by_id.insert(id, Entry { session, noted });
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        let (id, Entry { session, noted }) = self.by_id.remove_entry(id)?;
        self.change(session.owner(), |ages| ages.remove(&(noted, id)));
        Some(session)
    }

    /// Takes out the session that goes for one more of `owner`; none where none may.
    pub(super) fn displaced_by(&mut self, owner: &str) -> Option<Arc<Session>> {
        let fair = self.by_owner.get(owner).map_or(0, BTreeSet::len) + 2;
        let larger = self.ranking.iter().rev().take_while(|(count, _)| *count >= fair).take(LARGEST);
        let larger: Vec<_> = larger.map(|(_, owner)| Arc::clone(owner)).collect();
        let id = larger.iter().find_map(|owner| self.longest_unused(owner))?;
        self.remove(&id)
    }

    /// The session of `owner` that was unused for longest; of very many in use at once, of those that
    /// were looked at.
    fn longest_unused(&mut self, owner: &str) -> Option<Arc<str>> {
        let ages = self.by_owner.get_mut(owner)?;
        let mut longest: Option<(Instant, Arc<str>)> = None;
        for _ in 0..LOOKS {
            let (noted, id) = ages.pop_first()?;
            let entry = self.by_id.get_mut(&id)?;
            let unused_since = entry.session.unused_since();
            entry.noted = unused_since.unwrap_or_else(Instant::now);
            ages.insert((entry.noted, Arc::clone(&id)));
            let Some(since) = unused_since else { continue };
            if longest.as_ref().is_none_or(|(longest, _)| since < *longest) {
                longest = Some((since, id));
            }
            // All others were used then or later.
            if since == noted {
                break;
            }
        }
        longest.map(|(_, id)| id)
    }

    /// Changes what is noted of the sessions of `owner`, and keeps the ranking true.
    fn change(&mut self, owner: &Arc<str>, change: impl FnOnce(&mut Ages) -> bool) {
        let ages = self.by_owner.entry(Arc::clone(owner)).or_default();
        let before = ages.len();
        change(ages);
        let now = ages.len();
        self.ranking.remove(&(before, Arc::clone(owner)));
        if now == 0 {
            self.by_owner.remove(owner);
        } else {
            self.ranking.insert((now, Arc::clone(owner)));
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
