//! Signs that a server keeps state for each client, as far as they were seen.
//!
//! Invariants: a sign that was seen stays; with `sharing: auto` the first one separates the sessions that begin
//! after it, and no session that began before.
//!
//! Not here: where a sign is noticed (`supervise`, `private_clients`), and the connections (`pool`).

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::session_affinity::Affinity;

/// Whether a server of this process may have connections for one client each.
static ANY_PRIVATE: AtomicBool = AtomicBool::new(false);

/// Whether a server may have connections for one client each. Asked for every request, so it is one look.
pub fn any_private() -> bool {
    ANY_PRIVATE.load(Ordering::Relaxed)
}

/// Whether a server of this process may need a login.
static ANY_LOGINS: AtomicBool = AtomicBool::new(false);

/// Whether a server may need a login. Asked for every request.
pub fn any_logins() -> bool {
    ANY_LOGINS.load(Ordering::Relaxed)
}

/// Records that a server may need a login.
pub(super) fn has_logins() {
    ANY_LOGINS.store(true, Ordering::Relaxed);
}

/// Notes that a server has connections for one client each.
pub(super) fn has_private() {
    ANY_PRIVATE.store(true, Ordering::Relaxed);
}

/// A sign that a server keeps state for each client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateSign {
    /// It lists something else on another connection.
    ListsDiffer,
    /// It asked a client for its roots.
    AsksRoots,
    /// It changed a list during or just after a call of one client.
    ListChangedByCall,
}

impl StateSign {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ListsDiffer, Self::AsksRoots, Self::ListChangedByCall];

    /// The sign with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sign| sign.as_str() == word)
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ListsDiffer => "lists_differ_by_session",
            Self::AsksRoots => "asks_for_roots",
            Self::ListChangedByCall => "list_changed_by_call",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The signs of one server.
#[derive(Debug)]
pub(super) struct StateSigns {
    seen: AtomicU8,
    /// Sessions with a higher number than this have private connections.
    separated_after: AtomicU64,
}

impl Default for StateSigns {
    fn default() -> Self {
        Self { seen: AtomicU8::new(0), separated_after: AtomicU64::new(u64::MAX) }
    }
}

impl StateSigns {
    /// Notes a sign; whether it is the first one. With `separates` new sessions are separated from now on.
    pub(super) fn note(&self, sign: StateSign, separates: bool) -> bool {
        let is_first = self.seen.fetch_or(sign.bit(), Ordering::Relaxed) == 0;
        if is_first && separates {
            has_private();
            self.separated_after.store(Affinity::sessions_so_far(), Ordering::Relaxed);
        }
        is_first
    }

    /// Notes signs of an earlier run. With `separates` all sessions are separated.
    pub(super) fn restore(&self, signs: &[StateSign], separates: bool) {
        let seen = signs.iter().fold(0, |seen, sign| seen | sign.bit());
        self.seen.fetch_or(seen, Ordering::Relaxed);
        if seen != 0 && separates {
            has_private();
            self.separated_after.store(0, Ordering::Relaxed);
        }
    }

    /// Whether any was seen.
    pub(super) fn any(&self) -> bool {
        self.seen.load(Ordering::Relaxed) != 0
    }

    /// Whether `sign` was seen.
    pub(super) fn has(&self, sign: StateSign) -> bool {
        self.seen.load(Ordering::Relaxed) & sign.bit() != 0
    }

    /// Those that were seen.
    pub(super) fn all(&self) -> Vec<StateSign> {
        StateSign::ALL.into_iter().filter(|sign| self.has(*sign)).collect()
    }

    /// Whether the client of `affinity` has connections of its own because of them.
    pub(super) fn separates(&self, affinity: &Affinity) -> bool {
        let after = self.separated_after.load(Ordering::Relaxed);
        after != u64::MAX && affinity.is_newer_than(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use json::Raw;

    #[test]
    fn only_sessions_that_begin_after_the_first_sign_are_separated() {
        let (signs, before) = (StateSigns::default(), Affinity::session());
        assert!(!signs.separates(&before) && !signs.any());
        assert!(signs.note(StateSign::AsksRoots, true));
        let after = Affinity::session();
        assert!(!signs.note(StateSign::ListsDiffer, true), "one log line is enough");
        assert!(!signs.separates(&before) && signs.separates(&after));
        assert_eq!(signs.all(), [StateSign::ListsDiffer, StateSign::AsksRoots]);
        assert!(
            signs.separates(&Affinity::of_principal("key:a".into(), &Raw::empty_object())),
            "each of its requests is new"
        );
    }

    #[test]
    fn a_server_that_is_to_be_shared_is_named_and_shared() {
        let signs = StateSigns::default();
        assert!(signs.note(StateSign::AsksRoots, false) && signs.any());
        assert!(!signs.separates(&Affinity::session()));
    }
}
