//! Calls that were given up a moment ago, for which a server may still speak because it need not know that yet.
//!
//! Invariants: each counts for five seconds, unless its late answer says before that it has ended there too;
//! none is forgotten before, however many there are: those beyond 256 count together.

use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::connection::Owner;

/// How long a server may still speak for a call after it was told that the call was given up.
const GHOST_FOR: Duration = Duration::from_secs(5);
/// Calls given up that are remembered one by one.
pub(super) const MAX_GHOSTS: usize = 256;

/// The calls of one channel that were given up.
#[derive(Default)]
pub(super) struct Ghosts {
    single: Vec<Ghost>,
    /// Those that there was no room for.
    crowd: Option<Crowd>,
}

struct Ghost {
    id: u64,
    owner: Owner,
    until: Instant,
}

/// Of these no answer tells that they have ended.
struct Crowd {
    /// Whose they are; none if several owners'.
    owner: Option<Owner>,
    until: Instant,
}

impl Ghosts {
    /// Remembers a call that was given up.
    pub(super) fn bury(&mut self, id: u64, owner: Owner) {
        let now = Instant::now();
        self.single.retain(|ghost| ghost.until > now);
        let until = now + GHOST_FOR;
        if self.single.len() < MAX_GHOSTS {
            self.single.push(Ghost { id, owner, until });
            return;
        }
        let others = self.crowd.as_ref().filter(|crowd| crowd.until > now && crowd.owner != Some(owner));
        self.crowd = Some(Crowd { owner: others.is_none().then_some(owner), until });
    }

    /// The call was answered after all.
    pub(super) fn lay(&mut self, id: u64) {
        self.single.retain(|ghost| ghost.id != id);
    }

    /// Whether the server may speak for a call of somebody else than `owner`.
    pub(super) fn are_of_others(&self, owner: Owner) -> bool {
        let now = Instant::now();
        self.single.iter().any(|ghost| ghost.owner != owner && ghost.until > now)
            || self.crowd.as_ref().is_some_and(|crowd| crowd.owner != Some(owner) && crowd.until > now)
    }
}
