//! Remembers which server each offered name or URI belongs to, so that none moves to another server unnoticed.
//!
//! Invariants: a name keeps its first owner until that server leaves the configuration or an operator gives the
//! name away. The memory for one server is bounded, and a server at that bound gets no further names.
//! Names are kept as hashes, so their length does not count.
//!
//! Not here: how names are made (`naming`), and the files that keep the owners between two runs (`remembered`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// Names remembered of one server at most: twice as many as one list may have.
const MAX_NAMES: usize = 20_000;

/// The first half of a SHA-256.
pub(super) type OwnerHash = [u8; 16];

/// Which server owns each name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    by_name: HashMap<OwnerHash, Arc<str>>,
    counts: HashMap<Arc<str>, usize>,
}

impl Owners {
    /// The server that owns `name`.
    pub fn owner(&self, name: &str) -> Option<&Arc<str>> {
        self.by_name.get(&hash(name))
    }

    /// Whether `name` belongs to `server` or to no server.
    pub(crate) fn is_free_for(&self, name: &str, server: &str) -> bool {
        self.owner(name).is_none_or(|owner| owner.as_ref() == server)
    }

    /// Makes `server` the owner of `name` unless another server is; returns whether it is the owner now.
    pub fn claim(&mut self, name: &str, server: &Arc<str>) -> bool {
        let hash = hash(name);
        if let Some(owner) = self.by_name.get(&hash) {
            return owner == server;
        }
        let count = self.counts.entry(Arc::clone(server)).or_default();
        if *count >= MAX_NAMES {
            return false;
        }
        *count += 1;
        self.by_name.insert(hash, Arc::clone(server));
        true
    }

    /// The number of remembered names.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Whether a server other than `servers` owns anything.
    pub fn has_others(&self, servers: &[Arc<str>]) -> bool {
        self.counts.iter().any(|(owner, count)| *count > 0 && !servers.contains(owner))
    }

    /// The hashes of the names that `server` owns, sorted.
    pub(super) fn names_of(&self, server: &str) -> Vec<OwnerHash> {
        let own = self.by_name.iter().filter(|(_, owner)| owner.as_ref() == server);
        let mut hashes: Vec<OwnerHash> = own.map(|(hash, _)| *hash).collect();
        hashes.sort_unstable();
        hashes
    }

    /// Makes `server` the owner of names that it had in an earlier run, unless another server is.
    pub(super) fn restore(&mut self, server: &Arc<str>, names: &[OwnerHash]) {
        let count = self.counts.entry(Arc::clone(server)).or_default();
        for name in names.iter().take(MAX_NAMES.saturating_sub(*count)) {
            if let Entry::Vacant(free) = self.by_name.entry(*name) {
                free.insert(Arc::clone(server));
                *count += 1;
            }
        }
    }

    /// Forgets the owner of `name`: an operator decided that another server may have it.
    pub fn release(&mut self, name: &str) {
        if let Some(owner) = self.by_name.remove(&hash(name))
            && let Some(count) = self.counts.get_mut(&owner)
        {
            *count -= 1;
        }
    }

    /// Forgets the names of servers that are not `seen`, and those that `all` says belong to another server which is.
    pub(super) fn follow(&mut self, all: &Self, is_seen: impl Fn(&str) -> bool) {
        let stays = |hash: &OwnerHash, owner: &Arc<str>| {
            let elsewhere = all.by_name.get(hash).is_some_and(|other| other != owner && is_seen(other));
            is_seen(owner) && !elsewhere
        };
        let counts = &mut self.counts;
        self.by_name.retain(|hash, owner| {
            let stays = stays(hash, owner);
            if !stays && let Some(count) = counts.get_mut(owner) {
                *count -= 1;
            }
            stays
        });
        self.counts.retain(|_, count| *count > 0);
    }

    /// Forgets the names of servers that `is_there` does not know.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.by_name.retain(|_, owner| is_there(owner));
        self.counts.retain(|owner, _| is_there(owner));
    }
}

fn hash(name: &str) -> OwnerHash {
    let whole: [u8; 32] = Sha256::digest(name).into();
    std::array::from_fn(|at| whole[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_with_its_first_owner_until_it_is_released() {
        let (good, evil): (Arc<str>, Arc<str>) = ("good".into(), "evil".into());
        let mut owners = Owners::default();
        assert!(owners.claim("x", &good) && owners.claim("x", &good) && !owners.claim("x", &evil));
        assert!(owners.is_free_for("x", "good") && !owners.is_free_for("x", "evil"));
        owners.release("x");
        assert!(owners.claim("x", &evil));
        owners.retain(|server| server == "good");
        assert!(owners.claim("x", &good));
    }

    #[test]
    fn a_server_at_its_bound_gets_no_further_names_and_others_do() {
        let (good, evil): (Arc<str>, Arc<str>) = ("good".into(), "evil".into());
        let mut owners = Owners::default();
        assert!((0..MAX_NAMES).all(|number| owners.claim(&number.to_string(), &evil)));
        assert!(!owners.claim("more", &evil) && owners.claim("more", &good) && owners.claim("0", &evil));
        assert_eq!(owners.by_name.len(), MAX_NAMES + 1);
    }
}
